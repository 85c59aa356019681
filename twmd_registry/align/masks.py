"""Padding is absence, not zero: reductions that see tokens only."""

from __future__ import annotations

import torch
from torch import Tensor

ABSENT = float("-inf")


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
    inside = torch.where(present, x, torch.where(some, ABSENT, 0.0))
    return torch.where(some, torch.logsumexp(inside, dim=dim, keepdim=True), 0.0)


def mean_of_present(x: Tensor, present: Tensor) -> Tensor:
    """Mean over the second axis of the entries that are present; (B, N) to (B,)."""
    return torch.where(present, x, 0.0).sum(1) / present.sum(1)
