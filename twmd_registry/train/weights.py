"""The weights that are trained: an adapter's or the network's own; how they are chosen and how they are saved."""

from __future__ import annotations

import importlib.util
import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from twmd_registry.encode.encoder import Encoder
from twmd_registry.errors import MissingExtraError, ModelError, SpecError
from twmd_registry.models.files import ModelFiles
from twmd_registry.registry.fingerprint import tokenizer_files
from twmd_registry.registry.paths import write_atomically

DROPOUT = 0.05
POOLER = "pooler"
"""The part of a network that makes one vector of a text; no metric reads it."""


def require_training() -> None:
    """Check that what training needs is installed.

    Raises:
        MissingExtraError: `peft` or `accelerate` is not.
    """
    if not all(map(importlib.util.find_spec, ("accelerate", "peft"))):
        raise MissingExtraError("training needs more packages: pip install 'twmd-registry[train]'")


def add_lora(network: Any, rank: int, modules: Sequence[str] | str) -> Any:
    """Put a LoRA adapter into a network; its own weights are frozen.

    Args:
        network: The network, which is changed.
        rank: Of the adapter; its scale is 2 (alpha is twice the rank).
        modules: Names of the linear layers that get one, or a name of PEFT's for many.

    Returns:
        The network in PEFT's wrapping, which can save the adapter.
    """
    from peft import LoraConfig, TaskType, get_peft_model

    targets = modules if isinstance(modules, str) else list(modules)
    config = LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=rank, lora_alpha=2 * rank, lora_dropout=DROPOUT, target_modules=targets
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # as when an adapter is loaded (`twmd_registry.models.adapter.merge`)
        return get_peft_model(network, config)


def set_dropout(network: nn.Module, share: float) -> None:
    """Set the share of hidden numbers and attention weights that are left out in training.

    Args:
        network: The network, which is changed; an adapter's own dropout is set where the adapter is made.
        share: From 0, below 1.
    """
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        own = [
            name
            for name, value in vars(module).items()
            if isinstance(value, float) and "dropout" in name and "layer" not in name
        ]
        for name in own:  # attention that is given the number when it is computed
            setattr(module, name, share)


def save_adapter(wrapped: Any, base: str, folder: Path) -> None:
    """Write a PEFT adapter as safetensors; the same weights give the same bytes.

    Args:
        wrapped: The network in PEFT's wrapping.
        base: Public name of the model that it belongs to.
        folder: Where to.
    """
    wrapped.save_pretrained(str(folder), save_embedding_layers=False)
    path = folder / "adapter_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    # A path of this machine says nothing to others; a set has no order that lasts.
    settings["base_model_name_or_path"] = base
    if isinstance(settings["target_modules"], list):
        settings["target_modules"] = sorted(settings["target_modules"])
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _let_all_read(folder / "adapter_model.safetensors")


def save_network(network: Any, files: ModelFiles, folder: Path) -> None:
    """Write a whole network with the tokenizer of the model that it was.

    Args:
        network: The network.
        files: The model that it was trained from.
        folder: Where to.
    """
    network.save_pretrained(str(folder))
    for path in [*tokenizer_files(files.folder), files.folder / "tokenizer_config.json"]:
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    for path in folder.glob("*.safetensors"):
        _let_all_read(path)


def _let_all_read(path: Path) -> None:
    """Give a file the permissions of any other: the libraries write weights for their owner only."""
    content = path.read_bytes()
    path.unlink()
    write_atomically(path, content)


def lora_modules(encoder: Encoder, layer: int) -> list[str]:
    """Return the linear layers that hidden state `layer` depends on.

    Raises:
        SpecError: There is none.
    """
    from transformers.pytorch_utils import Conv1D

    unused = {id(module) for module in _never_run(encoder, layer)}
    named = encoder.network.named_modules()
    found = [name for name, module in named if isinstance(module, (nn.Linear, Conv1D)) and id(module) not in unused]
    if not found:
        raise SpecError(
            f"layer={layer} of {encoder.files.name} stands on no linear layer: there is nothing an adapter "
            "could change."
        )
    return found


def unfreeze(encoder: Encoder, layer: int) -> None:
    """Make all weights trainable that hidden state `layer` depends on, and freeze the others.

    Raises:
        ModelError: The network is half of a model, which cannot be saved as a model of its own.
    """
    if getattr(encoder.network.config, "is_encoder_decoder", False):
        raise ModelError(
            f"{encoder.files.name}: the encoder of a model that also decodes cannot be saved alone; train an "
            "adapter instead."
        )
    encoder.network.requires_grad_(True)  # noqa: FBT003 (torch's own signature)
    for module in _never_run(encoder, layer):
        module.requires_grad_(False)  # noqa: FBT003


def _never_run(encoder: Encoder, layer: int) -> list[nn.Module]:
    """Return the modules that a hidden state does not depend on: blocks above it, and a pooler."""
    above = [] if encoder.blocks is None else list(encoder.blocks[layer:])
    poolers = [module for name, module in encoder.network.named_modules() if name.rpartition(".")[2] == POOLER]
    return [inner for module in [*above, *poolers] for inner in module.modules()]
