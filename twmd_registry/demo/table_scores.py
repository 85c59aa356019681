"""Tables that a visitor uploads or pastes: their scores, the distribution of scores, and what can be downloaded."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from twmd_registry.demo.choices import PageSettings, notices_of_preset, spec_of
from twmd_registry.engine.scorer import make_scorer, score_all
from twmd_registry.errors import FileError, InputError, SpecError, collect_warnings
from twmd_registry.judgments.reader import USUAL_REFERENCES, TableRow, read_rows
from twmd_registry.record.content import InputFile, SystemComparison, column_of, make_record
from twmd_registry.record.file import record_text
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.report.histogram import histogram
from twmd_registry.report.table import sentence_lines
from twmd_registry.report.template import render

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
LARGEST = 2_000_000
"""Bytes of the largest file."""
MOST_ROWS = 2_000
PREDICTION, REFERENCE = "prediction", "reference"
"""The column of the predictions, and the prefix of all columns of references."""
UploadedTable: TypeAlias = tuple[InputFile, list[int], list[str], list[list[str]], list[str] | None]
"""The file for a record; the number of every row in the file, from 1; predictions; lists of references; the texts of
the column source, None where a row has none.
"""


def read_upload(path: Path) -> UploadedTable:
    """Read a file of `SUFFIXES` with a column ``prediction`` and columns whose names begin with ``reference``.

    A cell of JSON lines may be a list of references. Where there are several columns, an empty cell is no reference.
    Raises FileError, which names the file without its folder, and the row.
    """
    try:
        return _read_table(path.name, path.read_bytes(), path.suffix.lower())
    except FileNotFoundError as error:
        raise FileError(f"{path.name}: this file was deleted; upload it again.") from error


def read_pasted(text: str) -> UploadedTable:
    """Read a pasted table as `read_upload` reads a file; its first line shows the format: JSON, tabs, or commas."""
    text = text.rstrip("\n") + "\n"
    if not text.strip():
        columns = f"with the columns {PREDICTION} and {REFERENCE}"
        raise FileError(f"Nothing to score: upload or paste a table {columns}.")
    first = next(filter(str.strip, text.splitlines()))
    form = ".jsonl" if first.lstrip().startswith("{") else ".tsv" if "\t" in first else ".csv"
    try:
        return _read_table(f"pasted{form}", text.encode(), form)
    except UnicodeEncodeError as error:
        raise FileError(f"pasted{form} is not valid Unicode: lone surrogate at character {error.start}.") from error


def _read_table(name: str, content: bytes, form: str) -> UploadedTable:
    if len(content) > LARGEST:
        raise FileError(f"{name} has more than {LARGEST:,} bytes: 'twmd score' reads files of any size.")
    # Compressed files are refused: a small file may unpack to more than fits into memory.
    rows = read_rows(name, content, form)
    if not rows:
        raise FileError(f"{name}: there is no row under the header." if content else f"{name} is empty.")
    if len(rows) > MOST_ROWS:
        limit = f"this page scores up to {MOST_ROWS:,}; 'twmd score' scores any number"
        raise FileError(f"{name} has {len(rows):,} rows: {limit}.")
    source = InputFile("predictions", name, hashlib.sha256(content).hexdigest())
    texts = [row.text(PREDICTION) for row in rows], [_references(row) for row in rows], _sources(rows)
    return source, [row.number for row in rows], *texts


def _references(row: TableRow) -> list[str]:
    columns = tuple(name for name in row.values if name.startswith(REFERENCE))
    if not columns:
        row.take(REFERENCE)  # raises the error of a missing column
    return row.references(() if set(USUAL_REFERENCES) <= set(columns) else columns)


def _sources(rows: Sequence[TableRow]) -> list[str] | None:
    texts = [text for row in rows if isinstance(text := row.values.get("source"), str)]
    return texts if len(texts) == len(rows) else None


HEADERS = ("metric", "score", "P", "R", "F1", "lowest", "median", "highest")
"""Corpus score, precision, recall and F1; lowest, median and highest score of a row."""
NOTHING = "-"
DIGITS = 6
PATIENCE_S = 600.0
"""Seconds after which a file is given up."""
SHOWN = 200
"""Characters of a text that the table of rows shows."""


def score_file(table: UploadedTable, metrics: Sequence[str], preset: str) -> dict[str, Any]:
    """Score the rows of a file by metrics, each of which counts once, and takes the preset if it has it.

    Returns ``rows`` (per metric a row of `HEADERS`), ``pictures`` (the distributions of the scores as HTML),
    ``segment_headers`` and ``segments`` (per row its number, shortened texts and scores), ``signatures`` (a line per
    metric), ``tsv`` (every row's scores, to six digits), ``record`` (JSON for ``twmd verify``), ``notices``. Raises
    SpecError for no metric or an unknown one, and InputError for texts that cannot be scored within `PATIENCE_S`.
    """
    if not metrics:
        raise SpecError("choose at least one metric.")
    started = time.perf_counter()
    source, numbers, predictions, references, translated = table

    def check_time(_done: int) -> None:
        if time.perf_counter() - started > PATIENCE_S:
            limit = f"scoring takes more than {PATIENCE_S:g} s and was given up"
            raise InputError(f"{limit}: try a smaller file, or 'twmd score'.")

    with collect_warnings() as warnings:
        scorers = [make_scorer(spec_of(metric, PageSettings(preset))) for metric in dict.fromkeys(metrics)]
        sets = score_all(scorers, predictions, references, translated, progress=check_time)
    seconds = time.perf_counter() - started
    record = make_record([(source.name, sets)], inputs=[source], references=references, seconds=seconds)
    names = [str(scores.metric) for scores in sets]
    rows, pictures = [], {}
    for name, scores in zip(names, sets, strict=True):
        values = scores.as_dict() | {what.__name__: what(scores.scores) for what in (min, statistics.median, max)}
        keys = (name, *OUTPUTS, "min", "median", "max")
        rows.append((name, *(f"{values[key]:.4f}" if key in values else NOTHING for key in keys)))
        pictures[name] = histogram([np.asarray(scores.scores)], f"distribution of {name}", 3)
    shown = [[_shorten(p), _shorten(" / ".join(r))] for p, r in zip(predictions, references, strict=True)]
    return {
        "rows": rows,
        "pictures": render("histograms.html", "demo", pictures=pictures),
        "segment_headers": ["row", "prediction", "references", *names],
        "segments": [
            [number, *shown[i], *(round(scores.scores[i], 4) for scores in sets)] for i, number in enumerate(numbers)
        ],
        "signatures": "\n".join(str(scores.signature) for scores in sets),
        "tsv": sentence_lines(SystemComparison((source.name,), tuple(map(column_of, sets))), DIGITS, header=True)
        + "\n",
        "record": record_text(record),
        "notices": [*notices_of_preset(names, preset), *dict.fromkeys(warnings)],
    }


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
