"""Averaging adapters: the mean of the weights, and errors."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import twmd_registry
from tests import tiny
from tests.conftest import Run
from tests.processes import limit_files
from tests.train.rated_words import named_words
from twmd_registry.errors import FileError, ModelError, SpecError
from twmd_registry.models.files import find_adapter, find_model, merge, read_adapter_config
from twmd_registry.models.load import load_encoder
from twmd_registry.registry.names import Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.train.average import _merge, average
from twmd_registry.train.finetune import FinetunePlan, finetune
from twmd_registry.train.recipe import Recipe

CPU = RunOptions(device="cpu")


@pytest.fixture(scope="module")
def members(bert: str, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two runs of the same plan with different seeds and ranks."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        train(bert, folder / f"seed{seed}", Recipe(rank=seed + 1, epochs=1, seed=seed, learning_rate=1e-2))
        for seed in (1, 2)
    ]


def train(bert: str, output: Path, recipe: Recipe, metric: str = "twmd", **keys: Any) -> Path:
    spec = make_spec(metric, model=bert, **{"layer": 2, "centering": "none", **keys})
    finetune(FinetunePlan(spec, (named_words(32, 1),), recipe=recipe), output, options=CPU)
    return output


def weights(bert: str, adapter: Path) -> dict[str, np.ndarray]:
    """Return the network with the adapter merged into it."""
    files = find_model(bert)
    network = merge(load_encoder(files, "float32"), find_adapter(str(adapter)), files)
    return {name: weight.detach().numpy() for name, weight in network.named_parameters()}


@pytest.mark.parametrize("dtype", get_args(Dtype)[1:])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_mean_adapter_averages_weights_and_keeps_their_number_format(
    given: torch.dtype, dtype: Dtype, bert: str, members: list[Path], tmp_path: Path
) -> None:
    file, first = "adapter_model.safetensors", tmp_path / "first"
    shutil.copytree(members[0], first)
    save_file({name: weight.to(given) for name, weight in load_file(first / file).items()}, first / file)
    _, rank = average([first, members[1]], tmp_path / "mean", dtype="float32", options=CPU)
    assert rank == 5
    parts, mean = [weights(bert, member) for member in (first, members[1])], weights(bert, tmp_path / "mean")
    for name, weight in mean.items():
        np.testing.assert_allclose(weight, (parts[0][name] + parts[1][name]) / 2, atol=1e-7)
    assert max(float(np.abs(parts[0][name] - weight).max()) for name, weight in mean.items()) > 1e-3
    average([first, members[1]], tmp_path / "half", dtype=dtype, options=CPU)
    whole, half = (load_file(tmp_path / name / file) for name in ("mean", "half"))
    assert whole.keys() == half.keys()
    assert all(torch.equal(half[name], factor.to(getattr(torch, dtype))) for name, factor in whole.items())
    assert any(not torch.equal(half[name].float(), factor) for name, factor in whole.items())


@pytest.mark.parametrize("number", [1, 2])
def test_lower_rank_mean_or_copy_is_the_best_approximation(
    number: int, bert: str, members: list[Path], tmp_path: Path, run: Run
) -> None:
    chosen, file = members[-number:], "adapter_model.safetensors"
    mean_folder, whole = chosen[0], 3
    if number > 1:
        mean_folder, whole = tmp_path / "mean", 5
        average(chosen, mean_folder, options=CPU)
    _, rank = average(chosen, tmp_path / "low", rank=2, options=CPU)
    assert rank == read_adapter_config(find_adapter(str(tmp_path / "low")), "r") == 2
    assert {factor.shape["lora_B" in name] for name, factor in load_file(tmp_path / "low" / file).items()} == {2}
    assert (tmp_path / "low" / file).stat().st_size < (mean_folder / file).stat().st_size
    base = load_encoder(find_model(bert), "float32")
    mean, low = weights(bert, mean_folder), weights(bert, tmp_path / "low")
    changed = 0
    for name, weight in base.named_parameters():
        change = mean[name] - (before := weight.detach().numpy())
        if np.abs(change).max() > 0:
            left, values, right = np.linalg.svd(change)
            np.testing.assert_allclose(low[name] - before, (left[:, :2] * values[:2]) @ right[:2], atol=1e-6)
            changed += 1
    assert changed > 0
    folders = " ".join(map(str, chosen))
    status, _, err = run(f"train average {folders} -o {tmp_path}/high --rank {whole} --device cpu")
    assert (status, f"rank {whole} is not below {whole}" in err) == (2, True)


def test_command_writes_preset_card_and_signature(bert: str, members: list[Path], tmp_path: Path, run: Run) -> None:
    output = tmp_path / "mean"
    printed = run(f"train average {members[0]} {members[1]} -o {output} --name words-mean --device cpu")[1]
    assert printed.startswith("averaged 2 adapters into one of rank 5\nuse -m twmd --set ")
    signature = printed.partition("signature ")[2].strip()
    files = "README.md adapter_config.json adapter_model.safetensors preset.toml signature.txt"
    assert sorted(path.name for path in output.iterdir()) == [*files.split(), "training_data.safetensors"]
    assert (output / "signature.txt").read_text(encoding="utf-8") == f"{signature}\n"
    card = (output / "README.md").read_text(encoding="utf-8")
    for member in members:
        assert find_adapter(str(member)).name in card
        assert str(member) not in card
    assert bert not in card + (output / "adapter_config.json").read_text(encoding="utf-8")
    assert '["words-mean"]' in (output / "preset.toml").read_text(encoding="utf-8")
    with limit_files(4096):  # the adapter is larger
        status, _, err = run(f"train average {members[0]} {members[1]} -o {output}2 -q --device cpu")
    assert (status, bool(re.fullmatch(rf"twmd: cannot write {output}2: .+\.\n", err))) == (1, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"megatron_config": {"a": 1}, "megatron_core": "this"}, "names a module of code (megatron_config)"),
        ({"base_model_name_or_path": "other/model"}, "was made for other/model, not for own/base"),
    ],
)
def test_adapter_invalid_for_scoring_is_not_averaged(
    settings: dict[str, Any], message: str, bert: str, members: list[Path], tmp_path: Path
) -> None:
    refused = tmp_path / "refused"
    shutil.copytree(members[0], refused)
    tiny.change_json(refused / "adapter_config.json", **settings)
    adapters = [find_adapter(str(folder)) for folder in (refused, members[1])]
    for paths in (adapters, adapters[::-1]):
        with pytest.raises(ModelError, match=re.escape(f"{adapters[0].name} {message}")):
            _merge(paths, find_model(bert)._replace(name="own/base"), None)
    assert "this" not in sys.modules


def test_mean_vectors_are_kept_and_must_be_identical(bert: str, tmp_path: Path, run: Run) -> None:
    means = []
    for seed in (1, 9):
        corpus = tmp_path / f"{seed}.txt"
        corpus.write_text("\n".join(named_words(20, seed).rated.references), encoding="utf-8")
        printed = run(f"fit mean {corpus} --set model={bert} -o {tmp_path}")[1]
        means.append(printed.partition("background:")[2].split()[0])

    def fit(seed: int, mean: str) -> Path:
        recipe = Recipe(rank=2, epochs=1, seed=seed)
        keys = {"centering": f"background:{mean}"}
        return train(bert, tmp_path / f"run{seed}", recipe, "bertscore_centered", **keys)

    first, second, odd = fit(1, means[0]), fit(2, means[0]), fit(3, means[1])
    made, _ = average([first, second], tmp_path / "mean", options=CPU)
    assert (tmp_path / "mean" / "signature.txt").read_text(encoding="utf-8").strip() == made.signature
    keys: dict[str, Any] = dict(made.requested.values())
    assert twmd_registry.load("bertscore_centered", **keys).signature == made.signature
    message = (
        "run3 was trained with different settings from .*run1: centering is background:[0-9a-f]{12}, not background:"
    )
    with pytest.raises(SpecError, match=message):
        average([first, odd], tmp_path / "none", options=CPU)


def test_adapters_without_a_mean_are_refused(bert: str, members: list[Path], tmp_path: Path) -> None:
    other = train(bert, tmp_path / "other", Recipe(rank=2, epochs=1), temperature=0.5)
    whole = train(bert, tmp_path / "whole", Recipe(full=True, epochs=1))
    for folder, message in (
        (other, "other was trained with different settings from .*seed1: temperature is 0.5, not"),
        (whole, "whole contains a whole model: only adapters"),
        (tmp_path, "contains no preset.toml"),
    ):
        with pytest.raises((SpecError, FileError), match=message):
            average([members[0], folder], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
    with pytest.raises(FileError, match="seed2 is not empty"):
        average(members, members[1])
