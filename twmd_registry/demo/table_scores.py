"""A file: the table of scores, their distribution, every row's scores, what can be downloaded."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from twmd_registry.demo.choices import PageSettings, spec_of
from twmd_registry.demo.markup import histograms
from twmd_registry.demo.uploads import UploadedTable
from twmd_registry.engine.scorer import make_scorer, score_all
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
Segment: TypeAlias = tuple[str | int | float, ...]


class FileResult(NamedTuple):
    """The scores of a file.

    Attributes:
        rows: Per metric a row of `HEADERS`.
        pictures: The distributions of the scores of its rows, as HTML.
        segment_headers: The columns of `segments`.
        segments: Per row of the file its number, its shortened texts and its scores.
        signatures: One per metric, in a line each.
        tsv: Every row's scores, to six digits.
        record: The record that ``twmd verify`` checks, as JSON.
        notices: Warnings about the scores.
    """

    rows: tuple[tuple[str, ...], ...]
    pictures: str
    segment_headers: tuple[str, ...]
    segments: tuple[Segment, ...]
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
        SpecError: No metric, or an unknown one.
        InputError: Texts that cannot be scored (names the row), or that take more than `PATIENCE_S`.
        ModelError: The packaged model is not installed.
    """
    if not metrics:
        raise SpecError("choose at least one metric.")
    started = time.perf_counter()

    def check_time(_done: int) -> None:
        if time.perf_counter() - started > PATIENCE_S:
            limit = f"scoring takes more than {PATIENCE_S:g} s and was given up"
            raise InputError(f"{limit}: try a smaller file, or 'twmd score'.")

    with collect_warnings() as held:
        scorers = [make_scorer(spec_of(metric, PageSettings(preset))) for metric in dict.fromkeys(metrics)]
        sets = score_all(scorers, uploaded.predictions, uploaded.references, progress=check_time)
    record = make_record([(uploaded.name, sets)], inputs=[uploaded.source], seconds=time.perf_counter() - started)
    rows: list[tuple[str, ...]] = []
    segments: list[Segment] = []
    for scores in sets:
        values = scores.as_dict()
        sides = [f"{values[name]:.4f}" if name in values else NOTHING for name in Output]
        rest = (f"{value:.4f}" for value in (measure(scores.scores) for measure in (min, statistics.median, max)))
        rows.append((str(scores.metric), f"{scores.score:.4f}", *sides, *rest))
    texts = zip(uploaded.rows, uploaded.predictions, uploaded.references, strict=True)
    for i, (row, prediction, references) in enumerate(texts):
        shown = (_shorten(prediction), _shorten(" / ".join(references)))
        segments.append((row, *shown, *(round(scores.scores[i], 4) for scores in sets)))
    compared = SystemComparison((uploaded.name,), tuple(map(column_of, sets)))
    return FileResult(
        rows=tuple(rows),
        pictures=histograms({str(scores.metric): scores.scores for scores in sets}),
        segment_headers=("row", "prediction", "references", *(str(scores.metric) for scores in sets)),
        segments=tuple(segments),
        signatures="\n".join(str(scores.signature) for scores in sets),
        tsv=sentence_lines(compared, DIGITS, header=True) + "\n",
        record=record_text(record),
        notices=tuple(dict.fromkeys(held)),
    )


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
