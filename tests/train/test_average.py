"""Averaging adapters: the mean is the mean of the weights, and what has none is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import twmd_registry
from tests.tiny import save_encoder
from tests.train.rated_words import named_words, write_words
from twmd_registry.cli import main
from twmd_registry.errors import FileError, SpecError
from twmd_registry.models.adapter import find_adapter, merge
from twmd_registry.models.files import find_model
from twmd_registry.models.load import load_encoder
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.own_presets import add_preset, remove_preset
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.average import average
from twmd_registry.train.finetune import FinetunePlan, finetune
from twmd_registry.train.recipe import Recipe, Weights

CPU = RunOptions(device="cpu")
LAYER = 2


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random encoder of three layers."""
    return str(save_encoder("bert", tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def members(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one plan but for seed and rank."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        train(tiny, folder / f"seed{seed}", Recipe(rank=seed + 1, epochs=1, seed=seed, learning_rate=1e-2))
        for seed in (1, 2)
    ]


def train(tiny: str, output: Path, recipe: Recipe, metric: str = "twmd", **keys: Any) -> Path:
    finetune(
        FinetunePlan(
            make_spec(metric, model=tiny, **{"layer": LAYER, "centering": "none", **keys}),
            (named_words(32, 1),),
            recipe=recipe,
        ),
        output,
        options=CPU,
    )
    return output


def weights(tiny: str, adapter: Path) -> dict[str, np.ndarray]:
    """The network with an adapter merged into it."""
    files = find_model(tiny)
    network = merge(load_encoder(files, Dtype.FLOAT32), find_adapter(str(adapter)), files)
    return {name: weight.detach().numpy() for name, weight in network.named_parameters()}


def test_mean_is_that_of_the_changed_weights(tiny: str, members: list[Path], tmp_path: Path) -> None:
    found = average(members, tmp_path / "mean", options=CPU)
    assert found.rank == 5
    parts = [weights(tiny, one) for one in members]
    mean = weights(tiny, tmp_path / "mean")
    for name, weight in mean.items():
        np.testing.assert_allclose(weight, (parts[0][name] + parts[1][name]) / 2, atol=1e-7)
    assert max(float(np.abs(parts[0][name] - weight).max()) for name, weight in mean.items()) > 1e-3


@pytest.mark.parametrize("dtype", [Dtype.FLOAT16, Dtype.BFLOAT16])
def test_mean_can_be_kept_in_half_the_size(dtype: Dtype, tiny: str, members: list[Path], tmp_path: Path) -> None:
    average(members, tmp_path / "whole", options=CPU)
    average(members, tmp_path / "half", dtype=dtype, options=CPU)
    sizes = [(tmp_path / name / "adapter_model.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    whole, half = weights(tiny, tmp_path / "whole"), weights(tiny, tmp_path / "half")
    changed = max(float(np.abs(whole[name] - half[name]).max()) for name in whole)
    assert 0 < changed < 4 * torch.finfo(getattr(torch, dtype)).eps


def test_mean_is_a_metric_with_preset_card_and_signature(
    tiny: str, members: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mean"
    assert main(["average", *map(str, members), "-o", str(output), "--name", "words-mean", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("the mean of 2 adapters, of rank 5\nuse -m twmd --set ")
    signature = printed.partition("signature ")[2].strip()
    assert sorted(path.name for path in output.iterdir()) == [
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "preset.toml",
        "signature.txt",
        "training_data.safetensors",
    ]
    assert (output / "signature.txt").read_text(encoding="utf-8") == f"{signature}\n"
    card = (output / "README.md").read_text(encoding="utf-8")
    for member in members:
        assert find_adapter(str(member)).name in card
        assert str(member) not in card
    assert tiny not in card + (output / "adapter_config.json").read_text(encoding="utf-8")
    add_preset(output / "preset.toml")
    try:
        assert twmd_registry.scorer("twmd", "words-mean").signature == signature
    finally:
        remove_preset("words-mean")


def test_mean_vectors_are_handed_on(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("one", 1), ("other", 9)):
        corpus = tmp_path / f"{name}.txt"
        corpus.write_text("\n".join(named_words(20, seed).rated.references), encoding="utf-8")
        assert main(["fit-mean", str(corpus), "--model", tiny, "-o", str(tmp_path)]) == 0
    means = [
        line.partition("background:")[2].strip()
        for line in capsys.readouterr().out.splitlines()
        if "background:" in line
    ]
    runs = [(1, means[0]), (2, means[0]), (3, means[1])]
    first, second, odd = (
        train(
            tiny,
            tmp_path / f"run{seed}",
            Recipe(rank=2, epochs=1, seed=seed),
            "bertscore_centered",
            centering=f"background:{mean}",
        )
        for seed, mean in runs
    )
    found = average([first, second], tmp_path / "mean", options=CPU)
    assert twmd_registry.scorer("bertscore_centered", **found.keys).signature == found.signature
    with pytest.raises(
        SpecError,
        match="run3 was trained with other settings than .*run1: centering is background:[0-9a-f]{12}, not background:",
    ):
        average([first, odd], tmp_path / "none", options=CPU)


def test_what_has_no_mean_is_refused(tiny: str, members: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "mean"
    with pytest.raises(SpecError, match="1 adapter was given: an average is of two or more"):
        average(members[:1], output)
    shutil.copytree(members[0], tmp_path / "copy")
    with pytest.raises(SpecError, match="copy and .*seed1 hold the same adapter: train each with a seed of its own"):
        average([*members, tmp_path / "copy"], output)
    other = train(tiny, tmp_path / "other", Recipe(rank=2, epochs=1), temperature=0.5)
    with pytest.raises(
        SpecError, match="other was trained with other settings than .*seed1: temperature is 0.5, not 0.08"
    ):
        average([members[0], other], output)
    whole = train(tiny, tmp_path / "whole", Recipe(weights=Weights.FULL, epochs=1))
    with pytest.raises(SpecError, match="whole holds a whole model: adapters are averaged"):
        average([members[0], whole], output)
    with pytest.raises(FileError, match="holds no preset.toml: expected a folder that 'twmd finetune' wrote"):
        average([members[0], tmp_path], output)
    assert not output.exists()
    with pytest.raises(FileError, match="seed2 is not empty"):
        average(members, members[1])


def test_command_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_words(tmp_path / "train.jsonl", 20, 1)
    assert main(["average", str(tmp_path), str(tmp_path), "-o", str(tmp_path / "out")]) == 1
    assert "holds no preset.toml: expected a folder that 'twmd finetune' wrote." in capsys.readouterr().err
