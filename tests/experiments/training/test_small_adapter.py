"""8-bit adapters are PEFT adapters with nearly the same weights, like most of the packaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModel

from experiments.training.recipes import read_recipes
from experiments.training.small_adapter import CONFIG, WEIGHTS, shrink
from twmd_registry.errors import FileError
from twmd_registry.models.files import find_adapter, find_model, merge, packaged_adapters
from twmd_registry.models.load import load_encoder


@pytest.fixture
def folder(tiny_encoder: Any, tmp_path: Path) -> Path:
    """Write an adapter of a small encoder whose columns differ by a factor of 1000, and one matrix of zeros."""
    torch.manual_seed(1)
    settings = LoraConfig(r=4, lora_alpha=6, target_modules=["query", "output.dense"])
    wrapped = get_peft_model(AutoModel.from_pretrained(tiny_encoder("bert")), settings)
    for name, weight in wrapped.named_parameters():
        if "lora_B" in name and "layer.0" not in name:
            weight.data = torch.randn(weight.shape) * torch.logspace(-3, 0, 4)
    wrapped.save_pretrained(str(tmp_path / "adapter"), save_embedding_layers=False)
    for name in ("training_data.safetensors", "preset.toml"):
        (tmp_path / "adapter" / name).touch()
    return tmp_path / "adapter"


def test_peft_reads_8_bits_with_nearly_equal_weights(folder: Path, tiny_encoder: Any, tmp_path: Path) -> None:
    small, files = tmp_path / "small", find_model(tiny_encoder("bert"))
    shrink(folder, small)
    plain = dict(load_encoder(files, "float32").state_dict())
    merged = (merge(load_encoder(files, "float32"), find_adapter(str(adapter)), files) for adapter in (folder, small))
    before, after = (dict(network.state_dict()) for network in merged)
    changed = [name for name, weight in plain.items() if not torch.equal(weight, before[name])]
    assert len(changed) == 6
    assert all(torch.equal(after[name], weight) for name, weight in plain.items() if name not in changed)
    for name in changed:
        error = (after[name] - before[name]).norm() / (before[name] - plain[name]).norm()
        assert 1e-4 < error < 0.02
    assert {path.name for path in small.iterdir()} == {"README.md", CONFIG, WEIGHTS, "training_data.safetensors"}
    with pytest.raises(FileError, match="small is not an adapter trained by 'twmd': expected only pairs"):
        shrink(small, tmp_path / "smaller")
    assert not (tmp_path / "smaller").exists()


@pytest.mark.parametrize("path", sorted(packaged_adapters().iterdir()), ids=lambda path: path.name)
def test_shrunk_packaged_adapter_has_8_bits(path: Path) -> None:
    kinds = {tensor.dtype for tensor in load_file(path / WEIGHTS).values()}
    scales = json.loads((path / CONFIG).read_text(encoding="utf-8"))["alpha_pattern"]
    small = any(step.endswith(f"packaged/{path.name}") for step in read_recipes()["packaged"].steps)
    assert (kinds, bool(scales)) == (({torch.int8}, True) if small else ({torch.float32}, False))
