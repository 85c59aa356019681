"""Training on the STS benchmark, on rows written for the test."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.conftest import Patch, Run
from tests.train.rated_words import RUSSIAN
from twmd_registry.judgments.corpora import read_stsb
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.correlation import correlate

NAMES = ["the baker", "a heron", "the lighthouse keeper", "my sister", "an old train"]
DEEDS = ["left before dawn", "stood by the weir", "sang, quietly", "sold nine loaves", "was late again"]

MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"))


def write_set(path: Path, rows: int, seed: int) -> None:
    """Write pairs that are as similar as their subjects and verbs."""
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


def test_siamese_writes_adapter_line_card_and_signature(tmp_path: Path, run: Run, monkeypatch: Patch) -> None:
    monkeypatch.setattr("twmd_registry.train.stsb.WARM_UP_STEPS", 0)  # a short run
    for seed, (name, size) in enumerate((("train", 32), ("dev", 24)), start=1):
        write_set(tmp_path / f"{name}.csv", size, seed)
    output = tmp_path / "adapter"
    _, out, err = run(f"train stsscore {tmp_path} --siamese -o {output}")
    assert "Computing widget" not in err
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
    assert re.search(r"\d+\.\d minutes", card)
    assert str(tmp_path) not in card + (output / "adapter_config.json").read_text(encoding="utf-8")
    dev = read_stsb(tmp_path / "dev.csv")
    untrained = twmd_registry.load("sbert", layer=6, special="all", centering="none")
    scorers = twmd_registry.load(signature, adapter=str(output)), untrained
    scores = [scorer.score(dev.predictions, dev.references).scores for scorer in scorers]
    trained, plain = (correlate("pearson", values, dev.ratings) for values in scores)
    assert f"Pearson on dev {trained:.4f}" in out
    assert trained > plain + 0.01


@pytest.mark.parametrize("option", ["", "--full"])
def test_trained_cross_encoder_scores_as_reported(
    option: str, sets: Path, bert: Any, run: Run, monkeypatch: Patch
) -> None:
    """The tiny model lacks most of the words; a cross-encoder does not use its pooling."""
    bert = shutil.copytree(bert, sets / "bert")
    (bert / "1_Pooling").mkdir()
    (bert / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}', encoding="utf-8")
    modules = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in MODULES]
    (bert / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    monkeypatch.setattr("twmd_registry.train.stsb.WARM_UP_STEPS", 0)
    output = sets / "trained"
    status, out, err = run(f"train stsscore {sets} {option} --epochs 1 --set model={bert} -o {output}")
    assert status == 0, err
    signature = (output / "signature.txt").read_text(encoding="utf-8").strip()
    assert f"signature {signature}" in out
    card = (output / "README.md").read_text(encoding="utf-8")
    assert signature in card
    assert f"library_name: {'sentence-transformers' if option else 'peft'}" in card
    keys: dict[str, Any] = {"model": str(output)} if option else {"model": str(bert), "adapter": str(output)}
    dev = read_stsb(sets / "dev.csv")
    found = twmd_registry.load(signature, **keys).score(dev.predictions, dev.references)
    assert f"Pearson on dev {correlate('pearson', found.scores, dev.ratings):.4f}" in out
    assert "--full" in run(f"train stsscore {sets} --full --siamese -o {sets / 'none'}")[2]


def test_data_are_checked_before_training(sets: Path, run: Run) -> None:
    command = f"train stsscore {sets} -o {sets / 'adapter'}"
    status, _, err = run(f"train stsscore {sets} -o {sets}")
    assert (status, f"{sets} is not empty" in err) == (1, True)
    assert "device 'cuda:7' is not available here" in run(f"{command} --device cuda:7")[2]
    (sets / "dev.csv").write_text(f"{RUSSIAN},{RUSSIAN},3.0\n" * 4, encoding="utf-8")
    assert "STS-B dev: 100% of the letters are in scripts that sentence-transformers" in run(command)[2]
    (sets / "dev.csv").write_text("a cat sits,a cat sat,3.0\na cat,,3.0\n", encoding="utf-8")
    assert "dev.csv, row 2: expected two sentences" in run(command)[2]
    (sets / "dev.csv").write_text("a cat sits,a cat sat,3.0\n" * 4, encoding="utf-8")
    assert "STS-B dev: ratings do not vary (all 4 are 3)" in run(command)[2]
    (sets / "dev.csv").unlink()
    assert "dev.csv: No such file" in run(command)[2]
    assert not (sets / "adapter").exists()
