"""Help texts, their examples, the meaning of shared options, and completion."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import rich_click as click

from tests.cli.parsing import all_commands, create_inputs, parse
from tests.conftest import Run
from twmd_registry.cli import main
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = list(all_commands())
OPTIONS = [(path, param) for path, command in COMMANDS for param in command.params if isinstance(param, click.Option)]
EXAMPLES = [
    (path, line.rpartition("| ")[2])
    for path, command in COMMANDS
    for line in (command.epilog or "").removeprefix("Example:").strip().split("\n\n")
]


def complete(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("_TWMD_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", shlex.join(["twmd", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert main([]) == 0
    return capsys.readouterr().out.splitlines()


class TestCompletion:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (("--quiet", "sc"), {"score"}),
            (("score", "-m", "tw"), {"twmd"}),
            (("correlate", "wmt.jsonl", "-m", "c"), {"chrf", "chrf++"}),
            (("score", "--preset", "emb"), {"embedded", "embedded-tuned"}),
            (("hub", ""), {"build", "push"}),
            (("finetune", ""), {str(name) for name in MetricName if CATALOGUE[name].untrainable is None}),
        ],
    )
    def test_bash_completes_words(
        self,
        words: tuple[str, ...],
        expected: set[str],
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        offered = {line.partition(",")[::2] for line in complete(words, capsys, monkeypatch)}
        assert {name for kind, name in offered if kind == "plain"} == expected

    @pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
    def test_documented_line_makes_bash_complete(self, tmp_path: Path) -> None:
        documentation = (ROOT / "docs" / "score.md").read_text(encoding="utf-8")
        (line,) = re.findall(r"^source .*$", documentation, flags=re.MULTILINE)
        program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m twmd_registry.cli "$@"\n'
        (tmp_path / "twmd").write_text(program, encoding="utf-8")
        (tmp_path / "twmd").chmod(0o755)
        find = '$(complete -p twmd | sed "s/.*-F \\([^ ]*\\) .*/\\1/")'
        ask = f'COMP_WORDS=(twmd sc); COMP_CWORD=1; {find} twmd; echo "${{COMPREPLY[@]}}"'
        environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        command = ["bash", "-c", f"{line}\n{ask}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
        assert (done.stdout, done.stderr) == ("score\n", "")


def test_every_help_text_has_an_example_of_its_own_command() -> None:
    shown = {name for name, line in EXAMPLES if f"{line} ".startswith(f"{name} ")}
    assert [path for path, _ in COMMANDS if path not in shown] == []


def test_every_option_has_a_help_text() -> None:
    assert [(path, param.name) for path, param in OPTIONS if not param.help] == []


def test_shared_options_mean_the_same_in_every_command() -> None:
    """Compare parameter, metavar, type and number of words by option; ``--output`` of score is Ray's."""
    meanings = defaultdict[str, dict[object, list[str]]](dict)
    for path, param in OPTIONS:
        for name in {"-m", "-i", "-o", "-q", "-w", "--set", "--preset", "--device", "--format", "--part"} & {
            *param.opts
        }:
            meaning = (param.name, param.multiple, param.is_flag, "Path" if name == "-o" else type(param.type))
            meanings[name].setdefault(meaning, []).append(path)
    one_folder = meanings.pop("-o")
    assert {meaning[0] for meaning in one_folder} == {"output"}  # type: ignore[index]
    several = {name: own for name, own in meanings.items() if len(own) > 1}
    assert set(several) <= {"-i"}, several
    for path, command in COMMANDS:
        names = {name for param in command.params for name in param.opts}
        assert not {"--model", "--set"} <= names, path


@pytest.mark.parametrize("at", range(3))
def test_quiet_may_stand_at_every_level(at: int) -> None:
    arguments = ["hub", "build", "twmd", "-o", "out"]
    assert not parse(arguments)["quiet"]
    assert parse([*arguments[:at], "-q", *arguments[at:]])["quiet"]
    assert all(any(param.name == "quiet" for param in command.params) for _, command in COMMANDS)


@pytest.mark.parametrize("line", [line for _, line in EXAMPLES])
def test_every_example_can_be_parsed(line: str, folder: Path) -> None:
    program, *arguments = shlex.split(line.partition(" > ")[0])
    assert program == "twmd"
    create_inputs(arguments)
    assert parse(arguments)


@pytest.mark.parametrize(
    "line", sorted({line for _, line in EXAMPLES if line.split()[1] in {"list", "explain", "completion"}})
)
def test_example_that_needs_no_file_runs(line: str, run: Run) -> None:
    status, out, _ = run(line.partition(" > ")[0].removeprefix("twmd "))
    assert (status, bool(out.strip())) == (0, True)
