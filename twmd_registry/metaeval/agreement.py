"""How well scores agree with people over a data set, with intervals, and tests of whether one metric agrees better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from twmd_registry.engine.input_warnings import check_sample, warn_about_small_samples
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.rated import RatedSegments, require_labels
from twmd_registry.messages import warn
from twmd_registry.metaeval.correlation import (
    MIN_ROWS,
    PAIRWISE,
    THRESHOLD,
    CorrelationEstimate,
    Estimator,
    check_numbers,
    correlate,
    make_estimator,
    statistic_named,
)
from twmd_registry.registry.names import Statistic

RESAMPLES = 1000
SEED = 12345
LEVEL = (2.5, 97.5)
"""Percentiles of the resamples that bound a 95% interval."""
SIGNIFICANT = 0.05
_ROUNDING = 1e-12
"""Two differences of agreement are equal up to this."""
EVERYTHING = "all"
_BLOCK = 2**22
"""Weights that are held at once: 32 MB."""
_SHOWN = 10


class Interval(NamedTuple):
    """A bootstrap percentile 95% interval; None without resamples, or where most of them are undefined."""

    low: float | None
    high: float | None


class Part(NamedTuple):
    """The data of a group, item or system: its rows in ascending order, and the statistic of its ratings."""

    name: str
    rows: np.ndarray
    estimator: Estimator


class Undefined(NamedTuple):
    """A part without a value: its number of segments, and the reason."""

    name: str
    n: int
    reason: str


class AgreementTest(NamedTuple):
    """A one-sided test: metric A's agreement less B's, and the probability of so great a difference by chance alone."""

    difference: float
    p: float


Measured = TypeVar("Measured")
Averaging = Literal["none", "group", "item", "system"]
"""What a statistic is averaged over: nothing (one value of all rows), groups such as language pairs, items, systems."""


class UndefinedError(InputError):
    """A statistic has no value in any part of the data; `undefined` has every part with its reason."""

    def __init__(self, message: str, undefined: Sequence[Undefined]) -> None:
        """Keep the parts beside the message."""
        super().__init__(message)
        self.undefined = tuple(undefined)


@dataclass(frozen=True)
class Agreement:
    """How well scores agree with ratings, over all data (averaged over `groups`, in their order) or in one part.

    `low` and `high` are the ends of the 95% interval, None without one; `n` counts segments (of an accuracy over
    systems, pairs of systems); `epsilon` is ``acc_eq``'s in one part; `undefined` parts have no value. Where
    no part has one, `value` is NaN, and None in JSON.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    epsilon: float | None = None
    groups: Mapping[str, Agreement] = field(default_factory=dict)
    undefined: tuple[Undefined, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return every number, ready for JSON."""
        keys = ("value", "low", "high", "n", "epsilon")
        groups = [{"name": name} | {key: getattr(part, key) for key in keys} for name, part in self.groups.items()]
        undefined = [part._asdict() for part in self.undefined]
        values = {key: getattr(self, key) for key in keys[:-1]} | {"value": self.value if self.is_defined else None}
        return values | {"groups": groups, "undefined": undefined}

    @property
    def is_defined(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.value)


def agreement_or_undefined(label: str, measure: Callable[[], Agreement]) -> Agreement:
    """Return what `measure` returns; where that is undefined everywhere, warn of it and return an `Agreement` of NaN.

    Args:
        label: The metric, for the warning.
        measure: Computes the agreement of one metric.
    """
    try:
        return measure()
    except UndefinedError as error:
        warn(f"{label}: {error}")
        return Agreement(math.nan, None, None, 0, undefined=error.undefined)


def agreement(
    statistic: str,
    scores: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    *,
    averaging: str = "group",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    threshold: float = THRESHOLD,
) -> Agreement:
    """Measure how well scores, shape (segments,), agree with ratings.

    The statistic is computed in every part of the data, and averaged with equal weights. For the interval, the rows of
    every part (the items, for statistics of pairs) are drawn with replacement, the same for every metric; a part that
    is undefined in a resample keeps its value there. An average over items draws whole items, which get no intervals of
    their own. Statistics of pairs are of one part, unless averaging is ``group``: they compare the segments of an item
    (or, by ``system``, of a system; by ``none``, all). Warns of parts without a value and of intervals of few segments.
    """
    chosen, numbers = statistic_named(statistic), check_numbers("scores", scores, len(rated.ratings))
    parts = split_parts(rated, chosen, averaging, threshold=threshold)
    estimates, undefined = measure_parts(chosen, parts, lambda rows, estimator: estimator(numbers[rows]))
    values = np.array([estimate.value for estimate in estimates.values()])
    if averaging == "item" and chosen not in PAIRWISE:
        resampled = [np.zeros(0)] * len(values)
        n, units = len(values), {"items": len(values)}
        mean = CorrelationEstimate(float(values.mean()), n, n, lambda weights: values @ weights / n)
        means = bootstrap(mean, resamples, np.random.default_rng(seed))
    else:
        rngs = [np.random.default_rng([seed, k]) for k, (name, *_) in enumerate(parts) if name in estimates]
        resampled = list(map(bootstrap, estimates.values(), [resamples] * len(values), rngs))
        drawn = np.array(resampled)  # (parts, B); where a part is undefined its own value stands
        means = np.where(np.isnan(drawn), values[:, None], drawn).mean(axis=0)
        means = np.where(np.isnan(drawn).all(axis=0), np.nan, means)
        units = {name: estimate.units for name, estimate in estimates.items()}
    warn_about_small_samples(units if resamples else {})
    groups = {
        name: Agreement(estimate.value, *interval(values_drawn), estimate.n, estimate.epsilon)
        for (name, estimate), values_drawn in zip(estimates.items(), resampled, strict=True)
    }
    segments = sum(group.n for group in groups.values())
    return Agreement(float(values.mean()), *interval(means), segments, groups=groups, undefined=undefined)


def measure_parts(
    statistic: Statistic, parts: Sequence[Part], measure: Callable[[np.ndarray, Estimator], Measured]
) -> tuple[dict[str, Measured], tuple[Undefined, ...]]:
    """Return what `measure` makes of every part, and those without a value: a warning, or an UndefinedError if all."""
    measured, undefined = dict[str, Measured](), list[Undefined]()
    for name, rows, estimator in parts:
        try:
            measured[name] = measure(rows, estimator)
        except InputError as error:
            undefined.append(Undefined(name, len(rows), str(error)))
    if undefined:
        names = ", ".join(f"{name} ({n} values: {reason})" for name, n, reason in undefined[:_SHOWN])
        names += f" and {len(undefined) - _SHOWN} more" if len(undefined) > _SHOWN else ""
        if not measured:
            raise UndefinedError(f"{statistic} is undefined everywhere: {names}.", undefined)
        which = f"{len(undefined)} of {len(parts)}"
        warn(f"{statistic} is undefined for {which}, which are left out of the mean: {names}.")
    return measured, tuple(undefined)


def split_parts(rated: RatedSegments, statistic: Statistic, averaging: str, threshold: float = THRESHOLD) -> list[Part]:
    """Split the data into the parts that a statistic is averaged over, by ascending name; check what they must have."""
    if statistic == "spa" and averaging not in {"none", "group"}:
        raise SpecError(f"spa compares systems; expected averaging=none or averaging=group, not {averaging}.")
    if statistic in PAIRWISE and averaging in {"group", "item"}:
        require_labels(rated, "item", statistic)
    everything = [EVERYTHING] * len(rated.group)
    column = everything if averaging == "none" else require_labels(rated, averaging, f"averaging={averaging}")
    ratings = check_numbers("ratings", rated.ratings, len(rated.ratings))
    items, systems = (None if labels is None else np.asarray(labels) for labels in (rated.item, rated.system))
    if statistic in PAIRWISE - {"spa"} and averaging != "group":
        items, column = np.asarray(column), everything
    names, code = np.unique(np.asarray(column), return_inverse=True)
    parts = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
    result = list[Part]()
    for name, rows in zip(names, parts, strict=True):
        own_items, own_systems = (None if labels is None else labels[rows] for labels in (items, systems))
        estimator = make_estimator(statistic, ratings[rows], own_items, threshold, own_systems)
        result.append(Part(str(name), rows, estimator))
    return result


def bootstrap(estimate: CorrelationEstimate, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Compute a statistic of resamples, drawn with replacement; shape (resamples,), NaN where undefined."""
    if estimate.units < 2:
        return np.full(resamples, np.nan)
    at_once = max(1, _BLOCK // estimate.units)
    blocks = [min(at_once, resamples - start) for start in range(0, resamples, at_once)]
    return np.concatenate([np.zeros(0), *(estimate.resampled(draw(estimate.units, block, rng)) for block in blocks)])


def draw(units: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw as many units as there are, with replacement; return each unit's count, shape (units, resamples), int."""
    rows = rng.integers(0, units, size=(resamples, units))  # (resamples, units)
    cells = rows * resamples + np.arange(resamples)[:, None]
    return np.bincount(cells.ravel(), minlength=units * resamples).reshape(units, resamples)


def interval(values: np.ndarray) -> Interval:
    """Return the percentile 95% interval of resamples, undefined ones (NaN) left out; None where most are undefined."""
    defined = values[~np.isnan(values)]
    if 2 * len(defined) <= len(values):
        return Interval(None, None)
    return Interval(*map(float, np.percentile(defined, LEVEL)))


def system_agreement(
    statistic: str,
    scores: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    *,
    averaging: str = "group",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    systems: Mapping[tuple[str, str], float] | None = None,
) -> tuple[Agreement, Agreement]:
    """Measure whether a metric ranks systems as people do: by a statistic of `check_systems`, and by their accuracy.

    The accuracy is the share of the pairs of systems of one group that metric and people order alike, over the pairs of
    all groups (Kocmi et al. 2021); a tie of either is not alike. For intervals the systems of every group are drawn
    with replacement; a system and its own copy are no pair. `systems` has scores by group and system, not means. Raises
    UndefinedError where no group has the statistic; `system_accuracy` may still have a value.
    """
    chosen = check_systems(rated, statistic, averaging)
    numbers = check_numbers("scores", scores, len(rated.ratings))
    own_means, ranked = mean_systems(numbers, rated, averaging, systems)
    measured = (numbers, rated) if chosen == "spa" else (own_means, ranked)
    by_statistic = agreement(chosen, *measured, averaging=averaging, resamples=resamples, seed=seed)
    return by_statistic, _count_pairs(own_means, ranked, averaging, resamples, seed)


def system_accuracy(
    scores: Sequence[float] | np.ndarray,
    rated: RatedSegments,
    *,
    averaging: str = "group",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    systems: Mapping[tuple[str, str], float] | None = None,
) -> Agreement:
    """Measure the accuracy of `system_agreement` alone; NaN where no group has two systems."""
    check_systems(rated, "pearson", averaging)
    means, ranked = mean_systems(check_numbers("scores", scores, len(rated.ratings)), rated, averaging, systems)
    return _count_pairs(means, ranked, averaging, resamples, seed)


def mean_systems(
    scores: np.ndarray, rated: RatedSegments, averaging: str, systems: Mapping[tuple[str, str], float] | None = None
) -> tuple[np.ndarray, RatedSegments]:
    """Return every system's score, shape (systems,), and its rating and group as rated data: means, unless they are
    known by `systems` and `RatedSegments.system_ratings`. Warns of a system with fewer segments than others.
    """
    groups, means = list[str](), list[tuple[float, float]]()
    for name, rows, _ in split_parts(rated, "pearson", averaging):
        systems_here, code = np.unique(np.asarray(rated.system)[rows], return_inverse=True)
        counts = np.bincount(code)
        if fewer := [f"{system} ({n})" for system, n in zip(systems_here, counts, strict=True) if n < counts.max()]:
            which = f"{len(fewer)} of {len(systems_here)} systems have fewer than {counts.max()} segments"
            warn(f"{name}: {which}, so means of different segments are compared: {', '.join(fewer)}.")
        rows_by_system = [rows[code == system] for system in range(len(systems_here))]
        groups += [name] * len(systems_here)
        for system, own_rows in zip(systems_here, rows_by_system, strict=True):
            place, both = (rated.group[own_rows[0]], str(system)), (scores, rated.ratings)
            published = systems or {}, rated.system_ratings or {}
            score, rating = (
                mean.get(place, float(v[own_rows].mean())) for mean, v in zip(published, both, strict=True)
            )
            means.append((score, rating))
    own_means, ratings = np.array(means).T
    return own_means, RatedSegments(groups, [], [], ratings, 0)


def check_systems(rated: RatedSegments, statistic: str, averaging: str) -> Statistic:
    """Return the statistic; raise SpecError or InputError, as `system_agreement`, before anything is scored."""
    chosen = statistic_named(statistic)
    if chosen in PAIRWISE - {"spa"} or averaging not in {"group", "none"}:
        expected = "systems are ranked by pearson, spearman, kendall or spa, averaged over group or none"
        raise SpecError(f"{expected}; not by {chosen} over {averaging}.")
    require_labels(rated, "system", "a ranking of systems")
    return chosen


def _count_pairs(scores: np.ndarray, rated: RatedSegments, averaging: str, resamples: int, seed: int) -> Agreement:
    """Return the share of pairs of systems that scores and ratings order alike."""
    counts, drawn, alone = np.zeros(2, dtype=int), np.zeros((2, resamples)), list[Undefined]()  # alike, pairs
    for k, (name, rows, _) in enumerate(split_parts(rated, "pearson", averaging)):
        alone += [Undefined(name, len(rows), "a single system makes no pair")] * (len(rows) < 2)
        metric, people = (np.sign(np.subtract.outer(values[rows], values[rows])) for values in (scores, rated.ratings))
        alike = ((metric == people) & (metric != 0)).astype(np.float64)  # (systems, systems); every pair is there twice
        pairs = 1.0 - np.eye(len(rows))
        counts += [int(which.sum()) // 2 for which in (alike, pairs)]
        weights = draw(len(rows), resamples, np.random.default_rng([seed, k])).astype(np.float64)
        drawn += [(weights * (which @ weights)).sum(axis=0) for which in (alike, pairs)]
    defined = drawn[1] > 0
    value = float(counts[0] / counts[1]) if counts[1] else math.nan
    ends = interval(drawn[0, defined] / drawn[1, defined])
    return Agreement(value, *ends, int(counts[1]), undefined=tuple(alone))


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> AgreementTest:
    """Test the difference of two metrics' correlations with people, r_a and r_b; theirs is r_ab, of n segments.

    ``t = (r_a - r_b) sqrt((n - 1)(1 + r_ab)) / sqrt(2 K (n - 1) / (n - 3) + (r_a + r_b)^2 / 4 (1 - r_ab)^3)`` with ``K
    = 1 - r_a^2 - r_b^2 - r_ab^2 + 2 r_a r_b r_ab`` follows Student's t with n - 3 degrees of freedom (Williams 1959;
    Graham and Baldwin 2014). Raises InputError where it is undefined.

    >>> round(williams(0.6, 0.5, 0.8, 103).p, 4)
    0.0256
    """
    if n <= MIN_ROWS:
        raise InputError(f"Williams' test needs more than {MIN_ROWS} segments; got {n}.")
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    if r_a == r_b:
        return AgreementTest(0.0, 0.5)
    variance = 2 * max(determinant, 0.0) * (n - 1) / (n - 3) + (r_a + r_b) ** 2 / 4 * (1 - r_ab) ** 3
    if variance <= 0 or 1 + r_ab <= 0:
        raise InputError("Williams' test is undefined for metrics that are each other's opposite.")
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
    a, b = (check_numbers("scores", scores, len(rated.ratings)) for scores in (scores_a, scores_b))
    tests, sizes = dict[str, AgreementTest | None](), dict[str, int]()
    for name, rows, _ in split_parts(rated, "pearson", averaging):
        own_a, own_b, ratings = a[rows], b[rows], rated.ratings[rows]
        try:
            r_a, r_b, r_ab = (correlate("pearson", *xy) for xy in ((own_a, ratings), (own_b, ratings), (own_a, own_b)))
            tests[name] = williams(r_a, r_b, r_ab, len(rows))
            sizes[name] = len(rows)
        except InputError:
            tests[name] = None
    warn_about_small_samples(sizes)
    return tests


def count_swapped(rated: RatedSegments) -> int:
    """Return how many items, or segments of data without items, a `permutation` swaps."""
    return len(rated.ratings) if rated.item is None else len(set(rated.item))


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
    not name items every segment is an item. With `single` every segment is swapped alone, which is their PERM-BOTH. For
    ``acc_eq`` the results of an item's pairs are swapped, or of each pair alone: epsilon stays the metric's own, as by
    ``pairs`` of mt-metrics-eval, unless pairs are of several items. ``p = (1 + trials with at least the observed
    difference) / (1 + trials)``; a part without a value in a trial is left out of that trial's mean, and a trial
    without any value counts as having at least that difference. Parts in which either metric's statistic is undefined
    are left out for both. Other arguments and errors as for `agreement`.
    """
    chosen = statistic_named(statistic)
    check_sample(count_swapped(rated))
    both = np.stack([check_numbers("scores", scores, len(rated.ratings)) for scores in (scores_a, scores_b)])
    if trials < 1:
        raise SpecError(f"expected 1 trial or more, not {trials}.")
    items = np.arange(len(rated.ratings)) if single or rated.item is None else rated.item
    codes = np.unique(np.asarray(items), return_inverse=True)[1]
    swaps = np.random.default_rng(seed).random((int(codes.max()) + 1, trials + 1)) < 0.5
    swaps[:, 0] = False  # swaps nothing
    swaps = swaps[codes]  # (segments, 1 + trials)
    of_items = chosen == "acc_eq" and (single or averaging in {"group", "item"})
    permute = partial(_permute_pairs, seed=seed if single else None) if of_items else _permute

    parts = split_parts(rated, chosen, averaging, threshold=threshold)
    observed, _ = measure_parts(chosen, parts, lambda rows, estimator: _difference(both[:, rows], estimator))
    defined = (part for part in parts if part.name in observed)
    permuted = [permute(both[:, rows], estimator, swaps[rows]) for _, rows, estimator in defined]
    differences = np.ma.masked_invalid(permuted).mean(axis=0).filled(np.nan)  # shape (1 + trials,)
    below = differences[1:] < differences[0] - _ROUNDING  # False for an undefined trial
    return AgreementTest(float(np.mean([*observed.values()])), float((1 + (~below).sum()) / (1 + trials)))


def rank_metrics(
    scores: Sequence[Sequence[float]], values: Sequence[float], rated: RatedSegments, statistic: str, **permuted: Any
) -> list[int | None]:
    """Rank metrics in clusters, as the metrics shared task does (Freitag et al. 2023); return ranks from 1.

    From the metric that agrees best downwards: a metric has the rank of the one above it, unless a metric of that rank
    outperforms it by `permutation` of single scores or pairs (p of at most `SIGNIFICANT`); then it begins the next
    rank. `scores` has shape (metrics, segments), `values` are of the statistic; `permuted` is for `permutation`. A
    metric whose value is NaN has no rank, and two metrics that no part of the data compares do not outperform each
    other.
    """
    ranks, rank, cluster = list[int | None]([None] * len(scores)), 1, list[int]()
    defined = [metric for metric, value in enumerate(values) if not math.isnan(value)]
    for metric in sorted(defined, key=lambda metric_index: -values[metric_index]):
        against = list[AgreementTest]()
        for better in cluster:
            with suppress(UndefinedError):
                test = permutation(scores[better], scores[metric], rated, statistic, single=True, **permuted)
                against.append(test)
        if any(tested.p <= SIGNIFICANT for tested in against):
            rank, cluster = rank + 1, []
        cluster.append(metric)
        ranks[metric] = rank
    return ranks


def _difference(both: np.ndarray, estimator: Estimator) -> float:
    return estimator(both[0]).value - estimator(both[1]).value


def _permute(both: np.ndarray, estimator: Estimator, swaps: np.ndarray) -> np.ndarray:
    """Return the difference by column of swaps; equal columns are computed once, which makes small parts cheap."""
    spread = both.std(axis=1, keepdims=True)
    standard = (both - both.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)  # (2, rows)
    _, first, column = np.unique(np.packbits(swaps, axis=0), axis=1, return_index=True, return_inverse=True)
    differences = np.full(len(first), np.nan)
    for k, swapped in enumerate(swaps.T[first]):
        with suppress(InputError):  # where a swap has made a metric constant
            differences[k] = _difference(np.where(swapped, standard[::-1], standard), estimator)
    return differences[column.reshape(-1)]


def _permute_pairs(both: np.ndarray, estimator: Estimator, swaps: np.ndarray, seed: int | None) -> np.ndarray:
    """Return the difference of ``acc_eq`` by column of swaps, where results of pairs are swapped: an item's
    together, or, with a seed, each alone, in all columns but the first.
    """
    (pairs, first), (other, _) = (estimator(scores).pairs for scores in both)
    difference = pairs - other  # (P,)
    if seed is None:
        by_row = np.bincount(first, weights=difference, minlength=len(swaps))
        return np.asarray(difference.sum() - 2 * by_row @ swaps)
    difference, rng = difference[difference != 0], np.random.default_rng(seed)
    signed = (np.where(rng.random(len(difference)) < 0.5, difference, -difference) for _ in swaps.T[1:])
    return np.array([difference.sum(), *(trial.sum() for trial in signed)])
