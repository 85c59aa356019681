"""Meta-evaluations as values: agreement of metrics with ratings, and preferences between two texts of a pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twmd_registry.engine.input_warnings import warn_about_small_samples
from twmd_registry.errors import InputError, SpecError, menu
from twmd_registry.judgments.official import OfficialScores
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.agreement import (
    RESAMPLES,
    SEED,
    Agreement,
    Averaging,
    agreement,
    bootstrap,
    check_systems,
    interval,
    mean_estimate,
    split_parts,
    system_agreement,
)
from twmd_registry.metaeval.correlation import THRESHOLD, check_numbers, statistic_named
from twmd_registry.metaeval.side_by_side import (
    FORMATS,
    MISSING,
    Compared,
    LabelledScores,
    TextTable,
    as_report,
    between,
    check_compared,
    names_of,
    score_side_by_side,
)
from twmd_registry.metaeval.significance import AgreementTest, permutation, rank_metrics, williams_by_part
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Statistic
from twmd_registry.registry.options import RunOptions
from twmd_registry.version import __version__

SEGMENT, SYSTEM = "segment", "system"
"""Levels of a study: every segment's score is correlated, or every system's mean."""
TIE = 1e-5
"""Scores that differ by no more are equal: a score may move by so much under an equal signature."""


@dataclass(frozen=True)
class Study:
    """What is measured.

    Attributes:
        data: The data's name.
        content: Hash of the data, `twmd_registry.judgments.sets.content_of`.
        metrics: What is compared, ours, SacreBLEU's and published scores; the others are tested against the first.
        statistics: Correlations.
        averaging: Over what correlations are averaged.
        level: What is correlated.
        resamples: Bootstrap resamples of the intervals; 0 for none.
        trials: Permutations of the tests against the first metric; 0 for no tests.
        seed: Of both.
        threshold: The least difference of two ratings that ``darr`` counts as an order, in points of their own scale.

    Raises:
        SpecError: An unknown metric, statistic, averaging or level; none at all; a number below 0; or tests at the
            level of systems.
    """

    data: str
    content: str
    metrics: tuple[Compared, ...]
    statistics: tuple[Statistic, ...]
    averaging: Averaging = Averaging.GROUP
    level: str = SEGMENT
    resamples: int = RESAMPLES
    trials: int = 0
    seed: int = SEED
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        """Replace names by what they name, so that equal studies have equal names."""
        object.__setattr__(self, "metrics", check_compared(self.metrics))
        statistics = (self.statistics,) if isinstance(self.statistics, str) else self.statistics
        object.__setattr__(self, "statistics", tuple(map(statistic_named, statistics)))
        for field, choices in (("averaging", tuple(Averaging)), ("level", (SEGMENT, SYSTEM))):
            value = getattr(self, field)
            if value not in choices:
                raise SpecError(f"there is no {field} {value!r}; {menu(str(value), choices)}.")
        object.__setattr__(self, "averaging", Averaging(self.averaging))
        if not self.statistics:
            raise SpecError("a study needs a correlation.")
        for field in ("resamples", "trials", "seed"):
            if getattr(self, field) < 0:
                raise SpecError(f"expected {field} of 0 or more, not {getattr(self, field)}.")
        if not 0 <= self.threshold < math.inf:
            raise SpecError(f"expected a threshold from 0, in points of the ratings, not {self.threshold}.")
        if Statistic.SPA in self.statistics and self.level != SYSTEM:
            raise SpecError("spa ranks systems: ask for the level of systems.")
        if self.trials and self.level == SYSTEM and set(self.statistics) != {Statistic.SPA}:
            raise SpecError(
                "of the statistics of systems only spa is tested: leave the trials out, or ask for spa alone."
            )

    @property
    def name(self) -> str:
        """Return the canonical name: two studies with equal names measure the same."""
        fields = {
            "data": f"{self.data}@{self.content}",
            "metrics": names_of(self.metrics),
            "correlation": ",".join(self.statistics),
            "averaging": self.averaging,
            "level": self.level,
            "bs": self.resamples,
            "ar": self.trials,
            "seed": self.seed,
            **({"threshold": f"{self.threshold:g}"} if Statistic.DARR in self.statistics else {}),
        }
        return _write_name("study", fields)


def _write_name(kind: str, fields: Mapping[str, object]) -> str:
    return "|".join([kind, *(f"{name}:{value}" for name, value in fields.items()), f"version:{__version__}"])


@dataclass(frozen=True)
class StudyResult:
    """The agreement of every metric.

    Attributes:
        study: With the specifications as they were applied.
        scored: By metric, label, signature and scores.
        agreements: By metric, then by statistic.
        tests: Likewise, by permutation against the first metric; empty for that metric, and without trials.
        ranks: By metric, then by statistic, the rank of `rank_metrics`; empty without trials.
        williams: By metric, then by part of the data, Williams' test of the Pearson correlation; otherwise as `tests`.
        accuracies: By metric, then by statistic, the pairwise accuracy of systems; empty at the level of segments.
        dropped: Rows of the data that were left out.
        overlaps: A sentence for each metric that was trained or tuned on the data.
    """

    study: Study
    scored: tuple[LabelledScores, ...]
    agreements: tuple[dict[Statistic, Agreement], ...]
    tests: tuple[dict[Statistic, AgreementTest], ...]
    ranks: tuple[dict[Statistic, int], ...]
    williams: tuple[dict[str, AgreementTest | None], ...]
    accuracies: tuple[dict[Statistic, Agreement], ...]
    dropped: int
    overlaps: tuple[str, ...] = ()

    @property
    def tables(self) -> dict[str, TextTable]:
        """Return a table per statistic, by its name, and Williams' p in every part if there are tests."""
        tables = {statistic.value: self._table(statistic) for statistic in self.study.statistics}
        rows = [
            (metric.label, *("undefined" if test is None else f"{test.p:.4f}" for test in tests.values()))
            for metric, tests in zip(self.scored, self.williams, strict=True)
            if tests
        ]
        if rows:
            title = f"Williams' p of a higher Pearson correlation than {self.scored[0].label}'s"
            tables["williams"] = TextTable(title, ("metric", *self.williams[-1]), rows)
        return tables

    def _table(self, statistic: Statistic) -> TextTable:
        """Return a row per metric: the average with its interval, and every group's correlation, from -1 to 1.

        With tests the metrics are ordered by rank and average.
        """
        study = self.study
        undefined = {name for own in self.agreements for name, *_ in own[statistic].undefined}
        groups = sorted(undefined.union(*(own[statistic].groups for own in self.agreements)))
        tested, accuracy = ["rank", "p (better)"] if study.trials else [], ["accuracy"] if study.level == SYSTEM else []
        rows = list[tuple[str, ...]]()
        order = list(range(len(self.scored)))
        if study.trials:
            order.sort(key=lambda k: -self.agreements[k][statistic].value)
        for k in order:
            metric, own = self.scored[k], self.agreements[k][statistic]
            values = {name: f"{group.value:.3f}" for name, group in own.groups.items()}
            cells = [metric.label, f"{own.value:.3f}", between(own.low, own.high) or MISSING]
            if study.trials:
                p = f"{self.tests[k][statistic].p:.4f}" if self.tests[k] else MISSING
                cells += [str(self.ranks[k][statistic]), p]
            cells += [f"{self.accuracies[k][statistic].value:.3f}" for _ in accuracy]
            rows.append((*cells, *(values.get(name, "undefined") for name in groups), str(own.n)))
        title = f"{statistic.value}, {study.data}, averaging {study.averaging}, level {study.level}"
        return TextTable(title, ("metric", statistic.value, "95% interval", *tested, *accuracy, *groups, "n"), rows)

    def as_text(self, form: str) -> str:
        """Return every table, in a form of `FORMATS`, and what is needed to repeat the study."""
        lines = [self.study.name, *(f"{metric.label}: {metric.signature}" for metric in self.scored)]
        for metric, agreements in zip(self.scored, self.agreements, strict=True):
            for statistic, own in agreements.items():
                if own.undefined:
                    names = "; ".join(f"{name} ({n} segments: {reason})" for name, n, reason in own.undefined)
                    parts = f"{len(own.groups)} of {len(own.groups) + len(own.undefined)}"
                    lines.append(f"{metric.label}, {statistic}: the mean is over {parts}, without {names}")
        return as_report(self.tables.values(), [*lines, *self.overlaps], form)

    def __str__(self) -> str:
        """Return it as text."""
        return self.as_text(FORMATS["txt"])

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the segments' scores, ready for JSON."""
        metrics = [
            {
                "label": metric.label,
                "signature": metric.signature,
                "agreement": {name: own.as_dict() for name, own in self.agreements[k].items()},
                "tests": {name: test._asdict() for name, test in self.tests[k].items()},
                "ranks": self.ranks[k],
                "williams": {name: test._asdict() if test else None for name, test in self.williams[k].items()},
                "accuracy": {
                    name: {"value": own.value, "low": own.low, "high": own.high, "pairs": own.n}
                    for name, own in self.accuracies[k].items()
                },
            }
            for k, metric in enumerate(self.scored)
        ]
        overlaps = list(self.overlaps)
        return {"study": self.study.name, "dropped": self.dropped, "overlaps": overlaps, "metrics": metrics}


def run_study(study: Study, rated: RatedSegments, options: RunOptions, progress: Progress | None = None) -> StudyResult:
    """Score every segment by every metric, each text encoded once, and correlate.

    Args:
        study: What to measure.
        rated: The data; their content must be the study's.
        options: Device, batch size and caches.
        progress: Called with the number of segments scored, and of those whose agreement is measured, per metric.

    Raises:
        SpecError: A statistic that does not go with the averaging or level.
        InputError: Other data than the study's; a correlation that is undefined everywhere; a column that the averaging
            needs and the data lack.
        ModelError: As `Scorer.score`.

    Warns:
        TwmdWarning: A metric was trained or tuned on the data; a sample is too small for tests and intervals; a
            correlation is undefined.
    """
    if content_of(rated) != study.content:
        raise InputError(
            f"these are not the study's data: their content is @{content_of(rated)}, not @{study.content}."
        )
    for statistic in study.statistics:  # before anything is encoded
        if study.level == SYSTEM:
            check_systems(rated, statistic, study.averaging)
        else:
            split_parts(rated, statistic, study.averaging, threshold=study.threshold)
    segments = len(rated.ratings)
    expect(progress, segments * len(study.metrics))
    applied, scored, overlaps = score_side_by_side(study.metrics, rated, study.data, options, progress)
    agreements, accuracies = list[dict[Statistic, Agreement]](), list[dict[Statistic, Agreement]]()
    tests, williams = list[dict[Statistic, AgreementTest]](), list[dict[str, AgreementTest | None]]()
    shared: dict[str, Any] = {"averaging": study.averaging, "seed": study.seed}
    intervals = shared | {"resamples": study.resamples}
    permuted = shared | {"trials": study.trials, "threshold": study.threshold}
    for own, metric in zip(applied, scored, strict=True):
        scores, first = metric.scores, scored[0].scores
        pairs = {}
        if study.level == SYSTEM:
            systems = dict[tuple[str, str], float]()
            if isinstance(own, OfficialScores):
                systems = {(pair, system): score for pair, system, score in own.systems}
            given = intervals | {"systems": systems}
            pairs = {name: system_agreement(name, scores, rated, **given) for name in study.statistics}
            agreements.append({name: ranked for name, (ranked, _) in pairs.items()})
        else:
            estimated = intervals | {"threshold": study.threshold}
            agreements.append({name: agreement(name, scores, rated, **estimated) for name in study.statistics})
        accuracies.append({name: accuracy for name, (_, accuracy) in pairs.items()})
        is_tested = study.trials > 0 and metric is not scored[0]
        tested = study.statistics if is_tested else ()
        tests.append({name: permutation(scores, first, rated, name, **permuted) for name in tested})
        is_linear = Statistic.PEARSON in tested
        williams.append(williams_by_part(scores, first, rated, study.averaging) if is_linear else {})
        if progress:
            progress(segments)
    ranks = _rank(study, scored, agreements, rated, permuted)
    parts = tuple(agreements), tuple(tests), ranks, tuple(williams), tuple(accuracies)
    return StudyResult(replace(study, metrics=applied), scored, *parts, rated.dropped, overlaps)


def _rank(
    study: Study,
    scored: Sequence[LabelledScores],
    agreements: Sequence[Mapping[Statistic, Agreement]],
    rated: RatedSegments,
    permuted: Mapping[str, Any],
) -> tuple[dict[Statistic, int], ...]:
    """Return the rank of every metric by every statistic; nothing without trials."""
    by_metric = tuple(dict[Statistic, int]() for _ in scored)
    for statistic in study.statistics if study.trials else ():
        values = [own[statistic].value for own in agreements]
        ranks = rank_metrics([metric.scores for metric in scored], values, rated, statistic, **permuted)
        for own, rank in zip(by_metric, ranks, strict=True):
            own[statistic] = rank
    return by_metric


@dataclass(frozen=True)
class RobustnessResult:
    """Preferences of every metric on every kind of edit.

    Attributes:
        name: The canonical name: two results with equal names measure the same.
        pairs: What was scored: the better text of every pair at even rows, the worse text after it.
        scored: By metric, label, signature and the scores of `pairs`.
        preferences: By metric, then by kind of edit, the result of `prefer`.
        overlaps: A sentence for each metric that was trained or tuned on the data.
    """

    name: str
    pairs: RatedSegments
    scored: tuple[LabelledScores, ...]
    preferences: tuple[dict[str, dict[str, Any]], ...]
    overlaps: tuple[str, ...]

    @property
    def tables(self) -> dict[str, TextTable]:
        """Return a row per kind of edit, a column per metric, and the mean over kinds: share preferred, difference."""
        preferred = "Share of better texts that score higher, ties as halves (95% interval)"
        difference = "Better less worse score, mean (95% interval)"
        return {
            "preferred": self._table("preferred", preferred, 3),
            "difference": self._table("difference", difference, 4),
        }

    def _table(self, key: str, title: str, digits: int) -> TextTable:
        rows = list[tuple[str, ...]]()
        for kind, first in self.preferences[0].items():
            intervals = [own[kind][f"{key}_interval"] for own in self.preferences]
            ends = [between(low, high, digits) for low, high in intervals]
            values = [f"{own[kind][key]:.{digits}f}" for own in self.preferences]
            cells = [f"{value} ({both})" if both else value for value, both in zip(values, ends, strict=True)]
            rows.append((kind, str(first["n"]), *cells))
        means = [np.mean([own[key] for own in by_kind.values()]) for by_kind in self.preferences]
        header = ("edit", "n", *(metric.label for metric in self.scored))
        return TextTable(title, header, [*rows, ("average", str(len(rows)), *(f"{mean:.4f}" for mean in means))])

    def as_text(self, form: str) -> str:
        """Return every table, and what is needed to repeat the measurement; argument as for `StudyResult.as_text`."""
        lines = [self.name, *(f"{metric.label}: {metric.signature}" for metric in self.scored), *self.overlaps]
        return as_report(self.tables.values(), lines, form)

    def __str__(self) -> str:
        """Return it as text."""
        return self.as_text(FORMATS["txt"])

    def as_dict(self) -> dict[str, Any]:
        """Return every number, ready for JSON."""
        metrics = [
            {"label": metric.label, "signature": metric.signature, "edits": by_kind}
            for metric, by_kind in zip(self.scored, self.preferences, strict=True)
        ]
        return {"study": self.name, "overlaps": list(self.overlaps), "metrics": metrics}


def pair_up(data: Sequence[RatedSegments]) -> RatedSegments:
    """Put the two texts of every pair in rows 2i and 2i + 1, the better rated text first.

    Raises:
        InputError: The data name no items, or an item of a group has not two segments, or two of one rating; names it.
    """
    sets: list[RatedSegments] = []
    for rated in data:
        if rated.item is None:
            raise InputError(
                "robustness needs pairs: data with items, as demetr:FILE, or a table with the columns group and item."
            )
        places: dict[tuple[str, str], list[int]] = {}
        for row, key in enumerate(zip(rated.group, rated.item, strict=True)):
            places.setdefault(key, []).append(row)
        for (group, item), rows in places.items():
            if len(rows) != 2 or rated.ratings[rows[0]] == rated.ratings[rows[1]]:
                raise InputError(
                    f"item {item!r} of {group!r} has {len(rows)} segments: expected two with different ratings."
                )
        order = np.array(list(places.values()))  # (pairs, 2)
        order = np.take_along_axis(order, np.argsort(-rated.ratings[order], axis=1), axis=1)
        sets.append(select(rated, order.ravel()))
    groups, predictions, references = (
        list(itertools.chain.from_iterable(getattr(own, field) for own in sets))
        for field in ("group", "predictions", "references")
    )
    return RatedSegments(groups, predictions, references, np.concatenate([own.ratings for own in sets]), 0)


def prefer(better: np.ndarray, worse: np.ndarray, *, resamples: int, seed: int) -> dict[str, Any]:
    """Measure how often, and by how much, better texts score higher; scores have shape (pairs,).

    Returns:
        ``n`` pairs; ``ties``, pairs whose scores are equal up to `TIE`; ``preferred``, ``mean_i [d_i > 0] + [d_i = 0] /
        2`` with ``d_i = better_i - worse_i``, from 0 to 1; ``difference``, ``mean_i d_i`` on the metric's own scale;
        and of both the bootstrap 95% interval, as ``preferred_interval`` and ``difference_interval``.

    Raises:
        InputError: Different numbers of scores, or a score that is not finite.
        SpecError: A negative number of resamples.

    >>> own = prefer(np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.5, 0.8, 0.6, 0.7]), resamples=0, seed=0)
    >>> own["preferred"], own["ties"], round(own["difference"], 4)
    (0.625, 1, 0.1)
    """
    n = len(better)
    difference = check_numbers("scores of better texts", better, n) - check_numbers("scores of worse texts", worse, n)
    tied = np.abs(difference) <= TIE
    higher = np.where(tied, 0.5, difference > 0)
    result: dict[str, Any] = {"n": n, "ties": int(tied.sum())}
    for name, values in (("preferred", higher), ("difference", difference)):
        resampled = bootstrap(mean_estimate(values), resamples, np.random.default_rng(seed))
        result |= {name: float(values.mean()), f"{name}_interval": interval(resampled)}
    return result


def run_robustness(
    data: dict[str, RatedSegments],
    metrics: Sequence[Compared],
    options: RunOptions,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    progress: Progress | None = None,
) -> RobustnessResult:
    """Score the two texts of every pair by every metric: a text and the same text after a small edit.

    Args:
        data: By name and content, the data sets, as for `pair_up`: published challenge sets such as DEMETR.
        metrics: What is compared, ours and SacreBLEU's.
        options: Device, batch size and caches.
        resamples: Of the bootstrap; 0 for no intervals.
        seed: Of the bootstrap.
        progress: Called with the number of segments scored.

    Raises:
        InputError: As for `pair_up`.
        SpecError: No metric, or an unknown metric.
        ModelError: As for `Scorer.score`.

    Warns:
        TwmdWarning: A metric was trained or tuned on the data; a kind of edit has fewer pairs than
            `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE`; a single pair has no interval.
    """
    checked, pairs = check_compared(metrics), pair_up(list(data.values()))
    expect(progress, len(pairs.predictions))
    applied, scored, overlaps = score_side_by_side(checked, pairs, ", ".join(data), options, progress)
    kinds = np.array(pairs.group[::2])
    rows = {str(kind): np.flatnonzero(kinds == kind) for kind in dict.fromkeys(pairs.group)}
    if resamples:
        warn_about_small_samples({kind: len(own) for kind, own in rows.items()})
    preferences = []
    for metric in scored:
        better, worse = np.array(metric.scores).reshape(-1, 2).T  # (pairs,) each
        preferences.append(
            {kind: prefer(better[own], worse[own], resamples=resamples, seed=seed) for kind, own in rows.items()}
        )
    fields = {"data": ",".join(data), "metrics": names_of(applied), "bs": resamples, "seed": seed}
    return RobustnessResult(_write_name("robustness", fields), pairs, scored, tuple(preferences), overlaps)
