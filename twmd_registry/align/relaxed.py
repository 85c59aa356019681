"""``trwmd``: tempered relaxed transport."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.align.marginal import Marginal
from twmd_registry.align.masks import masked_log_softmax, masked_logsumexp, pair_mask, slabs
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.registry.names import Objective


def relaxed(s: Tensor, hyp: Marginal, ref: Marginal, how: AlignmentSettings) -> Tensor:
    """Average each token's softly chosen similarity.

    ``expected``: ``C = mean_i sum_j softmax_j(S_ij / T) S_ij``, the TWMD authors' code.
    ``entropic``: ``C = mean_i T log sum_j exp(S_ij / T)``, the TWMD paper's Eq. 7.
    With weights the mean is weighted and a partner counts as often as it weighs: ``softmax_j(S_ij / T + log b_j)``
    (``entropic`` then depends on the scale of b).

    Args:
        s: Similarities; shape (B, N, M).
        hyp: Hypothesis tokens.
        ref: Reference tokens.
        how: T and the objective.

    Returns:
        C, shape (B,).
    """
    present = pair_mask(hyp.carrying, ref.carrying)
    gains = [_gain(s[:, slab], present[:, slab], ref.log_weights, how) for slab in slabs(s, dim=1)]
    return hyp.mean(torch.cat(gains, dim=1))


def relaxed_plan(s: Tensor, hyp: Marginal, ref: Marginal, how: AlignmentSettings) -> Tensor:
    """Every token's share, spread by softmax over its partners; shape (B, N, M)."""
    present = pair_mask(hyp.carrying, ref.carrying)
    return hyp.shares[:, :, None] * masked_log_softmax(_logits(s, ref.log_weights, how), present).exp()


def _logits(s: Tensor, log_weights: Tensor | None, how: AlignmentSettings) -> Tensor:
    return s / how.temperature if log_weights is None else s / how.temperature + log_weights[:, None, :]


def _gain(s: Tensor, present: Tensor, log_weights: Tensor | None, how: AlignmentSettings) -> Tensor:
    """What every hypothesis token contributes to C; (B, N, M) to (B, N)."""
    logits = _logits(s, log_weights, how)
    if how.objective is Objective.ENTROPIC:
        return how.temperature * masked_logsumexp(logits, present, dim=2).squeeze(2)
    return (masked_log_softmax(logits, present).exp() * torch.where(present, s, 0.0)).sum(2)
