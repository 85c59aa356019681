"""Alignment problems for tests: ragged sets of unit vectors in one padded block, each pair's similarities beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from twmd_registry.align import ALIGNERS, align, similarities
from twmd_registry.registry.names import CONVERGED, MetricName, Objective
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.tensors import PaddedTokens, TokenVectors, pad

SIZES = [(1, 1), (1, 6), (5, 1), (3, 3), (4, 9), (12, 7), (8, 8)]
QUICK = settings(max_examples=25, derandomize=True)
"""The same examples in every run, so that a law that fails here fails everywhere."""
FEW = settings(QUICK, max_examples=10)
"""For what takes long: fixed points."""
SUMS = frozenset({MetricName.WORDSET_CKA})
"""Metrics whose C is a sum over pairs of tokens, not a mean: C grows with the weights, leaves the range of S, and its
plan carries no shares. No entry of the catalogue says so, because Eq. 1 divides it out of every score. A new metric of
this kind is named here, and nowhere else.
"""


def tempered(temperature: float = 1.0, iterations: int | None = 1, objective: Objective = "expected") -> MetricSpec:
    """Return what aligners read of a specification; None sweeps for the fixed point."""
    return MetricSpec(
        metric=MetricName.TWMD, temperature=temperature, iterations=iterations or CONVERGED, objective=objective
    )


def different(settings: Iterable[MetricSpec]) -> list[tuple[MetricName, MetricSpec]]:
    """Return every metric with the settings that make a difference to it."""
    found = dict[tuple[object, ...], tuple[MetricName, MetricSpec]]()
    for metric in ALIGNERS:
        for how in settings:
            used = {MetricName.TWMD: how, MetricName.TRWMD: how.replace(iterations=1)}.get(metric)
            found.setdefault((metric, used), (metric, how.replace(metric=metric)))
    return list(found.values())


class Problem(NamedTuple):
    """Hypotheses and references of unit vectors, padded side by side; S of every pair alone, float64."""

    x: PaddedTokens
    y: PaddedTokens
    similarities: list[np.ndarray]


class Drawn(NamedTuple):
    """One pair's S as a block of one with nothing padded, as an aligner takes it; shape (1, N, M), float64."""

    s: Tensor
    hyp: PaddedTokens
    ref: PaddedTokens

    @property
    def array(self) -> np.ndarray:
        """S as the oracles take it."""
        return np.asarray(self.s[0].numpy())


def problem(
    sizes: list[tuple[int, int]] = SIZES, seed: int = 0, garbage: float = 0.0, dtype: torch.dtype = torch.float64
) -> Problem:
    """Draw sets that lean one way, as token vectors do: similarities of both signs occur, most are positive.

    Padding holds `garbage`.
    """
    draw = np.random.default_rng(seed)
    sets = []
    for side in (0, 1):
        rows = [draw.normal(size=(size[side], 6)) + 0.7 for size in sizes]
        sets.append([row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows])
    padded = []
    for rows in sets:
        tokens = TokenVectors(torch.tensor(np.concatenate(rows), dtype=dtype), torch.tensor([len(row) for row in rows]))
        block = pad(tokens, torch.arange(len(rows)))
        padded.append(block._replace(vectors=torch.where(block.mask[..., None], block.vectors, garbage)))
    x_block, y_block = padded
    return Problem(x_block, y_block, [x @ y.T for x, y in zip(*sets, strict=True)])


def pair(n: int, m: int, seed: int = 0) -> Drawn:
    s = problem([(n, m)], seed).similarities[0]
    return Drawn(torch.from_numpy(s)[None], *(evenly(torch.ones(1, size, dtype=torch.bool)) for size in (n, m)))


def evenly(mask: Tensor) -> PaddedTokens:
    """Return tokens of equal weight, without vectors."""
    return PaddedTokens(mask, mask.to(torch.float32))


def both(metric: MetricName, p: Problem, tempering: MetricSpec) -> tuple[Tensor, Tensor]:
    """C of every pair, hypothesis side and reference side; each of shape (B,)."""
    return align(similarities(p.x, p.y), p.x, p.y, tempering.replace(metric=metric))


counts = st.integers(1, 9)
seeds = st.integers(0, 2**32 - 1)
ragged = st.lists(st.tuples(counts, counts), min_size=1, max_size=5)
"""Sizes of the pairs of a block."""
pairs = st.builds(pair, counts, counts, seeds)
temperatures = st.sampled_from([0.02, 0.05, 0.1, 0.5, 1.0, 10.0])
