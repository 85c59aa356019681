"""Statistics of the WMT metrics tasks that compare the segments of one item two by two: DARR's tau and the accuracy
with calibrated ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import InputError

THRESHOLD = 25.0
"""Two translations differ in the DARR of WMT17 and WMT18 from 25 points on a person's scale from 0 to 100."""
FORGIVEN = 1e-9
"""Ratings with decimals have no exact binary form: 70.1 - 45.1 is a little less than 25."""
_ROUNDING = 1e-12
"""Two accuracies, sums of shares, are equal up to this."""


class SegmentPairs(NamedTuple):
    """Every two segments of one item, once.

    Attributes:
        first: A row; shape (pairs,).
        second: Another row of the same item; shape (pairs,).
        item: Number of the item, from 0, among the items with a pair; shape (pairs,).
        items: How many items have a pair.
    """

    first: np.ndarray
    second: np.ndarray
    item: np.ndarray
    items: int


def pairs_within(items: Sequence[str] | np.ndarray) -> SegmentPairs:
    """Pair the segments of every item.

    Args:
        items: What every segment is a version of; shape (segments,).

    >>> pairs_within(["a", "b", "a", "c", "a"]).first.tolist(), pairs_within(["a", "b", "a", "c", "a"]).second.tolist()
    ([0, 0, 2], [2, 4, 4])
    """
    _, code = np.unique(np.asarray(items), return_inverse=True)
    order = np.argsort(code, kind="stable")
    runs = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
    found = [(*(run[side] for side in np.triu_indices(len(run), 1)),) for run in runs if len(run) > 1]
    if not found:
        none = np.zeros(0, dtype=np.intp)
        return SegmentPairs(none, none, none, 0)
    first, second = (np.concatenate(side) for side in zip(*found, strict=True))
    return SegmentPairs(first, second, np.repeat(np.arange(len(found)), [len(one) for one, _ in found]), len(found))


class PairOrders(NamedTuple):
    """How the pairs of every item are ordered by the metric, counted.

    Attributes:
        concordant: Pairs that metric and people order alike; shape (items,).
        discordant: All other pairs that people order; shape (items,).
        segments: How many segments are in a pair that people order.
    """

    concordant: np.ndarray
    discordant: np.ndarray
    segments: int


def count_orders(
    scores: np.ndarray, ratings: np.ndarray, pairs: SegmentPairs, threshold: float = THRESHOLD
) -> PairOrders:
    """Count the pairs that count for DARR.

    Args:
        scores: Shape (segments,).
        ratings: Shape (segments,).
        pairs: Segments of one item.
        threshold: The least difference of two ratings that is an order, in points of the ratings' own scale; rounding
            is forgiven.

    Raises:
        InputError: No pair is ordered by people.
    """
    people = ratings[pairs.first] - ratings[pairs.second]
    counted = (people != 0) & (np.abs(people) >= threshold - FORGIVEN)
    if not counted.any():
        raise InputError(
            f"no two segments of one item have ratings that differ by {threshold:g} or more, the threshold in "
            "points of these ratings"
        )
    alike = np.sign(scores[pairs.first] - scores[pairs.second]) == np.sign(people)
    concordant = np.bincount(pairs.item[counted & alike], minlength=pairs.items)
    discordant = np.bincount(pairs.item[counted & ~alike], minlength=pairs.items)
    return PairOrders(concordant, discordant, len(np.unique([pairs.first[counted], pairs.second[counted]])))


def darr(orders: PairOrders) -> float:
    """WMT's Kendall-like tau, ``(C - D) / (C + D)`` over the pairs of all items (Bojar et al. 2017; Ma et al. 2018).

    Pairs that people rate nearly alike do not count; a tie of the metric is discordant. So a constant metric has -1.

    Returns:
        From -1 to 1.
    """
    concordant, discordant = int(orders.concordant.sum()), int(orders.discordant.sum())
    return (concordant - discordant) / (concordant + discordant)


def resampled_darr(orders: PairOrders, weights: np.ndarray) -> np.ndarray:
    """DARR's tau of every resample of the items.

    Args:
        orders: The counts.
        weights: How often every item was drawn; shape (items, B), int.

    Returns:
        Shape (B,); NaN where no pair was drawn that people order.
    """
    concordant, discordant = orders.concordant @ weights, orders.discordant @ weights  # (B,)
    counted = concordant + discordant
    return np.where(counted > 0, (concordant - discordant) / np.maximum(counted, 1), np.nan)


class CalibratedAccuracy(NamedTuple):
    """The pairwise accuracy with calibrated ties.

    Attributes:
        accuracy: From 0 to 1.
        epsilon: The greatest difference of two scores that counts as a tie, in the metric's own units.
    """

    accuracy: float
    epsilon: float


class AccuracySteps(NamedTuple):
    """How the accuracy of the items changes while epsilon grows: pair by pair, in the order of the scores' differences.

    Attributes:
        ordered: Share of an item's pairs that metric and people order alike, before anything is a tie; shape (items,).
        change: What a pair's becoming a tie adds to the share of its item; shape (pairs,).
        item: The pair's item; shape (pairs,).
        ends: How many pairs are ties for every candidate of epsilon; shape (candidates,).
        epsilon: The candidates, ascending: 0 and every difference there is.
    """

    ordered: np.ndarray
    change: np.ndarray
    item: np.ndarray
    ends: np.ndarray
    epsilon: np.ndarray


def calibration_steps(scores: np.ndarray, ratings: np.ndarray, pairs: SegmentPairs) -> AccuracySteps:
    """Sort the pairs by the difference of their scores; O(P log P) for P pairs.

    Args:
        scores: Shape (segments,).
        ratings: Shape (segments,).
        pairs: Segments of one item.

    Raises:
        InputError: There is no pair.
    """
    if not pairs.items:
        raise InputError("no two segments are of one item")
    metric = scores[pairs.first] - scores[pairs.second]
    people = ratings[pairs.first] - ratings[pairs.second]
    alike = (metric != 0) & (np.sign(metric) == np.sign(people))
    sizes = np.bincount(pairs.item, minlength=pairs.items)
    order = np.argsort(np.abs(metric), kind="stable")
    differences, item = np.abs(metric)[order], pairs.item[order]
    change = ((people == 0)[order].astype(np.float64) - alike[order]) / sizes[item]
    last_of_equal = np.flatnonzero(np.r_[np.diff(differences) != 0, True]) + 1
    ends = np.unique(np.r_[np.searchsorted(differences, 0.0, side="right"), last_of_equal])
    ordered = np.bincount(pairs.item, weights=alike, minlength=pairs.items) / sizes
    return AccuracySteps(ordered, change, item, ends, np.r_[0.0, differences][ends])


def acc_eq(steps: AccuracySteps) -> CalibratedAccuracy:
    """The pairwise accuracy with tie calibration (Deutsch, Foster and Freitag 2023).

    An item's accuracy is the share of its pairs that metric and people order alike, or both have as ties; two scores
    that differ by epsilon
    or less are a tie of the metric. Epsilon >= 0 is the one with the highest mean over the items, the smallest of
    several.
    """
    return _best(steps, np.ones(len(steps.ordered)))


def resampled_acc_eq(steps: AccuracySteps, weights: np.ndarray) -> np.ndarray:
    """The accuracy of every resample of the items, calibrated anew; O(PB) for P pairs; arguments and result as for
    `resampled_darr`.
    """
    return np.array([_best(steps, drawn).accuracy for drawn in weights.T])


def _best(steps: AccuracySteps, weights: np.ndarray) -> CalibratedAccuracy:
    tied = np.r_[0.0, np.cumsum(steps.change * weights[steps.item])][steps.ends]
    accuracy = (steps.ordered @ weights + tied) / weights.sum()  # (candidates,)
    best = int(np.argmax(accuracy >= accuracy.max() - _ROUNDING))
    return CalibratedAccuracy(float(accuracy[best]), float(steps.epsilon[best]))
