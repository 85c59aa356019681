"""``wordset_cka``: linear kernel alignment."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.tensors import PaddedTokens


def kernel(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Sum all squared similarities: ``C = sum_ij S_ij^2``; with weights, ``sum_ij a_i b_j S_ij^2``.

    After Eq. 1 this is the linear centered kernel alignment of two word sets (Zhelezniak et al. 2019, with
    ``centering=dimension``; TWMD paper, section 3, "Wordset-CKA").
    """
    weights = hyp.weights[:, :, None] * ref.weights[:, None, :]  # (B, N, M)
    return torch.where(weights > 0, weights * s.square(), 0.0).sum((1, 2))


def kernel_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, spec: MetricSpec) -> Tensor:
    """Return each similarity's weight, ``a_i b_j S_ij``. Its sum with S is C; shape (B, N, M)."""
    return hyp.weights[:, :, None] * ref.weights[:, None, :] * s
