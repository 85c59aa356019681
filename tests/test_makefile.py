"""Training goes on where it ended, and is what the cards of packaged adapters say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli.parsing import parse
from twmd_registry.models.files import packaged_adapters

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}


def test_interrupted_training_goes_on_with_the_run_that_is_not_complete(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt", "locked/dev.txt", "bin/twmd"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    body = 'echo "$1 $*" | grep -Eo "^[a-z]+|build/base/[a-z0-9]+( --resume)?$" | xargs'
    (tmp_path / "bin" / "twmd").write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    (tmp_path / "bin" / "twmd").chmod(0o755)
    base = tmp_path / "build" / "base"
    (tmp_path / ".dev").touch()  # newer than what it depends on
    for path in (base / "seed1" / "signature.txt", base / "seed2" / "checkpoints" / "settings.json"):
        path.parent.mkdir(parents=True)
        path.touch()
    command = ["make", "-s", "-f", str(MAKEFILE), "VENV=.", "tuned-base"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=True, text=True)
    runs = ["finetune build/base/seed2 --resume", "average build/base/mean", "train build/base/stsscore"]
    assert done.stdout.splitlines() == runs


def test_make_tuned_runs_the_commands_of_the_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".dev").touch()
    command = ["make", "-n", f"VENV={tmp_path}", "tuned"]
    done = subprocess.run(command, cwd=MAKEFILE.parent, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    printed = re.sub(r" \$\(test [^)]*\)", "", done.stdout.replace("\\\n", " ").replace("$seed", "1"))
    run = re.findall(r"/bin/twmd (.+?)(?: \|\| exit 1; +done)?$", printed, flags=re.MULTILINE)
    made = [shlex.split(line) for line in run]
    asked, own = [], []
    for card in packaged_adapters().glob("*/README.md"):
        text = card.read_text(encoding="utf-8")
        score, *training = re.findall(r"^    twmd (.+)$", text, flags=re.MULTILINE)
        asked += [shlex.split(score)]
        own += [shlex.split(line) for line in training]
        assert training
        rounding = re.findall(r"^    python (-m .+)$", text, flags=re.MULTILINE)
        assert rounding == re.findall(rf"/bin/python (.+/{card.parent.name})$", done.stdout, flags=re.MULTILINE)
    assert [words for words in own if words not in made] == []
    monkeypatch.chdir(tmp_path)
    for words in [*asked, *made]:
        for path in (Path(word.rpartition(":")[2]) for word in words if "=" not in word):
            (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)
            if path.suffix:
                path.touch()
        assert parse(words)


def test_make_versions_tests_the_core_with_what_pyproject_names_as_oldest(tmp_path: Path) -> None:
    command = ["make", "-n", f"VENV={tmp_path}", "versions"]
    done = subprocess.run(command, cwd=MAKEFILE.parent, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    printed = done.stdout.replace("\\\n", " ")
    newest, oldest = printed.split("python3.11 -m venv")
    tests = re.compile(r"bin/python -m pytest (.+?)(?: \|\|.*)?$", flags=re.MULTILINE)
    tested = [tests.findall(part) for part in (newest, oldest)]
    assert tested[0] == tested[1]
    assert "tests/engine" in tested[0][0]
    asked = map(Requirement, tomllib.loads((MAKEFILE.parent / "pyproject.toml").read_text())["project"]["dependencies"])
    lowest = {each.name: str(each.specifier).removeprefix(">=") for each in asked}
    pins = re.findall(r" (torch|transformers|numpy)==(\d+\.\d+)", oldest)
    assert len(pins) == 3
    assert all(lowest[name] == version for name, version in pins)


def test_make_dist_installs_nothing_into_the_development_environment(tmp_path: Path) -> None:
    (tmp_path / ".dev").touch()
    command = ["make", "-n", f"VENV={tmp_path}", "dist"]
    done = subprocess.run(command, cwd=MAKEFILE.parent, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    installed = re.findall(r"^(\S+)/bin/python -m pip install", done.stdout, flags=re.MULTILINE)
    assert installed == ["build/released", "build/sbom"]
