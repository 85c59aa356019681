"""``trwmd``: tempered relaxed transport."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.align.masks import masked_logsumexp, mean_of_present, pair_mask, slabs
from twmd_registry.align.tempering import Tempering
from twmd_registry.registry.names import Objective


def relaxed(s: Tensor, hyp_mask: Tensor, ref_mask: Tensor, tempering: Tempering) -> Tensor:
    """Average each token's softly chosen similarity.

    ``expected``: ``C = mean_i sum_j softmax_j(S_ij / T) S_ij``, the TWMD authors' code.
    ``entropic``: ``C = mean_i T log sum_j exp(S_ij / T)``, the TWMD paper's Eq. 7.

    Args:
        s: Similarities; shape (B, N, M).
        hyp_mask: Shape (B, N).
        ref_mask: Shape (B, M).
        tempering: T and the objective.

    Returns:
        C, shape (B,).
    """
    present = pair_mask(hyp_mask, ref_mask)
    gains = [_gain(s[:, slab], present[:, slab], tempering) for slab in slabs(s, dim=1)]
    return mean_of_present(torch.cat(gains, dim=1), hyp_mask)


def _gain(s: Tensor, present: Tensor, tempering: Tempering) -> Tensor:
    """What every hypothesis token contributes to C; (B, N, M) to (B, N)."""
    logits = s / tempering.temperature
    log_norm = masked_logsumexp(logits, present, dim=2)  # (B, N, 1)
    if tempering.objective is Objective.ENTROPIC:
        return tempering.temperature * log_norm.squeeze(2)
    weights = torch.where(present, logits - log_norm, float("-inf")).exp()  # (B, N, M)
    return (weights * torch.where(present, s, 0.0)).sum(2)
