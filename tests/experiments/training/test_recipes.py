"""Recipes: steps are existing commands, complete steps are skipped, interrupted ones resumed."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import experiments
from experiments.training.recipes import read_recipes, run_recipe, steps_of
from tests.cli.parsing import parse
from tests.conftest import Refused, Run
from twmd_registry.cli import twmd

STEPS = list(dict.fromkeys(step for name in read_recipes() for step in steps_of(name)))


@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_a_command_that_exists(step: str, folder: Path) -> None:
    program, *words = shlex.split(step.format(data="data", build="build"))
    if program == "pip":
        assert words[0] == "download"
        return
    for word in words:
        path = Path(re.sub(r"^\w+:", "", word).partition(",")[0])
        if path.parts[0] in {"data", "build"} and word != words[words.index("-o") + 1]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch() if "." in path.name else path.mkdir(exist_ok=True)
    assert parse(words, twmd if program == "twmd" else experiments)


def test_complete_steps_are_skipped_and_interrupted_ones_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    class Done:
        returncode = 0

    def pretend(command: list[str], **_settings: Any) -> Done:
        ran.append(command[3:])
        return Done()

    monkeypatch.setattr(subprocess, "run", pretend)
    Path("build/multilingual/source32/checkpoints").mkdir(parents=True)
    Path("build/multilingual/source32/checkpoints/settings.json").touch()
    Path("build/multilingual/mlqe-source.jsonl").touch()
    assert run_recipe("multilingual-source", Path("data"), Path("build")) == 0
    assert [words[:2] for words in ran] == [["train", "metric"], ["train", "average"]]
    assert [words[-1] == "--resume" for words in ran] == [True, False]


def test_recipes_are_listed_and_an_unknown_one_refused(folder: Path, run: Run, refused: Refused) -> None:
    printed = run("recipe")[1]
    assert all(name in printed for name in read_recipes())
    Path("data").mkdir()
    refused("recipe distiled", "did you mean 'distilled'")
