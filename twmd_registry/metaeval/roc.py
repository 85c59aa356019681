"""Scores as classifiers: the receiver operating characteristic and the area under it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.integrate import trapezoid

from twmd_registry.errors import InputError


class RocCurve(NamedTuple):
    """A curve from (0, 0) to (1, 1), a point per different score.

    Attributes:
        false: False positive rates, ascending: the share of negatives that score at least as high; shape (points,).
        true: True positive rates: the share of positives; likewise.
    """

    false: np.ndarray
    true: np.ndarray


def curve(scores: np.ndarray, positive: np.ndarray) -> RocCurve:
    """The receiver operating characteristic; tied scores are one point.

    Args:
        scores: Higher is more positive; shape (N,).
        positive: The class; shape (N,), bool.

    Raises:
        InputError: All are of one class, or a score is not finite.
    """
    positives = int(positive.sum())
    if not 0 < positives < len(positive):
        raise InputError(f"a ROC curve needs both classes; {positives} of {len(positive)} are positive.")
    if not np.isfinite(scores).all():
        raise InputError("a ROC curve needs finite scores.")
    order = np.argsort(-scores, kind="stable")
    last_of_ties = np.flatnonzero(np.r_[np.diff(scores[order]) != 0, True])
    true = np.cumsum(positive[order])[last_of_ties]
    return RocCurve(np.r_[0, (last_of_ties + 1 - true) / (len(positive) - positives)], np.r_[0, true / positives])


def area(scores: np.ndarray, positive: np.ndarray) -> float:
    """The area under the curve: how often a positive scores higher than a negative, ties counting half.

    Raises:
        InputError: As for `curve`.
    """
    found = curve(scores, positive)
    return float(trapezoid(found.true, found.false))
