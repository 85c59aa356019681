"""Tests of whether a metric agrees with people better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.engine.input_warnings import check_sample, warn_about_small_samples
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import SEED, measure_parts, split_parts
from twmd_registry.metaeval.correlation import LEAST_ROWS, THRESHOLD, Estimator, check_numbers, pearson, statistic_named

SIGNIFICANT = 0.05
"""The greatest p of a metric that outperforms another."""
_ROUNDING = 1e-12
"""Two differences of agreement are equal up to this, and computed correlations pass their bounds by no more."""


class AgreementTest(NamedTuple):
    """A one-sided test of whether metric A agrees better than metric B.

    Attributes:
        difference: A's agreement less B's.
        p: The probability of a difference at least as great where neither is better; small where A is.
    """

    difference: float
    p: float


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> AgreementTest:
    """Test the difference of two dependent Pearson correlations (Williams 1959; Graham and Baldwin 2014).

    ``t = (r_a - r_b) sqrt((n - 1)(1 + r_ab)) / sqrt(2 K (n - 1) / (n - 3) + (r_a + r_b)^2 / 4 (1 - r_ab)^3)`` with ``K
    = 1 - r_a^2 - r_b^2 - r_ab^2 + 2 r_a r_b r_ab`` follows Student's t with n - 3 degrees of freedom.

    Args:
        r_a: Of metric A with people, from -1 to 1.
        r_b: Of metric B with people.
        r_ab: Of both metrics with each other.
        n: Segments, more than 3.

    Returns:
        The difference and the one-sided p. Two metrics with equal correlations have 0 and 0.5.

    Raises:
        InputError: Three segments or fewer; a correlation outside -1 to 1, or not a number; three correlations that no
            data have together; or metrics that are each other's opposite, whose difference has no distribution.

    >>> round(williams(0.6, 0.5, 0.8, 103).p, 4)
    0.0256
    """
    if n <= LEAST_ROWS:
        raise InputError(f"Williams' test needs more than {LEAST_ROWS} segments; got {n}.")
    for name, r in (("r_a", r_a), ("r_b", r_b), ("r_ab", r_ab)):
        if not abs(r) <= 1 + _ROUNDING:
            raise InputError(f"expected a correlation from -1 to 1 as {name}; got {r}.")
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    if determinant < -_ROUNDING:
        raise InputError(
            f"no data have the correlations {r_a}, {r_b} and {r_ab} together: take all three from the same segments."
        )
    if r_a == r_b:
        return AgreementTest(0.0, 0.5)
    variance = 2 * max(determinant, 0.0) * (n - 1) / (n - 3) + (r_a + r_b) ** 2 / 4 * (1 - r_ab) ** 3
    if variance <= 0 or 1 + r_ab <= 0:
        which = f"metrics that correlate with each other by {r_ab} and with people by {r_a} and {r_b}"
        raise InputError(f"Williams' test is undefined for {which}.")
    t = (r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab) / variance)
    from scipy import stats

    return AgreementTest(r_a - r_b, float(stats.t.sf(t, n - 3)))


def williams_by_part(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    averaging: str = "group",
) -> dict[str, AgreementTest | None]:
    """Test by Williams in every part of the data whether A has the higher Pearson correlation; None if undefined."""
    a, b = _check_both(scores_a, scores_b, rated)
    tests, sizes = dict[str, AgreementTest | None](), dict[str, int]()
    for name, rows, _ in split_parts(rated, "pearson", averaging):
        own_a, own_b, ratings = a[rows], b[rows], rated.ratings[rows]
        try:
            tests[name] = williams(pearson(own_a, ratings), pearson(own_b, ratings), pearson(own_a, own_b), len(rows))
            sizes[name] = len(rows)
        except InputError:
            tests[name] = None
    warn_about_small_samples(sizes)
    return tests


def _check_both(
    scores_a: Sequence[float] | np.ndarray, scores_b: Sequence[float] | np.ndarray, rated: RatedSegments
) -> np.ndarray:
    """Return both metrics' scores; shape (2, segments)."""
    named = {"scores_a": scores_a, "scores_b": scores_b}
    return np.stack([check_numbers(name, scores, len(rated.ratings)) for name, scores in named.items()])


def permutation(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    statistic: str,
    *,
    averaging: str = "group",
    trials: int = 1000,
    seed: int = SEED,
    threshold: float = THRESHOLD,
    single: bool = False,
) -> AgreementTest:
    """Test whether A agrees better than B by paired permutation: PERM-INPUTS of Deutsch, Dror and Roth (2021).

    Both metrics' scores are standardised within every part that the statistic is computed in. In a trial the scores of
    every item are swapped between the metrics with probability 1/2, all segments of an item together; where the data do
    not name items every segment is an item. With `single` every segment is swapped alone, which is their PERM-BOTH.
    For ``acc_eq`` the results of an item's pairs are swapped, or of each pair alone: epsilon stays the metric's own, as
    by ``pairs`` of mt-metrics-eval, unless pairs are of several items.
    ``p = (1 + trials with at least the observed difference) / (1 + trials)``; a part without a value in a trial is left
    out of that trial's mean, and a trial without any value counts as having at least that difference. Parts in which
    either metric's statistic is undefined are left out for both.

    Args:
        scores_a: Of metric A, higher is better; shape (segments,).
        scores_b: Of metric B; likewise.
        rated: The ratings, and the parts that their segments belong to.
        statistic: A value of `Statistic`.
        averaging: A value of `Averaging`, as for `agreement`.
        trials: How many permutations, 1 or more.
        seed: Of the permutations.
        threshold: The least difference of two ratings that ``darr`` counts as an order.
        single: Whether the segments of an item are swapped one by one, or their pairs.

    Returns:
        The difference of the averages, and p from 1 / (1 + trials) to 1. Two equal metrics have 0 and 1.

    Raises:
        SpecError: As for `agreement`, or no trial.
        InputError: As for `agreement`, or a single item to swap; few items, or segments without items, are warned of.
    """
    wanted = statistic_named(statistic)
    check_sample(len(rated.ratings) if rated.item is None else len(set(rated.item)))
    both = _check_both(scores_a, scores_b, rated)
    swaps = _draw_swaps(rated._replace(item=None) if single else rated, trials, np.random.default_rng(seed))
    of_items = wanted == "acc_eq" and (single or averaging in {"group", "item"})
    permute = partial(_permute_pairs, seed=seed if single else None) if of_items else _permute

    parts = split_parts(rated, wanted, averaging, threshold=threshold)
    observed, _ = measure_parts(wanted, parts, lambda rows, estimator: _difference(both[:, rows], estimator))
    defined = (part for part in parts if part[0] in observed)
    permuted = [permute(both[:, rows], estimator, swaps[rows]) for _, rows, estimator in defined]
    differences = np.ma.masked_invalid(permuted).mean(axis=0).filled(np.nan)  # shape (1 + trials,)
    below = differences[1:] < differences[0] - _ROUNDING  # False for an undefined trial
    return AgreementTest(float(np.mean([*observed.values()])), float((1 + (~below).sum()) / (1 + trials)))


def rank_metrics(
    scores: Sequence[Sequence[float]],
    values: Sequence[float],
    rated: RatedSegments,
    statistic: str,
    **permuted: Any,
) -> list[int]:
    """Rank metrics in clusters, as the metrics shared task does (Freitag et al. 2023).

    From the metric that agrees best downwards: a metric has the rank of the one above it, unless a metric of that rank
    outperforms it by `permutation` of single scores or pairs (p of at most `SIGNIFICANT`); then it begins the next
    rank. Time grows with the number of pairs of one rank. `scores` has shape (metrics, segments), `values` are of the
    statistic; `permuted` are keywords of `permutation`, whose errors are raised. Returns ranks from 1.
    """
    ranks, rank, cluster = [0] * len(scores), 1, list[int]()
    for metric in sorted(range(len(scores)), key=lambda each: -values[each]):
        mine = scores[metric]
        against = [permutation(scores[better], mine, rated, statistic, single=True, **permuted) for better in cluster]
        if any(test.p <= SIGNIFICANT for test in against):
            rank, cluster = rank + 1, []
        cluster.append(metric)
        ranks[metric] = rank
    return ranks


def _draw_swaps(rated: RatedSegments, trials: int, rng: np.random.Generator) -> np.ndarray:
    """Return which segments are swapped; shape (segments, 1 + trials); column 0 swaps nothing."""
    if trials < 1:
        raise SpecError(f"expected 1 trial or more, not {trials}.")
    codes = np.arange(len(rated.ratings)) if rated.item is None else np.unique(rated.item, return_inverse=True)[1]
    swapped = rng.random((int(codes.max()) + 1, trials + 1)) < 0.5
    swapped[:, 0] = False
    return np.asarray(swapped[codes])


def _difference(both: np.ndarray, estimator: Estimator) -> float:
    return estimator(both[0]).value - estimator(both[1]).value


def _permute(both: np.ndarray, estimator: Estimator, swaps: np.ndarray) -> np.ndarray:
    """Return the difference by column of swaps; equal columns are computed once, which makes small parts cheap."""
    spread = both.std(axis=1, keepdims=True)
    standard = (both - both.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)  # (2, rows)
    _, first, column = np.unique(np.packbits(swaps, axis=0), axis=1, return_index=True, return_inverse=True)
    differences = np.full(len(first), np.nan)
    for k, swapped in enumerate(swaps.T[first]):
        try:
            differences[k] = _difference(np.where(swapped, standard[::-1], standard), estimator)
        except InputError:  # a swap has made a metric constant
            continue
    return differences[column.reshape(-1)]


def _permute_pairs(both: np.ndarray, estimator: Estimator, swaps: np.ndarray, seed: int | None) -> np.ndarray:
    """Return the difference of ``acc_eq`` by column of swaps, where results of pairs are swapped: those of an item
    together, or, with a seed, each alone, in all columns but the first.
    """
    (own, first), (other, _) = (estimator(scores).pairs for scores in both)
    difference = own - other  # (P,)
    if seed is None:
        by_row = np.bincount(first, weights=difference, minlength=len(swaps))
        return np.asarray(difference.sum() - 2 * by_row @ swaps)
    difference, rng = difference[difference != 0], np.random.default_rng(seed)
    signed = (np.where(rng.random(len(difference)) < 0.5, difference, -difference) for _ in swaps.T[1:])
    return np.array([difference.sum(), *(each.sum() for each in signed)])
