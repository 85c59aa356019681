"""Test a network on short texts when it is loaded: whether other texts or padding change its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry.errors import ModelError, is_out_of_memory

TOLERANCE = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest difference of two vectors due to rounding, as a share of the longest vector."""
SHORT, LONG = 2, 7
"""Tokens of the first text and of the two others, without special ones."""

States = Mapping[int, Tensor]
"""Hidden states by number, each of shape (B, N, D)."""
Read = Callable[[Sequence[np.ndarray]], States]
"""Reads texts of token ids."""


class Readings(NamedTuple):
    """Numbers of the hidden states that equal the network's own for a single text."""

    level: frozenset[int]  # If texts of one length are read together
    padded: frozenset[int]  # If texts are padded to a common length too


def short_texts(tokenizer: Any, limit: int | None, around: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    """Return the ids of three texts, the last two of equal length.

    They are tokens spread over the vocabulary, between opening and closing tokens.
    """
    opening, closing = around
    room = LONG if limit is None else max(limit - len(opening) - len(closing), 1)
    ids = np.array(sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids)), dtype=np.int64)
    short, long = (ids[np.linspace(0, len(ids) - 1, min(size, room)).astype(int)] for size in (SHORT, LONG))
    return [np.r_[opening, content, closing] for content in (short, long, long[::-1])]


def inputs_of(texts: Sequence[np.ndarray], padding: int, device: torch.device) -> dict[str, Tensor]:
    """Return a network's arguments for texts, with a mask if there is padding."""
    lengths = np.array([len(ids) for ids in texts])
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, N)
    padded = np.full(mask.shape, padding, dtype=np.int64)
    padded[mask] = np.concatenate(texts)
    inputs = {"input_ids": torch.from_numpy(padded).to(device)}
    return inputs if mask.all() else inputs | {"attention_mask": torch.from_numpy(mask.astype(np.int64)).to(device)}


def equals(found: Tensor, expected: Tensor, dtype: str, scale: float = 0.0) -> bool:
    """Return whether vectors of shape (N, D), or their longest of length `scale`, differ only by rounding.

    Numbers that are not finite are refused later.
    """
    if found.shape != expected.shape:
        return False
    longest = expected.float().norm(dim=-1).max().clamp(min=scale)
    return not bool(((found.float() - expected.float()).norm(dim=-1) > TOLERANCE[dtype] * longest).any())


@torch.no_grad()
def compare(read: Read, single: Read, texts: Sequence[np.ndarray], width: int, dtype: str) -> Readings:
    """Return the hidden states for which `read` agrees with `single`, which reads a single text."""
    expected = [single([text]) for text in texts]

    def read_rows(batch: Sequence[np.ndarray]) -> list[States]:
        states = read(batch)
        return [{k: rows[i : i + 1] for k, rows in states.items()} for i in range(len(batch))]

    def right(found: Sequence[States], k: int) -> bool:
        return all(
            k in states
            and k in reference
            and reference[k].shape == (1, len(text), width)
            and equals(states[k][0, : len(text)], reference[k][0], dtype)
            for states, reference, text in zip(found, expected, texts, strict=True)
        )

    level, padded = [*read_rows(texts[:1]), *read_rows(texts[1:])], read_rows(texts)
    usual = frozenset(k for k in level[0] if right(level, k))
    return Readings(usual, frozenset(k for k in usual if right(padded, k)))


def switching_part(network: Any) -> Any:
    """Return BigBird's part that attends to all tokens of short texts but to blocks of long ones; None without one."""
    if getattr(network.config, "attention_type", "original_full") == "original_full":
        return None
    return next((part for part in network.modules() if hasattr(part, "set_attention_type")), None)


def switch_back(network: Any) -> None:
    """Let BigBird attend to blocks again, because it stays with the full attention of a short text."""
    if (part := switching_part(network)) is not None:
        with torch.random.fork_rng(devices=[]):
            part.set_attention_type(network.config.attention_type)


def run(label: str, work: Callable[[], Any]) -> Any:
    """Return a function's result; turn the errors of a network that cannot be run into a `ModelError`."""
    try:
        return work()
    except ModelError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason = (str(error).strip().splitlines() or [""])[0]
        raise ModelError(f"model {label} cannot read a short text ({type(error).__name__}: {reason:.100}).") from error
