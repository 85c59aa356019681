"""Colours on a terminal only, silence on request, one line per error, completion, and examples in every help text."""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import rich_click as click
import torch
from rich.text import Text
from tabulate import tabulate

from tests.cli.parsing import all_commands, create_inputs, parse
from twmd_registry.cli import main, terminal
from twmd_registry.cli.terminal import Style, best, complain, matches, progress_bar, say, shows_colours, silence
from twmd_registry.errors import ModelError
from twmd_registry.hub import metrics_with_card
from twmd_registry.judgments.sets import read_rated
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import MetricName

ROOT = Path(__file__).resolve().parents[2]
CODES = re.compile(r"\x1b\[[\d;]*m")
TABLE = """\
system          twmd  TER
------------  ------  -----
Baseline: a   0.8100  50.00
b  c          0.8200  40.00
d             0.8200  60.00
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def painted(table: str, columns: dict[str, bool]) -> list[tuple[int, int]]:
    best(columns)(text := Text(table))
    return [(span.start, span.end) for span in text.spans]


@pytest.fixture
def colourful(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


class TestColours:
    @pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("NO_COLOR", "0"), ("TERM", "dumb")])
    def test_a_user_can_refuse_them(self, name: str, value: str, colourful: pytest.MonkeyPatch) -> None:
        assert shows_colours(Terminal())
        colourful.setenv(name, value)
        assert not shows_colours(Terminal())

    def test_an_empty_no_color_refuses_nothing(self, colourful: pytest.MonkeyPatch) -> None:
        colourful.setenv("NO_COLOR", "")
        assert shows_colours(Terminal())

    def test_a_file_has_none(self, colourful: pytest.MonkeyPatch) -> None:
        assert not shows_colours(io.StringIO())
        assert not shows_colours(None)

    def test_best_score_of_every_column_and_its_ties_are_painted(self) -> None:
        spans = painted(TABLE, {"twmd": True, "TER": False})
        assert sorted((TABLE[start:end], TABLE.count("\n", 0, start)) for start, end in spans) == [
            ("0.8200", 3),
            ("0.8200", 4),
            ("40.00", 3),
        ]

    @pytest.mark.parametrize("group", ["cs  en", "  ", "日  本"])
    def test_the_name_of_a_column_may_hold_spaces(self, group: str) -> None:
        rows = [("a  b", "0.81", "50.00", "1"), ("c", "0.82", "60.00", "2")]
        table = tabulate(rows, headers=["metric", "twmd", group, "n"], disable_numparse=True)
        assert [table[start:end] for start, end in painted(table, {"twmd": True})] == ["0.82"]

    def test_equal_scores_are_not_painted(self) -> None:
        assert painted(TABLE.replace("0.8100", "0.8200"), {"twmd": True}) == []

    def test_a_painted_text_is_the_plain_text_with_colours(self, colourful: pytest.MonkeyPatch) -> None:
        colourful.setattr(sys, "stdout", shown := Terminal())
        say(TABLE, best({"twmd": True}), matches("^d", Style.BAD))
        assert shown.getvalue().startswith("\x1b[1msystem          twmd  TER\x1b[0m\n---")
        assert "\x1b[1;31md\x1b[0m   " in shown.getvalue()
        assert CODES.sub("", shown.getvalue()) == f"{TABLE}\n"

    def test_errors_are_red_on_a_terminal(self, colourful: pytest.MonkeyPatch) -> None:
        colourful.setattr(sys, "stderr", shown := Terminal())
        assert main(["explain", "bleu"]) == 2
        assert shown.getvalue().startswith("\x1b[1;31mtwmd:\x1b[0m there is no metric 'bleu'")

    def test_the_program_paints_a_terminal_and_not_a_pipe(self) -> None:
        command = [sys.executable, "-m", "twmd_registry.cli", "explain", "moverscore"]
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
        piped = subprocess.run(
            command, capture_output=True, check=True, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL
        ).stdout
        outer, inner = pty.openpty()
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.extend(read_terminal(outer)))
        reader.start()
        subprocess.run(command, stdout=inner, check=True, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL)
        os.close(inner)
        reader.join()
        os.close(outer)
        shown = b"".join(found).decode().replace("\r\n", "\n")
        assert b"\x1b" not in piped
        assert "\x1b[1mkey " in shown
        assert CODES.sub("", shown) == piped.decode()


def read_terminal(terminal: int) -> Iterator[bytes]:
    """Everything that is written to a terminal until its other end is closed, which Linux reports as an error."""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            return
        if not piece:
            return
        yield piece


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with good files and bad ones."""
    monkeypatch.chdir(tmp_path)
    for name, content in (
        ("ref.txt", b"a cat\nit rains\n"),
        ("sys.txt", b"the cat\n\n"),
        ("latin.txt", b"caf\xe9\n"),
        ("empty.txt", b""),
        ("bad.jsonl", b'{"prediction": 1}\n'),
    ):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    return tmp_path


def run(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


QUIET = (["--quiet", "score", "ref.txt", "-i", "sys.txt"], ["score", "ref.txt", "-i", "sys.txt", "-q"])


@pytest.mark.parametrize("arguments", QUIET)
def test_quiet_leaves_results_and_takes_warnings(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([one for one in arguments if one not in {"-q", "--quiet"}]) == 0
    loud = capsys.readouterr()
    assert main(arguments) == 0
    quiet = capsys.readouterr()
    assert loud.err.startswith("twmd: warning: texts without a token: 1")
    assert (quiet.out, quiet.err) == (loud.out, "")


def test_what_is_written_in_silence_is_written_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with silence(wanted=True):
        held = sys.stderr
        assert os.path.samestat(os.fstat(held.fileno()), Path(os.devnull).stat())
        assert held.buffer.write(b"bytes") == 5
        print("surrogate \udcff", file=held)
    print("later, by who still has it", file=held)
    assert capsys.readouterr().err == ""


def test_quiet_leaves_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "none.txt", "-i", "sys.txt", "--quiet"]) == 1
    assert capsys.readouterr().err == "twmd: none.txt: No such file or directory.\n"


WRONG = """\
fly
score --bogus
score ref.txt -i
score nofile -i sys.txt
score folder -i sys.txt
score ref.txt -i folder
score latin.txt -i sys.txt
score ref.txt -i empty.txt
score ref.txt -i bad.jsonl
score ref.txt -i sys.txt -m 'tw\u2028md'
score 'no\u2028file' -i sys.txt
score ref.txt -i sys.txt --record folder
score ref.txt -i sys.txt --device nonsense
score ref.txt -i sys.txt --set model=folder
score ref.txt -i sys.txt --paired-bs-n 'x\u2028y'
report ref.txt -i sys.txt -o folder
align twmd a b -o plan.xyz
verify folder
verify latin.txt --refs ref.txt
diff a b
cite folder
explain
preset add folder
preset add latin.txt
cache rm
fit-mean folder
fit-idf latin.txt
tune twmd --data folder
correlate wmt:folder -m twmd
correlate wmt:latin.txt -m twmd
diagnose embedded --data folder
reproduce twmd-table2 --data-dir folder
train stsb --data folder -o out
average folder -o out
hub
hub build twmd -o ref.txt
hub push twmd a/b --token-file folder
completion tcsh"""


@pytest.mark.parametrize("line", WRONG.split("\n"))
def test_what_is_wrong_is_said_in_one_line(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = shlex.split(line.replace("\u2028", "\n"))
    assert run(arguments) in {1, 2}
    printed = capsys.readouterr()
    assert re.fullmatch(r"twmd( [\w -]+)?: .+\n", printed.err)
    assert printed.out == ""


@pytest.mark.parametrize(
    "arguments", [["score", "no\x1b[2J\x07\x9bfile", "-i", "sys.txt"], ["score", "ref.txt", "--no\x1b[2J\x07\x9bfile"]]
)
def test_an_error_cannot_steer_the_terminal(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) in {1, 2}
    assert r"no\x1b[2J\x07\x9bfile" in capsys.readouterr().err


RECORD = "latin.txt is not a record of this package: it"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("verify latin.txt --refs ref.txt", RECORD),
        ("cite latin.txt", RECORD),
        ("correlate wmt:latin.txt -m twmd", "latin.txt"),
        ("preset add latin.txt", "latin.txt"),
    ],
)
def test_a_file_in_another_encoding_is_named_with_the_place(
    line: str, named: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "latin.txt").write_bytes(b"tea\ncaf\xe9\n")
    assert run(shlex.split(line)) == 1
    assert capsys.readouterr().err == f"twmd: {named} is not UTF-8: byte 0xe9 in line 2. Convert it first.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explain"], "twmd explain: error (see twmd explain --help): Missing argument 'METRIC'."),
        (["score", "--bogus"], "twmd score: error (see twmd score --help): No such option '--bogus'."),
        (["score", "--paired"], "Did you mean"),
        (["score", "-i"], "twmd score: error (see twmd score --help): Option '-i' requires an argument."),
        (["hub"], "twmd hub: error (see twmd hub --help): Missing command."),
        (
            ["hub", "build", "twmd", "-o", "x", "y"],
            "twmd hub build: error (see twmd hub build --help): Got unexpected extra argument (y)",
        ),
        (
            ["scor"],
            (
                "twmd: error (see twmd --help): there is no command 'scor'; did you mean 'score'? Choices: score, "
                "report, align, "
            ),
        ),
        (["score", "--format", "jsn"], "'jsn' is not one of 'text', 'markdown', 'latex', 'tsv', 'json'."),
        (["score", "-w", "0"], "Invalid value for '-w' / '--width': 0 is not in the range 1<=x<=16."),
    ],
)
def test_wrong_command_line_names_its_command_and_help(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert words in capsys.readouterr().err


def test_what_no_command_expects_of_a_disk_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "some.file")

    monkeypatch.setattr("twmd_registry.cli.explain.entry", refuse)
    assert main(["explain", "twmd"]) == 1
    assert capsys.readouterr().err == "twmd: some.file: Permission denied.\n"


@pytest.mark.parametrize(
    "exhaust",
    [
        lambda: torch.empty(1 << 50, dtype=torch.uint8),
        lambda: np.empty(1 << 60, dtype=np.uint8),
        lambda: bytearray(1 << 60),
    ],
    ids=["torch", "numpy", "python"],
)
def test_a_lack_of_memory_is_one_line(
    exhaust: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("twmd_registry.cli.explain.entry", lambda _: exhaust())
    assert main(["explain", "twmd"]) == 1
    assert re.fullmatch(r"twmd: out of memory: give fewer texts, .+\n", capsys.readouterr().err)


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.cli.explain.entry", lambda _: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        main(["explain", "twmd"])


class TestProgress:
    @pytest.fixture
    def stderr(self, monkeypatch: pytest.MonkeyPatch) -> Terminal:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setattr(terminal, "PATIENCE_S", 0.05)
        monkeypatch.setattr(terminal, "_TICK_S", 0.01)
        return Terminal()

    @staticmethod
    def wait_for(words: str, stderr: Terminal) -> str:
        """Return the last state of the bar, which holds the words."""
        until = time.monotonic() + 30
        while words not in (last := stderr.getvalue().rpartition("\r")[2]):
            assert time.monotonic() < until, stderr.getvalue()
            time.sleep(0.01)
        return last

    def test_total_is_shown_before_anything_is_reported(self, stderr: Terminal) -> None:
        with redirect_stderr(stderr), progress_bar("rows", first="starting") as progress:
            assert progress
            progress.expect(700)
            assert "starting" in self.wait_for(" 0/700 ", stderr)
            progress(7)
            assert "starting" not in self.wait_for(" 7/700 ", stderr)
        assert not stderr.getvalue().rpartition("\r")[2]

    def test_work_that_is_not_long_shows_nothing(self, stderr: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(terminal, "PATIENCE_S", 60)
        with redirect_stderr(stderr), progress_bar("rows", 2) as progress:
            assert progress
            progress(1)
            time.sleep(0.2)
        assert not stderr.getvalue()

    def test_complaint_beside_a_bar_has_a_line_of_its_own(self, stderr: Terminal) -> None:
        with redirect_stderr(stderr), progress_bar("rows", 700):
            self.wait_for(" 0/700 ", stderr)
            complain("twmd:", Style.HEADER, "a word")
        before, words, after = stderr.getvalue().partition("twmd: a word\n")
        assert (words, before[-1:], after[:1]) == ("twmd: a word\n", "\r", "\r")

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
        assert stderr.getvalue().endswith("\rtwmd: enough.\n")


class TestCompletion:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (("sc",), {"score"}),
            (("--quiet", "sc"), {"score"}),
            (("score", "-m", "tw"), {"twmd"}),
            (("score", "-m", "twmd", "b"), {"bertscore_centered", "bleu"}),
            (("correlate", "wmt.jsonl", "-m", "c"), {"chrf", "chrf++"}),
            (("score", "--preset", "emb"), {"embedded", "embedded-tuned"}),
            (("score", "--paired-b"), {"--paired-bs", "--paired-bs-n"}),
            (("hub", ""), {"build", "push"}),
            (("hub", "build", ""), set(metrics_with_card())),
            (("hub", "push", "s"), {"stsscore"}),
            (("finetune", "s"), {"sbert"}),
            (("cite", "x.json", "--format", "b"), {"bibtex", "badge"}),
        ],
    )
    def test_bash_completes(self, words: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
        asked = {
            "_TWMD_COMPLETE": "bash_complete",
            "COMP_WORDS": shlex.join(["twmd", *words]),
            "COMP_CWORD": str(len(words)),
        }
        command = [sys.executable, "-m", "twmd_registry.cli"]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env=os.environ | asked | {"PYTHONPATH": path},
        )
        offered = {line.partition(",")[::2] for line in done.stdout.splitlines()}
        assert {name for kind, name in offered if kind == "plain"} == expected

    @pytest.mark.parametrize(
        ("words", "kind"), [(("score", "ref_a.txt", "ref_"), "file"), (("tune", "twmd", "-o", "ref_"), "dir")]
    )
    def test_bash_is_asked_to_complete_paths(
        self, words: tuple[str, ...], kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("_TWMD_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", shlex.join(["twmd", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit, match="0"):
            main([])
        assert capsys.readouterr().out == f"{kind},ref_\n"

    @pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
    def test_documented_line_makes_bash_complete(self, tmp_path: Path) -> None:
        (line,) = re.findall(
            r"^source .*$", (ROOT / "docs" / "score.md").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        (tmp_path / "twmd").write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m twmd_registry.cli "$@"\n', encoding="utf-8"
        )
        (tmp_path / "twmd").chmod(0o755)
        ask = 'COMP_WORDS=(twmd sc); COMP_CWORD=1; $(complete -p twmd | sed "s/.*-F \\([^ ]*\\) .*/\\1/") twmd; echo "${COMPREPLY[@]}"'
        path = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", f"{line}\n{ask}"], capture_output=True, text=True, check=True, cwd=ROOT, env=path
        )
        assert (done.stdout, done.stderr) == ("score\n", "")

    @pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
    def test_zsh_can_read_its_script(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["completion", "zsh"]) == 0
        (tmp_path / "_twmd").write_text(capsys.readouterr().out, encoding="utf-8")
        done = subprocess.run(["zsh", "-n", tmp_path / "_twmd"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    def test_shell_gets_a_script_of_its_own(self, capsys: pytest.CaptureFixture[str]) -> None:
        for shell, head in (
            ("bash", "_twmd_completion() {"),
            ("zsh", "#compdef twmd"),
            ("fish", "function _twmd_completion;"),
        ):
            assert main(["completion", shell]) == 0
            assert capsys.readouterr().out.lstrip().startswith(head)


COMMANDS = list(all_commands())
EXAMPLES = [
    (path, line.rpartition("| ")[2])
    for path, command in COMMANDS
    for line in (command.epilog or "").removeprefix("Example:").strip().split("\n\n")
]

RATED = {"tune", "finetune", "correlate", "robustness"}
"""Commands that read rated data of any form."""


def test_finetune_offers_what_can_be_trained() -> None:
    (metric,) = (
        param
        for path, command in COMMANDS
        if path == "twmd finetune"
        for param in command.params
        if param.name == "metric"
    )
    assert set(metric.type.choices) == {name for name in MetricName if CATALOGUE[name].untrainable is None}  # type: ignore[attr-defined]


def test_every_help_text_has_an_example_of_its_own_command() -> None:
    assert [
        path
        for path, _ in COMMANDS
        if not any(f"{line} ".startswith(f"{path} ") for name, line in EXAMPLES if name == path)
    ] == []


def test_every_option_has_a_help_text() -> None:
    unexplained = [
        (path, param.name)
        for path, command in COMMANDS
        for param in command.params
        if isinstance(param, click.Option) and not param.help
    ]
    assert unexplained == []


@pytest.mark.parametrize("at", range(3))
def test_quiet_may_stand_at_every_level(at: int) -> None:
    arguments = ["hub", "build", "twmd", "-o", "out"]
    assert not parse(arguments)["quiet"]
    assert parse([*arguments[:at], "-q", *arguments[at:]])["quiet"]
    assert all(any(param.name == "quiet" for param in command.params) for _, command in COMMANDS)


@pytest.mark.parametrize("line", [line for _, line in EXAMPLES])
def test_every_example_can_be_parsed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(line.partition(" > ")[0])
    assert program == "twmd"
    create_inputs(arguments)
    assert parse(arguments)


@pytest.mark.parametrize(
    "line", sorted({line for _, line in EXAMPLES if ".jsonl" in line and line.split()[1] in RATED})
)
def test_rated_data_in_examples_are_named_by_their_form(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = '{"lang": "de-en", "candidate": "a cat", "reference": "the cat", "score": 0.5}\n'
    named = [word for word in shlex.split(line) if word.endswith(".jsonl")]
    for word in named:
        form, colon, path = word.partition(":")
        assert (form, colon) == ("wmt", ":")
        Path(path).write_text(row, encoding="utf-8")
        assert read_rated(word).predictions == ["a cat"]


@pytest.mark.parametrize(
    "line", sorted({line for _, line in EXAMPLES if line.split()[1] in {"list", "explain", "completion"}})
)
def test_examples_that_need_no_file_run(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line.partition(" > ")[0])[1:]) == 0
    assert capsys.readouterr().out.strip()
