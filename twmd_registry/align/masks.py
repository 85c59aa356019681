"""Padding is absence, not zero: reductions that see tokens only."""

from __future__ import annotations

import torch
from torch import Tensor

ABSENT = float("-inf")
SLAB_CELLS = 2_000_000
"""Cells of S that are tempered at once (8 MB); blocks of ordinary pairs are smaller, so that it concerns long texts
only.
"""


def pair_mask(hyp_mask: Tensor, ref_mask: Tensor) -> Tensor:
    """Cells of S in which two tokens meet; shape (B, N, M)."""
    return hyp_mask[:, :, None] & ref_mask[:, None, :]


def masked_logsumexp(x: Tensor, present: Tensor, dim: int) -> Tensor:
    """``log sum exp`` along one axis over the cells that are present.

    A row that is all padding gives 0, with gradient 0: it takes part in nothing that follows.

    Args:
        x: Shape (B, N, M).
        present: Cells that count; same shape.
        dim: The axis that is summed; it is kept with length 1.
    """
    some = present.any(dim=dim, keepdim=True)
    inside = torch.where(present, x, torch.where(some, x.new_tensor(ABSENT), 0.0))
    return torch.where(some, torch.logsumexp(inside, dim=dim, keepdim=True), 0.0)


def masked_log_softmax(x: Tensor, present: Tensor) -> Tensor:
    """``x - log sum exp x`` along the last axis over the cells that are present, and -inf in the others.

    Its exponentials sum to one however large x is: ``x - masked_logsumexp(x)`` is off by the rounding of x, and x holds
    S/T.

    Args:
        x: Shape (B, N, M).
        present: Cells that count; same shape.
    """
    some = present.any(dim=2, keepdim=True)
    inside = torch.where(some, torch.where(present, x, ABSENT), 0.0)
    return torch.where(present, torch.log_softmax(inside, dim=2), ABSENT)


def slabs(s: Tensor, dim: int) -> list[slice]:
    """Cut one axis of S so that a slab holds about `SLAB_CELLS` cells: what long texts need beside S stays small.

    >>> slabs(torch.zeros(1, 3, 2), dim=1)
    [slice(0, 3, None)]
    """
    step = max(1, SLAB_CELLS * s.shape[dim] // max(s.numel(), 1))
    return [slice(start, min(start + step, s.shape[dim])) for start in range(0, s.shape[dim], step)]


def mean_of_present(x: Tensor, present: Tensor) -> Tensor:
    """Mean over the second axis of the entries that are present; (B, N) to (B,)."""
    return torch.where(present, x, 0.0).sum(1) / present.sum(1)
