"""How well scores agree with people over a data set: statistics averaged over its parts, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from twmd_registry.engine.input_warnings import warn_about_small_samples
from twmd_registry.errors import InputError, SpecError, menu, warn
from twmd_registry.judgments.rated import RatedSegments, require_labels
from twmd_registry.metaeval.correlation import (
    PAIRWISE,
    THRESHOLD,
    CorrelationEstimate,
    Estimator,
    check_numbers,
    make_estimator,
    statistic_named,
)
from twmd_registry.registry.names import Statistic

RESAMPLES = 1000
SEED = 12345
LEVEL = (2.5, 97.5)
"""Percentiles of the resamples that bound a 95% interval."""
EVERYTHING = "all"
"""The name of the only part where nothing is averaged."""
_BLOCK = 2**22
"""Weights that are held at once: 32 MB."""
_SHOWN = 10
"""Parts that a warning names; all of them are in the result."""

Interval = tuple[float | None, float | None]
"""Ends of a bootstrap percentile 95% interval; None without resamples, or where most of them are undefined."""
Part = tuple[str, np.ndarray, Estimator]
"""The name of a group, item or system, its rows in ascending order, and the statistic of its ratings."""
Undefined = tuple[str, int, str]
"""The name of a part without a value, its segments, and the reason."""

Measured = TypeVar("Measured")
Averaging = Literal["none", "group", "item", "system"]
"""What a statistic is averaged over: nothing (one value of all rows), groups such as language pairs, items, or
systems.
"""


@dataclass(frozen=True)
class Agreement:
    """How well scores agree with ratings, over all data or in one part.

    Attributes:
        value: The statistic, averaged over `groups` where there are any.
        low: Lower end of its 95% interval; None without one, as for an item.
        high: Upper end.
        n: Segments that took part; of an accuracy over systems, pairs of systems.
        epsilon: Of ``acc_eq`` in one part, the greatest difference of two scores that is a tie; else None.
        groups: What the average is taken over, by ascending name.
        undefined: Name, segments and reason of each part that is left out because it has no value.
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
        groups = [{"name": name} | {key: getattr(own, key) for key in keys} for name, own in self.groups.items()]
        undefined = [dict(zip(("name", "n", "reason"), part, strict=True)) for part in self.undefined]
        return {key: getattr(self, key) for key in keys[:-1]} | {"groups": groups, "undefined": undefined}


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
    """Measure how well scores agree with ratings.

    The statistic is computed in every part of the data, and averaged with equal weights. For the interval, the rows of
    every part (the items, for statistics of pairs) are drawn with replacement; a part that is undefined in a resample
    keeps its value there. An average over items draws whole items, which get no intervals of their own.

    Args:
        statistic: A value of `Statistic`.
        scores: Higher is better; shape (segments,).
        rated: The ratings, and the parts that their segments belong to.
        averaging: A value of `Averaging`. The statistics that compare pairs of segments are of one part, unless it is
            ``group``: they compare the segments of an item (or, by ``system``, of a system; by ``none``, all).
        resamples: Of the bootstrap; 0 for no intervals.
        seed: Of the bootstrap, which draws the same rows for every metric.
        threshold: The least difference of two ratings that ``darr`` counts as an order, in points of their own scale.

    Raises:
        SpecError: An unknown statistic or averaging, or not for each other; a seed or number of resamples below 0.
        InputError: The data do not name items or systems; scores of another shape or not finite; no part has a value.

    Warns:
        TwmdWarning: A part has no value, or an interval is of fewer than `RELIABLE_SAMPLE` segments (or items).
    """
    if seed < 0:
        raise SpecError(f"expected a seed of 0 or more, not {seed}.")
    wanted, numbers = statistic_named(statistic), check_numbers("scores", scores, len(rated.ratings))
    parts = split_parts(rated, wanted, averaging, threshold=threshold)
    estimates, undefined = measure_parts(wanted, parts, lambda rows, estimator: estimator(numbers[rows]))
    values = np.array([estimate.value for estimate in estimates.values()])
    if averaging == "item" and wanted not in PAIRWISE:
        resampled = [np.zeros(0)] * len(values)
        n, units = len(values), {"items": len(values)}
        mean = CorrelationEstimate(float(values.mean()), n, n, lambda weights: values @ weights / n)
        means = bootstrap(mean, resamples, np.random.default_rng(seed))
    else:
        rngs = [np.random.default_rng([seed, k]) for k, (name, *_) in enumerate(parts) if name in estimates]
        resampled = list(map(bootstrap, estimates.values(), [resamples] * len(values), rngs))
        means = mean_of_parts(np.array(resampled), values)
        units = {name: estimate.units for name, estimate in estimates.items()}
    warn_about_small_samples(units if resamples else {})
    groups = {
        name: Agreement(estimate.value, *interval(own), estimate.n, estimate.epsilon)
        for (name, estimate), own in zip(estimates.items(), resampled, strict=True)
    }
    segments = sum(own.n for own in groups.values())
    return Agreement(float(values.mean()), *interval(means), segments, groups=groups, undefined=undefined)


def measure_parts(
    statistic: Statistic, parts: Sequence[Part], measure: Callable[[np.ndarray, Estimator], Measured]
) -> tuple[dict[str, Measured], tuple[Undefined, ...]]:
    """Return what `measure` makes of the rows and the statistic of every part, and the parts without a value; a warning
    names these, and where no part has a value an InputError.
    """
    measured, undefined = dict[str, Measured](), list[Undefined]()
    for name, rows, estimator in parts:
        try:
            measured[name] = measure(rows, estimator)
        except InputError as error:
            undefined.append((name, len(rows), str(error)))
    if undefined:
        names = ", ".join(f"{name} ({n} values: {reason})" for name, n, reason in undefined[:_SHOWN])
        names += f" and {len(undefined) - _SHOWN} more" if len(undefined) > _SHOWN else ""
        if not measured:
            raise InputError(f"{statistic} is undefined everywhere: {names}.")
        which = f"{len(undefined)} of {len(parts)}"
        warn(f"{statistic} is undefined for {which}, which are left out of the mean: {names}.")
    return measured, tuple(undefined)


def split_parts(
    rated: RatedSegments, statistic: Statistic, averaging: str, *, threshold: float = THRESHOLD
) -> list[Part]:
    """Split the data into the parts that a statistic is averaged over, by ascending name; check what they must have."""
    if averaging not in get_args(Averaging):
        raise SpecError(f"there is no averaging {averaging!r}; {menu(str(averaging), get_args(Averaging))}.")
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
        result.append((str(name), rows, estimator))
    return result


def bootstrap(estimate: CorrelationEstimate, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Compute a statistic of resamples, drawn with replacement; shape (resamples,), NaN where undefined."""
    if resamples < 0:
        raise SpecError(f"expected resamples of 0 or more, not {resamples}.")
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
        return None, None
    low, high = map(float, np.percentile(defined, LEVEL))
    return low, high


def mean_of_parts(resampled: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the mean over parts, shape (parts, B) to (B,); NaN is replaced by the part's own value, shape (parts,)."""
    is_undefined = np.isnan(resampled)
    means = np.where(is_undefined, values[:, None], resampled).mean(axis=0)
    return np.where(is_undefined.all(axis=0), np.nan, means)


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
    """Measure whether a metric ranks systems as people do.

    The score and the rating of a system are those of `mean_systems`. The accuracy is the share of the pairs of systems
    of one group that metric and people order alike, over the pairs of all groups (Kocmi et al. 2021); a tie of either
    is not alike. For intervals the systems of every group are drawn with replacement; a system and its own copy are no
    pair.

    Args:
        statistic: ``pearson``, ``spearman`` or ``kendall`` of the means, or ``spa``.
        scores: Higher is better; shape (segments,).
        rated: The ratings; every segment's system is named.
        averaging: ``group``, or ``none`` for one ranking of all systems, whatever their group.
        resamples: Of the bootstrap; 0 for no intervals.
        seed: Of the bootstrap.
        systems: Scores of systems, by group and system, in place of means; systems that are not in it have means.

    Returns:
        The statistic over systems, whose n counts systems (of ``spa``, segments), and the accuracy, from 0 to 1, whose
        n counts pairs.

    Raises:
        SpecError: The statistic or averaging does not exist, or does not apply to systems.
        InputError: The data do not name systems; no group has three systems, or scores and ratings that vary; as for
            `agreement`.

    Warns:
        TwmdWarning: A system has fewer segments than others of its group; as for `agreement`.
    """
    wanted = check_systems(rated, statistic, averaging)
    numbers = check_numbers("scores", scores, len(rated.ratings))
    own_means, ranked = mean_systems(numbers, rated, averaging, systems)
    measured = (numbers, rated) if wanted == "spa" else (own_means, ranked)
    by_statistic = agreement(wanted, *measured, averaging=averaging, resamples=resamples, seed=seed)
    return by_statistic, _system_accuracy(own_means, ranked, averaging, resamples, seed)


def check_segment_ratings(rated: RatedSegments) -> None:
    """Refuse ratings of systems that stand for those of their segments: no segment was rated itself."""
    own = rated.system_ratings or {}
    places = zip(rated.group, rated.system or [], rated.ratings.tolist(), strict=False)
    if own and all(own.get((group, system)) == rating for group, system, rating in places):
        raise InputError("people have rated systems here, not segments: measure by --level system, without --task.")


def mean_systems(
    scores: np.ndarray, rated: RatedSegments, averaging: str, systems: Mapping[tuple[str, str], float] | None = None
) -> tuple[np.ndarray, RatedSegments]:
    """Return every system's score, shape (systems,), and its rating and group as rated data: means, unless they are
    known.

    Known ones are in `systems` and `RatedSegments.system_ratings`. Warns of a system with fewer segments than others.
    """
    groups, means = list[str](), list[tuple[float, float]]()
    for name, rows, _ in split_parts(rated, "pearson", averaging):
        systems_here, code = np.unique(np.asarray(rated.system)[rows], return_inverse=True)
        counts = np.bincount(code)
        if fewer := [f"{own} ({n})" for own, n in zip(systems_here, counts, strict=True) if n < counts.max()]:
            which = f"{len(fewer)} of {len(systems_here)} systems have fewer than {counts.max()} segments"
            warn(f"{name}: {which}, so means of different segments are compared: {', '.join(fewer)}.")
        own = [rows[code == system] for system in range(len(systems_here))]
        groups += [name] * len(systems_here)
        for system, each in zip(systems_here, own, strict=True):
            place, both = (rated.group[each[0]], str(system)), (scores, rated.ratings)
            published = systems or {}, rated.system_ratings or {}
            score, rating = (own.get(place, float(v[each].mean())) for own, v in zip(published, both, strict=True))
            means.append((score, rating))
    own_means, ratings = np.array(means).T
    return own_means, RatedSegments(groups, [], [], ratings, 0)


def check_systems(rated: RatedSegments, statistic: str, averaging: str) -> Statistic:
    """Return the statistic; raise SpecError or InputError, as `system_agreement`, before anything is scored."""
    wanted = statistic_named(statistic)
    if wanted in PAIRWISE - {"spa"} or averaging not in {"group", "none"}:
        expected = "systems are ranked by pearson, spearman, kendall or spa, averaged over group or none"
        raise SpecError(f"{expected}; not by {wanted} over {averaging}.")
    require_labels(rated, "system", "a ranking of systems")
    return wanted


def _system_accuracy(scores: np.ndarray, rated: RatedSegments, averaging: str, resamples: int, seed: int) -> Agreement:
    """Count the pairs of systems that scores and ratings order alike."""
    counts, drawn = np.zeros(2, dtype=int), np.zeros((2, resamples))  # alike, pairs
    for k, (_, rows, _) in enumerate(split_parts(rated, "pearson", averaging)):
        own, people = (np.sign(np.subtract.outer(each[rows], each[rows])) for each in (scores, rated.ratings))
        alike = ((own == people) & (own != 0)).astype(np.float64)  # (systems, systems); every pair is there twice
        pairs = 1.0 - np.eye(len(rows))
        counts += [int(which.sum()) // 2 for which in (alike, pairs)]
        weights = draw(len(rows), resamples, np.random.default_rng([seed, k])).astype(np.float64)
        drawn += [(weights * (which @ weights)).sum(axis=0) for which in (alike, pairs)]
    defined = drawn[1] > 0
    return Agreement(float(counts[0] / counts[1]), *interval(drawn[0, defined] / drawn[1, defined]), int(counts[1]))
