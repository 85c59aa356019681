"""Paired tests of two systems on the same segments, in which a tie is no evidence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MEAN_ROUNDING = 1e-6
"""Two mean scores of this package, from 0 to 1, are equal up to this. In float32 equal texts may differ by 2.4e-7 from
batch to batch. A test compares two differences of two systems, so that up to four such errors add up."""
COUNT_ROUNDING = 1e-9
"""Two scores of SacreBLEU's metrics are equal up to this share of their scale: they are exact but for float64."""
_BLOCK = 2**22
"""Numbers that are held at once: 32 MB."""

ScoreOf = Callable[[np.ndarray], np.ndarray]
"""From sums of statistics, shape (B, K), to the corpus score of each, shape (B,)."""


def p_value(differences: np.ndarray, observed: float, tolerance: float) -> float:
    """Return ``(1 + trials with at least the observed difference) / (1 + trials)``.

    Args:
        differences: The difference in every trial; shape (trials,).
        observed: The difference of the systems.
        tolerance: A trial that is lower by no more is a tie, which counts as at least the observed difference.
    """
    reached = int((differences >= observed - tolerance).sum())
    return (1 + reached) / (1 + len(differences))


def draw_swaps(trials: int, segments: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the segments that two systems exchange in every trial, as SacreBLEU does; shape (trials, segments)."""
    return rng.integers(2, size=(trials, segments), dtype=bool)


def draw_segments(resamples: int, segments: int, rng: np.random.Generator) -> np.ndarray:
    """Draw segments with replacement, as SacreBLEU does; shape (resamples, segments)."""
    return rng.choice(segments, size=(resamples, segments), replace=True)


def score_resamples(statistics: np.ndarray, drawn: np.ndarray, score_of: ScoreOf) -> np.ndarray:
    """Return the corpus score of every resample; shape (B,).

    Args:
        statistics: What every segment adds to the corpus score; shape (segments, K).
        drawn: The segments of every resample; shape (B, segments).
        score_of: The metric.
    """
    step = max(1, _BLOCK // statistics.size)
    sums = [statistics[drawn[start : start + step]].sum(axis=1) for start in range(0, len(drawn), step)]
    return score_of(np.concatenate(sums))


def randomise(
    baseline: np.ndarray, system: np.ndarray, swaps: np.ndarray, score_of: ScoreOf, tolerance: float
) -> float:
    """Return the two-sided p of a paired approximate randomisation (Riezler and Maxwell 2005).

    In every trial the systems exchange some segments. SacreBLEU counts the trials whose difference is *greater* than
    the observed one. Then two systems that differ in a single segment, all of whose trials are ties, have the smallest
    p of all. Here ties count, as the test demands.

    Args:
        baseline: Statistics of one system's segments; shape (segments, K).
        system: Those of the other.
        swaps: The segments that are exchanged; shape (trials, segments).
        score_of: The metric.
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

    The p is the share of resamples whose difference is as far from the observed one as the observed one is from 0. The
    variance of resamples is too small by (n - 1) / n, and that of Student's t with n - 1 degrees of freedom is greater
    than a normal one by (n - 1) / (n - 3): both are made up for. SacreBLEU centres *absolute* differences on their
    mean, which gives equal systems p < 0.05 in about 11 of 100 comparisons, and never a p above one half.

    Two or three segments may differ by much the same, and so may their resamples: they would be sure of a difference
    that chance alone makes often. Of k segments that are unlike, chance favours one system in all with probability
    2^(1-k), and p is never less.

    Args:
        differences: The difference of the systems in every resample; shape (resamples,).
        observed: The difference of the systems.
        segments: The segments of a resample, n.
        unlike: The segments of the data in which the systems differ, k.
        tolerance: As for `p_value`.
    """
    widening = (segments / max(segments - 3, 1)) ** 0.5
    p = p_value(widening * np.abs(differences - observed), abs(observed), tolerance)
    return max(p, min(1.0, 2.0 ** (1 - unlike)))
