"""Write an adapter in 8 bits, like most packaged ones; PEFT reads it like any other.

The change ``alpha / r B A`` of a weight is the same for factors ``B T`` and ``inv(T) A``. T is chosen so that all
columns of B, and all rows of A, are about equally large. Both matrices are rounded to integers from -127 to 127. The
product of their two steps is put into ``alpha``, which PEFT stores per changed weight (``alpha_pattern``).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from scipy.linalg import hadamard
from torch import Tensor

from twmd_registry.errors import FileError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LARGEST = 127


def shrink(folder: Path, output: Path) -> None:
    """Copy an adapter's published files, with its matrices in 8 bits."""
    settings = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    tensors = load_file(folder / WEIGHTS)
    scales, small = {}, {}
    for name in sorted(name for name in tensors if ".lora_A." in name):
        other = name.replace(".lora_A.", ".lora_B.")
        up, down = equalise(tensors[other].double(), tensors[name].double())
        (small[other], first), (small[name], second) = round_to_steps(up), round_to_steps(down)
        module = name.removeprefix("base_model.model.").partition(".lora_A.")[0]
        scales[module] = settings["lora_alpha"] * first * second
    if small.keys() != tensors.keys() or settings["alpha_pattern"]:
        raise FileError(f"{folder} is not an adapter trained by 'twmd': expected only pairs of matrices of one scale.")
    shutil.copytree(folder, output, ignore=shutil.ignore_patterns("checkpoints", "preset.toml"))
    (output / WEIGHTS).write_bytes(save(small, metadata={"format": "pt"}))
    content = json.dumps(settings | {"alpha_pattern": scales}, indent=2, sort_keys=True)
    (output / CONFIG).write_text(content + "\n", encoding="utf-8")


def equalise(up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    """Return factors of ``up @ down`` of the same shapes, (Out, R) and (R, In), with columns and rows of equal norm:
    the factors of the singular value decomposition, mixed by a Hadamard matrix; R is a power of two.
    """
    (left, upper), (right, lower) = torch.linalg.qr(up), torch.linalg.qr(down.T)
    first, values, second = torch.linalg.svd(upper @ lower.T)
    mixing = torch.from_numpy(hadamard(len(values))) * (values / len(values)).sqrt()[:, None]
    return left @ first @ mixing, mixing.T @ second @ right.T


def round_to_steps(matrix: Tensor) -> tuple[Tensor, float]:
    """Return the integers of a matrix, and the step between two of them."""
    step = float(matrix.abs().max()) / LARGEST or 1.0
    return (matrix / step).round().to(torch.int8).contiguous(), step
