"""``trwmd``: tempered relaxed transport."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.tensors import PaddedTokens, masked_log_softmax, masked_logsumexp


def relaxed(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Average each token's softmax-weighted similarity.

    ``expected`` is ``C = mean_i sum_j softmax_j(S_ij / T) S_ij``, as in the TWMD authors' code. ``entropic`` is ``C =
    mean_i T log sum_j exp(S_ij / T)``, the TWMD paper's Eq. 7. With weights the mean is weighted, and partners count in
    proportion to their weight: ``softmax_j(S_ij / T + log b_j)``. ``entropic`` then depends on the scale of b.
    """
    present = (hyp.weights > 0)[:, :, None] & (ref.weights > 0)[:, None, :]  # (B, N, M)
    temperature = cast("float", spec.temperature)
    logits = s / temperature + ref.log_weights[:, None, :]
    if spec.objective == "entropic":
        return hyp.mean(temperature * masked_logsumexp(logits, present, dim=2).squeeze(2))
    return hyp.mean((masked_log_softmax(logits, present).exp() * torch.where(present, s, 0.0)).sum(2))


def relaxed_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Return the plan: each token's mass, distributed over its partners by softmax; shape (B, N, M)."""
    present = (hyp.weights > 0)[:, :, None] & (ref.weights > 0)[:, None, :]
    logits = s / cast("float", spec.temperature) + ref.log_weights[:, None, :]
    return hyp.shares[:, :, None] * masked_log_softmax(logits, present).exp()
