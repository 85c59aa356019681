"""Colours on a terminal only, silence on request, one line per error, and progress bars."""

from __future__ import annotations

import io
import re
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from tests.cli.parsing import Terminal
from tests.conftest import Run
from twmd_registry.cli import main, terminal
from twmd_registry.cli.terminal import DOUBTFUL, HEADER, complain, progress_bar, say
from twmd_registry.errors import ModelError

MOVES = re.compile(r"\x1b\[[?\d]*[A-Zhl]")
"""Cursor movements of a terminal."""
CODES = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize(("name", "value", "codes"), [("NO_COLOR", "1", 0), ("NO_COLOR", "", 1), ("TERM", "dumb", 0)])
def test_terminal_has_colours_unless_disabled(
    name: str, value: str, codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    for stream, coloured in ((Terminal(), codes), (io.StringIO(), 0)):
        monkeypatch.setattr(sys, "stderr", stream)
        complain("twmd:", DOUBTFUL, "a word")
        assert bool(re.search(r"\x1b\[[\d;]*3\dm", stream.getvalue())) == coloured
        assert CODES.sub("", stream.getvalue()) == "twmd: a word\n"


def test_results_are_printed_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", shown := Terminal())
    say("twmd|layer:1|temperature:0.1 [a] 0.81")
    assert shown.getvalue() == "twmd|layer:1|temperature:0.1 [a] 0.81\n"


def test_errors_are_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    assert main(["explain", "-m", "bleu"]) == 2
    assert shown.getvalue().startswith("\x1b[1;31mtwmd:\x1b[0m unknown metric ")


@pytest.fixture
def mixed(folder: Path) -> Path:
    """Return a working folder with a reference, and a prediction with an empty line."""
    for name, content in (("ref.txt", b"a cat\nit rains\n"), ("sys.txt", b"the cat\n\n")):
        (folder / name).write_bytes(content)
    return folder


class TestQuiet:
    @pytest.mark.parametrize("line", ["--quiet score ref.txt -i sys.txt", "score ref.txt -i sys.txt -q"])
    def test_quiet_drops_warnings_and_keeps_results_and_errors(self, line: str, mixed: Path, run: Run) -> None:
        status, out, err = run("score ref.txt -i sys.txt")
        assert (status, err.startswith("twmd: warning: texts without a token: 1")) == (0, True)
        assert run(line) == (0, out, "")
        error = "twmd: none.txt: No such file or directory.\n"
        assert run(line.replace("ref.txt", "none.txt")) == (1, "", error)


class TestErrors:
    @pytest.mark.parametrize("words", [["no\x1b[2J\x07\x9bfile", "-i", "sys.txt"], ["--no\x1b[2J\x07\x9bfile"]])
    def test_error_text_cannot_control_the_terminal(self, words: list[str], mixed: Path, run: Run) -> None:
        assert r"no\x1b[2J\x07\x9bfile" in run("score", *words)[2]

    def test_unexpected_disk_error_prints_one_line(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied", "some.file")

        monkeypatch.setattr("twmd_registry.cli.explain.entry", refuse)
        assert run("explain -m twmd") == (1, "", "twmd: some.file: Permission denied.\n")

    def test_bug_shows_its_traceback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("twmd_registry.cli.explain.entry", lambda _: torch.ones(2) @ torch.ones(3))
        with pytest.raises(RuntimeError, match="size"):
            main(["explain", "-m", "twmd"])


class TestProgress:
    @pytest.fixture
    def stderr(self, monkeypatch: pytest.MonkeyPatch) -> Terminal:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(terminal, "PATIENCE_S", 0.05)
        return Terminal()

    @staticmethod
    def wait_for(words: str, stderr: Terminal) -> str:
        """Return the last state of the bar that contains the words."""
        until = time.monotonic() + 30
        while words not in (last := stderr.getvalue().rpartition("\r")[2]):
            assert time.monotonic() < until, stderr.getvalue()
            time.sleep(0.01)
        return last

    def test_short_work_shows_no_progress_bar(self, stderr: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(terminal, "PATIENCE_S", 60)
        with redirect_stderr(stderr), progress_bar("rows", 2) as progress:
            assert progress
            progress(1)
            time.sleep(0.2)
        assert not stderr.getvalue()

    def test_message_during_a_progress_bar_has_its_own_line(self, stderr: Terminal) -> None:
        with redirect_stderr(stderr), progress_bar("rows", 700):
            self.wait_for("0/700", stderr)
            complain("twmd:", HEADER, "a word")
        plain = CODES.sub("", MOVES.sub("", stderr.getvalue()))
        lines = [line.rpartition("\r")[2] for line in plain.split("\n")]
        assert lines[0].rstrip() == "twmd: a word"
        assert " 0/700 rows " in lines[1]

    def test_score_shows_its_total_before_a_model_is_loaded(
        self, folder: Path, stderr: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shown: list[str] = []

        def load(*_: object) -> NoReturn:
            shown.append(self.wait_for(" 0/3 ", stderr))
            raise ModelError("enough.")

        (folder / "lines.txt").write_text("a\nb\nc\n", encoding="utf-8")
        monkeypatch.setattr("twmd_registry.cli.score.make_scorers", load)
        with redirect_stderr(stderr):
            assert main(["score", "lines.txt", "-i", "lines.txt"]) == 1
        assert "loading the model" in shown[0]
        assert CODES.sub("", MOVES.sub("", stderr.getvalue())).endswith("\rtwmd: enough.\n")
