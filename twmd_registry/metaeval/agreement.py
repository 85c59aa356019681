"""How well scores agree with people over a whole data set: a statistic averaged over its parts, with bootstrap
intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.input_warnings import warn_about_small_samples
from twmd_registry.errors import InputError, SpecError, menu, warn
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.correlation import (
    PAIRWISE,
    STATISTICS,
    CorrelationEstimate,
    RatingSample,
    Statistic,
    check_numbers,
    make_sample,
    statistic_named,
)
from twmd_registry.metaeval.pairwise import THRESHOLD

RESAMPLES = 1000
SEED = 12345
LEVEL = (2.5, 97.5)
"""Percentiles of the resamples that bound a 95% interval."""
EVERYTHING = "all"
"""The name of the only part where nothing is averaged."""
_BLOCK = 2**22
"""Weights that are held at once: 32 MB."""
_NAMED = 10
"""Parts that a warning names; all of them are in the result."""


class Averaging(StrEnum):
    """What a statistic is averaged over: nothing (one value of all rows), groups such as language pairs, items, or
    systems.
    """

    NONE = "none"
    GROUP = "group"
    ITEM = "item"
    SYSTEM = "system"


class Interval(NamedTuple):
    """A bootstrap percentile 95% interval; None without resamples, or where most of them are undefined."""

    low: float | None
    high: float | None


class StratumAgreement(NamedTuple):
    """The statistic of one group, item or system.

    Attributes:
        name: Of the group, item or system; ``all`` where nothing is averaged.
        value: The statistic.
        low: Lower end of the 95% interval; None without one, as for an item.
        high: Upper end.
        n: Segments that took part.
        epsilon: Of ``acc_eq``, the greatest difference of two scores that is a tie; None for other statistics.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    n: int
    epsilon: float | None


class UndefinedStratum(NamedTuple):
    """A group, item or system whose statistic is undefined.

    Attributes:
        name: Its name.
        n: Its segments.
        reason: Why.
    """

    name: str
    n: int
    reason: str


class Agreement(NamedTuple):
    """How well scores agree with ratings.

    Attributes:
        value: The statistic, averaged.
        low: Lower end of the 95% interval of the average; None without one.
        high: Upper end.
        n: Segments that took part.
        groups: What the average is taken over, by ascending name.
        undefined: What is left out of it, because it has no value.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    groups: tuple[StratumAgreement, ...]
    undefined: tuple[UndefinedStratum, ...]


class Stratum(NamedTuple):
    """Rows of the data that get one value.

    Attributes:
        name: Of the group, item or system.
        rows: Their numbers, ascending.
        sample: Their ratings.
    """

    name: str
    rows: np.ndarray
    sample: RatingSample


def agreement(
    statistic: str,
    scores: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    *,
    averaging: str = Averaging.GROUP,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    threshold: float = THRESHOLD,
) -> Agreement:
    """Measure how well scores agree with ratings.

    The statistic is taken within every part of the data, then the plain mean over the parts. For the interval the rows
    of every part (the items, for ``darr`` and ``acc_eq``) are drawn with replacement and the average is taken of every
    resample; a part that is undefined in a resample (all its rows are the same) is left out of that resample's average.
    Where the average is over items, whole items are drawn: each has too few rows for resamples of them to be unbiased,
    and gets no interval of its own. A part is drawn alike for every metric with the same seed.

    Args:
        statistic: One of `Statistic`.
        scores: Higher is better; shape (segments,).
        rated: The ratings, and what their segments belong to.
        averaging: One of `Averaging`; ``none`` or ``group`` for ``darr`` and ``acc_eq``, which compare within items.
        resamples: Of the bootstrap; 0 for no intervals.
        seed: Of the bootstrap.
        threshold: The least difference of two ratings that ``darr`` counts as an order, in points of their own scale.

    Returns:
        The average with its interval, and every part; parts without a value are left out with a warning.

    Raises:
        SpecError: No such statistic or averaging, or they do not go together; a seed or resamples below 0.
        InputError: Items or systems have no names; the numbers of scores and ratings differ; a number is not finite;
            nothing has a value.

    Warns:
        TwmdWarning: A part has no value; an interval of few segments (or items), as for `warn_about_small_samples`.
    """
    wanted, numbers = statistic_named(statistic), check_numbers("scores", scores, len(rated.ratings))
    if seed < 0:
        raise SpecError(f"expected a seed of 0 or more, not {seed}.")
    found, undefined, resampled = list[StratumAgreement](), list[UndefinedStratum](), list[np.ndarray]()
    whole, samples = averaging == Averaging.ITEM, dict[str, int]()
    for k, part in enumerate(parts_of(rated, wanted, averaging, threshold=threshold)):
        try:
            estimate = STATISTICS[wanted](numbers[part.rows], part.sample)
        except InputError as error:
            undefined.append(UndefinedStratum(part.name, len(part.rows), str(error)))
            continue
        values = bootstrap(estimate, 0 if whole else resamples, np.random.default_rng([seed, k]))
        found.append(StratumAgreement(part.name, estimate.value, *interval(values), estimate.n, estimate.epsilon))
        resampled.append(values)
        samples[part.name] = estimate.units
    report_undefined(wanted, undefined, len(found))
    average = _average(found)
    if resamples:
        warn_about_small_samples({"items": average.units} if whole else samples)
    draw = np.random.default_rng(seed)
    means = bootstrap(average, resamples, draw) if whole else mean_of_defined(np.array(resampled))
    return Agreement(average.value, *interval(means), average.n, tuple(found), tuple(undefined))


def _average(found: Sequence[StratumAgreement]) -> CorrelationEstimate:
    """The mean over parts, of which a resample draws whole ones."""
    values = np.array([one.value for one in found])
    return CorrelationEstimate(
        float(values.mean()), sum(one.n for one in found), len(found), lambda weights: values @ weights / len(found)
    )


def parts_of(
    rated: RatedSegments, statistic: Statistic, averaging: str, *, threshold: float = THRESHOLD
) -> list[Stratum]:
    """Take the data apart.

    Args:
        rated: The data.
        statistic: What the parts are for.
        averaging: One of `Averaging`.
        threshold: Of DARR.

    Returns:
        The parts by ascending name.

    Raises:
        SpecError: There is no such averaging, or it does not go with the statistic.
        InputError: The data do not name what is needed, or a rating is not finite.
    """
    if averaging not in set(Averaging):
        raise SpecError(f"there is no averaging {averaging!r}; {menu(str(averaging), Averaging)}.")
    if statistic in PAIRWISE and averaging in {Averaging.ITEM, Averaging.SYSTEM}:
        raise SpecError(
            f"{statistic} compares segments of one item already; expected averaging=none or averaging=group, "
            f"not {averaging}."
        )
    if statistic in PAIRWISE and rated.item is None:
        raise InputError(
            f"{statistic} compares segments of one item, and these data do not name items: give the column that "
            "does (item=)."
        )
    names = {
        Averaging.NONE: [EVERYTHING] * len(rated.group),
        Averaging.GROUP: rated.group,
        Averaging.ITEM: rated.item,
        Averaging.SYSTEM: rated.system,
    }
    column = names[Averaging(averaging)]
    if column is None:
        raise InputError(
            f"averaging={averaging} needs the {averaging} of every segment, which these data do not name: give "
            f"the column that does ({averaging}=)."
        )
    ratings, items = (
        check_numbers("ratings", rated.ratings, len(rated.ratings)),
        None if rated.item is None else np.asarray(rated.item),
    )
    different, code = np.unique(np.asarray(column), return_inverse=True)
    runs = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
    return [
        Stratum(
            str(name), rows, make_sample(statistic, ratings[rows], None if items is None else items[rows], threshold)
        )
        for name, rows in zip(different, runs, strict=True)
    ]


def bootstrap(estimate: CorrelationEstimate, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """The statistic of resamples, drawn with replacement.

    Args:
        estimate: The statistic.
        resamples: How many.
        rng: Draws them.

    Returns:
        Shape (resamples,); NaN where a resample leaves the statistic undefined, and everywhere if there is one unit
        only to draw from.

    Raises:
        SpecError: A negative number of resamples.
    """
    if resamples < 0:
        raise SpecError(f"expected resamples of 0 or more, not {resamples}.")
    if estimate.units < 2:
        return np.full(resamples, np.nan)
    at_once = max(1, _BLOCK // estimate.units)
    blocks = [min(at_once, resamples - start) for start in range(0, resamples, at_once)]
    return np.concatenate([np.zeros(0), *(estimate.resampled(draw(estimate.units, block, rng)) for block in blocks)])


def draw(units: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw as many units as there are, with replacement, again and again.

    Returns:
        How often every unit was drawn; shape (units, resamples), int.
    """
    rows = rng.integers(0, units, size=(resamples, units))  # (resamples, units)
    cells = rows * resamples + np.arange(resamples)[:, None]
    return np.bincount(cells.ravel(), minlength=units * resamples).reshape(units, resamples)


def report_undefined(statistic: Statistic, undefined: Sequence[UndefinedStratum], defined: int) -> None:
    """Warn of what is left out of an average.

    Args:
        statistic: The statistic.
        undefined: What has no value.
        defined: How many parts have one.

    Raises:
        InputError: None has.
    """
    if not undefined:
        return
    named = [f"{one.name} ({one.n} segments: {one.reason})" for one in undefined[:_NAMED]]
    names = ", ".join(named) + (f" and {len(undefined) - _NAMED} more" if len(undefined) > _NAMED else "")
    if not defined:
        raise InputError(f"{statistic} is undefined everywhere: {names}.")
    warn(
        f"{statistic} is undefined for {len(undefined)} of {len(undefined) + defined}, which are left out of "
        f"the mean: {names}."
    )


def interval(values: np.ndarray) -> Interval:
    """The bootstrap percentile 95% interval of resamples; undefined ones (NaN) are left out, and where most are there
    is none.
    """
    defined = values[~np.isnan(values)]
    return (
        Interval(*map(float, np.percentile(defined, LEVEL))) if 2 * len(defined) > len(values) else Interval(None, None)
    )


def mean_of_defined(values: np.ndarray) -> np.ndarray:
    """The mean over parts; what is undefined (NaN) is left out, and NaN where everything is.

    Args:
        values: Shape (parts, B).
    """
    defined = ~np.isnan(values)
    counts = defined.sum(axis=0)
    return np.where(counts > 0, np.where(defined, values, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)
