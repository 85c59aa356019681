"""The promises of 1.x versions as text, which the tests compare with the files in `snapshots/`.

``make promises`` rewrites the files.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import io
import json
import os
import re
import tempfile
import typing
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import rich_click as click

import twmd_registry
from twmd_registry import errors, scale
from twmd_registry.cli import main
from twmd_registry.engine.shared_passes import Batcher

FOLDER = Path(__file__).parent / "snapshots"
DEMO = Path(twmd_registry.__file__).parent / "data" / "demo"
PLUGINS = {"RegistryMetric", "SacreBLEUMetric", "TorchMetric", "RegistryCallback", "make_compute_metrics"}
PLUGINS |= {"reward_function", "metric_scorer", "genai_scorer", "classic_metric", "corpus_score", "references_in"}


def public_names() -> Iterator[str]:
    """Yield one line per public name: functions with their parameters, classes with fields and public methods."""
    values = {name: getattr(twmd_registry, name) for name in sorted(twmd_registry.__all__)}
    values |= {"engine.Batcher": Batcher} | {f"scale.{name}": getattr(scale, name) for name in sorted(scale.__all__)}
    for name, value in (values | {f"errors.{name}": value for name, value in vars(errors).items()}).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            yield f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
            continue
        if name.startswith("errors."):
            continue
        if typing.is_typeddict(value):
            yield f"class {name}: {', '.join(value.__annotations__)}"
            continue
        if not inspect.isclass(value):
            yield f"{name}{inspect.signature(value)}" if callable(value) else name
            continue
        fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        yield f"class {name}" if fields or issubclass(value, enum.Enum) else f"class {name}{inspect.signature(value)}"
        for field in fields:
            default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
            yield f"    {field.name}: {field.type}{default}"
        for attribute, member in sorted(vars(value).items()):
            if attribute.startswith("_") or attribute in {field.name for field in fields}:
                continue
            if inspect.isfunction(member):
                yield f"    {attribute}{inspect.signature(member)}"
            elif isinstance(member, classmethod | staticmethod):
                yield f"    {attribute}{inspect.signature(member.__func__)}"
            else:
                yield f"    {attribute}"
    yield from plugins()


def plugins() -> Iterator[str]:
    """Yield the parameters of the plugins' functions and classes, from the source: their frameworks may be missing."""
    for path in sorted((DEMO.parents[1] / "plugins").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in PLUGINS:
                for member in node.body if isinstance(node, ast.ClassDef) else [node]:
                    if isinstance(member, ast.FunctionDef) and re.match("__init__|[^_]", member.name):
                        yield f"{node.name}.{member.name}({ast.unparse(member.args)})"


def commands() -> Iterator[str]:
    """Yield every command with its arguments and options, their types and defaults, as click declares them."""
    from tests.cli.parsing import all_commands

    for path, command in all_commands():
        yield path
        for parameter in command.params:
            names = ", ".join((*parameter.opts, *parameter.secondary_opts))
            kind = "|".join(map(str, parameter.type.choices)) if isinstance(parameter.type, click.Choice) else ""
            default = parameter.default if isinstance(parameter.default, str | int | float | bool | list) else None
            parts = [kind or parameter.type.name, *(["required"] if parameter.required else [])]
            parts += ["many"] if parameter.multiple or parameter.nargs == -1 else []
            parts += [f"default {default}"] if default is not None and default is not False else []
            yield f"    {names} ({', '.join(parts)})"


def shape(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path and type of every value of a JSON document; a list by the paths of all its items."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from shape(value[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        yield from dict.fromkeys(line for item in value for line in shape(item, f"{path}[]"))
    else:
        yield f"{path}: {type(value).__name__}"


def outputs() -> Iterator[str]:
    """Yield the layouts of a record and of what commands print as JSON and TSV, exit statuses, headings of a report."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, TWMD_HOME=folder):
        record, report, rated, documents = (Path(folder, name) for name in ("a.json", "b.html", "c.jsonl", "d.txt"))
        row = '{"prediction": "%s", "reference": "a cat", "rating": %s, "candidates": ["a cat", "a dog"]}\n'
        rated.write_text("".join(row % (text, i) for i, text in enumerate(("a dog", "cat", "a cat"))), encoding="utf-8")
        documents.write_text("news\tone\n" * 4 + "news\ttwo\n" * 8, encoding="utf-8")
        systems = [Path(folder, f"system_{name}.jsonl") for name in "ab"]
        for path in systems:
            rows = [json.loads(line) for line in (DEMO / path.name).read_text(encoding="utf-8").split("\n")[:12]]
            for promise in rows:
                promise["references"] = promise["references"][:1]  # accuracies are of one reference
            path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        score = ("score", "-i", *systems, "-m", "twmd", "stsscore", "bleu", "--format")
        scores = run(*score, "json")
        tested = ("--paired-bs", "--paired-bs-n", 100, "--docs", documents, "--record", record)
        yield from shape(json.loads(scores), "json")
        yield from shape(json.loads(run(*score, "json", *tested)), "json tested")
        yield from shape(json.loads(record.read_text(encoding="utf-8")), "record")
        yield from shape(
            json.loads(run(*score, "json", "--paired-ar", "--paired-ar-n", 100, "--confidence")), "json ar"
        )
        yield from shape(json.loads(run(*score, "json", "-sl")), "json -sl")
        yield f"tsv: {run(*score, 'tsv').splitlines()[0]}"
        yield f"tsv -sl: {run(*score, 'tsv', '-sl').splitlines()[0]}"
        run("report", "-i", *systems, "-m", "twmd", "-o", report)
        for command, *words in (
            ("align", "a cat", "the cat"),
            ("correlate", f"table:{rated}", "-m", "twmd"),
            ("diff", *(row["signature"] for row in json.loads(scores)[:2])),
            ("explain", "-m", "ensemble"),
            ("explain",),
            ("mbr", "-i", rated),
            ("setup selfcheck",),
            ("verify", record, "-i", *systems),
        ):
            printed = run(*str(command).split(), *words, "--format", "json")
            yield from shape(json.JSONDecoder().raw_decode(printed)[0], str(command))
        yield from (f"report: {title}" for title in re.findall("<h2[^>]*>(.*?)</h", report.read_text(encoding="utf-8")))
        for why, arguments in (
            ("success", ("explain",)),
            ("bad data", ("score", "-i", folder)),
            ("failed verification", ("verify", json.loads(scores)[0]["signature"], "0.1234", "-i", systems[0])),
            ("bad usage", ("score", "--no-such-option")),
            ("failed check", ("score", "-i", systems[0], "-m", "twmd", "--fail-under", 2)),
        ):
            with redirect_stderr(io.StringIO()):
                yield f"exit status of {why}: {attempt(*arguments)[0]}"


def service() -> Iterator[str]:
    """Yield the routes of the service with the layouts of their answers."""
    from tests.serve.serving import ask, serving_thread
    from twmd_registry.serve.service import Service

    pair = {"prediction": "a cat", "reference": "the cat"}
    bodies = {"/score": {f"{side}s": [text] for side, text in pair.items()}, "/align": pair}
    with serving_thread(Service({"twmd": twmd_registry.load("twmd")})) as port:
        for path, methods in ask(port, "/openapi.json").body["paths"].items():
            answer = ask(port, path, bodies.get(path)).body
            yield from shape(answer, f"{' '.join(methods)} {path} ")
        yield from shape(ask(port, "/score", {}).body, "refused ")


def attempt(*arguments: object) -> tuple[int, str]:
    """Return the exit status and output of a command."""
    with redirect_stdout(io.StringIO()) as printed:
        status = main([str(argument) for argument in (*arguments, "--quiet")])
    return status, printed.getvalue()


def run(*arguments: object) -> str:
    """Return the output of a command."""
    return attempt(*arguments)[1]


PROMISES: dict[str, Callable[[], Iterator[str]]] = {
    "python": public_names,
    "commands": commands,
    "outputs": outputs,
    "service": service,
}


def written(name: str) -> str:
    """Return a promise as in the current code."""
    return "".join(f"{line}\n" for line in PROMISES[name]()).replace(twmd_registry.__version__, "VERSION")


if __name__ == "__main__":
    for promise in PROMISES:
        (FOLDER / f"{promise}.txt").write_text(written(promise), encoding="utf-8")
