"""Paired tests of two systems on the same segments. A tie is not evidence of a difference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MEAN_ROUNDING = 1e-6
"""Largest difference at which two mean scores of this package, from 0 to 1, count as equal. In float32, equal texts may
differ by 2.4e-7 between batches. A test compares two differences, so up to four such errors add up."""
COUNT_ROUNDING = 1e-9
"""The same for SacreBLEU's metrics, as a share of their scale. They are exact up to float64."""
_BLOCK = 2**22
"""Numbers in memory at once: 32 MB."""

ScoreOf = Callable[[np.ndarray], np.ndarray]
"""Maps sums of statistics, shape (B, K), to corpus scores, shape (B,)."""


def p_value(differences: np.ndarray, observed: float, tolerance: float) -> float:
    """Return ``(1 + trials with at least the observed difference) / (1 + trials)``.

    Args:
        differences: The difference in every trial; shape (trials,).
        observed: The difference of the systems.
        tolerance: A trial lower by at most this is a tie, and counts.
    """
    reached = int((differences >= observed - tolerance).sum())
    return (1 + reached) / (1 + len(differences))


def draw_swaps(trials: int, segments: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the segments that two systems swap in every trial, as SacreBLEU does; shape (trials, segments)."""
    return rng.integers(2, size=(trials, segments), dtype=bool)


def draw_segments(resamples: int, segments: int, rng: np.random.Generator) -> np.ndarray:
    """Draw segments with replacement, as SacreBLEU does; shape (resamples, segments)."""
    return rng.choice(segments, size=(resamples, segments), replace=True)


def score_resamples(statistics: np.ndarray, drawn: np.ndarray, score_of: ScoreOf) -> np.ndarray:
    """Return the corpus score of every resample; shape (B,).

    Args:
        statistics: Per-segment summands of the corpus score; shape (segments, K).
        drawn: The segments of every resample; shape (B, segments).
        score_of: Computes the metric.
    """
    step = max(1, _BLOCK // statistics.size)
    sums = [statistics[drawn[start : start + step]].sum(axis=1) for start in range(0, len(drawn), step)]
    return score_of(np.concatenate(sums))


def randomise(
    baseline: np.ndarray, system: np.ndarray, swaps: np.ndarray, score_of: ScoreOf, tolerance: float
) -> float:
    """Return the two-sided p of a paired approximate randomisation (Riezler and Maxwell 2005).

    In every trial the systems swap some segments. SacreBLEU counts only trials whose difference is *greater* than
    the observed one. Two systems that differ in a single segment then get the smallest possible p, because all of
    their trials are ties. Here ties count, as the test requires.

    Args:
        baseline: Statistics of one system's segments; shape (segments, K).
        system: Statistics of the other system.
        swaps: The segments to swap; shape (trials, segments).
        score_of: Computes the metric.
        tolerance: As for `p_value`.
    """
    total, change = baseline.sum(axis=0) + system.sum(axis=0), baseline - system
    step = max(1, _BLOCK // len(change))
    moved = [swaps[start : start + step].astype(np.float64) @ change for start in range(0, len(swaps), step)]
    mixed = system.sum(axis=0) + np.concatenate(moved)  # (trials, K)
    differences = np.abs(score_of(mixed) - score_of(total - mixed))
    first, second = score_of(np.stack([baseline.sum(axis=0), system.sum(axis=0)]))
    return p_value(differences, abs(float(first - second)), tolerance)


def bootstrap(differences: np.ndarray, observed: float, segments: int, unlike: int, tolerance: float) -> float:
    """Return the two-sided p of a paired bootstrap (Koehn 2004).

    The p is the share of resamples at least as far from the observed difference as the latter is from 0. The variance
    of resamples is too small by (n - 1) / n. Student's t with n - 1 degrees of freedom has a variance larger than the
    normal's by (n - 1) / (n - 3). Differences are widened for both. SacreBLEU centres *absolute* differences on their
    mean. That gives equal systems p < 0.05 in about 11 of 100 comparisons, and never a p above one half.

    Two or three segments may differ by similar amounts. Their resamples then look certain of a difference that chance
    often produces. If k segments differ, chance favours the same system in all of them with probability 2^(1-k), so
    p is at least that.

    Args:
        differences: The difference of the systems in every resample; shape (resamples,).
        observed: The difference of the systems.
        segments: Segments per resample, n.
        unlike: Number of segments in which the systems differ, k.
        tolerance: As for `p_value`.
    """
    widening = (segments / max(segments - 3, 1)) ** 0.5
    p = p_value(widening * np.abs(differences - observed), abs(observed), tolerance)
    return max(p, min(1.0, 2.0 ** (1 - unlike)))
