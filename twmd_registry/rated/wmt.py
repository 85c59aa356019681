"""The WMT metrics task's segments, as JSON lines."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.rated.fields import Fields, read_jsonl, read_rating
from twmd_registry.rated.rows import Rated, Row, gather

SHORTEST = 2
"""Rows with fewer characters in either text are dropped: the TWMD authors' protocol for WMT."""


def read_wmt(path: Path) -> Rated:
    """Read JSON lines with ``lang, candidate, reference`` and ``score`` or ``rating``; grouped by language pair.

    Raises:
        FileError: The file is missing, empty, or a line has another form; names the line.
    """
    rows = [_read(fields) for fields in read_jsonl(path)]
    kept = [row for row in rows if len(row.prediction) >= SHORTEST and len(row.reference) >= SHORTEST]
    return gather(kept, len(rows) - len(kept), path)


def _read(fields: Fields) -> Row:
    name = "rating" if "score" not in fields.values and "rating" in fields.values else "score"
    rating = read_rating(fields.take(name), fields.where)
    return Row(fields.label("lang"), fields.text("candidate"), fields.text("reference"), rating)
