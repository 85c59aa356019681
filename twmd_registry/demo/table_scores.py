"""A file: the table of scores, their distribution, every row's scores, what can be downloaded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from twmd_registry.demo.choices import PageSettings, scorer_for
from twmd_registry.demo.histogram import histograms
from twmd_registry.demo.uploads import UploadedTable
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import score_all
from twmd_registry.errors import InputError, SpecError, collect_warnings
from twmd_registry.record.content import SystemComparison, column_of, make_record
from twmd_registry.record.file import record_text
from twmd_registry.registry.names import Output
from twmd_registry.report.table import sentence_lines

HEADERS = ("metric", "score", "P", "R", "F1", "lowest", "median", "highest")
"""Corpus score, precision, recall and F1; lowest, median and highest score of a row."""
NOTHING = "-"
DIGITS = 6
PATIENCE_S = 600.0
"""Seconds after which a file is given up."""
SHOWN = 200
"""Characters of a text that the table of rows shows."""


class FileResult(NamedTuple):
    """What is known of a file.

    Attributes:
        rows: Per metric a row of `HEADERS`.
        pictures: The distributions of the scores of its rows, as HTML.
        segment_headers: What is in `segments`.
        segments: Per row of the file its number there, its texts, shortened, and its scores.
        signatures: One per metric, in a line each.
        tsv: Every row's scores, to six digits.
        record: The record that ``twmd verify`` checks, as JSON.
        notices: What a reader of the scores should know.
    """

    rows: tuple[tuple[str, ...], ...]
    pictures: str
    segment_headers: tuple[str, ...]
    segments: tuple[tuple[str | int | float, ...], ...]
    signatures: str
    tsv: str
    record: str
    notices: tuple[str, ...]


def score_file(uploaded: UploadedTable, metrics: Sequence[str], preset: str) -> FileResult:
    """Score the rows of a file.

    Args:
        uploaded: Its texts.
        metrics: The metrics' names; each counts once.
        preset: Of every metric that has one of this name; the others take their defaults.

    Raises:
        SpecError: No metric, or one that there is not.
        InputError: Texts that cannot be scored (names the row), or that take more than `PATIENCE_S`.
        ModelError: The packaged model is not installed.
    """
    if not metrics:
        raise SpecError("choose at least one metric.")
    started = time.perf_counter()

    def check_time(_done: int) -> None:
        if time.perf_counter() - started > PATIENCE_S:
            raise InputError(
                f"scoring takes more than {PATIENCE_S:g} s and was given up: try a smaller file, or 'twmd score'."
            )

    with collect_warnings() as held:
        scorers = [scorer_for(metric, PageSettings(preset)) for metric in dict.fromkeys(metrics)]
        sets = score_all(scorers, uploaded.predictions, uploaded.references, progress=check_time)
    record = make_record([(uploaded.name, sets)], inputs=[uploaded.source], seconds=time.perf_counter() - started)
    columns = tuple(map(column_of, sets))
    return FileResult(
        rows=tuple(map(_row, sets)),
        pictures=histograms({str(one.metric): one.scores for one in sets}),
        segment_headers=("row", "prediction", "references", *(str(one.metric) for one in sets)),
        segments=tuple(_segments(uploaded, sets)),
        signatures="\n".join(str(one.signature) for one in sets),
        tsv=sentence_lines(SystemComparison((uploaded.name,), columns), DIGITS, header=True) + "\n",
        record=record_text(record),
        notices=tuple(dict.fromkeys(held)),
    )


def _row(found: ScoreSet) -> tuple[str, ...]:
    """One line of the table."""
    whole, ordered = found.as_dict(), sorted(found.scores)
    sides = (f"{whole[name]:.4f}" if name in whole else NOTHING for name in map(str, Output))
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return (str(found.metric), f"{found.score:.4f}", *sides, f"{ordered[0]:.4f}", f"{middle:.4f}", f"{ordered[-1]:.4f}")


def _segments(uploaded: UploadedTable, sets: Sequence[ScoreSet]) -> list[tuple[str | int | float, ...]]:
    texts = zip(uploaded.rows, uploaded.predictions, uploaded.references, strict=True)
    return [
        (row, _shortened(prediction), _shortened(" / ".join(references)), *(round(one.scores[i], 4) for one in sets))
        for i, (row, prediction, references) in enumerate(texts)
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
