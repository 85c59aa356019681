"""A comparison of systems, and its verdict in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from twmd_registry.comparison.cells import SIGNIFICANT, MetricColumn, ScoreTable, number
from twmd_registry.messages import visible
from twmd_registry.template import render


class SystemComparison(ScoreTable):
    """A comparison of systems, which prints as the command line's table and shows its verdict in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the table of the command line: scores, intervals, tests and signatures."""
        from twmd_registry.comparison.tables import text_table  # imports torch

        return text_table(self, None)

    def _repr_html_(self) -> str:
        text = " ".join(verdict(self)) if self.resampling and self.resampling.test else ""
        return render("comparison.html", "comparison", comparison=self, significant=SIGNIFICANT, verdict=text)


def verdict(comparison: SystemComparison) -> list[str]:
    """Say which systems the first metric separates from the baseline, whether it separates the two best, and where
    other metrics differ.
    """
    column, names = comparison.columns[0], short_names(comparison.systems)
    if len(names) == 1:
        cell = column.cells[0]
        shown = "" if cell.ci is None else f" ± {number(column, cell.ci)}"
        return [f"{names[0]} scores {number(column, cell.score)}{shown} by {column.name}."]
    if not comparison.resampling or not comparison.resampling.test:
        best = ranked(column)[0]
        return [f"{names[best]} has the highest score by {column.name}; there are too few segments for a test."]
    kinds = {kind: [i for i in ranked(column) if i and compare(column, i, 0) == kind] for kind in (1, 0, -1)}
    parts = []
    for kind, verb in ((1, "beat"), (-1, "lose to")):
        if some := kinds[kind]:
            one = {"beat": "beats", "lose to": "loses to"}[verb]
            said = one if len(some) == 1 else f"both {verb}" if len(some) == 2 else f"all {verb}"
            parts.append(f"{_list(names, some)} {said} {names[0]}")
    if some := kinds[0]:
        p = f" ({_shown_p(column, some[0], 0)})" if len(some) == 1 else ""
        parts.append(f"{_list(names, some)} {'is' if len(some) == 1 else 'are'} not separable from {names[0]}{p}")
    sentences = [f"By {column.name}, {'; '.join(parts)}."]
    two = kinds[1][:2]
    if len(two) > 1:
        first, second = two
        said = f"{names[first]} and {names[second]} are not separable by {column.name}"
        if compare(column, first, second) == 1:
            said = f"{names[first]} also beats {names[second]}"
        sentences.append(f"{said}, {_shown_p(column, first, second)}.")
    return sentences + _others(comparison, names, two)


def short_names(systems: Sequence[str]) -> list[str]:
    """Return the systems' names without a common suffix, such as ``.txt``."""
    endings = {PurePath(name).suffix for name in systems}
    return [visible(name.removesuffix(next(iter(endings))) if len(endings) == 1 else name) for name in systems]


def _others(comparison: SystemComparison, names: Sequence[str], best: Sequence[int]) -> list[str]:
    """Say whether other metrics agree with the first about every system and the baseline, and about the two best."""
    first, *others = comparison.columns
    found = dict[str, list[str]]()  # the metrics that find something else
    for column in others:
        for kind, words in ((1, "better than"), (0, "not separable from"), (-1, "worse than")):
            some = [i for i in range(1, len(names)) if compare(column, i, 0) == kind != compare(first, i, 0)]
            if some:
                found.setdefault(f"{_list(names, some)} {words} {names[0]}", []).append(column.name)
            if best[1:] and compare(column, *best) == kind != compare(first, *best):
                found.setdefault(f"{names[best[0]]} {words} {names[best[1]]}", []).append(column.name)
    if not others:
        return []
    if not found:
        return ["The other metrics say the same." if len(others) > 1 else f"{others[0].name} says the same."]
    said = (
        f"{_list(metrics, range(len(metrics)))} find{'s' * (len(metrics) == 1)} {what}"
        for what, metrics in found.items()
    )
    return [f"But {'; '.join(said)}."]


def compare(column: MetricColumn, i: int, j: int) -> int:
    """Return 1 if system i is better than j by a metric, -1 if it is worse, 0 if they are not separable."""
    p = _p(column, i, j)
    if p is None or p >= SIGNIFICANT:
        return 0
    return 1 if (column.cells[i].score > column.cells[j].score) is not column.errors else -1


def ranked(column: MetricColumn) -> list[int]:
    """Return the systems' indices, best first."""
    sign = 1 if column.errors else -1
    return sorted(range(len(column.cells)), key=lambda i: sign * column.cells[i].score)


def _p(column: MetricColumn, i: int, j: int) -> float | None:
    """Return the p of two systems' difference; None if not tested."""
    if column.p_values:
        return column.p_values[i][j]
    return column.cells[max(i, j)].p_value if min(i, j) == 0 else None


def _shown_p(column: MetricColumn, i: int, j: int) -> str:
    p = _p(column, i, j)
    return "not tested" if p is None else f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"


def _list(names: Sequence[str], numbers: Sequence[int]) -> str:
    listed = [names[i] for i in numbers]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
