"""Aligners: C(X, Y) of two sets of token vectors, from their similarities S.

The alphabet of every file here: B pairs, N hypothesis tokens, M reference tokens.

An aligner is written once, for the hypothesis side, as a function of ``S`` (B, N, M), a `Marginal` of each side and
`AlignmentSettings`; it returns C of shape (B,). The reference side is the same function of the transposed problem, so
that
swapping two texts exchanges precision and recall by construction. Every pair has at least one token on each side.
Aligners are pure and differentiable. Beside each is a function of the same arguments that returns its plan (B, N, M).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from twmd_registry.align.marginal import Marginal
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import Distance, MetricName
from twmd_registry.tensors import PaddedTokens, Sides

Aligner = Callable[[Tensor, Marginal, Marginal, AlignmentSettings], Tensor]

ALIGNERS: dict[MetricName, Aligner] = {}
"""From a metric's name to its aligner, hypothesis side; made from the metrics' declarations."""
PLANS: dict[MetricName, Aligner] = {}
"""From a metric's name to its plan, hypothesis side: how much of which token goes where."""
for _name, _metric in CATALOGUE.items():
    if _metric.aligner is not None:
        _module = importlib.import_module(f"{__name__}.{_metric.aligner}")
        ALIGNERS[_name], PLANS[_name] = getattr(_module, _metric.aligner), getattr(_module, f"{_metric.aligner}_plan")
SYMMETRIC = frozenset(metric for metric in ALIGNERS if not CATALOGUE[metric].two_sided)
"""Metrics whose C has one side only."""


def similarities(hypotheses: PaddedTokens, references: PaddedTokens) -> Tensor:
    """Inner products of all hypothesis tokens with all reference tokens of each pair: S, shape (B, N, M)."""
    return torch.einsum("bnd,bmd->bnm", hypotheses.vectors, references.vectors)


def similarities_for(distance: Distance, s: Tensor, hypotheses: PaddedTokens, references: PaddedTokens) -> Tensor:
    """S as precise as a distance needs it: in float32, 1 - S of a vector with itself is off by 1e-7, and its square
    root by 3e-4.
    """
    if distance is not Distance.EUCLIDEAN:
        return s
    return similarities(
        *(side._replace(vectors=normalize(side.vectors.to(torch.float64), dim=2)) for side in (hypotheses, references))
    )


def marginal(side: PaddedTokens) -> Marginal:
    """The tokens of one side."""
    return Marginal(side.mask, side.weights)


def align(
    metric: MetricName, s: Tensor, hypotheses: PaddedTokens, references: PaddedTokens, how: AlignmentSettings
) -> Sides:
    """C(X, Y) from both sides.

    Each side averages over its own tokens that carry weight and may choose any token of the other.

    Args:
        metric: Whose aligner.
        s: Similarities; shape (B, N, M).
        hypotheses: X.
        references: Y.
        how: What the aligner needs to know.

    Returns:
        Both sides, each of shape (B,); for a symmetric metric they are the same tensor.
    """
    x, y = marginal(hypotheses), marginal(references)
    hypothesis = ALIGNERS[metric](s, x, y, how)
    if metric in SYMMETRIC:
        return Sides(hypothesis, hypothesis)
    return Sides(hypothesis, ALIGNERS[metric](s.mT, y, x, how))


def align_self(metric: MetricName, s: Tensor, texts: PaddedTokens, how: AlignmentSettings) -> Tensor:
    """C(X, X); shape (B,). S is symmetric there, so one side says everything."""
    return ALIGNERS[metric](s, marginal(texts), marginal(texts), how)


def plans(
    metric: MetricName, s: Tensor, hypotheses: PaddedTokens, references: PaddedTokens, how: AlignmentSettings
) -> Sides:
    """The plans of both sides, each of shape (B, N, M): with S it gives C (for exact transport, with the cost)."""
    x, y = marginal(hypotheses), marginal(references)
    hypothesis = PLANS[metric](s, x, y, how)
    return Sides(hypothesis, hypothesis if metric in SYMMETRIC else PLANS[metric](s.mT, y, x, how).mT)
