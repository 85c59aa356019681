"""The weighted averages by which the metrics shared task ranked metrics, on the available data.

In 2022 ranks were averaged (Freitag et al. 2022) over up to 201 tasks, with the weights of mt-metrics-eval's
``wmt22_metrics.ipynb``. The tasks are the accuracy of systems over all language pairs, and every combination of a
language pair, one domain or all, systems or segments (together, by system, or by item), with or without human
translations, and Pearson or Kendall. Since then values are averaged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.comparison.text_table import UNDEFINED, TextTable, as_report
from twmd_registry.errors import InputError
from twmd_registry.judgments.mt_metrics_eval import RATING, places_of, read_system_ratings
from twmd_registry.judgments.official import LabelledScores, domain_places, parse_layout, published_systems
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.messages import collect_warnings
from twmd_registry.metaeval.agreement import (
    Agreement,
    Averaging,
    UndefinedError,
    agreement,
    check_systems,
    mean_systems,
    rank_metrics,
    split_parts,
    system_accuracy,
    system_agreement,
)
from twmd_registry.metaeval.side_by_side import names_of, score_side_by_side
from twmd_registry.metaeval.study import SEGMENT, SYSTEM, Study, write_name
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Statistic
from twmd_registry.registry.options import RunOptions

RANKED = "wmt22"
"""Year whose ranks are averaged."""
TASKS = {
    "wmt22": ("en-de", "en-ru", "zh-en"),
    "wmt23": ("en-de", "he-en", "zh-en"),
    "wmt24": ("en-de", "en-es", "ja-zh"),
}
"""Language pairs by year (Freitag et al. 2022, 2023, 2024)."""
AVERAGED = {
    "wmt23": ((SYSTEM, "pearson"), (SEGMENT, "pearson"), (SEGMENT, "acc_eq")),
    "wmt24": ((SYSTEM, "spa"), (SEGMENT, "acc_eq")),
}
"""Level and statistic of each part of a year's average of values, for every language pair."""
WITH_ACCURACY = {"wmt23"}
"""Years with the accuracy of systems over all language pairs as a part, with as much weight as a part of all pairs."""
MEANS_OF_ALL = dict.fromkeys(
    ("wmt22", "wmt23"), "the mean of rated segments, where the task takes all segments of the test set"
)
"""Years that score systems on all segments, and the note on metrics without such scores."""
WITH_PEOPLE = ("en-de", "zh-en")
"""Language pairs of `RANKED` whose human translations were ranked too."""
PUBLISHED = 201
"""Tasks of `RANKED`, with three language pairs of four domains each."""
EVERY_PAIR, EVERY_DOMAIN = "all pairs", "all domains"
LEVELS: tuple[tuple[str, Averaging], ...] = (
    (SYSTEM, "none"),
    (SEGMENT, "none"),
    (SEGMENT, "system"),
    (SEGMENT, "item"),
)
"""What is correlated, and what correlations are averaged over."""
TaskPart = dict[str, float]
"""A metric's ``value`` in a task, the task's ``weight``, and what is ``averaged``: a rank, or a value from 0 to 1."""


def read_divisions(text: str, rated: RatedSegments) -> RatedSegments:
    """Add domains, human authorship and ratings of systems by domain to rated data."""
    _, pairs, keys = parse_layout(text, rated)
    with_docs = {name: pair for name, pair in pairs.items() if pair.docs.is_file()}
    segments, systems = places_of(rated.item or []), rated.system or []
    people = [system in pairs[name].references for (name, _), system in zip(segments, systems, strict=True)]
    domains = [with_docs[name].documents[number][0] if name in with_docs else "" for name, number in segments]
    divided = rated._replace(domain=domains, by_person=people)
    ending = f"{keys.get('rating', RATING)}.domain.score"
    ratings = (rated.system_ratings or {}) | read_system_ratings(with_docs.values(), ending, domain_places(divided))
    return divided._replace(system_ratings=ratings or None)


class RankTask(NamedTuple):
    """A criterion for ranking metrics. Weight is divided among the values of each field in turn.

    `averaging` is what segment correlations are averaged over. The statistic of `EVERY_PAIR` is accuracy.
    """

    pair: str
    domain: str
    level: str
    people: str
    averaging: Averaging
    statistic: Statistic


Published = Sequence[Mapping[tuple[str, str], float]]
"""By metric, published scores of systems by group and system."""


@dataclass(frozen=True)
class TaskResult:
    """The weighted average of every metric, best first: of values (higher is better) or ranks; NaN comes last.

    Results with the same `name` measure the same thing. `notes` list what is missing, and metrics that were trained on
    the data. `columns` are shown next to the average.
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
        """A row per metric: the average, and every part, or the average rank for each value of a field."""
        ranked = self.task == RANKED
        header = ("metric", "average rank" if ranked else "average", *self.columns[0])
        rows = [
            (metric.label, *(_shown(value) for value in (mean, *(columns.get(name, math.nan) for name in header[2:]))))
            for metric, mean, columns in zip(self.scored, self.averages, self.columns, strict=True)
        ]
        title = f"{self.task}, weighted average{' of ranks, lower is better' * ranked}"
        return {"task": TextTable(title, header, rows)}

    def as_text(self, form: str) -> str:
        """Return the table in a form of `as_report`, with everything needed to repeat the measurement."""
        signatures = (f"{metric.label}: {metric.signature}" for metric in self.scored)
        return as_report(self.tables.values(), [self.name, *self.notes, *signatures], form)

    def as_dict(self) -> dict[str, Any]:
        """Return every number as JSON-compatible values."""
        metrics = [
            {"label": metric.label, "signature": metric.signature, "average": mean, "parts": parts}
            for metric, mean, parts in zip(self.scored, self.averages, self.parts, strict=True)
        ]
        return {"study": self.name, "notes": list(self.notes), "metrics": metrics}


def _shown(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.3f}"


def pairs_of_task(task: str, rated: RatedSegments) -> list[str]:
    """Return a task's language pairs that the data have; raise InputError for none, or for a finer grouping."""
    expected = TASKS[task]
    if divided := next((name for name in rated.group if name.partition(" ")[0] in expected and " " in name), None):
        divided = f"these data are divided further, as {divided!r}"
        raise InputError(f"{task} averages over language pairs, but {divided}: leave out group= after the folder.")
    pairs = [pair for pair in expected if pair in rated.group]
    if not pairs:
        raise InputError(f"{task} ranks metrics on {', '.join(expected)}; these data have none of them.")
    return pairs


def run_task(
    task: str, study: Study, rated: RatedSegments, options: RunOptions, progress: Progress | None = None
) -> TaskResult:
    """Score every segment with every metric, and average their agreement as the shared task did.

    Only the study's data and metrics are used, and trials and seed if ranks are averaged. Then the data should
    distinguish domains and human translations (`read_divisions`). A metric without a value in a part of an average of
    values, or in all ranked correlations, is named and has no average. Raises InputError if no metric has one.
    """
    pairs = pairs_of_task(task, rated)
    check_systems(rated, "pearson", "group")
    split_parts(rated, "acc_eq", "group")
    expect(progress, len(rated.ratings) * len(study.metrics))
    applied, scored, overlaps = score_side_by_side(study.metrics, rated, study.data, options, progress)
    published = published_systems(applied, rated)
    scores = [metric.scores for metric in scored]
    fields = {"task": task, "data": f"{study.data}@{study.content}", "metrics": names_of(applied)}
    missing = [pair for pair in TASKS[task] if pair not in pairs]
    notes = [f"{task}: no ratings of {', '.join(missing)}; the average is over {', '.join(pairs)}."] if missing else []
    without_system_scores = [metric.label for metric in scored if not metric.systems]
    if without_system_scores and rated.dropped and task in MEANS_OF_ALL:
        notes.append(f"{task}: {', '.join(without_system_scores)} scores systems by {MEANS_OF_ALL[task]}.")
    if task == RANKED:
        fields |= {"ar": str(study.trials), "seed": str(study.seed)}
        tasks = list_rank_tasks(pairs, rated)
        step = len(rated.ratings) * len(scored) // len(tasks)
        done = (lambda: progress(step)) if progress else (lambda: None)
        ranked = rank_by_tasks(tasks, scores, published, rated, trials=study.trials, seed=study.seed, done=done)
        notes.append(f"{task}: {_describe_missing(pairs, tasks, max(map(len, ranked)), study.trials)}")
        parts = [{" ".join(map(str, key)): part for key, part in by_task.items()} for by_task in ranked]
        columns = [average_ranks(by_task) for by_task in ranked]
    else:
        parts, columns = list[dict[str, TaskPart]](), list[dict[str, float]]()
        for segment_scores, systems in zip(scores, published, strict=True):
            parts.append(_measure(task, pairs, segment_scores, rated, systems))
            columns.append({f"{name} (x {part['weight']:g})": part["value"] for name, part in parts[-1].items()})
            if progress:
                progress(len(rated.ratings))
    averages = [average(of_metric.values()) for of_metric in parts]
    for metric, of_metric, value in zip(scored, parts, averages, strict=True):
        if math.isnan(value):
            missing = [name for name, part in of_metric.items() if math.isnan(part["value"])]
            which = (
                f"{len(missing)} of {len(of_metric)} parts ({', '.join(missing)})" if missing else "all correlations"
            )
            notes.append(f"{task}: {metric.label} has no average: it is undefined in {which}.")
    if all(map(math.isnan, averages)):
        raise InputError(f"no metric has an average. {' '.join(notes)}")
    rows = list(zip(scored, averages, parts, columns, strict=True))
    best_first = 1 if task == RANKED else -1
    rows.sort(key=lambda row: math.inf if math.isnan(row[1]) else best_first * row[1])
    return TaskResult(task, write_name("task", fields), (*notes, *overlaps), *zip(*rows, strict=True))


def _describe_missing(pairs: Sequence[str], tasks: Sequence[RankTask], measured: int, trials: int) -> str:
    """Describe in a sentence what an average of ranks lacks."""
    missing = [f"{measured} of {PUBLISHED} tasks"]
    if undefined := len(tasks) - measured:
        missing.append(f"{undefined} are left out, in which a metric has no correlation")
    divided = {pair for pair, domain, *_ in tasks if domain != EVERY_DOMAIN}
    if undivided := [pair for pair in pairs if pair not in divided]:
        missing.append(f"no documents, and so no domains, of {', '.join(undivided)}")
    translated = {pair for pair, _, _, people, *_ in tasks if people == "with people"}
    if untranslated := [pair for pair in WITH_PEOPLE if pair in pairs and pair not in translated]:
        missing.append(f"no human translations of {', '.join(untranslated)} (humans=yes after the folder reads them)")
    if not trials:
        missing.append("ranks are those of the values (--trials 1000 gives ranks of significance, as in the task)")
    return f"{'; '.join(missing)}."


def average(parts: Iterable[TaskPart]) -> float:
    """Return the weighted average of parts; NaN if there are none or one is NaN."""
    chosen = list(parts)
    return (
        math.nan
        if not chosen
        else sum(part["weight"] * part["averaged"] for part in chosen) / sum(part["weight"] for part in chosen)
    )


def _measure(
    task: str,
    pairs: Sequence[str],
    scores: Sequence[float],
    rated: RatedSegments,
    systems: Mapping[tuple[str, str], float],
) -> dict[str, TaskPart]:
    """Return every part of a metric's average of values; NaN if undefined."""
    parts = dict[str, TaskPart]()
    if task in WITH_ACCURACY:
        accuracy = system_accuracy(scores, rated, resamples=0, systems=systems)
        weight = float(len(pairs))
        parts["accuracy of systems"] = {"value": accuracy.value, "weight": weight, "averaged": accuracy.value}
    for level, statistic in AVERAGED[task]:
        groups = dict[str, Agreement]()
        with suppress(UndefinedError):
            if level == SYSTEM:
                groups |= system_agreement(statistic, scores, rated, resamples=0, systems=systems)[0].groups
            else:
                groups |= agreement(statistic, scores, rated, resamples=0).groups
        for pair in pairs:
            value = groups[pair].value if pair in groups else math.nan
            averaged = (1 + value) / 2 if statistic == "pearson" else value  # from 0 to 1, like accuracies
            parts[f"{pair} {level} {statistic}"] = {"value": value, "weight": 1.0, "averaged": averaged}
    return parts


def list_rank_tasks(pairs: Sequence[str], rated: RatedSegments) -> list[RankTask]:
    """List the tasks of these language pairs that the data allow."""
    statistics: tuple[Statistic, ...] = ("pearson", "kendall")
    tasks = [RankTask(EVERY_PAIR, EVERY_DOMAIN, SYSTEM, "without people", "none", "accuracy")]
    for pair in pairs:
        rows = [i for i, group in enumerate(rated.group) if group == pair]
        domains = sorted({rated.domain[i] for i in rows} - {""}) if rated.domain else []
        people = ["with people"] * bool(rated.by_person and any(rated.by_person[i] for i in rows))
        for domain, (level, averaging), included, statistic in itertools.product(
            [EVERY_DOMAIN, *domains], LEVELS, [*people, "without people"], statistics
        ):
            tasks.append(RankTask(pair, domain, level, included, averaging, statistic))
    return tasks


def share_weight(tasks: Sequence[RankTask], weight: float = 1.0, field: int = 0) -> dict[RankTask, float]:
    """Divide weight equally among the values of a field, and each share among the values of the next field."""
    if field == len(RankTask._fields):
        return dict.fromkeys(tasks, weight)
    values, shares = dict.fromkeys(task[field] for task in tasks), dict[RankTask, float]()
    for value in values:
        shares |= share_weight([task for task in tasks if task[field] == value], weight / len(values), field + 1)
    return shares


def rank_by_tasks(
    tasks: Sequence[RankTask],
    scores: Sequence[Sequence[float]],
    published: Published,
    rated: RatedSegments,
    *,
    trials: int,
    seed: int,
    done: Callable[[], None],
) -> tuple[dict[RankTask, TaskPart], ...]:
    """Rank metrics in every task, by significance (`rank_metrics`) or, without trials, by the statistic alone.

    `scores` have shape (metrics, segments). Returns, per metric, its part of every task in which all metrics are
    defined. A metric without a correlation in any task, such as one with constant scores, is not ranked and has no
    part.
    """
    values = dict[RankTask, list[float]]()
    for task in tasks:
        with collect_warnings():
            compared, chosen = _compare(task, scores, published, rated)
            values[task] = [_value(task, metric, chosen) for metric in compared]
    correlated = [task for task in tasks if task[0] != EVERY_PAIR] or tasks
    ranked = [k for k in range(len(scores)) if any(not math.isnan(values[task][k]) for task in correlated)]
    measured = dict[RankTask, list[int | None]]()
    for task in tasks:
        own_values = [values[task][k] for k in ranked]
        if not any(map(math.isnan, own_values)):
            with collect_warnings(), suppress(InputError):  # too few items for a test
                compared, chosen = _compare(task, scores, published, rated)
                own_scores = [compared[k].tolist() for k in ranked]
                measured[task] = _rank(task, own_scores, own_values, chosen, trials=trials, seed=seed)
        done()
    weights, parts = share_weight(list(measured)), tuple(dict[RankTask, TaskPart]() for _ in scores)
    for task, ranks in measured.items():
        for k, rank in zip(ranked, ranks, strict=True):
            parts[k][task] = {"value": values[task][k], "weight": weights[task], "averaged": float(rank or math.nan)}
    return parts


def _compare(
    task: RankTask, scores: Sequence[Sequence[float]], published: Published, rated: RatedSegments
) -> tuple[list[np.ndarray], RatedSegments]:
    """Return every metric's scores of a task's segments or systems, and their ratings."""
    pair, domain, level, people, _, statistic = task
    is_chosen = np.array([pair in (EVERY_PAIR, group) for group in rated.group])
    if domain != EVERY_DOMAIN:
        is_chosen &= np.array(rated.domain) == domain
    if rated.by_person and people == "without people":
        is_chosen &= ~np.array(rated.by_person)
    rows = np.flatnonzero(is_chosen)
    chosen = select(rated, rows)
    if domain != EVERY_DOMAIN:
        chosen = chosen._replace(group=[f"{pair} {domain}"] * len(rows))
    compared = [np.asarray(values)[rows] for values in scores]
    if level == SYSTEM:
        chosen = chosen._replace(system_ratings=rated.system_ratings)
        means = [mean_systems(values, chosen, "group", by) for values, by in zip(compared, published, strict=True)]
        compared, chosen = [system_scores for system_scores, _ in means], means[0][1]
    if statistic == "accuracy":  # a pair of systems belongs to one language pair, and every system is swapped
        chosen = chosen._replace(system=chosen.group)
    return compared, chosen


def _averaging(task: RankTask) -> Averaging:
    *_, averaging, statistic = task
    return "system" if statistic == "accuracy" else averaging


def _value(task: RankTask, scores: np.ndarray, rated: RatedSegments) -> float:
    """Return a metric's value in a task; NaN if undefined."""
    try:
        return agreement(task[-1], scores, rated, averaging=_averaging(task), resamples=0).value
    except InputError:
        return math.nan


def _rank(
    task: RankTask, scores: Sequence[Sequence[float]], values: Sequence[float], rated: RatedSegments, **test: int
) -> list[int | None]:
    """Return the rank of every metric."""
    if test["trials"]:
        return rank_metrics(scores, values, rated, task[-1], averaging=_averaging(task), **test)
    return [1 + sum(other > value for other in values) for value in values]


def average_ranks(parts: Mapping[RankTask, TaskPart]) -> dict[str, float]:
    """Average a metric's ranks over the tasks with each value of a field; skip values shared by all tasks."""
    averages = dict[str, float]()
    for k, field in enumerate(RankTask._fields):
        names = dict.fromkeys(task[k] for task in parts)
        for name in names if len(names) > 1 and field != "averaging" else ():
            averages[name] = average(part for task, part in parts.items() if task[k] == name)
    return averages
