"""Help texts, the meaning of shared options, completion, and what a command imports when it starts."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import rich_click as click
from rich_click.rich_panel import RichOptionPanel

from tests.cli.parsing import all_commands, create_inputs, parse
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
            (("set",), {"setup"}),
            (("setup", "space", ""), {"build", "push"}),
            (("fit", "m"), {"mean"}),
            (("train", "metric", "-m", ""), {str(name) for name in MetricName if CATALOGUE[name].untrainable is None}),
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
    def test_documented_line_enables_bash_completion(self, tmp_path: Path) -> None:
        documentation = (ROOT / "docs" / "score-files.md").read_text(encoding="utf-8")
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


def test_help_of_score_shows_fifteen_options_first_and_all_others_under_more() -> None:
    score = dict(COMMANDS)["twmd score"]
    assert isinstance(score, click.RichCommand)
    first, more = (panel.options for panel in score.panels if isinstance(panel, RichOptionPanel))
    assert len(first) == 15
    assert {"input", "metrics", "paired_bs", "record", "quiet"} <= {*first}
    names = {param.name for param in score.params if isinstance(param, click.Option)}
    assert sorted([*first, *more]) == sorted(map(str, names))


def test_at_most_twelve_commands_and_three_groups_are_at_the_top() -> None:
    top = [isinstance(command, click.Group) for path, command in COMMANDS if path.count(" ") == 1]
    assert (top.count(False), top.count(True)) == (12, 3)


def test_shared_options_mean_the_same_in_every_command() -> None:
    """Compare parameter, type and number of words by option; score's ``-o`` may be a URL."""
    meanings = defaultdict[str, dict[object, list[str]]](dict)
    for path, param in OPTIONS:
        for name in {"-m", "-i", "-o", "-q", "-w", "--set", "--preset", "--device", "--format", "--part"} & {
            *param.opts
        }:
            meaning = (param.name, param.multiple, param.is_flag, None if name == "-o" else type(param.type))
            meanings[name].setdefault(meaning, []).append(path)
    assert [path for path, param in OPTIONS if ("-o" in param.opts) is not ("--output" in param.opts)] == []
    several = {name: variants for name, variants in meanings.items() if len(variants) > 1}
    assert set(several) <= {"-i"}, several
    for path, command in COMMANDS:
        names = {name for param in command.params for name in param.opts}
        assert not {"--model", "--layer", "--data", "--metric", "--refs", "--hyps"} & names, path


@pytest.mark.parametrize("at", range(4))
def test_quiet_works_at_every_level(at: int) -> None:
    arguments = ["setup", "space", "build", "-m", "twmd", "-o", "out"]
    assert not parse(arguments)["quiet"]
    assert parse([*arguments[:at], "-q", *arguments[at:]])["quiet"]
    assert all(any(param.name == "quiet" for param in command.params) for _, command in COMMANDS)


@pytest.mark.parametrize("line", [line for _, line in EXAMPLES])
def test_every_example_can_be_parsed(line: str, folder: Path) -> None:
    program, *arguments = shlex.split(line.partition(" > ")[0])
    assert program == "twmd"
    create_inputs(arguments)
    assert parse(arguments)


CODE = """
import contextlib, io, json, sys
from twmd_registry.cli import main
heavy = {'torch', 'transformers', 'datasets', 'evaluate', 'scipy', 'numpy', 'ray', 'matplotlib'}
heavy |= {'sentence_transformers'}
shown = []
for line in sys.stdin.read().splitlines():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        status = main(line.split())
    shown.append([line, status, sorted(set(sys.modules) & heavy), errors.getvalue()])
print(json.dumps(shown))
"""
LIGHT = """\
score nosuch.txt -i hyp.txt
score ref.txt -i nosuch.txt
score -i bad.csv
score ref.txt -i hyp.txt --no-such-option
score ref.txt -i hyp.txt --set temprature=1
score ref.txt -i hyp.txt --model X
score ref.txt -i hyp.txt --record ref.txt
report ref.txt -i hyp.txt -o r.pdf
score --engine ray -i nosuch.jsonl --output out
score --engine ray -i nosuch*.jsonl --output out
verify nosuch.json
correlate wmt:nosuch -m twmd
train metric wmt:nosuch -m twmd -o out
train metric -m twmd wmt:nosuch -o out
align a b -m twdm
verify nosuch.json ref.txt -i hyp.txt
cite nosuch.json
fit mean nosuch.txt
fit baseline ref.txt -m twdm
train average nosuch -o out"""
NUMPY = """\
correlate wmt:nosuch.jsonl -m twmd
correlate table:rated.jsonl -m twdm
tune table:rated.jsonl -m twdm
tune table:rated.jsonl -m twmd --try nosuch=1
correlate table:rated.jsonl -m bleu --correlation nosuch
train metric table:rated.jsonl -m twdm -o out
train stsscore nosuch -o out
setup space build -m twdm -o out
score ref.txt -i hyp.txt --paired-bs"""
LEXICAL = """\
score ref.txt -i hyp.txt -m bleu chrf ter
score ref.txt -i hyp.txt hyp.txt -m bleu --paired-bs --format json"""
CORRELATE = "correlate table:rated.jsonl -m bleu chrf --resamples 0"


def started(folder: Path, lines: str, code: str = CODE) -> list[tuple[str, int, set[str], str]]:
    """Run lines in one new process; return status, imported libraries and errors after each."""
    rows = ({"prediction": text, "reference": "it", "rating": i} for i, text in enumerate(("a", "it is", "it")))
    for name, content in (
        ("ref.txt", "a cat was sitting on the mat\nit is raining\n"),
        ("hyp.txt", "the cat sat on the mat\nit rains\n"),
        ("bad.csv", "prediction,reference,references\na,b,c\n"),
        ("rated.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
    ):
        (folder / name).write_text(content, encoding="utf-8")
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=lines, stdout=subprocess.PIPE, text=True, check=True, cwd=folder, env=environment
    )
    return [(line, status, set(modules), errors) for line, status, modules, errors in json.loads(done.stdout)]


def test_help_imports_no_command_dependencies(tmp_path: Path) -> None:
    code = CODE.replace("heavy = {", "heavy = {'jinja2', 'filelock', 'rich.progress', ")
    assert started(tmp_path, "--help", code) == [("--help", 0, set(), "")]


def test_command_imports_heavy_libraries_only_if_needed(tmp_path: Path) -> None:
    """Bad lines come first, then SacreBLEU's metrics, because imports persist in the shared process."""
    for line, status, modules, errors in started(tmp_path, "\n".join((LIGHT, NUMPY, LEXICAL, CORRELATE))):
        if line == CORRELATE:
            assert (status, "torch" in modules) == (0, False)
        elif line in LEXICAL.split("\n"):
            assert (status, modules) == (0, {"numpy"})
        else:
            assert (status in {1, 2}, modules - ({"numpy"} if line in NUMPY.split("\n") else set())) == (True, set())
            assert re.fullmatch(r"twmd( [\w -]+)?: .+\n", errors), (line, errors)
            assert "No such command" not in errors, line


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries have no such setting")
def test_command_threads_share_one_memory_arena() -> None:
    program = (
        "import ctypes, threading\nfrom twmd_registry.cli import main\n"
        "{}libc = ctypes.CDLL(None)\n"
        "run = threading.Thread(target=libc.malloc, args=(1000,))\nrun.start()\nrun.join()\nlibc.malloc_stats()"
    )
    areas = {}
    for command in ("", "main(['cite', '--help'])\n"):
        done = subprocess.run(
            [sys.executable, "-c", program.format(command)], capture_output=True, text=True, check=True
        )
        areas[command] = done.stderr.count("Arena ")
    assert list(areas.values()) == [2, 1]


def test_environment_overrides_library_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "THP_MEM_ALLOC_ENABLE"):
        monkeypatch.setenv(name, "7")
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE")
    assert main(["--version"]) == 0
    assert (os.environ["GOMP_SPINCOUNT"], os.environ["THP_MEM_ALLOC_ENABLE"]) == ("7", "1")
