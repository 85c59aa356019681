"""The weighted averages by which the metrics shared task has ranked metrics, on whatever of its data there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from twmd_registry.errors import InputError
from twmd_registry.judgments.official import published_systems
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import agreement, check_systems, split_parts, system_agreement
from twmd_registry.metaeval.side_by_side import (
    LabelledScores,
    TextTable,
    as_report,
    names_of,
    score_side_by_side,
)
from twmd_registry.metaeval.study import SEGMENT, SYSTEM, Study, write_name
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Statistic
from twmd_registry.registry.options import RunOptions


class Task(NamedTuple):
    """How a year's metrics were ranked.

    Attributes:
        pairs: The language pairs with MQM ratings.
        by_pair: Level and statistic of every part of the average; each is taken in every language pair.
        accuracy: Whether the pairwise accuracy of systems over all language pairs is a part, too, as heavy as a part of
            every language pair together.
    """

    pairs: tuple[str, ...]
    by_pair: tuple[tuple[str, Statistic], ...]
    accuracy: bool


TASKS = {
    "wmt22": Task(("en-de", "en-ru", "zh-en"), (), accuracy=True),
    "wmt23": Task(
        ("en-de", "he-en", "zh-en"),
        ((SYSTEM, Statistic.PEARSON), (SEGMENT, Statistic.PEARSON), (SEGMENT, Statistic.ACC_EQ)),
        accuracy=True,
    ),
    "wmt24": Task(("en-de", "en-es", "ja-zh"), ((SYSTEM, Statistic.SPA), (SEGMENT, Statistic.ACC_EQ)), accuracy=False),
}
"""Freitag et al. 2022 (the accuracy alone: the ranks of its 201 tasks are not computed), 2023 and 2024."""


@dataclass(frozen=True)
class TaskResult:
    """The weighted average of every metric.

    Attributes:
        task: A name of `TASKS`.
        name: The canonical name: two results with equal names measure the same.
        notes: What of the task is missing in the data, and a sentence for each metric that was trained on them.
        scored: By metric, label, signature and scores, in descending order of the average.
        averages: By metric.
        parts: By metric, the parts of the average by name, with their weights.
    """

    task: str
    name: str
    notes: tuple[str, ...]
    scored: tuple[LabelledScores, ...]
    averages: tuple[float, ...]
    parts: tuple[dict[str, tuple[float, float]], ...]

    @property
    def tables(self) -> dict[str, TextTable]:
        """Return a row per metric: the average, and every part."""
        header = ("metric", "average", *(f"{name} (x {weight:g})" for name, (_, weight) in self.parts[0].items()))
        rows = [
            (metric.label, f"{average:.3f}", *(f"{value:.3f}" for value, _ in parts.values()))
            for metric, average, parts in zip(self.scored, self.averages, self.parts, strict=True)
        ]
        return {"task": TextTable(f"{self.task}, weighted average", header, rows)}

    def as_text(self, form: str) -> str:
        """Return the table in a form of `as_report`, and what is needed to repeat the measurement."""
        signatures = (f"{metric.label}: {metric.signature}" for metric in self.scored)
        return as_report(self.tables.values(), [self.name, *self.notes, *signatures], form)

    def as_dict(self) -> dict[str, Any]:
        """Return every number, ready for JSON."""
        metrics = [
            {
                "label": metric.label,
                "signature": metric.signature,
                "average": average,
                "parts": {name: {"value": value, "weight": weight} for name, (value, weight) in parts.items()},
            }
            for metric, average, parts in zip(self.scored, self.averages, self.parts, strict=True)
        ]
        return {"study": self.name, "notes": list(self.notes), "metrics": metrics}


def run_task(
    task: str, study: Study, rated: RatedSegments, options: RunOptions, progress: Progress | None = None
) -> TaskResult:
    """Score every segment by every metric, and average their agreement as a shared task did.

    `task` is a name of `TASKS`; of the study, only data and metrics are read. Errors and warnings are those of
    `run_study`; raises InputError, too, where the data have none of the task's language pairs.
    """
    wanted = TASKS[task]
    pairs = [pair for pair in wanted.pairs if pair in rated.group]
    if divided := next((name for name in rated.group if name.partition(" ")[0] in wanted.pairs and " " in name), None):
        divided = f"these data are divided further, as {divided!r}"
        raise InputError(f"{task} averages over language pairs, and {divided}: leave out group= after the folder.")
    if not pairs:
        raise InputError(f"{task} ranks metrics on {', '.join(wanted.pairs)}; these data have none of them.")
    check_systems(rated, Statistic.PEARSON, "group")
    split_parts(rated, Statistic.ACC_EQ, "group")
    expect(progress, len(rated.ratings) * len(study.metrics))
    applied, scored, overlaps = score_side_by_side(study.metrics, rated, study.data, options, progress)
    parts = []
    for own, metric in zip(applied, scored, strict=True):
        parts.append(_measure(wanted, pairs, metric.scores, rated, published_systems(own, rated)))
        if progress:
            progress(len(rated.ratings))
    averages = [sum(v * w for v, w in own.values()) / sum(w for _, w in own.values()) for own in parts]
    missing = [pair for pair in wanted.pairs if pair not in pairs]
    notes = [f"{task}: no ratings of {', '.join(missing)}; the average is over {', '.join(pairs)}."] if missing else []
    order = sorted(range(len(scored)), key=lambda k: -averages[k])
    fields = {"task": task, "data": f"{study.data}@{study.content}", "metrics": names_of(applied)}
    return TaskResult(
        task,
        write_name("task", fields),
        (*notes, *overlaps),
        tuple(scored[k] for k in order),
        tuple(averages[k] for k in order),
        tuple(parts[k] for k in order),
    )


def _measure(
    task: Task,
    pairs: Sequence[str],
    scores: Sequence[float],
    rated: RatedSegments,
    systems: dict[tuple[str, str], float],
) -> dict[str, tuple[float, float]]:
    """Return value and weight of every part of the average."""
    parts = dict[str, tuple[float, float]]()
    if task.accuracy:
        _, accuracy = system_agreement(Statistic.PEARSON, scores, rated, resamples=0, systems=systems)
        parts["accuracy of systems"] = accuracy.value, float(len(pairs))
    for level, statistic in task.by_pair:
        if level == SYSTEM:
            own, _ = system_agreement(statistic, scores, rated, resamples=0, systems=systems)
        else:
            own = agreement(statistic, scores, rated, resamples=0)
        for pair in pairs:
            parts[f"{pair} {level} {statistic}"] = own.groups[pair].value, 1.0
    return parts
