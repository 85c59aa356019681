"""Documentation is executed: every code block and command, on the embedded model, offline. Cards and coming-from.md
have tests of their own."""

from __future__ import annotations

import doctest
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
import rich_click as click
import yaml

import twmd_registry
from tests.cli.parsing import all_commands, create_inputs, parse
from tests.conftest import Run
from twmd_registry import scale
from twmd_registry.cli import main
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.version import __version__

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
}
README, CLUSTER, TRAINER = (PAGES[f"{name}.md"] for name in ("README", "docs/large-data", "docs/training-loop"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOY = re.compile(r"\btoy\b")
"""The metric that CONTRIBUTING.md has its reader write."""
DEMO = ROOT / "twmd_registry" / "data" / "demo"
OWN_TESTS = {"docs/coming-from.md", "docs/coming-from-bert-score.md"}
"""The pages whose blocks tests/test_coming_from.py runs."""
LONGEST_README = 6_000
NOT_RUN = set("correlate demo serve train tune".split())
"""Commands that need rated data or an adapter, or serve a page. They are only parsed."""


def test_pages_build_as_a_site_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="building the pages needs the package mkdocs-material (extra dev)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=quiet)
    assert done.returncode == 0, done.stderr
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    built = {page: tmp_path.joinpath("site", f"{page}.html").read_text(encoding="utf-8") for page in pages}
    commands = [path for path, command in all_commands() if not isinstance(command, click.Group)]
    assert [path for path in commands if f'id="{path.replace(" ", "-")}"' not in built["command-line"]] == []
    assert all(f"<code>{key}</code>" in built["keys-and-signatures"] for key in KEYS)
    assert 'id="twmd_registry.score_all"' in built["api"]
    # Without a server, the index comes from a script, and the worker from the site itself.
    assert (tmp_path / "site/search/search_index.js").is_file()
    assert {script for script in re.findall(r'<script src="([^"]+)"', built["api"]) if "//" in script} == set()
    assert 'src="iframe-worker.js"' in built["api"]
    assert "<!-- " not in built["other-languages"].partition("<article")[2].partition("</article")[0]


def anchors(text: str) -> set[str]:
    """Return the names of a page's headings in links."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_readme_is_short_and_its_links_resolve() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= LONGEST_README
    links = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", README)
    assert len(links) > 12
    for path, anchor in links:
        assert (ROOT / path).is_file(), path
        assert not anchor or anchor in anchors(PAGES[path]), (path, anchor)


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def shell_lines(text: str) -> list[list[str]]:
    lines = "".join(blocks("bash", text)).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line]


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield arguments of every ``twmd`` in a text's blocks: bare, given to ``ray exec``, or a job's entry point."""
    for program, *arguments in shell_lines(text):
        if program == "twmd":
            yield arguments
        elif program == "ray":
            yield from (shlex.split(word)[1:] for word in arguments if word.startswith("twmd "))
    for block in blocks("yaml", text):
        spec = yaml.safe_load(block).get("spec", {}) if "entrypoint:" in block else {}
        yield from (shlex.split(line)[1:] for line in [spec.get("entrypoint")] if line)


def sessions(text: str) -> list[str]:
    return [block for block in blocks("python", text) if ">>> " in block]


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if sessions(text) and name not in OWN_TESTS])
def test_every_python_block_prints_its_output(page: str) -> None:
    for needed in re.findall(r"twmd_registry\.plugins\.(mlflow|inspect)\b", PAGES[page]):
        pytest.importorskip({"inspect": "inspect_ai"}.get(needed, needed), reason=f"{page} needs the extra {needed}")
    # The blocks of a page build on one another.
    source = "\n".join(sessions(PAGES[page]))
    shown = doctest.DocTestParser().get_doctest(source, {}, page, page, 0)
    assert len(shown.examples) == source.count(">>> ")
    results = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(shown)
    assert (results.failed, results.attempted) == (0, len(shown.examples))


def can_run(arguments: list[str]) -> bool:
    needs_more = {"ray", "--agreement"} & {*arguments} or any(
        "tuned/" in word or re.match("model=.+/", word) for word in arguments
    )
    return arguments[0] not in NOT_RUN and arguments[:2] != ["setup", "preset"] and not needs_more


COMMANDS = list(
    dict.fromkeys(shlex.join(one) for page, text in PAGES.items() if page not in OWN_TESTS for one in commands_of(text))
)
SHOWN = {
    command.strip(): output
    for text in PAGES.values()
    for command, output in re.findall(
        r"^```bash\n(twmd [^\n]+)\n```\n+```text\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    )
}
"""The outputs that pages show below a command, with dots for omissions."""
CAN_RUN = [command for command in COMMANDS if can_run(shlex.split(command))]
RUN = [command for command in CAN_RUN if command not in {shlex.join(shlex.split(one)[1:]) for one in SHOWN}]
RECORD = next(command for command in CAN_RUN if "--record scores.json" in command and "--paired-bs" in command)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return a folder with the files that the commands name, made of the first rows of the packaged example, and a
    record of scores.
    """

    @functools.cache
    def make(number: int) -> Path:
        folder = tmp_path_factory.mktemp("workplace")
        systems = {
            name: [json.loads(line) for line in (DEMO / f"{name}.jsonl").read_text("utf-8").splitlines()]
            for name in ("system_a", "system_b")
        }
        samples = [row["prediction"] for row in systems["system_a"]]
        outputs = {name: [row["prediction"] for row in rows[:number]] for name, rows in systems.items()}
        references = [row["references"][0] for row in systems["system_a"][:number]]
        for name, lines in {
            "ref": references,
            **outputs,
            "out": outputs["system_a"],
            "samples": samples,
            "source": [f"{line} indeed" for line in references],
        }.items():
            (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        documents = "".join(f"news\tarticle{i // 5}\n" for i in range(len(references)))
        (folder / "test.docs").write_text(documents, encoding="utf-8")
        candidates = {"candidates": outputs["system_a"][:16]}
        (folder / "candidates.jsonl").write_text(json.dumps(candidates) + "\n", encoding="utf-8")
        talk = {"prediction": "\n".join(outputs["system_a"][:16]), "reference": "\n".join(references[:16])}
        (folder / "talks.jsonl").write_text(json.dumps(talk) + "\n", encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            assert main(shlex.split(RECORD)) == 0
        return folder

    return make


@pytest.fixture(scope="module")
def multilingual() -> Iterator[str]:
    """Keep the model loaded for all commands."""
    with twmd_registry.load("twmd", "multilingual") as scorer:
        yield scorer.signature


@pytest.mark.parametrize("command", RUN)
def test_every_command_runs(
    command: str, workplace: Callable[[int], Path], folder: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    if "multilingual" in command:
        request.getfixturevalue("multilingual")
    shutil.copytree(workplace(12), folder, dirs_exist_ok=True)
    status, out, _ = run(command)
    assert (status, bool(out.strip())) == (0, True)


@pytest.mark.parametrize("command", SHOWN)
def test_every_shown_output_matches_its_command(
    command: str, workplace: Callable[[int], Path], folder: Path, run: Run
) -> None:
    shutil.copytree(workplace(64), folder, dirs_exist_ok=True)
    status, out, _ = run(command.removeprefix("twmd "))
    assert status == 0
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert checker.check_output(SHOWN[command], f"{out}\n", flags), out


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in CAN_RUN])
def test_every_command_that_cannot_run_here_is_parsed(command: str, folder: Path) -> None:
    create_inputs(shlex.split(command))
    assert parse(shlex.split(command))


def test_contributing_names_existing_files_and_commands(folder: Path, run: Run) -> None:
    words = re.findall(r"`([\w./-]+)`", CONTRIBUTING)
    named = {word for word in words if "/" in word or Path(word).suffix in {".md", ".py", ".toml"}}
    assert len(named) > 20
    assert {word for word in named if not TOY.search(word) and not (ROOT / word).exists()} == set()
    commands = [shlex.split(line)[1:] for line in re.findall(r"`(twmd [^`]+)`", CONTRIBUTING)]
    assert len(commands) > 4
    for command in commands:
        if len(command) > 1 and "--help" not in command:
            create_inputs(command[1:])
            assert parse(command)
        else:
            assert "Usage: twmd" in run(f"{command[0]} --help")[1]


def test_action_and_hook_are_yaml_whose_commands_can_be_parsed(folder: Path) -> None:
    action, hooks = map(yaml.safe_load, blocks("yaml", PAGES["docs/ci.md"]))
    assert action["runs"]["using"] == "composite"
    commands = [step["run"] for step in action["runs"]["steps"] if step.get("run", "").startswith("twmd ")]
    for command in commands + [hook["entry"] for hook in hooks["repos"][0]["hooks"]]:
        words = [word.replace("$", "") for word in shlex.split(command)[1:]]
        create_inputs(words)
        assert parse(words)
    assert set(action["inputs"]) == {"references", "outputs", "baseline"}


def program_of(text: str) -> str:
    """Return the Python blocks of a page that are not sessions."""
    return "\n".join(block for block in blocks("python", text) if ">>> " not in block)


def test_trainer_programs_call_existing_names(monkeypatch: pytest.MonkeyPatch) -> None:
    # tests/plugins/test_trainer.py tests what it does.
    from transformers import Seq2SeqTrainer, Trainer

    transformers = sys.modules["transformers"]  # the import of a class may replace the lazy module that gives it
    for trainer in (Seq2SeqTrainer, Trainer):
        monkeypatch.setattr(transformers, trainer.__name__, create_autospec(trainer))
        transformers.__dict__[trainer.__name__].return_value.create_model_card.__name__ = "create_model_card"
    names: dict[str, Any] = {name: object() for name in ("model", "arguments", "train", "dev")}
    names["tokenizer"] = create_autospec(transformers.PreTrainedTokenizerFast, instance=True)
    exec(program_of(TRAINER), names)
    (first,), (second,) = transformers.Seq2SeqTrainer.call_args_list, transformers.Trainer.call_args_list
    for call in (first, second):
        assert call.kwargs["compute_metrics"] is call.kwargs["callbacks"][0]
    transformers.Seq2SeqTrainer.return_value.train.assert_called_once_with()
    exec(program_of(README), names)


def test_cluster_functions_accept_their_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    # tests/scale/test_ray.py tests what they do; starting Ray's workers again would take half a minute.
    called = {name: create_autospec(getattr(scale, name)) for name in ("score_files", "score_dataset")}
    for name, instead in called.items():
        monkeypatch.setattr(scale, name, instead)
    names = {"dataset": object()}
    exec(program_of(CLUSTER), names)
    called["score_files"].assert_called_once()
    (call,) = called["score_dataset"].call_args_list
    assert call.args[0] is names["dataset"]


@pytest.mark.parametrize("metric", MetricName)
def test_documented_ranges_match_the_catalogue(metric: MetricName) -> None:
    rows = PAGES["docs/keys-and-signatures.md"].splitlines()
    span, identical, _ = (
        cell.strip() for cell in next(r for r in rows if r.startswith(f"| `{metric}` |")).split("|")[2:-1]
    )
    entry = CATALOGUE[metric]
    bounded = entry.lowest is not None and entry.highest is not None
    assert span.startswith(f"{entry.lowest:g} to {entry.highest:g}" if bounded else "no fixed bounds")
    assert identical == ("the model decides" if entry.identical is None else f"{entry.identical:g}")
    assert f"\n| `{metric}` |" in README


def test_citation_and_changelog_have_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])
    headings = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[0] == __version__
