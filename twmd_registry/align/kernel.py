"""``wordset_cka``: linear kernel alignment."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.tensors import PaddedTokens


def kernel(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, settings: AlignmentSettings) -> Tensor:
    """Sum all squared similarities: ``C = sum_ij S_ij^2``; with weights, ``sum_ij a_i b_j S_ij^2``.

    After Eq. 1 this is the linear centered kernel alignment of the two word sets (Zhelezniak et al. 2019, with
    ``centering=dimension``; TWMD paper, section 3, "Wordset-CKA").

    Args:
        s: Similarities; shape (B, N, M).
        hyp: Hypothesis tokens.
        ref: Reference tokens.
        settings: Not used.

    Returns:
        C >= 0, shape (B,).
    """
    squares = torch.where(hyp.mask[:, :, None] & ref.mask[:, None, :], s.square(), 0.0)
    for weights in (
        None if hyp.weights is None else hyp.weights[:, :, None],
        None if ref.weights is None else ref.weights[:, None, :],
    ):
        squares = squares if weights is None else squares * weights
    return squares.sum((1, 2))


def kernel_plan(s: Tensor, hyp: PaddedTokens, ref: PaddedTokens, settings: AlignmentSettings) -> Tensor:
    """Return ``a_i b_j S_ij``, the weight of each similarity, which gives C when summed with S; shape (B, N, M)."""
    weights = [
        side.mask.to(s.dtype) if side.weights is None else torch.where(side.mask, side.weights, 0.0)
        for side in (hyp, ref)
    ]
    return weights[0][:, :, None] * weights[1][:, None, :] * s
