"""Warnings about metrics trained or tuned on the evaluated data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests.conftest import Run, shared
from tests.train.rated_words import write_words
from twmd_registry.cli import main
from twmd_registry.errors import ModelError, TwmdWarning
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.overlap import (
    TRAINING_DATA,
    hash_references,
    read_hashes,
    training_hashes,
    warn_about_overlap,
    write_hashes,
)
from twmd_registry.models.files import packaged_adapters
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import PACKAGED, presets
from twmd_registry.train.data import TrainingData, hashes_of


def test_hashes_are_of_normalised_texts_and_read_back_unchanged(tmp_path: Path) -> None:
    expected = int.from_bytes(hashlib.sha256(b"a heron waits").digest()[:8], "big")
    assert hash_references(["A  heron\twaits ", ["a heron waits", "a HERON waits"]]).tolist() == [expected]
    several = hash_references(["b", "a", "c"])
    assert several.dtype == np.uint64
    assert several.tolist() == sorted(several.tolist())
    path = tmp_path / "x.safetensors"
    assert read_hashes(path) == {}
    hashes = {name: hash_references([name, "b"]) for name in "edcab"}
    write_hashes(hashes, path)
    read = read_hashes(path)
    assert [(name, own.tolist()) for name, own in read.items()] == [(name, hashes[name].tolist()) for name in "abcde"]
    path.write_bytes(b"no such thing")
    with pytest.raises(ModelError, match=r"x.safetensors: expected hashes of training data"):
        read_hashes(path)


@pytest.mark.parametrize(
    ("name", "form", "place"), [("wmt15.jsonl", "wmt", "wmt/wmt15.jsonl"), ("STS-B dev", "stsb", "stsb/dev.csv")]
)
def test_packaged_hashes_match_the_data(name: str, form: str, place: str) -> None:
    data = TrainingData(name, read_rated(f"{form}:{shared(f'data/{place}')}"))
    ((label, expected),) = hashes_of([data]).items()
    files = [presets()[MetricName.TWMD, "embedded"].training_data, *packaged_adapters().glob(f"*/{TRAINING_DATA}")]
    packaged = [own[label] for own in map(read_hashes, files) if label in own]
    assert packaged
    assert all(np.array_equal(own, expected) for own in packaged)


def test_packaged_adapter_and_tuned_preset_have_their_hashes() -> None:
    for folder in packaged_adapters().iterdir():
        assert read_hashes(folder / TRAINING_DATA), folder
    tuned = [preset for preset in presets().values() if preset.source == PACKAGED and preset.tuned]
    names = {"embedded", "embedded-tuned", "roberta-large", "paper", "roberta-base-stsb"}
    assert {preset.name for preset in tuned} >= names
    for preset in tuned:
        assert preset.tuned_on
        assert set(preset.tuned_on) <= set(read_hashes(preset.training_data)), preset


WMT15 = "wmt15.jsonl@5340e8ebf603 (1991 segments)"


def name_known_data(*arguments: str, **keys: Any) -> dict[str, set[str]]:
    hashes = training_hashes(twmd_registry.load(*arguments, **keys))
    return {part: set(own) for part, own in hashes.items() if own}


def test_training_hashes_name_adapters_and_tuned_values(tiny_encoder: Callable[[str], Path]) -> None:
    wmt = {WMT15, "wmt16.jsonl@2df0e6df2696 (3353 segments)"}
    stsb = {"STS-B train@4b11fc0ba338 (5749 segments)", "STS-B dev@71011775c566 (1500 segments)"}
    adapter, siamese = "adapter rated-twmd@df25ad13be21", "adapter stsb-siamese@aed4bcdc014c"
    settings = "layer, special, centering, temperature of twmd"
    assert name_known_data("twmd", "embedded") == {settings: wmt}
    assert name_known_data("twmd", "embedded", layer=6, temperature=0.5) == {"special, centering of twmd": wmt}
    tuned = name_known_data("twmd")
    untuned = name_known_data("sbert", adapter="rated-twmd", centering="none")
    assert tuned[adapter] == untuned[adapter] > wmt
    learned = "wmt15 wmt16 wmt21 bio mlqe stsb mrpc bagel sfhotel summeval rated.jsonl".split()
    assert {name.partition("@")[0] for name in tuned[adapter]} > {*learned}
    assert name_known_data(str(twmd_registry.load("twmd", "embedded-tuned").signature)) == tuned
    assert name_known_data("stsscore") == {siamese: stsb}
    for preset in ("wmd", "moverscore-v1"):
        assert name_known_data("moverscore", preset) == {}
    assert name_known_data(str(twmd_registry.load("moverscore", "moverscore-v1").signature)) == {}
    assert set(name_known_data("ensemble(stsscore,twmd;preset=embedded)")) == {siamese, settings}
    keys: dict[str, Any] = {"model": str(tiny_encoder("bert")), "layer": 1}
    assert set(name_known_data("twmd", **keys)) == {"temperature of twmd"}
    assert name_known_data("twmd", temperature=0.3, **keys) == {}
    assert name_known_data("sbert", **keys) == {}


def test_overlap_describes_the_share_of_known_rows() -> None:
    with twmd_registry.load("twmd", "embedded") as scorer:
        assert warn_about_overlap(["twmd"], [scorer], ["A heron.", "Rain."], "mine") == ()
        read = read_rated(f"wmt:{shared('data/wmt/wmt15.jsonl')}").references[:3]
        mixed = [["Nobody ever wrote this sentence.", read[0].upper()], ["Nor this one."], [read[1]], [read[2]]]
        with pytest.warns(TwmdWarning, match="twmd was trained or tuned"):
            (text,) = warn_about_overlap(["twmd"], [scorer], mixed, "mine.csv")
    tuned = "twmd was trained or tuned (layer, special, centering, temperature of twmd) on references of 3 of 4 rows of"
    assert text.startswith(f"{tuned} mine.csv (75.0%;")
    assert "from wmt15.jsonl@5340e8ebf603)" in text


KEYS = ["layer=2", "centering=none", "temperature=0.3"]


def train(model: str, data: list[str], output: Path, *options: str) -> None:
    how = ["--epochs", "1", "--device", "cpu", "--set", f"model={model}", *KEYS]
    assert main(["train", "metric", *data, "-m", "twmd", "-o", str(output), *how, *options]) == 0


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Callable[[str], Path]) -> tuple[str, str, Path]:
    """Return the names of its model and of its training data, and its folder."""
    folder, model = tmp_path_factory.mktemp("trained"), str(tiny_encoder("bert"))
    data = [write_words(folder / f"{name}.jsonl", 40, seed) for seed, name in enumerate(("train", "dev"))]
    train(model, data[:1], folder / "own", "--dev", data[1], "--rank", "2")
    return model, data[0], folder / "own"


def name_metric(adapter: tuple[str, str, Path]) -> str:
    return ";".join([f"twmd;model={adapter[0]};adapter={adapter[2]}", *KEYS])


def read_warnings(run: Run, line: str) -> list[str]:
    status, _, err = run(line)
    assert status == 0
    return [line for line in err.splitlines() if "was trained or tuned" in line]


@pytest.mark.parametrize("command", ["correlate", "report"])
def test_command_warns_about_an_adapters_training_data(
    command: str, adapter: tuple[str, str, Path], folder: Path, run: Run
) -> None:
    rated = read_rated(adapter[1])
    for name, texts in (("hyp", rated.predictions), ("ref", rated.references)):
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    arguments, data, written = {
        "correlate": (f"{adapter[1]} --resamples 0 -o .", "train.jsonl", "study.json"),
        "report": ("ref.txt -i hyp.txt -o report.html", "ref.txt", "report.html"),
    }[command]
    (line,) = read_warnings(run, f"{command} {arguments} -m '{name_metric(adapter)}' sbert")
    assert line.startswith("twmd: warning: twmd was trained or tuned (adapter ./own@")
    assert f" rows of {data}" in line
    assert "(100.0%; from train.jsonl@" in line
    assert "twmd was trained or tuned (adapter ./own@" in (folder / written).read_text(encoding="utf-8")


def test_training_data_of_other_weights_are_known(adapter: tuple[str, str, Path], tmp_path: Path) -> None:
    def read_names(folder: Path) -> list[str]:
        return sorted(name.partition("@")[0] for name in read_hashes(folder / TRAINING_DATA))

    model, _, folder = adapter
    assert read_names(folder) == ["dev.jsonl", "train.jsonl"]
    more = write_words(tmp_path / "more.jsonl", 40, 9)
    train(model, [more], tmp_path / "whole", f"adapter={folder}", "--full")
    assert read_names(tmp_path / "whole") == ["dev.jsonl", "more.jsonl", "train.jsonl"]
    (names,) = name_known_data("sbert", model=str(tmp_path / "whole"), layer=1).values()
    assert len(names) == 3
    train(model, [more], tmp_path / "other", "--rank", "2", "--seed", "3")
    average = [
        "train",
        "average",
        str(folder),
        str(tmp_path / "other"),
        "-o",
        str(tmp_path / "mean"),
        "--device",
        "cpu",
    ]
    assert main(average) == 0
    assert read_names(tmp_path / "mean") == ["dev.jsonl", "more.jsonl", "train.jsonl"]


def test_added_preset_has_its_hashes(
    adapter: tuple[str, str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    model, data, _ = adapter
    monkeypatch.setenv("TWMD_HOME", str(folder / "home"))
    presets.cache_clear()
    tried = "--layers 1 2 --try centering=none special=cls temperature=0.4,0.5"
    assert run(f"tune {data} -m twmd --set model={model} {tried} --name house -o out")[0] == 0
    measure = f"correlate {data} -m twmd --resamples 0 --set model={model}"
    assert read_warnings(run, f"{measure} layer=1") == []
    assert run("setup preset add out/preset.toml")[0] == 0
    for path in (folder / "out").iterdir():
        path.unlink()
    (line,) = read_warnings(run, f"{measure} --preset house")
    known = "twmd was trained or tuned (layer, temperature of twmd) on references of 40 of 40 rows of train.jsonl"
    assert f"{known} (100.0%; from train.jsonl@" in line
    assert run("setup preset remove house")[0] == 0
    assert list((folder / "home" / "presets").iterdir()) == []
    presets.cache_clear()
