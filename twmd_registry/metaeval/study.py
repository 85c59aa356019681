"""Meta-evaluations as values: the agreement of several metrics with ratings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from twmd_registry.comparison.text_table import MISSING, UNDEFINED, TextTable, as_report, between
from twmd_registry.engine.input_warnings import check_sample
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.official import LabelledScores, published_systems
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.messages import collect_warnings
from twmd_registry.metaeval.agreement import (
    RESAMPLES,
    SEED,
    Agreement,
    AgreementTest,
    Averaging,
    UndefinedError,
    agreement,
    agreement_or_undefined,
    check_systems,
    count_swapped,
    permutation,
    rank_metrics,
    split_parts,
    system_accuracy,
    system_agreement,
    williams_by_part,
)
from twmd_registry.metaeval.correlation import THRESHOLD
from twmd_registry.metaeval.side_by_side import Compared, names_of, score_side_by_side
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Statistic
from twmd_registry.registry.options import RunOptions
from twmd_registry.version import __version__

Level = Literal["segment", "system"]
"""Whether to correlate every segment's score, or every system's mean."""
SEGMENT: Final = "segment"
SYSTEM: Final = "system"
SHOWN = 5
"""Reasons listed in the error if no metric has a value."""
MAX_COLUMNS = 12
"""With more groups than this, a table has a row per group and a column per metric."""


@dataclass(frozen=True)
class Study:
    """What to measure. Metrics are tested against the first one.

    Attributes:
        data: Name of the data.
        content: `content_of` the data.
        metrics: The metrics.
        statistics: The statistics.
        averaging: The parts over which to average.
        level: Segments or systems.
        resamples: Bootstrap resamples.
        trials: Trials of the test; 0 without one.
        seed: Seed of the draws.
        threshold: For ``darr``.

    Raises:
        SpecError: Statistics, level and trials do not fit together.
    """

    data: str
    content: str
    metrics: tuple[Compared, ...]
    statistics: tuple[Statistic, ...]
    averaging: Averaging = "group"
    level: Level = SEGMENT
    resamples: int = RESAMPLES
    trials: int = 0
    seed: int = SEED
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        """Refuse a statistic that does not fit the level."""
        if "spa" in self.statistics and self.level != SYSTEM:
            raise SpecError("spa ranks systems: choose the level system.")
        if self.trials and self.level == SYSTEM and set(self.statistics) != {"spa"}:
            hint = "leave out the trials, or choose spa alone"
            raise SpecError(f"at the level of systems only spa can be tested: {hint}.")

    @property
    def name(self) -> str:
        """The canonical name: studies with equal names measure the same."""
        fields = {
            "data": f"{self.data}@{self.content}",
            "metrics": names_of(self.metrics),
            "correlation": ",".join(self.statistics),
            "averaging": self.averaging,
            "level": self.level,
            "bs": self.resamples,
            "ar": self.trials,
            "seed": self.seed,
            **({"threshold": f"{self.threshold:g}"} if "darr" in self.statistics else {}),
        }
        return write_name("study", fields)


def write_name(kind: str, fields: Mapping[str, object]) -> str:
    """Return the canonical name of a measurement."""
    return "|".join([kind, *(f"{name}:{value}" for name, value in fields.items()), f"version:{__version__}"])


@dataclass(frozen=True)
class StudyResult:
    """The agreement of every metric. Tuples have an entry per metric.

    Attributes:
        study: The study, with specifications as applied.
        scored: Every metric's scores.
        agreements: Agreement by statistic.
        tests: Permutation tests against the first metric, by statistic; None if undefined, empty without trials.
        ranks: Ranks of `rank_metrics` by statistic; None if undefined, empty without trials.
        williams: Williams' tests by part of the data; None if undefined.
        accuracies: Pairwise accuracy by statistic, at the level of systems.
        dropped: Rows that were left out.
        overlaps: Warnings about metrics that were trained or tuned on the data.
    """

    study: Study
    scored: tuple[LabelledScores, ...]
    agreements: tuple[dict[Statistic, Agreement], ...]
    tests: tuple[dict[Statistic, AgreementTest | None], ...]
    ranks: tuple[dict[Statistic, int | None], ...]
    williams: tuple[dict[str, AgreementTest | None], ...]
    accuracies: tuple[dict[Statistic, Agreement], ...]
    dropped: int
    overlaps: tuple[str, ...] = ()

    @property
    def tables(self) -> dict[str, TextTable]:
        """A table per statistic, by name, and one of Williams' p in every part if there are tests."""
        tables: dict[str, TextTable] = {statistic: self._table(statistic) for statistic in self.study.statistics}
        rows = [
            (metric.label, *(UNDEFINED if test is None else f"{test.p:.4f}" for test in tests.values()))
            for metric, tests in zip(self.scored, self.williams, strict=True)
            if tests
        ]
        if rows:
            title = f"Williams' p of a higher Pearson correlation than {self.scored[0].label}'s"
            tables["williams"] = TextTable(title, ("metric", *self.williams[-1]), rows)
        return tables

    def _table(self, statistic: Statistic) -> TextTable:
        """Return a row per metric: the average with its interval, and every group's value.

        With tests or published scores, the best metric comes first. More than `MAX_COLUMNS` groups become rows.
        """
        study = self.study
        undefined = {part.name for agreements in self.agreements for part in agreements[statistic].undefined}
        groups = sorted(undefined.union(*(agreements[statistic].groups for agreements in self.agreements)))
        order = list(range(len(self.scored)))
        if study.trials or any(isinstance(metric, LabelledScores) for metric in study.metrics):
            estimates = [agreements[statistic] for agreements in self.agreements]
            order.sort(key=lambda k: -estimates[k].value if estimates[k].is_defined else math.inf)
        columns: dict[str, list[str]] = {statistic: [], "95% interval": []}
        for k in order:
            estimate = self.agreements[k][statistic]
            cells = {statistic: _shown(estimate), "95% interval": between(estimate.low, estimate.high) or MISSING}
            if study.trials:
                rank, test = self.ranks[k][statistic], self.tests[k].get(statistic)
                cells["rank"] = UNDEFINED if rank is None else str(rank)
                cells["p (better)"] = f"{test.p:.4f}" if test else UNDEFINED if self.tests[k] else MISSING
            if study.level == SYSTEM:
                cells["accuracy"] = _shown(self.accuracies[k][statistic])
            for name in groups:
                group = estimate.groups.get(name)
                cells[name] = f"{group.value:.3f}" if group else UNDEFINED
                if group and len(groups) > MAX_COLUMNS and (both := between(group.low, group.high)):
                    cells[name] += f" ({both})"
            for name, cell in (cells | {"n": str(estimate.n)}).items():
                columns.setdefault(name, []).append(cell)
        title = f"{statistic}, {study.data}, averaging {study.averaging}, level {study.level}"
        labels = tuple(self.scored[k].label for k in order)
        if len(groups) > MAX_COLUMNS:
            return TextTable(title, ("", *labels), [(name, *cells) for name, cells in columns.items()])
        return TextTable(title, ("metric", *columns), list(zip(labels, *columns.values(), strict=True)))

    def as_text(self, form: str) -> str:
        """Return every table in a form of `FORMATS`, with everything needed to repeat the study."""
        lines = [self.study.name, *(f"{metric.label}: {metric.signature}" for metric in self.scored)]
        for metric, agreements in zip(self.scored, self.agreements, strict=True):
            for statistic, estimate in agreements.items():
                if estimate.undefined:
                    names = "; ".join(f"{name} ({n} values: {reason})" for name, n, reason in estimate.undefined)
                    parts = f"{len(estimate.groups)} of {len(estimate.groups) + len(estimate.undefined)}"
                    mean = f"the mean is over {parts}, without" if estimate.groups else "undefined everywhere:"
                    lines.append(f"{metric.label}, {statistic}: {mean} {names}")
        return as_report(self.tables.values(), [*lines, *self.overlaps], form)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but per-segment scores as JSON-compatible values."""
        metrics = [
            {
                "label": metric.label,
                "signature": metric.signature,
                "agreement": {name: estimate.as_dict() for name, estimate in self.agreements[k].items()},
                "tests": {name: _named(test) for name, test in self.tests[k].items()},
                "ranks": self.ranks[k],
                "williams": {name: _named(test) for name, test in self.williams[k].items()},
                "accuracy": {
                    name: {key: accuracy.as_dict()[key] for key in ("value", "low", "high")} | {"pairs": accuracy.n}
                    for name, accuracy in self.accuracies[k].items()
                },
            }
            for k, metric in enumerate(self.scored)
        ]
        overlaps = list(self.overlaps)
        return {"study": self.study.name, "dropped": self.dropped, "overlaps": overlaps, "metrics": metrics}


def _shown(estimate: Agreement) -> str:
    return f"{estimate.value:.3f}" if estimate.is_defined else UNDEFINED


def _named(test: AgreementTest | None) -> dict[str, float] | None:
    return None if test is None else dict(zip(("difference", "p"), test, strict=True))


def _measure(
    study: Study,
    statistic: Statistic,
    scores: tuple[float, ...],
    rated: RatedSegments,
    systems: Mapping[tuple[str, str], float],
) -> Agreement:
    """Return the agreement of one metric; `systems` has its published scores by group and system."""
    keys: dict[str, Any] = {"averaging": study.averaging, "resamples": study.resamples, "seed": study.seed}
    if study.level == SYSTEM:
        return system_agreement(statistic, scores, rated, systems=systems, **keys)[0]
    return agreement(statistic, scores, rated, threshold=study.threshold, **keys)


def run_study(study: Study, rated: RatedSegments, options: RunOptions, progress: Progress | None = None) -> StudyResult:
    """Score every segment with every metric, encoding each text once, and correlate.

    Warns about metrics with an undefined statistic, such as the correlation of constant scores.

    Raises:
        InputError: No metric has a value.
    """
    for statistic in study.statistics:  # before anything is encoded
        if study.level == SYSTEM:
            check_systems(rated, statistic, study.averaging)
        else:
            split_parts(rated, statistic, study.averaging, threshold=study.threshold)
    if study.trials and (units := count_swapped(rated)) < 2:
        check_sample(units)
    segments = len(rated.ratings)
    expect(progress, segments * len(study.metrics))
    applied, scored, overlaps = score_side_by_side(study.metrics, rated, study.data, options, progress)
    agreements, accuracies = list[dict[Statistic, Agreement]](), list[dict[Statistic, Agreement]]()
    tests, williams = list[dict[Statistic, AgreementTest | None]](), list[dict[str, AgreementTest | None]]()
    shared: dict[str, Any] = {"averaging": study.averaging, "seed": study.seed}
    permuted = shared | {"trials": study.trials, "threshold": study.threshold}
    published = published_systems(applied, rated) if study.level == SYSTEM else [{}] * len(scored)
    for k, metric in enumerate(scored):
        scores, first = metric.scores, scored[0].scores
        measures = {name: partial(_measure, study, name, scores, rated, published[k]) for name in study.statistics}
        agreements.append({name: agreement_or_undefined(metric.label, run) for name, run in measures.items()})
        accuracies.append({})
        if study.level == SYSTEM:
            with collect_warnings():  # the statistic has already raised these warnings
                accuracy = system_accuracy(scores, rated, **shared, resamples=study.resamples, systems=published[k])
            accuracies[k] = dict.fromkeys(study.statistics, accuracy)
        is_tested = study.trials > 0 and metric is not scored[0]
        tested = study.statistics if is_tested else ()
        tests.append(dict.fromkeys(tested))
        for name in tested:
            with suppress(UndefinedError):
                tests[-1][name] = permutation(scores, first, rated, name, **permuted)
        is_linear = "pearson" in tested
        williams.append(williams_by_part(scores, first, rated, study.averaging) if is_linear else {})
        if progress:
            progress(segments)
    if not any(estimate.is_defined for by_name in (*agreements, *accuracies) for estimate in by_name.values()):
        estimates = [pair for by_statistic in agreements for pair in by_statistic.items()]
        reasons = dict.fromkeys(f"{name}: {p.name} ({p.reason})" for name, one in estimates for p in one.undefined)
        raise InputError(f"no metric has a value; {'; '.join(list(reasons)[:SHOWN])}.")
    ranks = tuple(dict[Statistic, int | None]() for _ in scored)
    for statistic in study.statistics if study.trials else ():
        values = [agreement[statistic].value for agreement in agreements]
        ranked = rank_metrics([metric.scores for metric in scored], values, rated, statistic, **permuted)
        for ranks_of_metric, rank in zip(ranks, ranked, strict=True):
            ranks_of_metric[statistic] = rank
    parts = tuple(agreements), tuple(tests), ranks, tuple(williams), tuple(accuracies)
    return StudyResult(replace(study, metrics=applied), scored, *parts, rated.dropped, overlaps)
