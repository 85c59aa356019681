"""The page for users of other programs: its examples, numbers, and a complete list of options."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run, Texts

peer = pytest.importorskip("bert_score")
bert_score_cli = pytest.importorskip("bert_score_cli.score")

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("coming-from-bert-score.md", "coming-from.md")}
OPTIONS = "\n".join(PAGES.values())
COMMANDS = re.findall(r"^(twmd .*)$", OPTIONS, flags=re.MULTILINE)


def part(name: str) -> str:
    """Return the section of the page under a heading."""
    return OPTIONS.split(f"\n## {name}\n")[1].split("\n## ")[0]


def named_options(name: str) -> set[str]:
    """Return the code spans in the left column of a section's tables."""
    cells = [line.split("|")[1] for line in part(name).splitlines() if line.startswith("| `")]
    return {word for cell in cells for span in re.findall(r"`([^`]+)`", cell) for word in re.split(r"[ ,()=]+", span)}


@pytest.mark.parametrize("name", PAGES)
def test_every_example_prints_its_output(name: str) -> None:
    found = doctest.DocTestParser().get_doctest(PAGES[name], {}, name, name, 0)
    assert found.examples
    results = doctest.DocTestRunner(verbose=False).run(found)
    assert (results.failed, results.attempted) == (0, len(found.examples))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command: str, texts: Texts, folder: Path, run: Run) -> None:
    files = {"ref": texts.references, "system_a": texts.predictions, "system_b": texts.references[::-1]}
    for name, lines in files.items():
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    status, out, _ = run(command.removeprefix("twmd "))
    assert (status, bool(out.strip())) == (0, True)


def help_of(program: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a program's ``main`` prints for ``-h``."""
    monkeypatch.setattr(sys, "argv", ["program", "-h"])
    with pytest.raises(SystemExit):
        program.main()
    return capsys.readouterr().out


def test_no_option_of_bert_score_or_sacrebleu_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = (peer.score, peer.BERTScorer.__init__, peer.BERTScorer.score)
    arguments = {name for function in functions for name in inspect.signature(function).parameters} - {"self"}
    printed = help_of(bert_score_cli, monkeypatch, capsys)
    beside = {"-h", "--help", "--num_layers", "--batch_size", "--verbose"}
    options = set(re.findall(r"(?<![\w-])(--?[a-z]\w*)", printed)) - beside
    assert {"--lang", "-r", "--use_fast_tokenizer"} <= options
    assert (arguments | options) - named_options("Every option") == set()
    # A process of its own: this program lets a closed connection end the process that imports it.
    printed = subprocess.run(
        [sys.executable, "-m", "sacrebleu", "-h"], check=True, capture_output=True, text=True
    ).stdout
    options = set(re.findall(r"^ +(?:(--[a-z-]+)|(-[a-z]+)\b)", printed, flags=re.MULTILINE))
    long = {name for name, _ in options if name}
    assert {"--metrics", "--paired-bs", "--width"} <= long
    assert long - named_options("SacreBLEU") == set()
