"""Training on the STS benchmark, on rows written for the test."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import twmd_registry
from tests.train.rated_words import RUSSIAN
from twmd_registry.cli import main
from twmd_registry.errors import FileError, InputError
from twmd_registry.judgments.corpora import read_stsb
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.train.stsb import SETTINGS, train_stsb

NAMES = ["the baker", "a heron", "the lighthouse keeper", "my sister", "an old train"]
DEEDS = ["left before dawn", "stood by the weir", "sang, quietly", "sold nine loaves", "was late again"]


def write_set(path: Path, rows: int, seed: int) -> None:
    """Write pairs that are as similar as their subjects and verbs are."""
    r = random.Random(seed)
    lines = []
    for _ in range(rows):
        a, b = ([r.choice(NAMES), r.choice(DEEDS)] for _ in range(2))
        lines.append(f'"{" ".join(a)}","{" ".join(b)}",{5.0 * sum(x == y for x, y in zip(a, b, strict=True)) / 2}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """Return a folder with a small train and dev set."""
    for seed, name in enumerate(("train", "dev"), start=1):
        write_set(tmp_path / f"{name}.csv", 8, seed)
    return tmp_path


def test_command_writes_adapter_head_card_and_signature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "warmup_steps", 0)  # a short run
    write_set(tmp_path / "train.csv", 32, seed=1)
    write_set(tmp_path / "dev.csv", 24, seed=2)
    output = tmp_path / "adapter"
    assert main(["train", "stsb", "--data", f"stsb:{tmp_path}", "-o", str(output)]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["Pearson", "use", "signature"]
    files = "README.md adapter_config.json adapter_model.safetensors head.safetensors signature.txt"
    assert sorted(path.name for path in output.iterdir()) == [*files.split(), "training_data.safetensors"]
    assert {path.stat().st_mode for path in output.iterdir()} == {(tmp_path / "train.csv").stat().st_mode}
    card = (output / "README.md").read_text(encoding="utf-8")
    signature = card.partition("Signature: `")[2].partition("`")[0]
    assert f"signature {signature}" in out
    assert (output / "signature.txt").read_text(encoding="utf-8") == f"{signature}\n"
    for name, size in (("train", 32), ("dev", 24)):
        assert f"on STS-B {name}@{content_of(read_stsb(tmp_path / f'{name}.csv'))} ({size} segments)" in card
    assert re.search(r"\| minutes \| \d+\.\d \|", card)
    assert str(tmp_path) not in card + (output / "adapter_config.json").read_text(encoding="utf-8")
    scorer = twmd_registry.scorer(signature, adapter=str(output))
    dev = read_stsb(tmp_path / "dev.csv")
    trained = correlate("pearson", scorer.score(dev.predictions, dev.references).scores, dev.ratings)
    assert f"Pearson on dev {trained:.4f}" in out
    untrained = twmd_registry.scorer("sbert", layer=6, special="all", centering="none")
    plain = untrained.score(dev.predictions, dev.references).scores
    assert trained > correlate("pearson", plain, dev.ratings) + 0.01
    half = tmp_path / "half"
    assert main(["train", "stsb", "--data", f"stsb:{tmp_path}", "--dtype", "float16", "-o", str(half)]) == 0
    whole, rounded = (load_file(path / "adapter_model.safetensors") for path in (output, half))
    assert rounded.keys() == whole.keys()
    assert all(np.array_equal(rounded[name], weight.astype(np.float16)) for name, weight in whole.items())


def test_teachers_scores_of_other_pairs_are_learned_from(sets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, output, learned = sets / "pairs.jsonl", sets / "adapter", []

    def keep(_network: Any, _arguments: Any, data: Any, _tokenizer: Any) -> float:
        learned.append(data["train"])
        return 0.5

    monkeypatch.setattr("twmd_registry.train.stsb._train", keep)
    pairs.write_text('{"prediction": "a heron stood", "reference": "the baker sang"}\n', encoding="utf-8")
    command = ["train", "stsb", "--data", f"stsb:{sets}", "-o", str(output), "--pairs", str(pairs)]
    assert main([*command, "--teacher", "stsscore;output_of=nothing"]) == 2
    assert main([*command, "--teacher", "twmd"]) == 2
    assert main(command) == 2
    assert not output.exists()
    assert main([*command, "--teacher", "stsscore"]) == 0
    teacher = twmd_registry.scorer("stsscore")
    (train,) = learned
    assert train.predictions[8:] == ["a heron stood"]
    assert train.ratings[8:] == pytest.approx([5 * teacher.score(["a heron stood"], ["the baker sang"]).score])
    card = (output / "README.md").read_text(encoding="utf-8")
    assert "(8 segments); the epoch" in card
    assert f"on five times the scores of `{teacher.signature}`" in card
    assert not (output / "checkpoints").exists()


def test_folder_with_files_is_not_written_over(sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "stsb", "--data", f"stsb:{sets}", "-o", str(sets)]) == 1
    assert f"{sets} is not empty: give a new folder" in capsys.readouterr().err
    assert len(list(sets.iterdir())) == 2


def test_pairs_that_the_model_does_not_read_are_refused_before_they_are_rated(
    sets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, output = sets / "pairs.jsonl", sets / "adapter"
    pairs.write_text(f'{{"prediction": "{RUSSIAN}", "reference": "{RUSSIAN}"}}', encoding="utf-8")
    more = ["--pairs", str(pairs), "--teacher", "stsscore;model=multilingual"]
    assert main(["train", "stsb", "--data", f"stsb:{sets}", "-o", str(output), *more]) == 1
    assert "pairs.jsonl: 100% of the letters are in scripts that sentence-transformers" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("dev", "error", "words"),
    [
        ("a cat sits,a cat sat,3.0\n" * 4, InputError, r"^STS-B dev: ratings do not vary \(all 4 are 3\)"),
        (None, FileError, "dev.csv"),
    ],
)
def test_dev_that_is_missing_or_without_a_correlation_is_refused_before_training(
    dev: str | None, error: type[Exception], words: str, sets: Path
) -> None:
    (sets / "dev.csv").unlink()
    if dev is not None:
        (sets / "dev.csv").write_text(dev, encoding="utf-8")
    with pytest.raises(error, match=words):
        train_stsb(sets, sets / "adapter")
    assert not (sets / "adapter").exists()
