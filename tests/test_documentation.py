"""Documentation is executed: every code block and command, on the embedded model, offline. Cards have their own test, and so has Ray."""

from __future__ import annotations

import doctest
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import create_autospec

import pytest
import yaml

from tests.cli.parsing import create_inputs, parse
from tests.conftest import Texts
from twmd_registry import scale
from twmd_registry.cli import main
from twmd_registry.plugins.evaluate.hook import METRICS
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_READS, MetricName
from twmd_registry.version import __version__

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CLUSTER = (ROOT / "twmd_registry" / "scale" / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOY = re.compile(r"\btoy\b")
"""The metric that CONTRIBUTING.md has its reader write."""


def test_the_readme_says_what_the_default_model_reads() -> None:
    assert EMBEDDED_READS.replace("English only", "It reads English only") in " ".join(README.split())


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def shell_lines(text: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for block in blocks("bash", text) for line in block.splitlines() if line]


def test_every_python_block_gives_what_it_shows() -> None:
    # Blocks build on one another, as a reader types them.
    source = "\n".join(blocks("python"))
    examples = doctest.DocTestParser().get_doctest(source, {}, "README", "README.md", 0)
    assert len(examples.examples) > 10
    results = doctest.DocTestRunner(verbose=False).run(examples)
    assert (results.failed, results.attempted) == (0, len(examples.examples))


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("twmd ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command: str, texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref", texts.references), ("system_a", texts.predictions), ("system_b", texts.references[::-1])):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if "scores.json" in command and "--record" not in command:
        assert main(shlex.split(next(one for one in COMMANDS if "--record scores.json" in one))[1:]) == 0
        capsys.readouterr()
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip()


def make_targets(text: str) -> set[str]:
    return set(re.findall(r"(?:^|`)make (\w+)", text, flags=re.MULTILINE))


def test_the_make_targets_exist() -> None:
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"demo", "test", "bench"} <= make_targets(README)
    assert {"test", "cards", "goldens"} <= make_targets(CONTRIBUTING)
    assert make_targets(README) | make_targets(CONTRIBUTING) <= rules


def test_every_block_is_of_a_language_that_a_test_reads() -> None:
    read = {"README.md": {"bash", "python"}, "CONTRIBUTING.md": {"bash"}, "twmd_registry/scale/README.md": {"bash", "python", "yaml"}}
    read["docs/coming-from.md"] = {"bash", "python"}  # tests/test_coming_from.py
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "twmd_registry").rglob("*.md")]:
        name = path.relative_to(ROOT).as_posix()
        fences = re.findall(r"^ *```(.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert set(fences[::2]) == read.get(name, set()), name
        assert set(fences[1::2]) <= {""}, name


def test_the_commands_of_contributing_are_there() -> None:
    tools = {re.split(r"[\[>=]", need)[0] for need in PROJECT["optional-dependencies"]["dev"]}
    tests = 0
    for program, *arguments in shell_lines(CONTRIBUTING):
        if program == ".venv/bin/python":
            option, module, *paths = arguments
            assert (option, module) == ("-m", "pytest")
            assert all((ROOT / path).is_file() for path in paths)
            tests += len(paths)
        else:
            assert program == "make" or program.removeprefix(".venv/bin/") in tools, program
    assert tests == 2


def test_every_file_that_contributing_names_is_there() -> None:
    named = {word for word in re.findall(r"`([\w./-]+)`", CONTRIBUTING) if "/" in word or Path(word).suffix in {".md", ".py", ".toml"}}
    assert len(named) > 20
    assert {word for word in named if not TOY.search(word) and word != "FILE.toml" and not (ROOT / word).exists()} == set()


def commands_of(text: str) -> Iterator[list[str]]:
    """Arguments of every ``twmd`` in a text's blocks: bare, given to ``ray exec``, or a job's entry point."""
    for program, *arguments in shell_lines(text):
        if program == "twmd":
            yield arguments
        elif program == "ray":
            yield from (shlex.split(word)[1:] for word in arguments if word.startswith("twmd "))
    for block in blocks("yaml", text):
        spec = yaml.safe_load(block).get("spec", {})
        yield from (shlex.split(line)[1:] for line in [spec.get("entrypoint")] if line)


def test_the_commands_for_a_cluster_are_ones_that_we_have() -> None:
    read = [parse(arguments) for arguments in commands_of(CLUSTER)]
    assert [arguments["engine"] for arguments in read] == ["ray"] * 3
    assert [arguments["resume"] for arguments in read] == [False, False, True]
    assert {program for program, *_ in shell_lines(CLUSTER)} == {"pip", "twmd", "ray"}


def test_the_functions_for_a_cluster_take_what_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # What they do, tests/scale/test_ray.py and test_dataset.py show; starting Ray's workers once more for this would take half a minute.
    (block,) = blocks("python", CLUSTER)
    called = {name: create_autospec(getattr(scale, name)) for name in ("score_files", "score_dataset")}
    for name, instead in called.items():
        monkeypatch.setattr(scale, name, instead)
    given = {"ray_dataset": object(), "hf_dataset": object()}
    exec(block, given)
    called["score_files"].assert_called_once()
    assert [call.args[0] for call in called["score_dataset"].call_args_list] == [given["ray_dataset"], given["hf_dataset"]]


def test_the_commands_that_contributing_names_are_ones_that_we_have(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = [shlex.split(line)[1:] for line in re.findall(r"`(twmd [^`]+)`", CONTRIBUTING)]
    assert len(named) > 5
    for name, *arguments in named:
        if arguments and "--help" not in arguments:
            create_inputs(arguments)
            assert parse([name, *arguments])
        else:
            assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.count("Usage: twmd") >= 3


def test_the_citation_file_has_the_fields_of_its_format_and_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    texts = {"cff-version", "title", "message", "type", "version", "license"}
    assert set(citation) == texts | {"authors"}
    assert all(isinstance(citation[name], str) and citation[name] for name in texts)
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])
    assert citation["authors"]
    assert all(
        set(author) <= {"name", "family-names", "given-names", "orcid", "affiliation"} and all(author.values()) for author in citation["authors"]
    )


def test_the_changelogs_newest_section_is_this_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[0] == __version__


@pytest.mark.parametrize("metric", MetricName)
def test_the_readmes_ranges_are_the_catalogues(metric: MetricName) -> None:
    row = next(line for line in README.splitlines() if line.startswith(f"| `{metric}` |"))
    _, _, _, span, identical, _ = (cell.strip() for cell in row.split("|"))
    entry = CATALOGUE[metric]
    bounded = entry.lowest is not None and entry.highest is not None
    assert span.startswith(f"{entry.lowest:g} to {entry.highest:g}" if bounded else "no fixed bounds")
    assert identical == ("the model decides" if entry.identical is None else f"{entry.identical:g}")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_module_has_examples(name: str) -> None:
    text = (ROOT / "metrics" / name / f"{name}.py").read_text(encoding="utf-8")
    assert ">>> " in text
    assert len(text.splitlines()) < 90
