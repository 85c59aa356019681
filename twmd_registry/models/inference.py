"""Running a network on many texts: oneDNN products, batches of like length, smaller batches when memory runs out."""

from __future__ import annotations

import contextlib
import gc
import platform
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from twmd_registry.errors import ModelError, NotFiniteError, is_out_of_memory
from twmd_registry.models.arithmetic import keep_exact

CPU_TOKENS = 1024
ACCELERATOR_TOKENS = 16384
X86 = ("x86_64", "amd64")
OPERATORS = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")


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
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        largest = (len(batch) + 1) // 2
        waiting.append(batch)
        # A stack: the first part of the first batch is last.
        waiting = [
            group[start : start + largest] for group in waiting for start in reversed(range(0, len(group), largest))
        ]


def check_finite(numbers: torch.Tensor, model: str, dtype: str) -> None:
    """Refuse numbers that are not finite: of a broken model, or of a dtype with too small a range.

    Raises:
        NotFiniteError: Some of the numbers are not finite.
    """
    if not bool(torch.isfinite(numbers).all()):
        way_out = (
            "its weights are damaged" if dtype == "float32" else f"dtype={dtype} may be too small for it: try float32"
        )
        raise NotFiniteError(f"model {model} gives numbers that are not finite; {way_out}.")


class OneDnnLinear(nn.Linear):
    """``nn.Linear`` that multiplies by oneDNN outside of training.

    torch multiplies float32 by MKL, which on two cores of an AMD EPYC reaches 180 billion operations a second where
    oneDNN reaches 400. oneDNN wants weights in an order of its own, which torch computes in every product, bfloat16's
    too; within `onednn_layout` it is computed once. Parameters and results are those of ``nn.Linear``, but for the
    order of sums.
    """

    keeps = False
    kept: Tensor | None = None

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's own signature)
        """Products of vectors and weights; shape (..., D) to (..., E)."""
        if (
            torch.is_grad_enabled()
            or not torch.backends.mkldnn.enabled
            or input.device.type != "cpu"
            or input.dtype != self.weight.dtype
            or not multiplies(input.dtype)
        ):
            return super().forward(input)
        keep_exact()
        weights = self._weights(input)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(input, weights, self.bias, "none", [], "")  # noqa: SLF001
        return product

    def _weights(self, input: Tensor) -> Tensor:  # noqa: A002 (as above)
        """Return the weights, in oneDNN's order where it is kept."""
        if self.keeps and self.kept is None:
            self.kept = torch.ops.mkldnn._reorder_linear_weight(self.weight, input.shape[:-1].numel())  # noqa: SLF001
        return self.weight if self.kept is None else self.kept


@contextlib.contextmanager
def onednn_layout(network: nn.Module) -> Iterator[None]:
    """Keep the weights of a network's linear layers in oneDNN's order, from a layer's first product on until the end.

    For many batches in a row, while the weights do not change: the copy takes as much memory as they do.
    """
    layers = [module for module in network.modules() if isinstance(module, OneDnnLinear)]
    for layer in layers:
        layer.keeps = True
    try:
        yield
    finally:
        for layer in layers:
            layer.keeps, layer.kept = False, None


def multiplies(dtype: torch.dtype) -> bool:
    """Return whether oneDNN multiplies a number format well on this CPU."""
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001
    return dtype == torch.float32


def has_onednn() -> bool:
    """Return whether this torch has oneDNN for this CPU."""
    built = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return built and platform.machine().lower() in X86 and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)


def quicken(network: nn.Module) -> None:
    """Make a network's linear layers multiply by oneDNN, if this torch has it."""
    if not has_onednn():
        return
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear
