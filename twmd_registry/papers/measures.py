"""The numbers of the papers' tables: correlations, moments of classes, areas under ROC curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.integrate import trapezoid

from twmd_registry.errors import InputError, warn
from twmd_registry.metaeval.correlation import correlate

Measure = Callable[[np.ndarray, np.ndarray], float]
"""From scores and ratings, shape (N,) each, to a number; raises InputError where it is undefined."""


def roc_curve(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the receiver operating characteristic from (0, 0) to (1, 1); tied scores are one point.

    Returns false and true positive rates, ascending, shape (points,) each; raises InputError where all are of one class
    or a score is not finite.
    """
    positives = int(positive.sum())
    if not 0 < positives < len(positive):
        raise InputError(f"a ROC curve needs both classes; {positives} of {len(positive)} are positive.")
    if not np.isfinite(scores).all():
        raise InputError("a ROC curve needs finite scores.")
    order = np.argsort(-scores, kind="stable")
    last_of_ties = np.flatnonzero(np.r_[np.diff(scores[order]) != 0, True])
    true = np.cumsum(positive[order])[last_of_ties]
    return np.r_[0, (last_of_ties + 1 - true) / (len(positive) - positives)], np.r_[0, true / positives]


def roc_area(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the area under the curve: how often a positive scores higher than a negative, ties counting half."""
    false, true = roc_curve(scores, positive)
    return float(trapezoid(true, false))


def _of_half(scores: np.ndarray, ratings: np.ndarray, *, upper: bool) -> float:
    """Correlate within one half of the ratings; segments of one rating are in the data's order."""
    order, half = np.argsort(ratings, kind="stable"), len(ratings) // 2
    rows = order[half:] if upper else order[:half]
    return correlate("pearson", scores[rows], ratings[rows])


def _outer_quarters(scores: np.ndarray, ratings: np.ndarray) -> float:
    """Return the area under the ROC curve of the lowest against the highest quarter of the ratings."""
    order, quarter = np.argsort(ratings, kind="stable"), len(ratings) // 4
    rows = np.r_[order[:quarter], order[len(order) - quarter :]]
    return roc_area(scores[rows], np.arange(2 * quarter) >= quarter)


def _moment(scores: np.ndarray, ratings: np.ndarray, *, label: int, deviation: bool) -> float:
    """Return the mean or the sample standard deviation of the scores of a class."""
    own = scores[ratings == label]
    if len(own) < 2:
        raise InputError(f"2 or more segments of class {label} are needed, there are {len(own)}")
    return float(own.std(ddof=1) if deviation else own.mean())


MEASURES: dict[str, Measure] = {
    **{name: partial(correlate, name) for name in ("pearson", "spearman", "kendall")},
    "pearson-lower": partial(_of_half, upper=False),
    "pearson-upper": partial(_of_half, upper=True),
    "auc": lambda scores, ratings: roc_area(scores, ratings == 1),
    "auc-quarters": _outer_quarters,
    **{f"mean-{label}": partial(_moment, label=label, deviation=False) for label in (0, 1)},
    **{f"deviation-{label}": partial(_moment, label=label, deviation=True) for label in (0, 1)},
}
"""Measures by their names in experiments."""


def measure(samples: Sequence[tuple[np.ndarray, np.ndarray]], statistics: Sequence[str], place: str) -> np.ndarray:
    """Measure several rows' scores on the same segments, called `place` in a warning of undefined numbers (NaN).

    By row, scores and ratings of shape (N,) are given; returns shape (rows, statistics).
    """
    result = np.full((len(samples), len(statistics)), np.nan)
    reasons: dict[int, str] = {}
    for i, sample in enumerate(samples):
        for j, statistic in enumerate(statistics):
            try:
                result[i, j] = MEASURES[statistic](*sample)
            except InputError as error:
                reasons.setdefault(i, str(error))
    if reasons:
        first = next(iter(reasons.values()))
        warn(f"{place}: not every number is defined for {len(reasons)} of {len(samples)} rows; {first}")
    return result
