"""``sbert``: mean pooling."""

from __future__ import annotations

from torch import Tensor

from twmd_registry.align.masks import mean_of_present
from twmd_registry.align.tempering import Tempering


def pooled(s: Tensor, hyp_mask: Tensor, ref_mask: Tensor, tempering: Tempering) -> Tensor:
    """Average all similarities: ``C = mean_ij S_ij``, the inner product of the two mean vectors.

    After Eq. 1 this is the cosine of the mean vectors (TWMD paper, section 3, "Sentence-BERT").

    Args:
        s: Similarities; shape (B, N, M).
        hyp_mask: Shape (B, N).
        ref_mask: Shape (B, M).
        tempering: Not used.

    Returns:
        C, shape (B,).
    """
    rows = (s * ref_mask[:, None, :]).sum(2) / ref_mask.sum(1)[:, None]  # (B, N)
    return mean_of_present(rows, hyp_mask)
