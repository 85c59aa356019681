"""Aligners: C(X, Y) of two sets of token vectors, from their similarities S.

The alphabet of every file here: B pairs, N hypothesis tokens, M reference tokens.

An aligner is written once, for the hypothesis side, as a function of ``S`` (B, N, M), the `PaddedTokens` of each side
and `AlignmentSettings`; it returns C of shape (B,). The reference side is the same function of the transposed problem,
so that swapping two texts exchanges precision and recall by construction. Every text has at least one token. Aligners
are pure and differentiable. Beside each is a function of the same arguments that returns its plan (B, N, M).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import Distance, MetricName
from twmd_registry.tensors import PaddedTokens, Sides

Aligner = Callable[[Tensor, PaddedTokens, PaddedTokens, AlignmentSettings], Tensor]

ALIGNERS: dict[MetricName, Aligner] = {}
"""Aligner of each metric, hypothesis side; made from the metrics' declarations."""
PLANS: dict[MetricName, Aligner] = {}
"""Plan of each metric, hypothesis side: how much of which token goes where."""
for _name, _metric in CATALOGUE.items():
    if _metric.aligner is not None:
        _module = importlib.import_module(f"{__name__}.{_metric.aligner}")
        ALIGNERS[_name], PLANS[_name] = getattr(_module, _metric.aligner), getattr(_module, f"{_metric.aligner}_plan")
SYMMETRIC = frozenset(metric for metric in ALIGNERS if not CATALOGUE[metric].two_sided)
"""Metrics whose C has one side only."""


def similarities(x: PaddedTokens, y: PaddedTokens, distance: Distance = Distance.SIMILARITY) -> Tensor:
    """Return inner products of all hypothesis tokens with all reference tokens of each pair: S, shape (B, N, M).

    In float32, 1 - S of a vector with itself is off by 1e-7, and its square root by 3e-4: S is float64 for
    ``distance=euclidean``.
    """
    if distance is Distance.EUCLIDEAN:
        return normalize(x.vectors.double(), dim=2) @ normalize(y.vectors.double(), dim=2).mT
    return torch.einsum("bnd,bmd->bnm", x.vectors, y.vectors)


def align(metric: MetricName, s: Tensor, x: PaddedTokens, y: PaddedTokens, settings: AlignmentSettings) -> Sides:
    """Return C(X, Y) from both sides.

    Each side averages over its own tokens of positive weight and may choose any token of the other.

    Args:
        metric: Selects the aligner.
        s: Similarities; shape (B, N, M).
        x: Hypothesis tokens.
        y: Reference tokens.
        settings: Settings of the aligner.

    Returns:
        Both sides, each of shape (B,); for a symmetric metric they are the same tensor.
    """
    hypothesis = ALIGNERS[metric](s, x, y, settings)
    return Sides(hypothesis, hypothesis if metric in SYMMETRIC else ALIGNERS[metric](s.mT, y, x, settings))


def plans(metric: MetricName, s: Tensor, x: PaddedTokens, y: PaddedTokens, settings: AlignmentSettings) -> Sides:
    """Return the plans of both sides, each of shape (B, N, M): with S they give C (exact transport: with the cost)."""
    hypothesis = PLANS[metric](s, x, y, settings)
    return Sides(hypothesis, hypothesis if metric in SYMMETRIC else PLANS[metric](s.mT, y, x, settings).mT)
