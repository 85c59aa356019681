"""A file: the table of scores, their distribution, every row's scores, what can be downloaded."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from twmd_registry.demo.choices import PageSettings, spec_of
from twmd_registry.demo.uploads import UploadedTable
from twmd_registry.engine.scorer import make_scorer, score_all
from twmd_registry.errors import InputError, SpecError, collect_warnings
from twmd_registry.record.content import SystemComparison, column_of, make_record
from twmd_registry.record.file import record_text
from twmd_registry.registry.names import Output
from twmd_registry.report.histogram import histogram
from twmd_registry.report.table import sentence_lines
from twmd_registry.report.template import render

HEADERS = ("metric", "score", "P", "R", "F1", "lowest", "median", "highest")
"""Corpus score, precision, recall and F1; lowest, median and highest score of a row."""
NOTHING = "-"
DIGITS = 6
PATIENCE_S = 600.0
"""Seconds after which a file is given up."""
SHOWN = 200
"""Characters of a text that the table of rows shows."""


def score_file(table: UploadedTable, metrics: Sequence[str], preset: str) -> dict[str, Any]:
    """Score the rows of a file.

    Args:
        table: Its texts.
        metrics: The metrics' names; each counts once.
        preset: Of every metric that has one of this name; the others take their defaults.

    Returns:
        ``rows`` (per metric a row of `HEADERS`), ``pictures`` (the distributions of the scores as HTML),
        ``segment_headers`` and ``segments`` (per row its number, shortened texts and scores), ``signatures`` (a line
        per metric), ``tsv`` (every row's scores, to six digits), ``record`` (JSON for ``twmd verify``), ``notices``.

    Raises:
        SpecError: No metric, or an unknown one.
        InputError: Texts that cannot be scored (names the row), or that take more than `PATIENCE_S`.
        ModelError: The packaged model is not installed.
    """
    if not metrics:
        raise SpecError("choose at least one metric.")
    started = time.perf_counter()
    source, numbers, predictions, references = table

    def check_time(_done: int) -> None:
        if time.perf_counter() - started > PATIENCE_S:
            limit = f"scoring takes more than {PATIENCE_S:g} s and was given up"
            raise InputError(f"{limit}: try a smaller file, or 'twmd score'.")

    with collect_warnings() as warnings:
        scorers = [make_scorer(spec_of(metric, PageSettings(preset))) for metric in dict.fromkeys(metrics)]
        sets = score_all(scorers, predictions, references, progress=check_time)
    record = make_record([(source.name, sets)], inputs=[source], seconds=time.perf_counter() - started)
    names = [str(scores.metric) for scores in sets]
    rows, pictures = [], {}
    for name, scores in zip(names, sets, strict=True):
        values = scores.as_dict() | {what.__name__: what(scores.scores) for what in (min, statistics.median, max)}
        keys = (name, *Output, "min", "median", "max")
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
        "notices": list(dict.fromkeys(warnings)),
    }


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
