"""``wordset_cka``: linear kernel alignment."""

from __future__ import annotations

import torch
from torch import Tensor

from twmd_registry.align.masks import pair_mask
from twmd_registry.align.tempering import Tempering


def kernel(s: Tensor, hyp_mask: Tensor, ref_mask: Tensor, tempering: Tempering) -> Tensor:
    """Sum all squared similarities: ``C = sum_ij S_ij^2``.

    After Eq. 1 this is the linear centered kernel alignment of the two word sets (Zhelezniak et al. 2019, with
    ``centering=dimension``; TWMD paper, section 3, "Wordset-CKA").

    Args:
        s: Similarities; shape (B, N, M).
        hyp_mask: Shape (B, N).
        ref_mask: Shape (B, M).
        tempering: Not used.

    Returns:
        C >= 0, shape (B,).
    """
    return torch.where(pair_mask(hyp_mask, ref_mask), s.square(), 0.0).sum((1, 2))
