"""What a 1.x version promises, written out as text that the tests compare with the files in `snapshots/`.

``make promises`` writes the files again. Their digest has to be in the changelog: whoever changes a promise says so.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import hashlib
import inspect
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import rich_click as click

import twmd_registry
from twmd_registry.cli import MODULES, main, twmd

FOLDER = Path(__file__).parent / "snapshots"
DEMO = Path(twmd_registry.__file__).parent / "data" / "demo"
PLUGINS = {"RegistryMetric", "SacreBLEUMetric", "TorchMetric", "RegistryCallback", "make_compute_metrics"}
PLUGINS |= {"reward_function", "metric_scorer", "genai_scorer", "classic_metric", "corpus_score", "references_in"}
CHANGELOG = FOLDER.parents[1] / "CHANGELOG.md"


def public_names() -> Iterator[str]:
    """Yield one line per public name: functions with their parameters, classes with fields and public methods."""
    for name in sorted(twmd_registry.__all__):
        value = getattr(twmd_registry, name)
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
                for each in node.body if isinstance(node, ast.ClassDef) else [node]:
                    if isinstance(each, ast.FunctionDef) and re.match("__init__|[^_]", each.name):
                        yield f"{node.name}.{each.name}({ast.unparse(each.args)})"


def commands() -> Iterator[str]:
    """Yield every command with its arguments and options, as click declares them: independent of how help is drawn."""
    context = click.Context(twmd)
    for name in MODULES:
        command = twmd.get_command(context, name)
        assert command is not None
        yield f"twmd {name}: {inspect.cleandoc(command.help or '').split(chr(10) * 2)[0]}".replace("\n", " ")
        for parameter in command.params:
            names = ", ".join((*parameter.opts, *parameter.secondary_opts))
            kind = "|".join(map(str, parameter.type.choices)) if isinstance(parameter.type, click.Choice) else ""
            default = parameter.default if isinstance(parameter.default, str | int | float | bool | list) else None
            parts = [kind or parameter.type.name, *(["required"] if parameter.required else [])]
            parts += ["many"] if parameter.multiple or parameter.nargs == -1 else []
            parts += [f"default {default}"] if default is not None and default is not False else []
            yield f"    {names} ({', '.join(parts)}) {getattr(parameter, 'help', None) or ''}".rstrip()


def shape(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path and type of every value of a JSON document; a list is described by its first item."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from shape(value[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        yield from shape(value[0], f"{path}[]")
    else:
        yield f"{path}: {type(value).__name__}"


def outputs() -> Iterator[str]:
    """Yield the layouts of a record and of what commands print as JSON and TSV, and the headings of a report."""
    systems = [f"{DEMO}/system_{name}.jsonl" for name in "ab"]
    with tempfile.TemporaryDirectory() as folder:
        record, report, rated = (Path(folder, name) for name in ("record.json", "report.html", "rated.jsonl"))
        row = '{"prediction": "%s", "reference": "a cat", "rating": %s, "candidates": ["a cat", "a dog"]}\n'
        rated.write_text("".join(row % (text, i) for i, text in enumerate(("a dog", "cat", "a cat"))), encoding="utf-8")
        scores = run("score", "-i", *systems, "-m", "twmd", "stsscore", "--format", "json", "--record", record)
        table = run("score", "-i", *systems, "-m", "twmd", "stsscore", "--format", "tsv")
        run("report", "-i", *systems, "-m", "twmd", "-o", report)
        yield from shape(json.loads(record.read_text(encoding="utf-8")), "record")
        yield from shape(json.loads(scores), "json")
        yield f"tsv: {table.splitlines()[0]}"
        for command, *words in (
            ("align", "twmd", "a cat", "the cat"),
            ("correlate", f"table:{rated}", "-m", "twmd"),
            ("diff", *(row["signature"] for row in json.loads(scores)[:2])),
            ("explain", "ensemble"),
            ("list",),
            ("mbr", rated),
            ("spans", "twmd", "-i", systems[0]),
            ("verify", record, "-i", *systems),
        ):
            yield from shape(json.JSONDecoder().raw_decode(run(command, *words, "--format", "json"))[0], str(command))
        yield from (
            f"report: {title}" for title in re.findall("<h[12][^>]*>(.*?)</h", report.read_text(encoding="utf-8"))
        )


def run(*arguments: object) -> str:
    """Return what a command prints."""
    with redirect_stdout(io.StringIO()) as printed:
        main([str(each) for each in (*arguments, "--quiet")])
    return printed.getvalue()


PROMISES: dict[str, Callable[[], Iterator[str]]] = {"python": public_names, "commands": commands, "outputs": outputs}


def written(name: str) -> str:
    """Return a promise as the present code has it."""
    return "".join(f"{line}\n" for line in PROMISES[name]()).replace(twmd_registry.__version__, "VERSION")


def digest() -> str:
    """Return the digest of the files, which the changelog names."""
    texts = [(FOLDER / f"{name}.txt").read_bytes() for name in PROMISES]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


if __name__ == "__main__":
    for each in PROMISES:
        (FOLDER / f"{each}.txt").write_text(written(each), encoding="utf-8")
    sys.stdout.write(f"Say in CHANGELOG.md what changed, with this digest: {digest()}\n")
