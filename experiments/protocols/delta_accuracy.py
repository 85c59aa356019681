"""The meaning of a difference of two systems' scores: how often humans prefer the system that scores higher.

Kocmi, Zouhar, Federmann and Post (2024): if two systems' scores on n segments differ by x, it is ``p(x, n) = Phi(x /
sqrt(s^2 + t^2 / n))``. Metric and humans disagree by s about whole systems, and by t about segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments, require_labels
from twmd_registry.metaeval.agreement import LEVEL
from twmd_registry.metaeval.correlation import place_systems

SIZES = (50, 100, 200, 400, 800, 1600)
"""Numbers of segments in the fitted comparisons, in addition to all segments."""
DRAWS, RESAMPLES = 20, 200
"""Draws of segments per number; resamples of systems for the interval."""
MIN_SYSTEMS = 5
COMPARISON = np.dtype("f8, i8, ?, i8, i8, f8")
COMPARISON.names = ("difference", "segments", "agreed", "first", "second", "weight")
"""Two systems on the same segments: the absolute difference of their scores; whether humans prefer the system that
scores higher, over all segments; the systems' numbers; and a weight that balances the numbers of segments."""


def list_comparisons(scores: Sequence[float], rated: RatedSegments) -> np.ndarray:
    """Compare the systems of every group on samples of their common segments; return `COMPARISON` rows."""
    items, every_system = (np.array(require_labels(rated, role, "a fit of accuracy")) for role in ("item", "system"))
    rng, rows, counted = np.random.default_rng(0), list[tuple[float, ...]](), 0
    for group in sorted(set(rated.group)):
        members = np.flatnonzero(np.array(rated.group) == group)
        systems, place = place_systems(items[members], every_system[members])
        place = members[place]
        if len(systems) >= MIN_SYSTEMS and place.size:
            rows += _compare(np.asarray(scores)[place], rated.ratings[place].mean(axis=1), counted, rng)
            counted += len(systems)
    if not rows:
        raise InputError(f"comparisons of systems need {MIN_SYSTEMS} systems with common segments.")
    comparisons = np.array([(*row, 0.0) for row in rows], dtype=COMPARISON)
    _, code, counts = np.unique(comparisons["segments"], return_inverse=True, return_counts=True)
    comparisons["weight"] = 1 / counts[code]
    return comparisons


def _compare(
    scores: np.ndarray, people: np.ndarray, start: int, rng: np.random.Generator
) -> Iterator[tuple[float, ...]]:
    """Yield difference, segments, agreement and the systems' numbers for every comparison in a group."""
    most = scores.shape[1]
    for size, draws in (*((size, DRAWS) for size in SIZES if size < most), (most, 1)):
        for _ in range(draws):
            means = scores[:, rng.choice(most, size, replace=False)].mean(axis=1)
            for i, j in itertools.combinations(range(len(means)), 2):
                difference = means[i] - means[j]
                if difference and people[i] != people[j]:
                    alike = (difference > 0) == (people[i] > people[j])
                    yield float(abs(difference)), size, alike, start + i, start + j


def fit_spread(comparisons: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the s and t with the greatest weighted likelihood."""
    scale = float(np.median(comparisons["difference"]))

    def loss(logarithms: np.ndarray) -> float:
        p = _accuracy(comparisons["difference"], comparisons["segments"], *(scale * np.exp(logarithms)))
        likelihood = np.where(comparisons["agreed"], p, 1 - p)
        return -float(weights @ np.log(np.maximum(likelihood, 1e-12)))

    fit = minimize(loss, np.array([0.0, 2.0]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6})
    s, t = scale * np.exp(fit.x)
    return float(s), float(t)


def _accuracy(differences: np.ndarray, segments: np.ndarray, s: float, t: float) -> np.ndarray:
    return np.asarray(ndtr(differences / np.sqrt(s * s + t * t / segments)))


class DeltaAccuracy(NamedTuple):
    """The fitted spreads of a metric's differences.

    Attributes:
        spreads: s and t, of all systems and then of every resample of systems; shape (1 + resamples, 2).
        systems: How many systems the fit compares.
    """

    spreads: np.ndarray
    systems: int

    def estimate(self, difference: float, segments: int) -> tuple[float, float, float]:
        """Return the share of comparisons, from 0.5 to 1, in which humans prefer the system that scores higher by this
        difference on this many segments, and its 95% interval.
        """
        share, *resampled = _accuracy(np.abs(difference), np.array(segments), *self.spreads.T)
        low, high = np.percentile(resampled, LEVEL)
        return float(share), float(low), float(high)

    def difference(self, share: float, segments: int) -> tuple[float, float, float]:
        """Return the difference of scores that humans agree with in a share of comparisons, and its 95% interval."""
        s, t = self.spreads.T
        difference, *resampled = ndtri(share) * np.sqrt(s * s + t * t / segments)
        low, high = np.percentile(resampled, LEVEL)
        return float(difference), float(low), float(high)


def fit_delta_accuracy(scored: Sequence[tuple[Sequence[float], RatedSegments]]) -> DeltaAccuracy:
    """Fit the spreads to a metric's scores, one per segment, and ratings, by data set.

    Raises:
        InputError: No data set has five systems with common segments.
    """
    parts, systems = list[np.ndarray](), 0
    for scored_segments in scored:
        part = list_comparisons(*scored_segments)
        for column in ("first", "second"):
            part[column] += systems
        parts.append(part)
        systems = int(part["second"].max()) + 1
    comparisons, rng = np.concatenate(parts), np.random.default_rng(0)
    spreads = [fit_spread(comparisons, comparisons["weight"])]
    for _ in range(RESAMPLES):
        drawn = np.bincount(rng.integers(0, systems, systems), minlength=systems)
        spreads.append(
            fit_spread(comparisons, comparisons["weight"] * drawn[comparisons["first"]] * drawn[comparisons["second"]])
        )
    return DeltaAccuracy(np.array(spreads), systems)
