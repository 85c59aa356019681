"""Agreement between scores and ratings: one table of statistics, each of the data and of resamples of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import InputError, SpecError, menu
from twmd_registry.metaeval import pairwise, vectors
from twmd_registry.metaeval.pairwise import THRESHOLD, SegmentPairs, pairs_within


class Statistic(StrEnum):
    """How agreement is measured; the last two compare the segments of one item (`twmd_registry.metaeval.pairwise`)."""

    PEARSON = "pearson"
    SPEARMAN = "spearman"
    KENDALL = "kendall"
    DARR = "darr"
    ACC_EQ = "acc_eq"


class RatingSample(NamedTuple):
    """Ratings that scores are compared with.

    Attributes:
        ratings: Shape (segments,).
        pairs: Segments of one item; None for statistics that do not compare them.
        threshold: Of DARR.
    """

    ratings: np.ndarray
    pairs: SegmentPairs | None = None
    threshold: float = THRESHOLD


class CorrelationEstimate(NamedTuple):
    """A statistic of some scores.

    Attributes:
        value: The statistic.
        n: Segments that took part.
        units: How many rows, or items, a resample draws.
        resampled: From how often each was drawn, shape (units, B), to the statistic of every resample, shape (B,), NaN
            where undefined.
        epsilon: The greatest difference that is a tie; None where the statistic does not calibrate one.
    """

    value: float
    n: int
    units: int
    resampled: Callable[[np.ndarray], np.ndarray]
    epsilon: float | None = None


Vectors = Callable[[np.ndarray, np.ndarray], float]
Resampled = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _of_vectors(value: Vectors, resampled: Resampled) -> Callable[[np.ndarray, RatingSample], CorrelationEstimate]:
    def estimate(scores: np.ndarray, sample: RatingSample) -> CorrelationEstimate:
        ratings = sample.ratings
        return CorrelationEstimate(
            value(scores, ratings),
            len(scores),
            len(scores),
            lambda weights: _of_enough(weights, resampled(scores, ratings, weights)),
        )

    return estimate


def _of_enough(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """NaN for resamples of fewer different rows than a correlation needs: two always lie on a line."""
    return np.where((weights > 0).sum(axis=0) >= vectors.LEAST_ROWS, values, np.nan)


def _darr(scores: np.ndarray, sample: RatingSample) -> CorrelationEstimate:
    pairs = _pairs(sample)
    orders = pairwise.count_orders(scores, sample.ratings, pairs, sample.threshold)
    return CorrelationEstimate(
        pairwise.darr(orders), orders.segments, pairs.items, lambda weights: pairwise.resampled_darr(orders, weights)
    )


def _acc_eq(scores: np.ndarray, sample: RatingSample) -> CorrelationEstimate:
    pairs = _pairs(sample)
    steps = pairwise.calibration_steps(scores, sample.ratings, pairs)
    found = pairwise.acc_eq(steps)
    n = len(np.unique([pairs.first, pairs.second]))
    return CorrelationEstimate(
        found.accuracy, n, pairs.items, lambda weights: pairwise.resampled_acc_eq(steps, weights), found.epsilon
    )


def _pairs(sample: RatingSample) -> SegmentPairs:
    if sample.pairs is None:
        raise InputError("the data do not say which segments are of one item")
    return sample.pairs


STATISTICS: dict[Statistic, Callable[[np.ndarray, RatingSample], CorrelationEstimate]] = {
    Statistic.PEARSON: _of_vectors(vectors.pearson, vectors.resampled_pearson),
    Statistic.SPEARMAN: _of_vectors(vectors.spearman, vectors.resampled_spearman),
    Statistic.KENDALL: _of_vectors(vectors.kendall, vectors.resampled_kendall),
    Statistic.DARR: _darr,
    Statistic.ACC_EQ: _acc_eq,
}
"""Each raises InputError, with the reason alone, where it is undefined."""

PAIRWISE = frozenset({Statistic.DARR, Statistic.ACC_EQ})
"""The statistics that need to know which segments are of one item."""


def statistic_named(name: str) -> Statistic:
    """Find a statistic.

    Raises:
        SpecError: There is none of this name; the message has the menu.
    """
    try:
        return Statistic(name)
    except ValueError:
        raise SpecError(f"there is no statistic {name!r}; {menu(str(name), Statistic)}.") from None


def make_sample(
    statistic: Statistic, ratings: np.ndarray, items: Sequence[str] | np.ndarray | None, threshold: float = THRESHOLD
) -> RatingSample:
    """Make ratings ready for a statistic: pair the segments of one item where it compares them."""
    pairs = pairs_within(items) if statistic in PAIRWISE and items is not None else None
    return RatingSample(ratings, pairs, threshold)


def check_numbers(name: str, values: Sequence[float] | np.ndarray, rows: int) -> np.ndarray:
    """Check scores or ratings.

    Args:
        name: What they are, for the message.
        values: Numbers.
        rows: How many there must be.

    Returns:
        The same, shape (rows,), float64.

    Raises:
        InputError: Another number of them, or one that is not finite; names the row.
    """
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"expected numbers as {name}: {error}.") from error
    if numbers.shape != (rows,):
        raise InputError(f"expected {name} of shape ({rows},), one for every rated segment; got shape {numbers.shape}.")
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(
            f"{name}[{row}] is {numbers[row]}; expected a finite number: leave out the segment, or find out why "
            "it has none."
        )
    return numbers


def correlate(
    statistic: str,
    scores: Sequence[float] | np.ndarray,
    ratings: np.ndarray,
    items: Sequence[str] | np.ndarray | None = None,
    *,
    threshold: float = THRESHOLD,
) -> float:
    """Correlate scores with ratings.

    Args:
        statistic: One of `Statistic`.
        scores: Shape (segments,).
        ratings: Shape (segments,).
        items: What every segment is a version of; ``darr`` and ``acc_eq`` need it.
        threshold: The least difference of two ratings that ``darr`` counts as an order, in points of their own scale.

    Returns:
        From -1 to 1, of ``acc_eq`` from 0 to 1.

    Raises:
        SpecError: There is no such statistic.
        InputError: Fewer than three rows or one side that does not vary, which leaves a correlation undefined; no pair
            that counts; different
            numbers of scores, ratings and items; a number that is not finite.
    """
    wanted, rated = statistic_named(statistic), check_numbers("ratings", ratings, len(ratings))
    own = check_numbers("scores", scores, len(rated))
    if items is not None and len(items) != len(rated):
        raise InputError(f"expected an item for every one of {len(rated)} rated segments; got {len(items)}.")
    try:
        return STATISTICS[wanted](own, make_sample(wanted, rated, items, threshold)).value
    except InputError as error:
        raise InputError(f"{wanted} is undefined: {error}.") from error
