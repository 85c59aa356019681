"""``bertscore_centered``: greedy matching."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.tensors import MASKED, PaddedTokens


def greedy(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Average each token's best similarity: ``C = mean_i max_j S_ij`` (BERTScore; TWMD paper, Eq. 3).

    For unit vectors C is in [-1, 1]. With weights the mean is weighted: idf-weighted BERTScore, the hard mover distance
    of the MoverScore paper, Prop. 1. A token of any weight may be a partner.
    """
    best = s.masked_fill(~ref.mask[:, None, :], MASKED).amax(2)  # (B, N)
    if ref.padded is not None:
        best = torch.where(ref.padded[:, None], best.clamp(min=0), best)
    return hyp.mean(best)


def greedy_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Move each token's share to its best partner, the first of several; shape (B, N, M)."""
    value, best = s.masked_fill(~ref.mask[:, None, :], MASKED).max(2, keepdim=True)  # (B, N, 1)
    shares = hyp.shares.to(s.dtype)[:, :, None]  # (B, N, 1)
    if ref.padded is not None:
        shares = torch.where(ref.padded[:, None, None] & (value < 0), 0.0, shares)
    return torch.zeros_like(s).scatter(2, best, shares)
