"""Aligners: C(X, Y) of two sets of token vectors, from their similarities S.

The alphabet of every file here: B pairs, N hypothesis tokens, M reference tokens.

An aligner is written once, for the hypothesis side, as a function of ``S`` (B, N, M), the hypothesis mask
(B, N), the reference mask (B, M) and a `Tempering`; it returns C of shape (B,). The reference side is the same
function of the transposed problem, so that swapping two texts exchanges precision and recall by construction.
Every pair has at least one token on each side. Aligners are pure and differentiable.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from twmd_registry.align.exact import exact
from twmd_registry.align.greedy import greedy
from twmd_registry.align.kernel import kernel
from twmd_registry.align.pooled import pooled
from twmd_registry.align.relaxed import relaxed
from twmd_registry.align.sinkhorn import sinkhorn
from twmd_registry.align.tempering import Tempering
from twmd_registry.carriers import Padded, Sides
from twmd_registry.registry.names import MetricName

Aligner = Callable[[Tensor, Tensor, Tensor, Tempering], Tensor]

ALIGNERS: dict[MetricName, Aligner] = {
    MetricName.SBERT: pooled,
    MetricName.WORDSET_CKA: kernel,
    MetricName.BERTSCORE_CENTERED: greedy,
    MetricName.TRWMD: relaxed,
    MetricName.TWMD: sinkhorn,
    MetricName.MOVERSCORE: exact,
}
"""From a metric's name to its aligner, hypothesis side."""

SYMMETRIC = frozenset({MetricName.SBERT, MetricName.WORDSET_CKA, MetricName.MOVERSCORE})
"""Metrics whose C has one side only."""


def similarities(hypotheses: Padded, references: Padded) -> Tensor:
    """Inner products of all hypothesis tokens with all reference tokens of each pair: S, shape (B, N, M)."""
    return torch.einsum("bnd,bmd->bnm", hypotheses.vectors, references.vectors)


def align(metric: MetricName, s: Tensor, hypotheses: Padded, references: Padded, tempering: Tempering) -> Sides:
    """C(X, Y) from both sides.

    Each side averages over its own tokens that count and may choose any token of the other.

    Args:
        metric: Whose aligner.
        s: Similarities; shape (B, N, M).
        hypotheses: X.
        references: Y.
        tempering: Temperature, sweeps and objective of the tempered aligners.

    Returns:
        Both sides, each of shape (B,); for a symmetric metric they are the same tensor.
    """
    aligner = ALIGNERS[metric]
    hypothesis = aligner(s, hypotheses.counted, references.mask, tempering)
    if metric in SYMMETRIC:
        return Sides(hypothesis, hypothesis)
    return Sides(hypothesis, aligner(s.mT, references.counted, hypotheses.mask, tempering))


def align_self(metric: MetricName, s: Tensor, texts: Padded, tempering: Tempering) -> Tensor:
    """C(X, X); shape (B,). S is symmetric there, so one side says everything."""
    return ALIGNERS[metric](s, texts.counted, texts.mask, tempering)
