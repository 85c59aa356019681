"""The WMT metrics task's segments, as JSON lines."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, skipped
from twmd_registry.judgments.reader import TableRow, read_content, read_rows

SHORTEST = 2
"""Rows with fewer characters in either text are dropped: the TWMD authors' protocol for WMT."""


def read_wmt(path: Path) -> RatedSegments:
    """Read JSON lines with ``lang, candidate, reference`` and ``score`` or ``rating``; grouped by language pair.

    Rows that are not rated (null, NaN or empty) are dropped, and those with a text of fewer than `SHORTEST` characters.

    Raises:
        FileError: The file is missing, empty, or a row has another form; names the row.
    """
    return gather(map(_read, read_rows(path, read_content(path), ".jsonl")), path)


def _read(row: TableRow) -> RatedRow:
    name = "rating" if "score" not in row.values and "rating" in row.values else "score"
    group, prediction, reference = row.label("lang"), row.text("candidate"), row.text("reference")
    rating = row.rating(name)
    if rating is None or len(prediction) < SHORTEST or len(reference) < SHORTEST:
        return skipped(row.place, group)
    return RatedRow(group, prediction, reference, rating)
