"""Aligners compute C(X, Y) of two sets of token vectors from their similarities S, and precision, recall, F1 from C.

Shapes in every file here: B pairs, N hypothesis tokens, M reference tokens.

An aligner is written once, for the hypothesis side, as a function of ``S`` (B, N, M), the `PaddedTokens` of each side
and the `MetricSpec`. It returns C, shape (B,). The reference side applies the same function to the transposed problem,
so swapping two texts exchanges precision and recall by construction. Every text has at least one token. Aligners are
pure and differentiable. Each has a companion with the same arguments that returns its plan, shape (B, N, M).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import Distance, MetricName
from twmd_registry.tensors import PaddedTokens

Aligner = Callable[[Tensor, PaddedTokens, PaddedTokens, MetricSpec], Tensor]

ALIGNERS: dict[MetricName, Aligner] = {}
"""Aligner of each metric, hypothesis side, from the metrics' declarations."""
PLANS: dict[MetricName, Aligner] = {}
"""Plan of each metric, hypothesis side: the mass that each hypothesis token moves to each reference token."""
for _name, _metric in CATALOGUE.items():
    if _metric.aligner is not None:
        _module = importlib.import_module(f"{__name__}.{_metric.aligner}")
        ALIGNERS[_name], PLANS[_name] = getattr(_module, _metric.aligner), getattr(_module, f"{_metric.aligner}_plan")
ONE_SIDED = frozenset(metric for metric in ALIGNERS if not CATALOGUE[metric].two_sided)
"""Metrics whose C has only one side."""


def similarities(x: PaddedTokens, y: PaddedTokens, distance: Distance | None = None) -> Tensor:
    """Return inner products of all hypothesis tokens with all reference tokens of each pair: S, shape (B, N, M).

    With ``distance=euclidean``, S is float64. In float32, 1 - S of a vector with itself is off by 1e-7, and its square
    root by 3e-4.
    """
    if distance == "euclidean":
        return normalize(x.vectors.double(), dim=2) @ normalize(y.vectors.double(), dim=2).mT
    return torch.einsum("bnd,bmd->bnm", x.vectors, y.vectors)


def align(s: Tensor, x: PaddedTokens, y: PaddedTokens, spec: MetricSpec) -> tuple[Tensor, Tensor]:
    """Return C(X, Y) from the hypothesis side and from the reference side, given S (B, N, M); each of shape (B,).

    Each side averages over its own tokens of positive weight and may match any token of the other. For a one-sided
    metric both sides are the same tensor.
    """
    hypothesis = ALIGNERS[spec.metric](s, x, y, spec)
    return hypothesis, hypothesis if spec.metric in ONE_SIDED else ALIGNERS[spec.metric](s.mT, y, x, spec)


def plans(s: Tensor, x: PaddedTokens, y: PaddedTokens, spec: MetricSpec) -> tuple[Tensor, Tensor]:
    """Return the plans of both sides, each of shape (B, N, M). Summed with S (exact transport: with the cost) they
    give C.
    """
    hypothesis = PLANS[spec.metric](s, x, y, spec)
    return hypothesis, hypothesis if spec.metric in ONE_SIDED else PLANS[spec.metric](s.mT, y, x, spec).mT


def combine_sides(
    sides: tuple[Tensor, Tensor],
    selves: tuple[Tensor, Tensor] | None = None,
    same: Tensor | None = None,
    *,
    plain: bool = False,
) -> Tensor:
    """Return precision, recall and F1, shape (3, B).

    F1 is the harmonic mean ``2 p r / (p + r)`` of the two C's. If they are not both positive, it is the continuous
    extension ``min(p, r)``. With `plain` it is always the formula, as in bert_score, and 0 where that has no value.

    All three are divided by ``sqrt(C(X, X) C(Y, Y))`` (TWMD paper, Eq. 1). C(X, X) is the same from both sides. If
    C(X, X) <= 0 the quotient is meaningless: a text scores 1 against itself, 0 against any other.

    Args:
        sides: C(X, Y) from the hypothesis and from the reference side; shape (B,) each.
        selves: C(X, X) and C(Y, Y); shape (B,) each. None leaves the numbers undivided.
        same: Whether X and Y are the same text; shape (B,).
        plain: Whether to use bert_score's F1.

    >>> precision, recall = torch.tensor([1.0, 0.5, -0.1]), torch.tensor([0.5, 0.0, 0.4])
    >>> combine_sides((precision, recall))[2].tolist()
    [0.6666666865348816, 0.0, -0.10000000149011612]
    """
    p, r = sides
    positive = (p > 0) & (r > 0)
    if plain:
        has_value = p + r != 0
        return torch.stack([p, r, torch.where(has_value, 2 * p * r / torch.where(has_value, p + r, 1.0), 0.0)])
    c = torch.stack([p, r, torch.where(positive, 2 * p * r / torch.where(positive, p + r, 1.0), torch.minimum(p, r))])
    if selves is None:
        return c
    undefined = (selves[0] <= 0) | (selves[1] <= 0)  # False for NaN, which stays NaN
    scale = torch.sqrt(torch.where(undefined, 1.0, selves[0] * selves[1]))
    return torch.where(undefined, torch.zeros_like(p) if same is None else same.to(c.dtype), c / scale)
