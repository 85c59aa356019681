"""Warnings of metrics that were trained or tuned on the data they are measured on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import twmd_registry
from tests import tiny
from tests.conftest import shared
from tests.train.rated_words import write_words
from twmd_registry.cli import main
from twmd_registry.errors import ModelError
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.overlap import (
    TRAINING_DATA,
    describe_overlap,
    hash_references,
    read_hashes,
    training_hashes,
    write_hashes,
)
from twmd_registry.models.adapter import packaged_adapters
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import PACKAGED, presets
from twmd_registry.train.data import TrainingData, hashes_of

PACKAGED_DATA = {
    "wmt15.jsonl": "wmt:wmt/wmt15.jsonl",
    "wmt16.jsonl": "wmt:wmt/wmt16.jsonl",
    "STS-B train": "stsb:stsb/train.csv",
    "STS-B dev": "stsb:stsb/dev.csv",
}


def test_hash_is_of_the_reference_without_case_and_runs_of_white_space() -> None:
    expected = int.from_bytes(hashlib.sha256(b"a heron waits").digest()[:8], "big")
    assert hash_references(["A  heron\twaits ", ["a heron waits", "a HERON waits"]]).tolist() == [expected]
    found = hash_references(["b", "a", "c"])
    assert found.dtype == np.uint64
    assert found.tolist() == sorted(found.tolist())


def test_hashes_are_read_as_they_were_written_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    assert read_hashes(path) == {}
    write_hashes({"one": hash_references(["a", "b"]), "other": hash_references(["c"])}, path)
    assert {name: own.tolist() for name, own in read_hashes(path).items()} == {
        "one": hash_references(["a", "b"]).tolist(),
        "other": hash_references(["c"]).tolist(),
    }
    path.write_bytes(b"no such thing")
    with pytest.raises(ModelError, match=r"x.safetensors: expected hashes of training data"):
        read_hashes(path)
    save_file({"weights": np.zeros((2, 2), dtype=np.float32)}, path)
    with pytest.raises(ModelError, match="'weights' is none"):
        read_hashes(path)


@pytest.mark.parametrize("name", PACKAGED_DATA)
def test_packaged_hashes_are_those_of_the_data(name: str) -> None:
    form, _, place = PACKAGED_DATA[name].partition(":")
    data = TrainingData(name, read_rated(f"{form}:{shared(f'data/{place}')}"))
    ((label, expected),) = hashes_of([data]).items()
    files = [presets()[MetricName.TWMD, "embedded"].training_data, *packaged_adapters().glob(f"*/{TRAINING_DATA}")]
    found = [own[label] for own in map(read_hashes, files) if label in own]
    assert found
    assert all(np.array_equal(own, expected) for own in found)


def test_every_packaged_adapter_and_tuned_preset_brings_its_hashes() -> None:
    for folder in packaged_adapters().iterdir():
        assert read_hashes(folder / TRAINING_DATA), folder
    tuned = [preset for preset in presets().values() if preset.source == PACKAGED and preset.tuned]
    assert {preset.name for preset in tuned} >= {
        "embedded",
        "embedded-tuned",
        "roberta-large",
        "paper",
        "roberta-base-stsb",
    }
    for preset in tuned:
        assert preset.tuned_on
        assert set(preset.tuned_on) <= set(read_hashes(preset.training_data)), preset


WMT15 = "wmt15.jsonl@5340e8ebf603 (1991 segments)"


def known_to(scorer: twmd_registry.Scorer) -> dict[str, set[str]]:
    return {what: set(own) for what, own in training_hashes(scorer).items() if own}


def test_what_was_trained_and_which_values_were_chosen_is_named() -> None:
    wmt = {WMT15, "wmt16.jsonl@2df0e6df2696 (3353 segments)"}
    stsb = {"STS-B train@4b11fc0ba338 (5749 segments)", "STS-B dev@71011775c566 (1500 segments)"}
    assert known_to(twmd_registry.scorer("twmd")) == {"layer, special, centering, temperature of twmd": wmt}
    assert known_to(twmd_registry.scorer("twmd", layer=6, temperature=0.5)) == {"special, centering of twmd": wmt}
    assert known_to(twmd_registry.scorer("twmd", "embedded-tuned"))["adapter wmt-twmd@e1f90219c373"] == wmt
    assert (
        known_to(twmd_registry.scorer("sbert", adapter="wmt-twmd", centering="none"))["adapter wmt-twmd@e1f90219c373"]
        == wmt
    )
    assert known_to(twmd_registry.scorer("stsscore")) == {"adapter stsb-siamese@60946b405181": stsb}
    for untuned in ("wmd", "moverscore-v1", twmd_registry.scorer("moverscore", "moverscore-v1").signature):
        given = (untuned,) if "|" in untuned else ("moverscore", untuned)
        assert known_to(twmd_registry.scorer(*given)) == {}
    both = known_to(twmd_registry.scorer("ensemble(stsscore,twmd)"))
    assert set(both) == {"adapter stsb-siamese@60946b405181", "layer, special, centering, temperature of twmd"}
    signature = twmd_registry.scorer("twmd", "embedded-tuned").signature
    assert known_to(twmd_registry.scorer(signature)) == known_to(twmd_registry.scorer("twmd", "embedded-tuned"))


def test_settings_of_another_model_are_those_that_the_paper_chose(tmp_path: Path) -> None:
    model = str(tiny.save_encoder("bert", tmp_path / "tiny"))
    assert set(known_to(twmd_registry.scorer("twmd", model=model, layer=1))) == {"temperature of twmd"}
    assert known_to(twmd_registry.scorer("twmd", model=model, layer=1, temperature=0.3)) == {}
    assert known_to(twmd_registry.scorer("sbert", model=model, layer=1)) == {}


def test_share_of_known_rows_is_described() -> None:
    with twmd_registry.scorer("twmd") as scorer:
        assert describe_overlap("twmd", scorer, ["A heron.", "Rain."], "mine") is None
        read = read_rated(f"wmt:{shared('data/wmt/wmt15.jsonl')}").references[:3]
        mixed = [["Nobody ever wrote this sentence.", read[0].upper()], ["Nor this one."], [read[1]], [read[2]]]
        text = describe_overlap("twmd", scorer, mixed, "mine.csv")
    assert text is not None
    assert text.startswith(
        "twmd was trained or tuned (layer, special, centering, temperature of twmd) on references of 3 of 4 "
        "rows of mine.csv (75.0%;"
    )
    assert "from wmt15.jsonl@5340e8ebf603)" in text


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """The names of its model and of its training data, and its folder."""
    folder = tmp_path_factory.mktemp("trained")
    model = str(tiny.save_encoder("bert", folder / "tiny"))
    data = [write_words(folder / f"{name}.jsonl", 40, seed) for seed, name in enumerate(("train", "dev"))]
    how = ["--epochs", "1", "--rank", "2", "--device", "cpu", "--set", "layer=2", "centering=none", "temperature=0.3"]
    assert (
        main(
            [
                "finetune",
                "twmd",
                "--set",
                f"model={model}",
                "--train",
                data[0],
                "--dev",
                data[1],
                "-o",
                str(folder / "own"),
                *how,
            ]
        )
        == 0
    )
    return model, data[0], folder / "own"


def warned(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["correlate", "robustness", "report"])
def test_every_command_that_measures_warns_of_an_adapters_own_training_data(
    command: str, adapter: tuple[str, str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data, folder = adapter
    metric = f"twmd;model={model};adapter={folder};layer=2;centering=none;temperature=0.3"
    rated = read_rated(data)
    if command == "report":
        for name, texts in (("hyp", rated.predictions), ("ref", rated.references)):
            (tmp_path / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        arguments = [
            "report",
            str(tmp_path / "ref.txt"),
            "-i",
            str(tmp_path / "hyp.txt"),
            "-o",
            str(tmp_path / "page.html"),
        ]
        name = "ref.txt"
    else:
        if command == "robustness":
            rows = [
                {"prediction": f"{text}{end}", "reference": text, "rating": rating, "item": i, "group": "x"}
                for i, text in enumerate(rated.references)
                for rating, end in enumerate((" not", "."))
            ]
            (tmp_path / "edited.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            data = f"table:{tmp_path / 'edited.jsonl'}"
        arguments, name = (
            [command, "--data", data, "--resamples", "0", "-o", str(tmp_path / "out")],
            data.rpartition("/")[2],
        )
    said = warned([*arguments, "-m", metric, "sbert"], capsys)
    (line,) = (line for line in said.splitlines() if "was trained or tuned" in line)
    assert line.startswith("twmd: warning: twmd was trained or tuned (adapter ./own@")
    assert f" rows of {name}" in line
    assert "(100.0%; from train.jsonl@" in line
    shown = {"correlate": "out/study.json", "robustness": "out/robustness.json", "report": "page.html"}[command]
    assert "twmd was trained or tuned (adapter ./own@" in (tmp_path / shown).read_text(encoding="utf-8")


def test_data_that_a_metric_never_saw_are_not_warned_of(
    adapter: tuple[str, str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _, folder = adapter
    texts = ["the cat", "a dog ran", "rain on a hill", "the mat"]
    rows = [
        {"lang": "xx-en", "candidate": text, "reference": f"{text} {text}", "score": k} for k, text in enumerate(texts)
    ]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    metric = f"twmd;model={model};adapter={folder};layer=2;centering=none;temperature=0.3"
    said = warned(["correlate", f"wmt:{tmp_path / 'new.jsonl'}", "-m", metric, "--resamples", "0"], capsys)
    assert "trained or tuned" not in said


def test_development_data_and_the_data_of_the_starting_weights_are_known_too(
    adapter: tuple[str, str, Path], tmp_path: Path
) -> None:
    model, _, folder = adapter
    assert sorted(name.partition("@")[0] for name in read_hashes(folder / TRAINING_DATA)) == [
        "dev.jsonl",
        "train.jsonl",
    ]
    more = write_words(tmp_path / "more.jsonl", 40, 9)
    how = ["--full", "--epochs", "1", "--device", "cpu", "--set", "layer=2", "centering=none", f"adapter={folder}"]
    assert (
        main(["finetune", "twmd", "--set", f"model={model}", "--train", more, "-o", str(tmp_path / "whole"), *how]) == 0
    )
    scorer = twmd_registry.scorer("sbert", model=str(tmp_path / "whole"), layer=1)
    (names,) = known_to(scorer).values()
    assert sorted(name.partition("@")[0] for name in names) == ["dev.jsonl", "more.jsonl", "train.jsonl"]


def test_tuned_preset_keeps_its_hashes_when_it_is_added_and_loses_them_when_it_is_removed(
    adapter: tuple[str, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data, _ = adapter
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    presets.cache_clear()
    tried = ["--layers", "1", "2", "--try", "centering=none", "special=cls", "temperature=0.4,0.5"]
    assert (
        main(
            [
                "tune",
                "twmd",
                "--set",
                f"model={model}",
                "--data",
                data,
                *tried,
                "--name",
                "house",
                "-o",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    metric = ["-m", "twmd", "--preset", "house", "--set", f"model={model}", "--resamples", "0"]
    assert "trained or tuned" not in warned(
        ["correlate", data, *metric[:2], "--set", f"model={model}", "layer=1", "--resamples", "0"], capsys
    )
    assert main(["preset", "add", str(tmp_path / "out" / "preset.toml")]) == 0
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    said = warned(["correlate", data, *metric], capsys)
    assert (
        "twmd was trained or tuned (layer, temperature of twmd) on references of 40 of 40 rows of train.jsonl "
        "(100.0%; from train.jsonl@" in said
    )
    assert main(["preset", "remove", "house"]) == 0
    assert list((tmp_path / "home" / "presets").iterdir()) == []
    presets.cache_clear()


def test_mean_of_adapters_knows_the_data_of_all(adapter: tuple[str, str, Path], tmp_path: Path) -> None:
    model, _, folder = adapter
    how = [
        "--epochs",
        "1",
        "--rank",
        "2",
        "--device",
        "cpu",
        "--seed",
        "3",
        "--set",
        "layer=2",
        "centering=none",
        "temperature=0.3",
    ]
    more = write_words(tmp_path / "more.jsonl", 40, 9)
    assert (
        main(["finetune", "twmd", "--set", f"model={model}", "--train", more, "-o", str(tmp_path / "other"), *how]) == 0
    )
    assert main(["average", str(folder), str(tmp_path / "other"), "-o", str(tmp_path / "mean"), "--device", "cpu"]) == 0
    names = [name.partition("@")[0] for name in read_hashes(tmp_path / "mean" / TRAINING_DATA)]
    assert sorted(names) == ["dev.jsonl", "more.jsonl", "train.jsonl"]
