"""Whether a metric prefers a text to the same text after a small edit that changes its meaning.

Every edit is made in a machine translation that people rated well, never in the reference itself: against itself a text scores highest by
construction. A metric *prefers* the unedited text where ``score(text, reference) > score(edited, reference)``. Edits that keep the meaning
stand beside the others as controls: how much a metric drops for them says how much it minds the form. They are not neutral: a text without
its full stop is less like a reference that has one, so that a share near a half is to be expected of contractions only, and the mean
differences are what is to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.engine.input_warnings import warn_about_small_samples
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import Interval, bootstrap, interval
from twmd_registry.metaeval.correlation import CorrelationEstimate, check_numbers
from twmd_registry.metaeval.edited import EditCandidates, EditedTexts, choose_texts, edit_texts, lay_out
from twmd_registry.metaeval.edits import CONTROLS, Edit
from twmd_registry.metaeval.side_by_side import Compared, MetricScores, check_compared, names_of, score_side_by_side
from twmd_registry.metaeval.table import FORMATS, NOT_HERE, TextTable, as_note, as_text
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.options import RunOptions
from twmd_registry.version import __version__

TIE = 1e-5
"""Scores that differ by no more are equal: so much may move a score without its signature."""


class EditPreference(NamedTuple):
    """What a metric says of one kind of edit.

    Attributes:
        edit: The edit.
        n: Edited texts.
        ties: Of them, those that score as the unedited ones do.
        preferred: Share of unedited texts that score higher, ties as halves, 0 to 1; None without texts.
        preferred_interval: Its bootstrap 95% interval.
        difference: Mean of unedited less edited score, on the metric's own scale; None without texts.
        difference_interval: Its bootstrap 95% interval.
    """

    edit: Edit
    n: int
    ties: int
    preferred: float | None
    preferred_interval: Interval
    difference: float | None
    difference_interval: Interval


class MetricRobustness(NamedTuple):
    """What one metric says.

    Attributes:
        label: A name unlike the other metrics'.
        signature: What was computed.
        scores: Of every row of the result's `pairs`.
        preferences: One per `Edit`.
    """

    label: str
    signature: str
    scores: tuple[float, ...]
    preferences: tuple[EditPreference, ...]


@dataclass(frozen=True)
class RobustnessStudy:
    """What is measured.

    Attributes:
        data: Of every data set its name and the hash of its content.
        metrics: What is compared, ours and SacreBLEU's.
        resamples: Of the bootstrap; 0 for no intervals.
        seed: Of the edits and the bootstrap.

    Raises:
        SpecError: No metric, or one that there is not.
    """

    data: tuple[str, ...]
    metrics: tuple[Compared, ...]
    resamples: int = 1000
    seed: int = 12345

    def __post_init__(self) -> None:
        """Refuse to measure nothing."""
        object.__setattr__(self, "metrics", check_compared(self.metrics))

    @property
    def name(self) -> str:
        """The canonical name: two studies with one name measure the same."""
        fields = {
            "data": ",".join(self.data),
            "metrics": names_of(self.metrics),
            "bs": self.resamples,
            "seed": self.seed,
            "version": __version__,
        }
        return "|".join(["robustness", *(f"{name}:{value}" for name, value in fields.items())])


@dataclass(frozen=True)
class RobustnessResult:
    """What came out.

    Attributes:
        study: With the specifications as they were applied.
        chosen: The texts that were edited.
        edited: What every edit made of them.
        pairs: What was scored, texts at even rows, each before its edited form.
        measured: One per metric.
        overlaps: Which metrics were trained or tuned on the data, in a sentence each.
    """

    study: RobustnessStudy
    chosen: EditCandidates
    edited: tuple[EditedTexts, ...]
    pairs: RatedSegments
    measured: tuple[MetricRobustness, ...]
    overlaps: tuple[str, ...] = ()

    def _table(self, title: str, cell: Callable[[EditPreference], str]) -> TextTable:
        header = ("edit", "meaning", "n", "left out", *(one.label for one in self.measured))
        rows = []
        for k, own in enumerate(self.edited):
            meaning = "kept" if own.edit in CONTROLS else "changed"
            rows.append((str(own.edit), meaning, str(len(own.rows)), str(own.left_out), *(cell(one.preferences[k]) for one in self.measured)))
        return TextTable(title, header, rows)

    @property
    def tables(self) -> dict[str, TextTable]:
        """A row per edit, a column per metric: the share preferred, the mean difference, and the ties."""
        return {
            "preferred": self._table(
                "Share of unedited texts that score higher, ties as halves (95% interval)",
                lambda own: _cell(own.preferred, own.preferred_interval, 3),
            ),
            "difference": self._table(
                "Unedited less edited score, mean (95% interval)", lambda own: _cell(own.difference, own.difference_interval, 4)
            ),
            "ties": self._table("Texts that score the same after the edit", lambda own: str(own.ties)),
        }

    def as_text(self, form: str) -> str:
        """Every table, and what is needed to do it again.

        Args:
            form: One of the values of `twmd_registry.metaeval.table.FORMATS`.
        """
        chosen = self.chosen
        about = (
            f"{len(chosen.texts)} texts, the best rated one of each reference where its rating is in its group's upper quarter; "
            f"left out: {chosen.low} rated lower, {chosen.same} equal to their reference"
        )
        lines = [about, self.study.name, *(f"{one.label}: {one.signature}" for one in self.measured), *self.overlaps]
        return "\n\n".join([*(as_text(table, form) for table in self.tables.values()), as_note(lines, form)])

    def __str__(self) -> str:
        """As text."""
        return self.as_text(FORMATS["txt"])

    def as_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON."""
        return {
            "study": self.study.name,
            "overlaps": list(self.overlaps),
            "texts": len(self.chosen.texts),
            "low": self.chosen.low,
            "same": self.chosen.same,
            "left_out": {str(own.edit): own.left_out for own in self.edited},
            "metrics": [
                {"label": one.label, "signature": one.signature, "edits": [own._asdict() for own in one.preferences]} for one in self.measured
            ],
        }


def _cell(value: float | None, between: Interval, digits: int) -> str:
    if value is None:
        return NOT_HERE
    shown = f"{value:.{digits}f}"
    return shown if between.low is None or between.high is None else f"{shown} ({between.low:.{digits}f} .. {between.high:.{digits}f})"


def prefer(edit: Edit, unedited: np.ndarray, edited: np.ndarray, *, resamples: int, seed: int) -> EditPreference:
    """Measure how often, and by how much, unedited texts score higher.

    ``mean_i [d_i > 0] + [d_i = 0] / 2`` and ``mean_i d_i`` with ``d_i = unedited_i - edited_i``, equal up to `TIE`.

    Args:
        edit: The edit.
        unedited: Scores; shape (texts,).
        edited: Scores of the same texts after the edit.
        resamples: Of the texts; 0 for no intervals.
        seed: Of the bootstrap.

    Raises:
        InputError: Different numbers of scores, or a score that is not finite.
        SpecError: A negative number of resamples.

    >>> found = prefer(Edit.NAME, np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.5, 0.8, 0.6, 0.7]), resamples=0, seed=0)
    >>> found.preferred, found.ties, round(found.difference, 4)
    (0.625, 1, 0.1)
    """
    n = len(unedited)
    difference = check_numbers("unedited scores", unedited, n) - check_numbers("edited scores", edited, n)
    tied = np.abs(difference) <= TIE
    if n == 0:
        nothing = Interval(None, None)
        return EditPreference(edit, 0, 0, None, nothing, None, nothing)
    higher = np.where(tied, 0.5, difference > 0)
    between = [interval(bootstrap(_mean_of(values), resamples, np.random.default_rng(seed))) for values in (higher, difference)]
    return EditPreference(edit, n, int(tied.sum()), float(higher.mean()), between[0], float(difference.mean()), between[1])


def _mean_of(values: np.ndarray) -> CorrelationEstimate:
    n = len(values)
    return CorrelationEstimate(float(values.mean()), n, n, lambda weights: values @ weights / n)


def run_robustness(study: RobustnessStudy, data: Sequence[RatedSegments], options: RunOptions, progress: Progress | None = None) -> RobustnessResult:
    """Choose texts, edit them, and score them before and after by every metric.

    Args:
        study: What to measure.
        data: Rated data sets.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Raises:
        InputError: No text is left to edit, or no edit applies.
        ModelError: As `Scorer.score`.

    Warns:
        TwmdWarning: A metric was trained or tuned on the data; an edit has fewer texts than
            `twmd_registry.engine.input_warnings.RELIABLE_SAMPLE`, which is little for intervals (of one text there is none).
    """
    chosen = choose_texts(data)
    edited = edit_texts(chosen, study.seed)
    pairs = lay_out(chosen, edited)
    if not pairs.predictions:
        raise InputError(f"no edit applies to any of {len(chosen.texts)} texts: the rules are for English sentences.")
    expect(progress, len(pairs.predictions))
    applied, scored, overlaps = score_side_by_side(study.metrics, pairs, ", ".join(study.data), options, progress)
    if study.resamples:
        warn_about_small_samples({str(own.edit): len(own.rows) for own in edited if own.rows})
    measured = tuple(MetricRobustness(one.label, one.signature, one.scores, _preferences(study, pairs, one)) for one in scored)
    return RobustnessResult(replace(study, metrics=applied), chosen, edited, pairs, measured, overlaps)


def _preferences(study: RobustnessStudy, pairs: RatedSegments, one: MetricScores) -> tuple[EditPreference, ...]:
    scores, group = np.array(one.scores).reshape(-1, 2), np.array(pairs.group[::2])  # (texts, before and after)
    by_edit = [scores[group == edit] for edit in Edit]
    return tuple(prefer(edit, own[:, 0], own[:, 1], resamples=study.resamples, seed=study.seed) for edit, own in zip(Edit, by_edit, strict=True))
