"""Running a network over many texts: sorted by length, in batches of bounded size, smaller when memory runs out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import numpy as np
import torch

from twmd_registry.errors import ModelError, NotFiniteError, is_out_of_memory
from twmd_registry.models.arithmetic import keep_exact

CPU_TOKENS = 1024
ACCELERATOR_TOKENS = 16384


def default_batch_tokens(device: torch.device) -> int:
    """Padded tokens per batch that keep a device busy without filling its memory."""
    return CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS


def plan_batches(lengths: Sequence[int] | np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Group texts of like length.

    Args:
        lengths: Tokens of every text.
        batch_tokens: Most padded tokens in a batch; a single text may be longer.

    Returns:
        Index arrays, longest texts first (so that memory that will not do fails at once, not at the end).

    >>> [batch.tolist() for batch in plan_batches([2, 9, 3, 8], 18)]
    [[1, 3], [2, 0]]
    """
    sizes = np.asarray(lengths)
    order = np.argsort(-sizes, kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(int(sizes[order[start]]), 1)
        stop = start + max(batch_tokens // longest, 1)
        batches.append(order[start:stop])
        start = stop
    return batches


def run_batches(lengths: Sequence[int] | np.ndarray, batch_tokens: int, forward: Callable[[np.ndarray], None]) -> None:
    """Call `forward` on every batch, halving batches for which memory does not suffice.

    Raises:
        ModelError: Not even one text fits.
    """
    waiting = plan_batches(lengths, batch_tokens)[::-1]
    while waiting:
        batch = waiting.pop()
        keep_exact()
        try:
            forward(batch)
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise ModelError(
                    f"out of memory with a single text of {lengths[batch[0]]} tokens: set truncation=cut:N."
                ) from error
        _free_memory()
        largest = (len(batch) + 1) // 2
        waiting.append(batch)
        waiting = [piece for group in waiting for piece in _split(group, largest)]


def check_finite(numbers: torch.Tensor, model: str, dtype: str) -> None:
    """Refuse what a broken model, or a number format that is too small for it, makes of text.

    Raises:
        NotFiniteError: Some of the numbers are not finite.
    """
    if not bool(torch.isfinite(numbers).all()):
        way_out = (
            "its weights are damaged" if dtype == "float32" else f"it may not be made for dtype={dtype}: try float32"
        )
        raise NotFiniteError(f"model {model} gives numbers that are not finite; {way_out}.")


def _split(batch: np.ndarray, largest: int) -> list[np.ndarray]:
    """Cut a batch into pieces of at most `largest` texts, last piece first (the list is a stack)."""
    return [batch[start : start + largest] for start in range(0, len(batch), largest)][::-1]


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
