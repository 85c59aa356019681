"""Runs that are killed and resumed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tests.tiny import save_encoder
from tests.train.rated_words import write_words
from twmd_registry.cli import main
from twmd_registry.train.recipe import Loss
from twmd_registry.train.trainer import LOG_STEPS, last_checkpoint

STEPS = 60
SAVE_STEPS = 3
PATIENCE = 120
"""Seconds that the run has to come to its first checkpoints."""


def arguments(folder: Path, output: Path, *more: str) -> list[str]:
    data = ["--train", f"wmt:{folder}/train.jsonl", "--dev", f"wmt:{folder}/dev.jsonl"]
    how = [
        "--epochs",
        "5",
        "--batch",
        "8",
        "--rank",
        "2",
        "--save-steps",
        str(SAVE_STEPS),
        "--learning-rate",
        "1e-2",
        "--device",
        "cpu",
    ]
    return [
        "finetune",
        "twmd",
        "--set",
        f"model={folder / 'tiny'}",
        *data,
        "-o",
        str(output),
        *how,
        *more,
        "--set",
        "layer=2",
        "centering=batch",
    ]


def losses(output: Path) -> list[float]:
    log = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line["loss"] for line in log if "loss" in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model and data."""
    found = tmp_path_factory.mktemp("data")
    save_encoder("bert", found / "tiny")
    write_words(found / "train.jsonl", STEPS // 5 * 8, 1)
    write_words(found / "dev.jsonl", 20, 2)
    return found


def kill_after_checkpoint(command: list[str], output: Path, step: int) -> None:
    """Start a run in a process of its own and SIGKILL it once it has written a checkpoint at or after a step."""
    run = subprocess.Popen(
        [sys.executable, "-m", "twmd_registry.cli", *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    while run.poll() is None and time.monotonic() < deadline:
        found = last_checkpoint(output / "checkpoints")
        if found is not None and int(found.name.rpartition("-")[2]) >= step:
            break
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "the run ended before it was killed"


def test_killed_run_ends_where_an_uninterrupted_one_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = tmp_path / "whole" / "adapter", tmp_path / "killed" / "adapter"
    command = arguments(folder, killed, "--loss", Loss.PEARSON)
    assert main(arguments(folder, whole, "--loss", Loss.PEARSON)) == 0
    printed = capsys.readouterr().out
    signature, error = printed.partition("signature ")[2], float(re.findall("training segments ([0-9.]+)", printed)[0])
    kill_after_checkpoint(command, killed, 2 * SAVE_STEPS)
    reached = last_checkpoint(killed / "checkpoints")
    assert reached is not None
    assert 2 * SAVE_STEPS <= int(reached.name.rpartition("-")[2]) < STEPS - LOG_STEPS
    assert not (killed / "signature.txt").exists()
    assert main(command) == 2
    assert "holds an interrupted run: go on with it by --resume, or remove the folder" in capsys.readouterr().err
    assert main([*command, "--resume", "--seed", "1"]) == 2
    assert "an interrupted run of another plan: seed was 12345 and is 1." in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    printed = capsys.readouterr().out
    assert printed.partition("signature ")[2] == signature
    assert float(re.findall("training segments ([0-9.]+)", printed)[0]) == pytest.approx(error, abs=1e-3)
    assert main(command) == 1
    assert "is not empty: give a new folder" in capsys.readouterr().err
    # Trainer logs the mean of ten steps, and forgets at a kill those that it had not logged yet: that one mean is of
    # fewer steps.
    cut = int(reached.name.rpartition("-")[2]) // LOG_STEPS
    found, expected = losses(killed), losses(whole)
    assert len(found) == len(expected) == STEPS // LOG_STEPS
    assert found[:cut] + found[cut + 1 :] == pytest.approx(expected[:cut] + expected[cut + 1 :], abs=1e-3)
    assert not (killed / "checkpoints").exists()


def test_checkpoint_that_a_kill_left_half_written_is_passed_over(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    whole = save({"weight": torch.zeros(2)})
    for step, state, weights in (
        (3, "{}", whole),
        (9, "{}", whole),
        (12, '{"epoch": 1', whole),
        (15, None, whole),
        (18, "{}", whole[:9]),
        (21, "{}", b""),
    ):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "model.safetensors").write_bytes(weights)
        if state is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state, encoding="utf-8")
    found = last_checkpoint(tmp_path)
    assert found is not None
    assert found.name == "checkpoint-9"


def test_there_is_nothing_to_resume_where_nothing_was_begun(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments(folder, tmp_path / "new"), "--resume"]) == 2
    assert "holds no interrupted run: there is nothing to resume" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
