"""Average ranks of the WMT22 metrics task: every metric is ranked in up to 201 tasks, which have published weights.

Freitag et al. 2022; tasks and weights are those of mt-metrics-eval's ``wmt22_metrics.ipynb``. One task is the accuracy
of systems over all language pairs. The others are every combination of a language pair, a domain or all of them,
systems or segments (correlated together, by system, or by item), with translations by people or without them, and
Pearson or Kendall.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import InputError, collect_warnings
from twmd_registry.judgments.official import Divisions
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.agreement import Averaging, agreement, mean_systems
from twmd_registry.metaeval.significance import rank_metrics
from twmd_registry.metaeval.study import SEGMENT, SYSTEM
from twmd_registry.registry.names import Statistic

PUBLISHED = 201
"""Tasks of the year, with its three language pairs, and four domains in each."""
EVERY_PAIR, EVERY_DOMAIN = "all pairs", "all domains"
LEVELS: tuple[tuple[str, Averaging], ...] = ((SYSTEM, "none"), *((SEGMENT, own) for own in ("none", "system", "item")))
"""What is correlated, and over what correlations are averaged."""


class RankedData(NamedTuple):
    """What tasks are made of: of every metric, the scores of all segments, shape (metrics, segments), and published
    scores of systems by group and system; the ratings, whose groups are language pairs; and domains and people.
    """

    scores: Sequence[Sequence[float]]
    systems: Sequence[Mapping[tuple[str, str], float]]
    rated: RatedSegments
    divisions: Divisions


class RankTask(NamedTuple):
    """What metrics are ranked by; weight is shared out among the values of each field in turn.

    Attributes:
        pair: Or `EVERY_PAIR`.
        domain: Or `EVERY_DOMAIN`.
        people: ``with people`` or ``without people``: whether translations by people are among the systems.
        averaging: Over what the correlations of segments are averaged.
        statistic: Pearson or Kendall; of `EVERY_PAIR`, accuracy.
    """

    pair: str
    domain: str
    level: str
    people: str
    averaging: Averaging
    statistic: Statistic


class TaskPart(NamedTuple):
    """A metric's statistic in a task, the task's weight, and what of it is averaged: a rank, or a value from 0 to 1."""

    value: float
    weight: float
    averaged: float


def average(parts: Iterable[TaskPart]) -> float:
    """Return the weighted average of parts."""
    chosen = list(parts)
    return sum(part.weight * part.averaged for part in chosen) / sum(part.weight for part in chosen)


def list_rank_tasks(pairs: Sequence[str], data: RankedData) -> list[RankTask]:
    """List the tasks of these language pairs that the data allow."""
    rated, divisions = data.rated, data.divisions
    tasks = [RankTask(EVERY_PAIR, EVERY_DOMAIN, SYSTEM, "without people", "none", Statistic.ACCURACY)]
    for pair in pairs:
        own = [i for i, group in enumerate(rated.group) if group == pair]
        domains = [EVERY_DOMAIN, *sorted({domain for i in own if (domain := divisions.domains[i])})]
        people = [*["with people"] * any(divisions.people[i] for i in own), "without people"]
        for domain, (level, averaging), included, statistic in itertools.product(
            domains, LEVELS, people, (Statistic.PEARSON, Statistic.KENDALL)
        ):
            tasks.append(RankTask(pair, domain, level, included, averaging, statistic))
    return tasks


def share_weight(tasks: Sequence[RankTask], weight: float = 1.0, field: int = 0) -> dict[RankTask, float]:
    """Share weight equally among the values of a field, and the weight of each value among those of the next field."""
    if field == len(RankTask._fields):
        return dict.fromkeys(tasks, weight)
    values, shares = dict.fromkeys(task[field] for task in tasks), dict[RankTask, float]()
    for value in values:
        shares |= share_weight([task for task in tasks if task[field] == value], weight / len(values), field + 1)
    return shares


def rank_by_tasks(
    tasks: Sequence[RankTask], data: RankedData, *, trials: int, seed: int, done: Callable[[], None]
) -> tuple[dict[RankTask, TaskPart], ...]:
    """Rank metrics in every task, by significance (`rank_metrics`) or, without trials, by the statistic alone.

    Parts of the data without a correlation are left out of a task's mean, without a warning, and a task in which a
    metric has none is left out. `done` is called after every task. Returns, by metric, its part of every task.
    """
    measured = dict[RankTask, tuple[list[float], list[int]]]()
    for task in tasks:
        with collect_warnings(), suppress(InputError):
            measured[task] = _rank(task, data, trials, seed)
        done()
    weights = share_weight(list(measured))
    return tuple(
        {task: TaskPart(values[k], weights[task], ranks[k]) for task, (values, ranks) in measured.items()}
        for k in range(len(data.scores))
    )


def _rank(task: RankTask, data: RankedData, trials: int, seed: int) -> tuple[list[float], list[int]]:
    """Return the value and the rank of every metric."""
    scores, systems, rated, divisions = data
    rows = np.flatnonzero(
        [
            task.pair in (EVERY_PAIR, group)
            and task.domain in (EVERY_DOMAIN, domain)
            and not (is_person and task.people == "without people")
            for group, domain, is_person in zip(rated.group, divisions.domains, divisions.people, strict=True)
        ]
    )
    own, averaging = select(rated, rows), task.averaging
    if task.domain != EVERY_DOMAIN:
        own = own._replace(group=[f"{task.pair} {task.domain}"] * len(rows))
    compared = [np.asarray(each)[rows] for each in scores]
    if task.level == SYSTEM:
        own = own._replace(system_ratings=(rated.system_ratings or {}) | divisions.ratings)
        means = [mean_systems(each, own, "group", by) for each, by in zip(compared, systems, strict=True)]
        compared, own = [each for each, _ in means], means[0][1]
    if task.statistic is Statistic.ACCURACY:  # a pair of systems is of one language pair, and each system is swapped
        own, averaging = own._replace(system=own.group), "system"
    values = [agreement(task.statistic, each, own, averaging=averaging, resamples=0).value for each in compared]
    if trials:
        shared = {"averaging": averaging, "trials": trials, "seed": seed}
        return values, rank_metrics([each.tolist() for each in compared], values, own, task.statistic, **shared)
    return values, [1 + sum(other > value for other in values) for value in values]


def average_ranks(parts: Mapping[RankTask, TaskPart]) -> dict[str, float]:
    """Average a metric's ranks over the tasks of every value of a field, by value; values of all tasks are left out."""
    averages = dict[str, float]()
    for field in ("pair", "domain", "level", "people", "statistic"):
        names = dict.fromkeys(getattr(task, field) for task in parts)
        for name in names if len(names) > 1 else ():
            averages[str(name)] = average(part for task, part in parts.items() if getattr(task, field) == name)
    return averages
