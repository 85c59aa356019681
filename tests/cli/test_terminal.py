"""Colours on a terminal only, silence on request, one line per error, and progress bars."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np
import pytest
import torch

from tests.cli.parsing import Terminal
from tests.conftest import Run
from twmd_registry.cli import main, terminal
from twmd_registry.cli.terminal import HEADER, complain, progress_bar, say
from twmd_registry.errors import ModelError

MOVES = re.compile(r"\x1b\[[?\d]*[A-Zhl]")
"""Moves of a terminal's cursor."""
CODES = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize(("name", "value", "codes"), [("NO_COLOR", "1", 0), ("NO_COLOR", "", 1), ("TERM", "dumb", 0)])
def test_terminal_has_colours_until_its_user_refuses_them(
    name: str, value: str, codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    table = "system  twmd\n------  ----\n[a]     0.81"
    for stream, coloured in ((Terminal(), codes), (io.StringIO(), 0)):
        monkeypatch.setattr(sys, "stdout", stream)
        say(table)
        assert bool(re.search(r"\x1b\[[\d;]*3\dm", stream.getvalue())) == coloured
        assert CODES.sub("", stream.getvalue()) == f"{table}\n"


def test_errors_are_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    assert main(["explain", "bleu"]) == 2
    assert shown.getvalue().startswith("\x1b[1;31mtwmd:\x1b[0m there is no metric ")


@pytest.fixture
def mixed(folder: Path) -> Path:
    """Return a working folder with good files and bad ones."""
    for name, content in (
        ("ref.txt", b"a cat\nit rains\n"),
        ("sys.txt", b"the cat\n\n"),
        ("latin.txt", b"tea\ncaf\xe9\n"),
    ):
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    return folder


class TestQuiet:
    @pytest.mark.parametrize("line", ["--quiet score ref.txt -i sys.txt", "score ref.txt -i sys.txt -q"])
    def test_quiet_drops_warnings_and_keeps_results_and_errors(self, line: str, mixed: Path, run: Run) -> None:
        status, out, err = run("score ref.txt -i sys.txt")
        assert (status, err.startswith("twmd: warning: texts without a token: 1")) == (0, True)
        assert run(line) == (0, out, "")
        error = "twmd: none.txt: No such file or directory.\n"
        assert run(line.replace("ref.txt", "none.txt")) == (1, "", error)

    def test_silent_stream_is_a_file_that_stays_open(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        held: list[TextIO] = []
        monkeypatch.setattr("twmd_registry.cli.setup_commands.entry", lambda _: held.append(sys.stderr))
        with pytest.raises(AttributeError):
            run("explain twmd -q")
        (stream,) = held
        assert sys.stderr is not stream
        assert os.path.samestat(os.fstat(stream.fileno()), Path(os.devnull).stat())
        assert stream.buffer.write(b"bytes") == 5
        print("surrogate \udcff, later, by a library that keeps the stream", file=stream)


WRONG = """\
score ref.txt -i sys.txt -m 'tw\u2028md'
score 'no\u2028file' -i sys.txt
score ref.txt -i sys.txt --record folder
score ref.txt -i sys.txt --device nonsense
score ref.txt -i sys.txt --set model=folder
report ref.txt -i sys.txt -o folder
diff a b
preset add folder
tune twmd --data folder
diagnose embedded --data folder
train stsb --data folder -o out
hub build twmd -o ref.txt
completion tcsh"""


WRITERS = """\
correlate table:rated.jsonl -m chrf
fit-mean ref.txt
finetune twmd --train table:rated.jsonl
average . ."""


class TestErrors:
    @pytest.mark.parametrize("line", WRITERS.split("\n"))
    def test_folder_that_cannot_be_made_is_refused_before_the_work(self, line: str, files: Path, run: Run) -> None:
        """Nobody can write in /proc, not even root; on systems without it nobody can make it."""
        before = sorted(files.iterdir())
        status, out, err = run(f"{line} -o /proc/none/new")
        assert (status, out) == (1, "")
        assert re.fullmatch(r"twmd: cannot write /proc/none/new: .+ \(/(proc)?\)\.\n", err)
        assert sorted(files.iterdir()) == before

    @pytest.mark.parametrize("line", WRONG.split("\n"))
    def test_wrong_line_is_one_line_of_error(self, line: str, mixed: Path, run: Run) -> None:
        status, out, err = run(line.replace("\u2028", "\n"))
        assert (status in {1, 2}, out) == (True, "")
        assert re.fullmatch(r"twmd( [\w -]+)?: .+\n", err)

    @pytest.mark.parametrize("words", [["no\x1b[2J\x07\x9bfile", "-i", "sys.txt"], ["--no\x1b[2J\x07\x9bfile"]])
    def test_error_cannot_steer_the_terminal(self, words: list[str], mixed: Path, run: Run) -> None:
        assert r"no\x1b[2J\x07\x9bfile" in run("score", *words)[2]

    @pytest.mark.parametrize(
        ("line", "named"),
        [
            ("verify latin.txt --refs ref.txt", "latin.txt is not a record of this package: it"),
            ("preset add latin.txt", "latin.txt"),
        ],
    )
    def test_file_in_another_encoding_is_named_with_the_place(
        self, line: str, named: str, mixed: Path, run: Run
    ) -> None:
        error = f"twmd: {named} is not UTF-8: byte 0xe9 in line 2. Convert it first.\n"
        assert run(line) == (1, "", error)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("explain", "twmd explain: error (see twmd explain --help): Missing argument 'METRIC'."),
            ("score -i", "twmd score: error (see twmd score --help): Option '-i' requires an argument."),
            ("hub", "twmd hub: error (see twmd hub --help): Missing command."),
            ("hub build twmd -o x y", "twmd hub build: error (see twmd hub build --help): Got unexpected extra argum"),
            ("scor", "twmd: error (see twmd --help): No such command 'scor'. Did you mean 'score'?"),
            ("score --format jsn", "'jsn' is not one of 'text', 'markdown', 'latex', 'tsv', 'json'."),
            ("score -w 17", "Invalid value for '-w' / '--width': 17 is not in the range 0<=x<=16."),
        ],
    )
    def test_wrong_usage_names_its_command_and_help(self, line: str, words: str, run: Run) -> None:
        status, _, err = run(line)
        assert (status, words in err) == (2, True)

    def test_unexpected_error_of_a_disk_is_one_line(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied", "some.file")

        monkeypatch.setattr("twmd_registry.cli.setup_commands.entry", refuse)
        assert run("explain twmd") == (1, "", "twmd: some.file: Permission denied.\n")

    @pytest.mark.parametrize(
        "exhaust",
        [
            lambda _: torch.empty(1 << 50, dtype=torch.uint8),
            lambda _: np.empty(1 << 60, dtype=np.uint8),
            lambda _: bytearray(1 << 60),
        ],
        ids=["torch", "numpy", "python"],
    )
    def test_lack_of_memory_is_one_line(
        self, exhaust: Callable[[object], object], monkeypatch: pytest.MonkeyPatch, run: Run
    ) -> None:
        monkeypatch.setattr("twmd_registry.cli.setup_commands.entry", exhaust)
        status, _, err = run("explain twmd")
        assert (status, bool(re.fullmatch(r"twmd: out of memory: give fewer texts, .+\n", err))) == (1, True)

    def test_fault_of_the_program_is_not_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("twmd_registry.cli.setup_commands.entry", lambda _: torch.ones(2) @ torch.ones(3))
        with pytest.raises(RuntimeError, match="size"):
            main(["explain", "twmd"])


class TestProgress:
    @pytest.fixture
    def stderr(self, monkeypatch: pytest.MonkeyPatch) -> Terminal:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(terminal, "PATIENCE_S", 0.05)
        return Terminal()

    @staticmethod
    def wait_for(words: str, stderr: Terminal) -> str:
        """Return the last state of the bar, which holds the words."""
        until = time.monotonic() + 30
        while words not in (last := stderr.getvalue().rpartition("\r")[2]):
            assert time.monotonic() < until, stderr.getvalue()
            time.sleep(0.01)
        return last

    def test_short_work_shows_nothing(self, stderr: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(terminal, "PATIENCE_S", 60)
        with redirect_stderr(stderr), progress_bar("rows", 2) as progress:
            assert progress
            progress(1)
            time.sleep(0.2)
        assert not stderr.getvalue()

    def test_message_beside_a_bar_has_a_line_of_its_own(self, stderr: Terminal) -> None:
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
        monkeypatch.setattr("twmd_registry.cli.score_commands.make_scorers", load)
        with redirect_stderr(stderr):
            assert main(["score", "lines.txt", "-i", "lines.txt"]) == 1
        assert "loading the model" in shown[0]
        assert CODES.sub("", MOVES.sub("", stderr.getvalue())).endswith("\rtwmd: enough.\n")
