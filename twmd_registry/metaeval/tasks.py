"""The weighted averages by which the metrics shared task has ranked metrics, on whatever of its data there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from twmd_registry.errors import InputError
from twmd_registry.judgments.official import Divisions, published_systems
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import (
    agreement,
    check_segment_ratings,
    check_systems,
    split_parts,
    system_agreement,
)
from twmd_registry.metaeval.rank_tasks import (
    EVERY_DOMAIN,
    PUBLISHED,
    RankedData,
    TaskPart,
    average,
    average_ranks,
    list_rank_tasks,
    rank_by_tasks,
)
from twmd_registry.metaeval.side_by_side import LabelledScores, TextTable, as_report, names_of, score_side_by_side
from twmd_registry.metaeval.study import SEGMENT, SYSTEM, Study, write_name
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Statistic
from twmd_registry.registry.options import RunOptions


class Task(NamedTuple):
    """How a year's metrics were ranked.

    Attributes:
        by_pair: Level and statistic of every part of the average; each is taken in every language pair.
        accuracy: Whether the pairwise accuracy of systems over all language pairs is a part, too, as heavy as a part of
            every language pair together.
        people: The language pairs whose translations by people were ranked, too; of a year that has averaged ranks.
    """

    pairs: tuple[str, ...]
    by_pair: tuple[tuple[str, Statistic], ...]
    accuracy: bool
    people: tuple[str, ...] = ()


TASKS = {
    "wmt22": Task(("en-de", "en-ru", "zh-en"), (), accuracy=True, people=("en-de", "zh-en")),
    "wmt23": Task(
        ("en-de", "he-en", "zh-en"),
        ((SYSTEM, Statistic.PEARSON), (SEGMENT, Statistic.PEARSON), (SEGMENT, Statistic.ACC_EQ)),
        accuracy=True,
    ),
    "wmt24": Task(("en-de", "en-es", "ja-zh"), ((SYSTEM, Statistic.SPA), (SEGMENT, Statistic.ACC_EQ)), accuracy=False),
}
"""Freitag et al. 2022, whose ranks in 201 tasks are averaged, 2023 and 2024."""


@dataclass(frozen=True)
class TaskResult:
    """The weighted average of every metric.

    Attributes:
        task: A name of `TASKS`.
        name: The canonical name: two results with equal names measure the same.
        notes: What of the task is missing in the data, and a sentence for each metric that was trained on them.
        scored: By metric, label, signature and scores, the best average first.
        averages: By metric, of values (higher is better) or of ranks.
        parts: By metric, the parts of the average by name.
        columns: By metric, what the table shows beside the average.
    """

    task: str
    name: str
    notes: tuple[str, ...]
    scored: tuple[LabelledScores, ...]
    averages: tuple[float, ...]
    parts: tuple[dict[str, TaskPart], ...]
    columns: tuple[dict[str, float], ...]

    @property
    def tables(self) -> dict[str, TextTable]:
        """Return a row per metric: the average, and every part, or the average rank of parts that have a value in
        common.
        """
        is_ranked = TASKS[self.task].people
        header = ("metric", "average rank" if is_ranked else "average", *self.columns[0])
        rows = [
            (metric.label, f"{mean:.3f}", *(f"{value:.3f}" for value in columns.values()))
            for metric, mean, columns in zip(self.scored, self.averages, self.columns, strict=True)
        ]
        title = f"{self.task}, weighted average{' of ranks, the lower the better' * bool(is_ranked)}"
        return {"task": TextTable(title, header, rows)}

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
                "average": mean,
                "parts": {name: part._asdict() for name, part in parts.items()},
            }
            for metric, mean, parts in zip(self.scored, self.averages, self.parts, strict=True)
        ]
        return {"study": self.name, "notes": list(self.notes), "metrics": metrics}


def run_task(
    task: str,
    study: Study,
    rated: RatedSegments,
    options: RunOptions,
    progress: Progress | None = None,
    *,
    divisions: Divisions | None = None,
) -> TaskResult:
    """Score every segment by every metric, and average their agreement as a shared task did.

    `task` is a name of `TASKS`; of the study, only data and metrics are read, and trials and seed where ranks are
    averaged, for which `divisions` tell domains and people apart. Errors and warnings are those of `run_study`; raises
    InputError, too, where the data have none of the task's language pairs.
    """
    wanted = TASKS[task]
    pairs = [pair for pair in wanted.pairs if pair in rated.group]
    if divided := next((name for name in rated.group if name.partition(" ")[0] in wanted.pairs and " " in name), None):
        divided = f"these data are divided further, as {divided!r}"
        raise InputError(f"{task} averages over language pairs, and {divided}: leave out group= after the folder.")
    if not pairs:
        raise InputError(f"{task} ranks metrics on {', '.join(wanted.pairs)}; these data have none of them.")
    check_systems(rated, Statistic.PEARSON, "group")
    check_segment_ratings(rated)
    split_parts(rated, Statistic.ACC_EQ, "group")
    expect(progress, len(rated.ratings) * len(study.metrics))
    applied, scored, overlaps = score_side_by_side(study.metrics, rated, study.data, options, progress)
    published = published_systems(applied, rated)
    fields = {"task": task, "data": f"{study.data}@{study.content}", "metrics": names_of(applied)}
    missing = [pair for pair in wanted.pairs if pair not in pairs]
    notes = [f"{task}: no ratings of {', '.join(missing)}; the average is over {', '.join(pairs)}."] if missing else []
    if wanted.people:
        fields |= {"ar": str(study.trials), "seed": str(study.seed)}
        own_divisions = divisions or Divisions([""] * len(rated.group), [False] * len(rated.group), {})
        ranked = RankedData([metric.scores for metric in scored], published, rated, own_divisions)
        parts, columns, said = _measure_ranks(study, pairs, ranked, progress)
        notes += [f"{task}: {said}"]
    else:
        parts, columns = list[dict[str, TaskPart]](), list[dict[str, float]]()
        for metric, systems in zip(scored, published, strict=True):
            parts.append(_measure(wanted, pairs, metric.scores, rated, systems))
            columns.append({f"{name} (x {part.weight:g})": part.value for name, part in parts[-1].items()})
            if progress:
                progress(len(rated.ratings))
    rows = list(zip(scored, [average(own.values()) for own in parts], parts, columns, strict=True))
    rows.sort(key=lambda row: row[1] if wanted.people else -row[1])  # the best first
    return TaskResult(task, write_name("task", fields), (*notes, *overlaps), *zip(*rows, strict=True))


def _measure_ranks(
    study: Study, pairs: Sequence[str], data: RankedData, progress: Progress | None
) -> tuple[list[dict[str, TaskPart]], list[dict[str, float]], str]:
    """Return, by metric, the parts of its average rank and its average ranks; and a sentence of what is missing."""
    tasks = list_rank_tasks(pairs, data)
    step = len(data.rated.ratings) * len(data.scores) // len(tasks)
    ranked = rank_by_tasks(
        tasks, data, trials=study.trials, seed=study.seed, done=lambda: progress(step) if progress else None
    )
    parts = [{" ".join(map(str, task)): part for task, part in own.items()} for own in ranked]
    said = [f"{len(parts[0])} of {PUBLISHED} tasks"]
    if undefined := len(tasks) - len(parts[0]):
        said.append(f"{undefined} are left out, in which a metric has no correlation")
    if undivided := [pair for pair in pairs if not any(t.pair == pair and t.domain != EVERY_DOMAIN for t in tasks)]:
        said.append(f"no documents, and so no domains, of {', '.join(undivided)}")
    alone = [pair for pair in TASKS["wmt22"].people if pair in pairs]
    if alone := [pair for pair in alone if not any(t.pair == pair and t.people == "with people" for t in tasks)]:
        said.append(f"no translations by people of {', '.join(alone)} (humans=yes after the folder reads them)")
    if not study.trials:
        said.append("ranks are those of the values (--trials 1000 gives ranks of significance, as the task has)")
    return parts, [average_ranks(own) for own in ranked], f"{'; '.join(said)}."


def _measure(
    task: Task,
    pairs: Sequence[str],
    scores: Sequence[float],
    rated: RatedSegments,
    systems: dict[tuple[str, str], float],
) -> dict[str, TaskPart]:
    """Return every part of the average."""
    parts = dict[str, TaskPart]()
    if task.accuracy:
        _, accuracy = system_agreement(Statistic.PEARSON, scores, rated, resamples=0, systems=systems)
        parts["accuracy of systems"] = TaskPart(accuracy.value, float(len(pairs)), accuracy.value)
    for level, statistic in task.by_pair:
        if level == SYSTEM:
            own, _ = system_agreement(statistic, scores, rated, resamples=0, systems=systems)
        else:
            own = agreement(statistic, scores, rated, resamples=0)
        for pair in pairs:
            value = own.groups[pair].value
            is_correlation = statistic is Statistic.PEARSON  # from -1; accuracies begin at 0, and are averaged with it
            parts[f"{pair} {level} {statistic}"] = TaskPart(value, 1.0, (1 + value) / 2 if is_correlation else value)
    return parts
