"""``bertscore_centered``: greedy matching."""

from __future__ import annotations

from torch import Tensor

from twmd_registry.align.masks import ABSENT, mean_of_present
from twmd_registry.align.tempering import Tempering


def greedy(s: Tensor, hyp_mask: Tensor, ref_mask: Tensor, tempering: Tempering) -> Tensor:
    """Average each token's best similarity: ``C = mean_i max_j S_ij`` (BERTScore; TWMD paper, Eq. 3).

    Args:
        s: Similarities; shape (B, N, M).
        hyp_mask: Shape (B, N).
        ref_mask: Shape (B, M).
        tempering: Not used.

    Returns:
        C in [-1, 1] for unit vectors, shape (B,).
    """
    best = s.masked_fill(~ref_mask[:, None, :], ABSENT).amax(2)  # (B, N)
    return mean_of_present(best, hyp_mask)
