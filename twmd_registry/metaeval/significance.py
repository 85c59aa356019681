"""Whether one metric agrees with people better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from twmd_registry.engine.input_warnings import check_sample, warn_about_small_samples
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import (
    SEED,
    Averaging,
    Stratum,
    UndefinedStratum,
    mean_of_defined,
    parts_of,
    report_undefined,
)
from twmd_registry.metaeval.correlation import STATISTICS, Statistic, check_numbers, statistic_named
from twmd_registry.metaeval.pairwise import THRESHOLD
from twmd_registry.metaeval.vectors import LEAST_ROWS, pearson

TRIALS = 1000
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
        The difference and the one-sided p. Two metrics with one correlation have 0 and 0.5.

    Raises:
        InputError: Three segments or fewer; a correlation outside -1 to 1, or not a number; three correlations that no
            data have together; or metrics that are each other's opposite, whose difference has no distribution.

    Warns:
        TwmdWarning: Fewer than `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE` segments.

    >>> round(williams(0.6, 0.5, 0.8, 103).p, 4)
    0.0256
    """
    found = _williams(r_a, r_b, r_ab, n)
    check_sample(n)
    return found


def _williams(r_a: float, r_b: float, r_ab: float, n: int) -> AgreementTest:
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
        raise InputError(
            f"Williams' test is undefined for metrics that correlate with each other by {r_ab} and with people "
            f"by {r_a} and {r_b}."
        )
    t = (r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab) / variance)
    return AgreementTest(r_a - r_b, float(stats.t.sf(t, n - 3)))


class StratumTest(NamedTuple):
    """Williams' test within one group, item or system.

    Attributes:
        name: Of the group, item or system.
        test: The test; None where a correlation is undefined.
    """

    name: str
    test: AgreementTest | None


def williams_by_part(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    averaging: str = Averaging.GROUP,
) -> tuple[StratumTest, ...]:
    """Test by Williams within every part of the data whether A's Pearson correlation is the higher one.

    Args:
        scores_a: Of metric A; shape (segments,).
        scores_b: Of metric B; likewise.
        rated: The ratings.
        averaging: One of `Averaging`: what the parts are.

    Returns:
        By ascending name.

    Raises:
        SpecError: As for `parts_of`.
        InputError: As for `parts_of`, or other numbers of scores than of ratings.

    Warns:
        TwmdWarning: Parts of fewer than `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE` segments.
    """
    a, b = (
        check_numbers(name, own, len(rated.ratings)) for name, own in (("scores_a", scores_a), ("scores_b", scores_b))
    )
    parts = parts_of(rated, Statistic.PEARSON, averaging)
    found = tuple(StratumTest(part.name, _williams_of(a[part.rows], b[part.rows], part)) for part in parts)
    warn_about_small_samples({part.name: len(part.rows) for part, one in zip(parts, found, strict=True) if one.test})
    return found


def _williams_of(a: np.ndarray, b: np.ndarray, part: Stratum) -> AgreementTest | None:
    ratings = part.sample.ratings
    try:
        return _williams(pearson(a, ratings), pearson(b, ratings), pearson(a, b), len(ratings))
    except InputError:
        return None


def permutation(
    scores_a: Sequence[float] | np.ndarray,
    scores_b: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    statistic: str,
    *,
    averaging: str = Averaging.GROUP,
    trials: int = TRIALS,
    seed: int = SEED,
    threshold: float = THRESHOLD,
) -> AgreementTest:
    """Test whether A agrees better than B by paired permutation: PERM-INPUTS of Deutsch, Dror and Roth (2021).

    Both metrics' scores are standardised within every part that the statistic is taken of. In a trial the scores of
    every item are swapped between the metrics with probability 1/2, all segments of an item together; where the data do
    not name items every segment is one. ``p = (1 + trials with at least the observed difference) / (1 + trials)``; a
    part without a value in a trial is left out of that trial's mean, and a trial without any value counts as one with
    at least that difference. Parts in which either metric's statistic is undefined are left out for both. Time grows
    with trials x rows: seconds for 1000 trials of 7 x 560 rows, most of them by Kendall.

    Args:
        scores_a: Of metric A, higher is better; shape (segments,).
        scores_b: Of metric B; likewise.
        rated: The ratings, and what their segments belong to.
        statistic: One of `Statistic`.
        averaging: One of `Averaging`, as for `twmd_registry.metaeval.agreement.agreement`.
        trials: How many permutations, 1 or more.
        seed: Of the permutations.
        threshold: The least difference of two ratings that ``darr`` counts as an order.

    Returns:
        The difference of the averages, and p from 1 / (1 + trials) to 1. Two equal metrics have 0 and 1.

    Raises:
        SpecError: As for `agreement`, or no trial.
        InputError: As for `agreement`, or a single item to swap.

    Warns:
        TwmdWarning: Fewer than `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE` items, or segments where the data
            do not name items.
    """
    wanted = statistic_named(statistic)
    if trials < 1:
        raise SpecError(f"expected one trial or more, not {trials}.")
    check_sample(len(rated.ratings) if rated.item is None else len(set(rated.item)))
    named = {"scores_a": scores_a, "scores_b": scores_b}
    both = np.stack([check_numbers(name, own, len(rated.ratings)) for name, own in named.items()])  # (2, N)
    swaps = _swaps(rated, trials, np.random.default_rng(seed))
    observed, permuted, undefined = list[float](), list[np.ndarray](), list[UndefinedStratum]()
    for part in parts_of(rated, wanted, averaging, threshold=threshold):
        own = both[:, part.rows]
        try:
            observed.append(_difference(wanted, own, part))
        except InputError as error:
            undefined.append(UndefinedStratum(part.name, len(part.rows), str(error)))
            continue
        permuted.append(_permuted(wanted, own, part, swaps[part.rows]))
    report_undefined(wanted, undefined, len(observed))
    return _test(observed, np.array(permuted))


def _swaps(rated: RatedSegments, trials: int, rng: np.random.Generator) -> np.ndarray:
    """Whether a segment's scores are swapped; shape (segments, trials), column 0 without any: the data as they are."""
    items = (
        np.arange(len(rated.ratings))
        if rated.item is None
        else np.unique(np.asarray(rated.item), return_inverse=True)[1]
    )
    swapped = rng.random((int(items.max()) + 1, trials + 1)) < 0.5
    swapped[:, 0] = False
    return np.asarray(swapped[items])


def _difference(statistic: Statistic, both: np.ndarray, part: Stratum) -> float:
    first, second = (STATISTICS[statistic](own, part.sample).value for own in both)
    return first - second


def _permuted(statistic: Statistic, both: np.ndarray, part: Stratum, swaps: np.ndarray) -> np.ndarray:
    """The difference in every column of swaps; each different column is computed once, which makes small parts cheap."""
    spread = both.std(axis=1, keepdims=True)
    standard = (both - both.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)  # (2, rows)
    _, first, column = np.unique(np.packbits(swaps, axis=0), axis=1, return_index=True, return_inverse=True)
    found = np.full(len(first), np.nan)
    for k, swapped in enumerate(swaps.T[first]):
        try:
            found[k] = _difference(statistic, np.where(swapped, standard[::-1], standard), part)
        except InputError:  # a swap has made one of them constant
            continue
    return found[column.reshape(-1)]


def _test(observed: Sequence[float], permuted: np.ndarray) -> AgreementTest:
    differences = mean_of_defined(permuted)
    unlike = differences[1:] < differences[0] - _ROUNDING  # an undefined trial is not unlike
    return AgreementTest(float(np.mean(observed)), float((1 + (~unlike).sum()) / (1 + len(unlike))))
