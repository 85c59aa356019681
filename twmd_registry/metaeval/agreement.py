"""Agreement of scores with human ratings: intervals, and tests of whether one metric agrees better than another."""

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
from twmd_registry.messages import listed, warn
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
"""Percentiles that bound a 95% interval."""
SIGNIFICANT = 0.05
_ROUNDING = 1e-12
"""Differences of agreement up to this count as equal."""
EVERYTHING = "all"
_BLOCK = 2**22
"""Weights in memory at once: 32 MB."""
_SHOWN = 10


class Interval(NamedTuple):
    """A bootstrap percentile 95% interval; None without resamples, or if most of them are undefined."""

    low: float | None
    high: float | None


class Part(NamedTuple):
    """The data of a group, item or system: its rows in ascending order, and the estimator for its ratings."""

    name: str
    rows: np.ndarray
    estimator: Estimator


class Undefined(NamedTuple):
    """A part without a value, its number of segments, and the reason."""

    name: str
    n: int
    reason: str


class AgreementTest(NamedTuple):
    """A one-sided test: metric A's agreement minus B's, and the probability of at least this difference by chance."""

    difference: float
    p: float


Measured = TypeVar("Measured")
Averaging = Literal["none", "group", "item", "system"]
"""Parts to average a statistic over: none (one value of all rows), groups (language pairs), items or systems."""


class UndefinedError(InputError):
    """A statistic is undefined in every part of the data; `undefined` has the reasons."""

    def __init__(self, message: str, undefined: Sequence[Undefined]) -> None:
        """Store the parts."""
        super().__init__(message)
        self.undefined = tuple(undefined)


@dataclass(frozen=True)
class Agreement:
    """Agreement of scores with ratings, over all data or in one part.

    Attributes:
        value: The statistic, averaged over `groups`; NaN (None in JSON) if every part is undefined.
        low: Lower end of the 95% interval; None without one.
        high: Upper end.
        n: Number of segments, or of pairs of systems for an accuracy over systems.
        epsilon: The tie threshold of ``acc_eq``, in one part.
        groups: Agreement by part, in order.
        undefined: Parts without a value.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    epsilon: float | None = None
    groups: Mapping[str, Agreement] = field(default_factory=dict)
    undefined: tuple[Undefined, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return every number as JSON-compatible values."""
        keys = ("value", "low", "high", "n", "epsilon")
        groups = [{"name": name} | {key: getattr(part, key) for key in keys} for name, part in self.groups.items()]
        undefined = [part._asdict() for part in self.undefined]
        values = {key: getattr(self, key) for key in keys[:-1]} | {"value": self.value if self.is_defined else None}
        return values | {"groups": groups, "undefined": undefined}

    @property
    def is_defined(self) -> bool:
        """Whether the value is defined."""
        return not math.isnan(self.value)


def agreement_or_undefined(label: str, measure: Callable[[], Agreement]) -> Agreement:
    """Return the result of `measure`; if it is undefined everywhere, warn and return an `Agreement` of NaN.

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

    The statistic is computed in every part of the data and averaged with equal weights. For the interval, the rows of
    every part are drawn with replacement, the same for every metric. Pairwise statistics draw items instead. A part
    that is undefined in a resample keeps its value there. An average over items draws whole items, which get no
    intervals of their own.

    Pairwise statistics average over groups and compare the segments of an item. With any other averaging they have one
    part, and compare the segments of an item or system, or all of them.

    Warns about undefined parts, and about intervals from few segments.
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
        drawn = np.array(resampled)  # (parts, B); an undefined part keeps its own value
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
    """Apply `measure` to every part. Warn about undefined parts; raise UndefinedError if there are no others."""
    measured, undefined = dict[str, Measured](), list[Undefined]()
    for name, rows, estimator in parts:
        try:
            measured[name] = measure(rows, estimator)
        except InputError as error:
            undefined.append(Undefined(name, len(rows), str(error)))
    if undefined:
        names = listed((f"{name} ({n} values: {reason})" for name, n, reason in undefined), _SHOWN)
        if not measured:
            raise UndefinedError(f"{statistic} is undefined everywhere: {names}.", undefined)
        which = f"{len(undefined)} of {len(parts)}"
        warn(f"{statistic} is undefined for {which}, which are left out of the mean: {names}.")
    return measured, tuple(undefined)


def split_parts(rated: RatedSegments, statistic: Statistic, averaging: str, threshold: float = THRESHOLD) -> list[Part]:
    """Split the data into parts to average over, by ascending name, and check that the labels exist."""
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
        part_items, part_systems = (None if labels is None else labels[rows] for labels in (items, systems))
        estimator = make_estimator(statistic, ratings[rows], part_items, threshold, part_systems)
        result.append(Part(str(name), rows, estimator))
    return result


def bootstrap(estimate: CorrelationEstimate, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Compute a statistic of resamples drawn with replacement; shape (resamples,), NaN where undefined."""
    if estimate.units < 2:
        return np.full(resamples, np.nan)
    at_once = max(1, _BLOCK // estimate.units)
    blocks = [min(at_once, resamples - start) for start in range(0, resamples, at_once)]
    return np.concatenate([np.zeros(0), *(estimate.resampled(draw(estimate.units, block, rng)) for block in blocks)])


def draw(units: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw units with replacement, as many as there are; return counts, shape (units, resamples), int."""
    rows = rng.integers(0, units, size=(resamples, units))  # (resamples, units)
    cells = rows * resamples + np.arange(resamples)[:, None]
    return np.bincount(cells.ravel(), minlength=units * resamples).reshape(units, resamples)


def interval(values: np.ndarray) -> Interval:
    """Return the percentile 95% interval of resamples without NaN; None if most are NaN."""
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
    """Measure how well a metric ranks systems: by a statistic of `check_systems`, and by pairwise accuracy.

    The accuracy is the share of pairs of systems, over all groups, that metric and humans order the same way (Kocmi
    et al. 2021). A tie of either counts as wrong. For intervals, the systems of every group are drawn with replacement.
    A system and its own copy make no pair. `systems` has published scores by group and system, which replace means.
    Raises UndefinedError if no group has the statistic; `system_accuracy` may still have a value.
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
    """Measure only the accuracy of `system_agreement`; NaN if no group has two systems."""
    check_systems(rated, "pearson", averaging)
    means, ranked = mean_systems(check_numbers("scores", scores, len(rated.ratings)), rated, averaging, systems)
    return _count_pairs(means, ranked, averaging, resamples, seed)


def mean_systems(
    scores: np.ndarray, rated: RatedSegments, averaging: str, systems: Mapping[tuple[str, str], float] | None = None
) -> tuple[np.ndarray, RatedSegments]:
    """Return every system's score, shape (systems,), and its rating and group as rated data.

    Scores and ratings are means over segments, unless `systems` or `RatedSegments.system_ratings` has them. Warns about
    a system with fewer segments than others.
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
            place = rated.group[own_rows[0]], str(system)
            score = (systems or {}).get(place, float(scores[own_rows].mean()))
            rating = (rated.system_ratings or {}).get(place, float(rated.ratings[own_rows].mean()))
            means.append((score, rating))
    own_means, ratings = np.array(means).T
    return own_means, RatedSegments(groups, [], [], ratings, 0)


def check_systems(rated: RatedSegments, statistic: str, averaging: str) -> Statistic:
    """Return the statistic; raise SpecError or InputError before anything is scored, as `system_agreement` would."""
    chosen = statistic_named(statistic)
    if chosen in PAIRWISE - {"spa"} or averaging not in {"group", "none"}:
        expected = "systems are ranked by pearson, spearman, kendall or spa, averaged over group or none"
        raise SpecError(f"{expected}, not by {chosen} over {averaging}.")
    require_labels(rated, "system", "a ranking of systems")
    return chosen


def _count_pairs(scores: np.ndarray, rated: RatedSegments, averaging: str, resamples: int, seed: int) -> Agreement:
    """Return the share of pairs of systems that scores and ratings order the same way."""
    counts, drawn, undefined = np.zeros(2, dtype=int), np.zeros((2, resamples)), list[Undefined]()  # alike, pairs
    for k, (name, rows, _) in enumerate(split_parts(rated, "pearson", averaging)):
        undefined += [Undefined(name, len(rows), "a single system makes no pair")] * (len(rows) < 2)
        metric, human = (np.sign(np.subtract.outer(values[rows], values[rows])) for values in (scores, rated.ratings))
        alike = ((metric == human) & (metric != 0)).astype(np.float64)  # (systems, systems); has every pair twice
        pairs = 1.0 - np.eye(len(rows))
        counts += [int(which.sum()) // 2 for which in (alike, pairs)]
        weights = draw(len(rows), resamples, np.random.default_rng([seed, k])).astype(np.float64)
        drawn += [(weights * (which @ weights)).sum(axis=0) for which in (alike, pairs)]
    defined = drawn[1] > 0
    value = float(counts[0] / counts[1]) if counts[1] else math.nan
    ends = interval(drawn[0, defined] / drawn[1, defined])
    return Agreement(value, *ends, int(counts[1]), undefined=tuple(undefined))


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> AgreementTest:
    """Test the difference of two metrics' correlations with ratings, r_a and r_b, over n segments; r_ab is their own.

    ``t = (r_a - r_b) sqrt((n - 1)(1 + r_ab)) / sqrt(2 K (n - 1) / (n - 3) + (r_a + r_b)^2 / 4 (1 - r_ab)^3)`` with ``K
    = 1 - r_a^2 - r_b^2 - r_ab^2 + 2 r_a r_b r_ab`` follows Student's t with n - 3 degrees of freedom (Williams 1959;
    Graham and Baldwin 2014). Raises InputError if it is undefined.

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
    """Test in every part, by Williams' test, whether A has the higher Pearson correlation; None if undefined."""
    a, b = (check_numbers("scores", scores, len(rated.ratings)) for scores in (scores_a, scores_b))
    tests, sizes = dict[str, AgreementTest | None](), dict[str, int]()
    for name, rows, _ in split_parts(rated, "pearson", averaging):
        part_a, part_b, ratings = a[rows], b[rows], rated.ratings[rows]
        try:
            pairs = ((part_a, ratings), (part_b, ratings), (part_a, part_b))
            r_a, r_b, r_ab = (correlate("pearson", x, y) for x, y in pairs)
            tests[name] = williams(r_a, r_b, r_ab, len(rows))
            sizes[name] = len(rows)
        except InputError:
            tests[name] = None
    warn_about_small_samples(sizes)
    return tests


def count_swapped(rated: RatedSegments) -> int:
    """Return how many items a `permutation` swaps; without items, how many segments."""
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

    Both metrics' scores are standardised within every part. In a trial, every item's scores are swapped between the
    metrics with probability 1/2, all segments of an item together. Without item labels every segment is an item. With
    `single`, every segment is swapped on its own, which is their PERM-BOTH.

    For ``acc_eq``, the results of an item's pairs are swapped together, or with `single` each on its own. Epsilon stays
    the metric's own, as in mt-metrics-eval's ``pairs``, unless pairs span several items.

    ``p = (1 + trials with at least the observed difference) / (1 + trials)``. A part that is undefined in a trial is
    left out of that trial's mean. A trial without any defined part counts as having at least the observed difference.
    Parts in which either metric is undefined are left out for both. Other arguments and errors as for `agreement`.
    """
    chosen = statistic_named(statistic)
    check_sample(count_swapped(rated))
    both = np.stack([check_numbers("scores", scores, len(rated.ratings)) for scores in (scores_a, scores_b)])
    if trials < 1:
        raise SpecError(f"expected at least 1 trial, not {trials}.")
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

    Metrics are visited from best to worst. A metric gets the rank of the one above it, unless a metric of that rank
    outperforms it by `permutation` with ``single`` (p of at most `SIGNIFICANT`). Then it starts the next rank. An
    undefined metric has no rank. Two metrics without a common defined part do not outperform each other.

    Args:
        scores: Scores of all metrics; shape (metrics, segments).
        values: The statistic of each.
        rated: The rated data.
        statistic: Its name.
        **permuted: Other arguments of `permutation`.
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
    """Return the difference per column of swaps. Equal columns are computed once, which makes small parts cheap."""
    spread = both.std(axis=1, keepdims=True)
    standard = (both - both.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)  # (2, rows)
    _, first, column = np.unique(np.packbits(swaps, axis=0), axis=1, return_index=True, return_inverse=True)
    differences = np.full(len(first), np.nan)
    for k, swapped in enumerate(swaps.T[first]):
        with suppress(InputError):  # the swap made a metric constant
            differences[k] = _difference(np.where(swapped, standard[::-1], standard), estimator)
    return differences[column.reshape(-1)]


def _permute_pairs(both: np.ndarray, estimator: Estimator, swaps: np.ndarray, seed: int | None) -> np.ndarray:
    """Return the difference of ``acc_eq`` per column of swaps of pair results.

    Without a seed, the results of an item's pairs are swapped together. With one, every result is swapped on its own in
    all columns but the first.
    """
    (pairs, first), (other, _) = (estimator(scores).pairs for scores in both)
    difference = pairs - other  # (P,)
    if seed is None:
        by_row = np.bincount(first, weights=difference, minlength=len(swaps))
        return np.asarray(difference.sum() - 2 * by_row @ swaps)
    difference, rng = difference[difference != 0], np.random.default_rng(seed)
    signed = (np.where(rng.random(len(difference)) < 0.5, difference, -difference) for _ in swaps.T[1:])
    return np.array([difference.sum(), *(trial.sum() for trial in signed)])
