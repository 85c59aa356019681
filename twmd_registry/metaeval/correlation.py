"""Agreement between scores and ratings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from twmd_registry.errors import InputError

LEAST_ROWS = 3

STATISTICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "pearson": lambda x, y: float(stats.pearsonr(x, y).statistic),
    "spearman": lambda x, y: float(stats.spearmanr(x, y).statistic),
    "kendall": lambda x, y: float(stats.kendalltau(x, y).statistic),
}
"""Pearson r, Spearman rho, Kendall tau-b."""


def correlate(statistic: str, scores: Sequence[float] | np.ndarray, ratings: np.ndarray) -> float:
    """Correlate scores with ratings.

    Raises:
        InputError: Fewer than three rows, or one side does not vary, which leaves a correlation undefined.
    """
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(ratings, dtype=np.float64)
    if len(x) != len(y) or len(x) < LEAST_ROWS:
        raise InputError(f"a correlation needs {LEAST_ROWS} rated segments or more; got {len(x)} scores and {len(y)} ratings.")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        raise InputError("a correlation with constant numbers is undefined.")
    return STATISTICS[statistic](x, y)


def by_group(statistic: str, scores: Sequence[float] | np.ndarray, ratings: np.ndarray, group: Sequence[str]) -> dict[str, float]:
    """Correlate within every group, in the groups' alphabetical order."""
    names, values = np.asarray(group), np.asarray(scores, dtype=np.float64)
    return {str(name): correlate(statistic, values[names == name], ratings[names == name]) for name in np.unique(names)}
