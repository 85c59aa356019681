"""The WMT metrics task's segments, as JSON lines."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.judgments.fields import Fields, read_jsonl
from twmd_registry.judgments.rows import RatedRow, RatedSegments, SkippedRow, gather

SHORTEST = 2
"""Rows with fewer characters in either text are dropped: the TWMD authors' protocol for WMT."""


def read_wmt(path: Path) -> RatedSegments:
    """Read JSON lines with ``lang, candidate, reference`` and ``score`` or ``rating``; grouped by language pair.

    Rows that are not rated (null, NaN or empty) are dropped, as are those with a text of fewer than `SHORTEST` characters.

    Raises:
        FileError: The file is missing, empty, or a line has another form; names the line.
    """
    return gather(map(_read, read_jsonl(path)), path)


def _read(fields: Fields) -> RatedRow | SkippedRow:
    name = "rating" if "score" not in fields.values and "rating" in fields.values else "score"
    group, prediction, reference, rating = fields.label("lang"), fields.text("candidate"), fields.text("reference"), fields.rating(name)
    if rating is None or len(prediction) < SHORTEST or len(reference) < SHORTEST:
        return SkippedRow(fields.place, group)
    return RatedRow(group, prediction, reference, rating)
