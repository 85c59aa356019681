"""Whether a metric prefers a text to the same text after a small edit: published challenge sets, DEMETR above all.

A metric *prefers* the better text of a pair where ``score(better) > score(worse)``, both against the same reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.engine.input_warnings import warn_about_small_samples
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.agreement import Interval, bootstrap, interval
from twmd_registry.metaeval.correlation import CorrelationEstimate, check_numbers
from twmd_registry.metaeval.side_by_side import Compared, MetricScores, check_compared, names_of, score_side_by_side
from twmd_registry.metaeval.table import FORMATS, NOT_HERE, TextTable, as_note, as_text
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.options import RunOptions
from twmd_registry.version import __version__

TIE = 1e-5
"""Scores that differ by no more are equal: so much may move a score without its signature."""
AVERAGE = "average"


class EditPreference(NamedTuple):
    """How a metric judges one kind of edit.

    Attributes:
        n: Pairs.
        ties: Pairs with equal scores.
        preferred: Share of better texts that score higher, ties as halves, 0 to 1.
        preferred_interval: Its bootstrap 95% interval.
        difference: Mean of better less worse score, on the metric's own scale.
        difference_interval: Its bootstrap 95% interval.
    """

    n: int
    ties: int
    preferred: float
    preferred_interval: Interval
    difference: float
    difference_interval: Interval


@dataclass(frozen=True)
class RobustnessResult:
    """Preferences of every metric on every kind of edit.

    Attributes:
        name: The canonical name of the study: two with one name measure the same.
        pairs: What was scored: the better text of every pair at even rows, the worse one after it.
        scored: By metric, label, signature and the scores of `pairs`.
        preferences: By metric, then by kind of edit.
        overlaps: Which metrics were trained or tuned on the data, in a sentence each.
    """

    name: str
    pairs: RatedSegments
    scored: tuple[MetricScores, ...]
    preferences: tuple[dict[str, EditPreference], ...]
    overlaps: tuple[str, ...]

    def _table(
        self, title: str, cell: Callable[[EditPreference], str], average: Callable[[EditPreference], float]
    ) -> TextTable:
        kinds = list(self.preferences[0])
        rows = [
            (kind, str(self.preferences[0][kind].n), *(cell(own[kind]) for own in self.preferences)) for kind in kinds
        ]
        means = [f"{np.mean([average(one) for one in own.values()]):.4f}" for own in self.preferences]
        return TextTable(
            title, ("edit", "n", *(one.label for one in self.scored)), [*rows, (AVERAGE, str(len(kinds)), *means)]
        )

    @property
    def tables(self) -> dict[str, TextTable]:
        """A row per kind of edit, a column per metric: the share preferred and the mean difference; below, the mean
        over kinds.
        """
        return {
            "preferred": self._table(
                "Share of better texts that score higher, ties as halves (95% interval)",
                lambda own: _cell(own.preferred, own.preferred_interval, 3),
                lambda own: own.preferred,
            ),
            "difference": self._table(
                "Better less worse score, mean (95% interval)",
                lambda own: _cell(own.difference, own.difference_interval, 4),
                lambda own: own.difference,
            ),
        }

    def as_text(self, form: str) -> str:
        """Return every table, and what is needed to do it again.

        Args:
            form: One of the values of `twmd_registry.metaeval.table.FORMATS`.
        """
        lines = [self.name, *(f"{one.label}: {one.signature}" for one in self.scored), *self.overlaps]
        return "\n\n".join([*(as_text(table, form) for table in self.tables.values()), as_note(lines, form)])

    def __str__(self) -> str:
        """Return it as text."""
        return self.as_text(FORMATS["txt"])

    def as_dict(self) -> dict[str, Any]:
        """Return every number, ready for JSON."""
        metrics = [
            {
                "label": one.label,
                "signature": one.signature,
                "edits": {kind: found._asdict() for kind, found in own.items()},
            }
            for one, own in zip(self.scored, self.preferences, strict=True)
        ]
        return {"study": self.name, "overlaps": list(self.overlaps), "metrics": metrics}


def _cell(value: float, between: Interval, digits: int) -> str:
    if np.isnan(value):
        return NOT_HERE
    shown = f"{value:.{digits}f}"
    return (
        shown
        if between.low is None or between.high is None
        else f"{shown} ({between.low:.{digits}f} .. {between.high:.{digits}f})"
    )


def pair_up(data: Sequence[RatedSegments]) -> RatedSegments:
    """Put the two texts of every pair side by side, the better rated one first.

    Args:
        data: Rated data sets of which every group has two segments of each item, with different ratings.

    Returns:
        Rows 2i and 2i + 1 are a pair.

    Raises:
        InputError: The data name no items, or an item of a group has not two segments, or two of one rating; names it.
    """
    kinds: list[RatedSegments] = []
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
        worse_first = rated.ratings[order[:, 0]] < rated.ratings[order[:, 1]]
        order[worse_first] = order[worse_first, ::-1]
        kinds.append(select(rated, order.ravel()))
    return RatedSegments(
        [group for own in kinds for group in own.group],
        [text for own in kinds for text in own.predictions],
        [text for own in kinds for text in own.references],
        np.concatenate([own.ratings for own in kinds]),
        0,
    )


def prefer(better: np.ndarray, worse: np.ndarray, *, resamples: int, seed: int) -> EditPreference:
    """Measure how often, and by how much, better texts score higher.

    ``mean_i [d_i > 0] + [d_i = 0] / 2`` and ``mean_i d_i`` with ``d_i = better_i - worse_i``, equal up to `TIE`.

    Args:
        better: Scores; shape (pairs,).
        worse: Scores of the other text of each pair.
        resamples: Of the pairs; 0 for no intervals.
        seed: Of the bootstrap.

    Raises:
        InputError: Different numbers of scores, or a score that is not finite.
        SpecError: A negative number of resamples.

    >>> found = prefer(np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.5, 0.8, 0.6, 0.7]), resamples=0, seed=0)
    >>> found.preferred, found.ties, round(found.difference, 4)
    (0.625, 1, 0.1)
    """
    n = len(better)
    difference = check_numbers("scores of better texts", better, n) - check_numbers("scores of worse texts", worse, n)
    tied = np.abs(difference) <= TIE
    higher = np.where(tied, 0.5, difference > 0)
    between = [
        interval(bootstrap(_mean_of(values), resamples, np.random.default_rng(seed))) for values in (higher, difference)
    ]
    return EditPreference(n, int(tied.sum()), float(higher.mean()), between[0], float(difference.mean()), between[1])


def _mean_of(values: np.ndarray) -> CorrelationEstimate:
    n = len(values)
    return CorrelationEstimate(float(values.mean()), n, n, lambda weights: values @ weights / n)


def run_robustness(
    data: dict[str, RatedSegments],
    metrics: Sequence[Compared],
    options: RunOptions,
    *,
    resamples: int = 1000,
    seed: int = 12345,
    progress: Progress | None = None,
) -> RobustnessResult:
    """Score the two texts of every pair by every metric.

    Args:
        data: By name and content, the data sets, as for `pair_up`.
        metrics: What is compared, ours and SacreBLEU's.
        options: Where and how fast.
        resamples: Of the bootstrap; 0 for no intervals.
        seed: Of the bootstrap.
        progress: Called with the number of segments scored.

    Raises:
        InputError: As for `pair_up`.
        SpecError: No metric, or one that there is not.
        ModelError: As for `Scorer.score`.

    Warns:
        TwmdWarning: A metric was trained or tuned on the data; a kind of edit has fewer pairs than
            `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE`, which is little for intervals (of one pair there is
            none).
    """
    checked = check_compared(metrics)
    pairs = pair_up(list(data.values()))
    expect(progress, len(pairs.predictions))
    applied, scored, overlaps = score_side_by_side(checked, pairs, ", ".join(data), options, progress)
    kinds = np.array(pairs.group[::2])
    rows = {str(kind): np.flatnonzero(kinds == kind) for kind in dict.fromkeys(pairs.group)}
    if resamples:
        warn_about_small_samples({kind: len(own) for kind, own in rows.items()})
    preferences = []
    for one in scored:
        scores = np.array(one.scores).reshape(-1, 2)  # (pairs, better and worse)
        preferences.append(
            {kind: prefer(scores[own, 0], scores[own, 1], resamples=resamples, seed=seed) for kind, own in rows.items()}
        )
    fields = {
        "data": ",".join(data),
        "metrics": names_of(applied),
        "bs": resamples,
        "seed": seed,
        "version": __version__,
    }
    name = "|".join(["robustness", *(f"{field}:{value}" for field, value in fields.items())])
    return RobustnessResult(name, pairs, scored, tuple(preferences), overlaps)
