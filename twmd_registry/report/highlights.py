"""Segments that a reader should look at: where systems differ most, and where metrics disagree most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twmd_registry.errors import visible
from twmd_registry.record.content import MetricColumn, SystemComparison
from twmd_registry.report.table import number


class Highlight(NamedTuple):
    """A segment worth a look.

    Attributes:
        segment: Its number, from 0.
        systems: Numbers of the systems to look at, from 0.
        reason: Why, in words.
    """

    segment: int
    systems: tuple[int, ...]
    reason: str


def segment_scores(column: MetricColumn) -> np.ndarray:
    """A metric's scores of all segments; shape (systems, segments)."""
    return np.array([cell.segments for cell in column.cells], dtype=np.float64)


def spreads(column: MetricColumn) -> np.ndarray:
    """The best system's score less the worst's, by segment.

    Args:
        column: One metric.

    Returns:
        Shape (segments,), from 0; NaN where a score is undefined.
    """
    scores = segment_scores(column)
    return np.asarray(scores.max(axis=0) - scores.min(axis=0))


def standings(column: MetricColumn) -> np.ndarray:
    """Which share of all other scores a score beats, ties counting half: ``(rank - 1) / (n - 1)``, over all systems'
    segments together.

    Args:
        column: One metric; where less is better, less beats more.

    Returns:
        From 0 (the worst) to 1 (the best), shape (systems, segments); NaN where the score is undefined, or the only
        one.
    """
    from scipy.stats import rankdata

    scores = -segment_scores(column) if column.errors else segment_scores(column)
    ranks = np.full(scores.shape, np.nan)
    known = np.isfinite(scores)
    if known.sum() > 1:
        ranks[known] = (rankdata(scores[known]) - 1) / (known.sum() - 1)
    return ranks


def disagreements(columns: tuple[MetricColumn, ...]) -> np.ndarray:
    """How far metrics stand apart: the highest of a segment's `standings` less the lowest.

    Args:
        columns: All metrics.

    Returns:
        From 0 to 1, shape (systems, segments); NaN where fewer than two metrics have a score.
    """
    every = np.array([standings(column) for column in columns])
    known = np.isfinite(every)
    span = np.where(known, every, -np.inf).max(axis=0) - np.where(known, every, np.inf).min(axis=0)
    return np.where(known.sum(axis=0) > 1, span, np.nan)


def remarks(comparison: SystemComparison, most: int) -> tuple[Highlight, ...]:
    """Choose segments: half of them where the first metric tells systems apart most, the others where metrics disagree
    most.

    A segment comes once; one on which everything agrees never comes.

    Args:
        comparison: The scores, of every segment.
        most: How many at most.
    """
    systems = _where_systems_differ(comparison, most // 2) if len(comparison.systems) > 1 else []
    taken = {one.segment for one in systems}
    return (*systems, *_where_metrics_disagree(comparison, taken, most - len(systems)))


def _where_systems_differ(comparison: SystemComparison, most: int) -> list[Highlight]:
    column = comparison.columns[0]
    scores, found = segment_scores(column), []
    for segment in _greatest(spreads(column))[:most]:
        best, worst = int(scores[:, segment].argmax()), int(scores[:, segment].argmin())
        ends = (f"{number(column, scores[i, segment])} to {visible(comparison.systems[i])}" for i in (best, worst))
        found.append(Highlight(segment, (best, worst), f"systems differ: {column.name} gives {' and '.join(ends)}"))
    return found


def _where_metrics_disagree(comparison: SystemComparison, taken: set[int], most: int) -> list[Highlight]:
    columns, segments = comparison.columns, len(comparison.columns[0].cells[0].segments)
    every, found = np.array([standings(column) for column in columns]), dict[int, Highlight]()
    for place in _greatest(disagreements(columns).ravel()):
        system, segment = divmod(place, segments)
        if len(found) == most:
            break
        if segment not in taken and segment not in found:
            own = every[:, system, segment]
            highest, lowest = (
                f"{columns[k].name} ranks it above {own[k]:.0%}"
                for k in (int(np.nanargmax(own)), int(np.nanargmin(own)))
            )
            reason = (
                f"metrics disagree on {visible(comparison.systems[system])}: {highest}, and {lowest}, of all other "
                "scores"
            )
            found[segment] = Highlight(segment, (system,), reason)
    return list(found.values())


def _greatest(values: np.ndarray) -> list[int]:
    """Places of numbers above 0, the greatest first; of equal ones, the earlier first."""
    known = np.where(np.isfinite(values), values, -np.inf)
    return [place for place in np.argsort(-known, kind="stable").tolist() if known[place] > 0]
