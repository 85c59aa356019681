"""A regression model that encodes the two texts separately: the cosine of their mean vectors on the ratings' scale.

``logit = weight * cos(u, v) + bias``, u and v the means of the last hidden states (Reimers & Gurevych 2019, the
regression objective, with a trained line instead of the bare cosine).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from twmd_registry.errors import ModelError
from twmd_registry.models.adapter import HEAD_FILE
from twmd_registry.registry.paths import write_atomically
from twmd_registry.tensors import TextTokens

BASE = "base"
"""The entry of its metadata that names the content of the base model."""


def fit_pair(first: TextTokens, second: TextTokens, limit: int | None) -> tuple[TextTokens, TextTokens]:
    """Return two texts cut to `limit` tokens in all, of which the token that opens both counts once: the longer text
    loses tokens, and then both, as by transformers' ``longest_first``.
    """
    if limit is None or len(first.ids) + len(second.ids) - 1 <= limit:
        return first, second
    shorter = min(len(first.ids), len(second.ids), (limit + 1) // 2)
    sizes = [shorter, limit + 1 - shorter]
    if len(first.ids) > len(second.ids):
        sizes.reverse()
    first, second = (
        text.cut(size) if len(text.ids) > size else text for text, size in zip((first, second), sizes, strict=True)
    )
    return first, second


def stack_pairs(pairs: Sequence[Sequence[Sequence[int] | np.ndarray]], padding: int) -> dict[str, Tensor]:
    """Return the arguments of `SiameseRegressor.forward` for B pairs of token ids."""
    lengths = np.array([[len(ids) for ids in pair] for pair in pairs])  # (B, 2)
    mask = np.arange(lengths.max()) < lengths[..., None]  # (B, 2, T)
    padded = np.full(mask.shape, padding, dtype=np.int64)
    padded[mask] = np.concatenate([ids for pair in pairs for ids in pair])
    return {"input_ids": torch.from_numpy(padded), "attention_mask": torch.from_numpy(mask)}


class SiameseRegressor(torch.nn.Module):
    """An encoder and a line.

    Attributes:
        encoder: Gives the last hidden states.
        line: From a cosine to a rating.
    """

    def __init__(self, encoder: Any, line: torch.nn.Linear | None = None) -> None:
        """Store both; without a line, make one that maps cosines to ratings up to 5."""
        super().__init__()
        self.encoder = encoder
        self.line = line or torch.nn.Linear(1, 1, dtype=torch.float32)
        if line is None:
            torch.nn.init.constant_(self.line.weight, 5.0)
            torch.nn.init.zeros_(self.line.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return one number per pair, shape (B, 1), as transformers' networks do: after the mean squared error where
        there are labels.

        Args:
            input_ids: Token ids of first and second texts, with their special tokens; shape (B, 2, T).
            attention_mask: Which of them are tokens; shape (B, 2, T), bool.
            labels: Ratings; shape (B,).
        """
        ids, mask = (rows.transpose(0, 1).flatten(0, 1) for rows in (input_ids, attention_mask))  # (2B, T)
        hidden = self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()  # (2B, T, D)
        weight = mask[..., None].float()
        first, second = ((hidden * weight).sum(1) / weight.sum(1)).chunk(2)  # (B, D) each
        logits = self.line(torch.nn.functional.cosine_similarity(first, second)[:, None])  # (B, 1)
        losses = [] if labels is None else [torch.nn.functional.mse_loss(logits[:, 0], labels.float())]
        return *losses, logits


def save_line(line: torch.nn.Linear, folder: Path, base: str) -> None:
    """Write the line beside an adapter, with the content of the base model that both were trained on."""
    numbers = {"weight": line.weight.detach().clone(), "bias": line.bias.detach().clone()}
    write_atomically(folder / HEAD_FILE, save(numbers, metadata={BASE: base}))


def load_line(path: Path, base: str) -> torch.nn.Linear:
    """Read a line that was trained on a base model of this content; raise a `ModelError` if the file is damaged, holds
    something else, or was trained on another base model.
    """
    line = torch.nn.Linear(1, 1, dtype=torch.float32)
    try:
        with safe_open(path, framework="pt") as file:
            line.load_state_dict({name: file.get_tensor(name) for name in sorted(file.keys())})
            trained_on = (file.metadata() or {}).get(BASE)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"{path.name} is not the head of a regression model: {str(error).splitlines()[0]}") from error
    if not all(bool(torch.isfinite(number).all()) for number in line.parameters()):
        raise ModelError(f"{path.name} holds a number that is not finite.")
    if trained_on != base:
        raise ModelError(
            f"this adapter was trained on a model of the content @{trained_on}, not on @{base}: give the model "
            "it belongs to."
        )
    return line
