"""Alignment problems for tests: ragged, padded sets of weighted unit vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from twmd_registry.align import ALIGNERS
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import CONVERGED, MetricName, Objective
from twmd_registry.registry.spec import make_spec
from twmd_registry.tensors import PaddedTokens, TokenVectors, pad

SIZES = [(1, 1), (1, 6), (5, 1), (3, 3), (4, 9), (12, 7), (8, 8)]
QUICK = settings(max_examples=25, derandomize=True)
"""The same examples in every run, so a failure can be reproduced."""
SUMS = frozenset({MetricName.WORDSET_CKA})
"""Metrics whose C is a sum over pairs of tokens, not a mean: C grows with the weights and leaves the range of S, and
the plan's rows are not shares. The catalogue does not record this, because Eq. 1 divides it out of every score. A new
metric of this kind is named only here.
"""


def tempered(temperature: float = 1.0, iterations: int | None = 1, objective: Objective = "expected") -> MetricSpec:
    """Return the specification that aligners read; None sweeps for the fixed point."""
    return make_spec("twmd", temperature=temperature, iterations=iterations or CONVERGED, objective=objective)


def of_metric(metric: MetricName, how: MetricSpec) -> MetricSpec:
    """Return a metric's specification with the shared settings that it uses."""
    keys: dict[str, Any] = {"temperature": how.temperature, "iterations": how.iterations, "objective": how.objective}
    return make_spec(metric, **{name: value for name, value in keys.items() if name in CATALOGUE[metric].keys})


def different(settings: Iterable[MetricSpec]) -> list[tuple[MetricName, MetricSpec]]:
    """Return every metric with the settings that affect it."""
    found = dict[tuple[object, ...], tuple[MetricName, MetricSpec]]()
    for metric in ALIGNERS:
        for how in settings:
            used = {MetricName.TWMD: how, MetricName.TRWMD: how.replace(iterations=1)}.get(metric)
            found.setdefault((metric, used), (metric, of_metric(metric, how)))
    return list(found.values())


def problem(
    sizes: list[tuple[int, int]] = SIZES,
    seed: int = 0,
    *,
    weighted: bool = False,
    garbage: float = 1e3,
    dtype: torch.dtype = torch.float64,
) -> tuple[PaddedTokens, PaddedTokens]:
    """Draw anisotropic sets, like token vectors, with weights from 0 to 4; padding contains `garbage`."""
    draw = np.random.default_rng(seed)
    sides = []
    for pair_sizes in zip(*sizes, strict=True):
        vectors = draw.normal(size=(sum(pair_sizes), 6)) + 0.7
        weights = draw.integers(0, 5, sum(pair_sizes)) if weighted else np.ones(sum(pair_sizes))
        weights[np.cumsum(pair_sizes) - 1] += weighted  # every text has a positive weight
        rows = torch.tensor(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=dtype)
        block = pad(
            TokenVectors(rows, torch.tensor(pair_sizes), weights=torch.tensor(weights, dtype=dtype)),
            torch.arange(len(pair_sizes)),
        )
        sides.append(block._replace(vectors=torch.where(block.mask[..., None], block.vectors, garbage)))
    return sides[0], sides[1]


def unpadded(side: PaddedTokens, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a text's vectors and weights in the oracles' format."""
    vectors, weights = (packed[b][side.mask[b]].to(torch.float64).numpy() for packed in (side.vectors, side.weights))
    return vectors, weights


def evenly(mask: Tensor) -> PaddedTokens:
    """Return tokens of equal weight, without vectors."""
    return PaddedTokens(mask, mask.to(torch.float32))


counts = st.integers(1, 9)
seeds = st.integers(0, 2**32 - 1)
ragged = st.lists(st.tuples(counts, counts), min_size=1, max_size=5)
"""Sizes of the pairs of a block."""
