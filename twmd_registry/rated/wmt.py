"""The WMT metrics task's segments, as JSON lines."""

from __future__ import annotations

import json
import math
from pathlib import Path

from twmd_registry.errors import FileError
from twmd_registry.rated.rows import Rated, Row, gather, read_lines

SHORTEST = 2
"""Rows with fewer characters in either text are dropped: the TWMD authors' protocol for WMT."""


def read_wmt(path: Path) -> Rated:
    """Read JSON lines with ``lang, candidate, reference`` and ``score`` or ``rating``; grouped by language pair.

    Raises:
        FileError: The file is missing, empty, or a line has another form; names the line.
    """
    rows = [_read(line, f"{path}, line {number}") for number, line in enumerate(read_lines(path), 1) if line.strip()]
    kept = [row for row in rows if len(row.prediction) >= SHORTEST and len(row.reference) >= SHORTEST]
    return gather(kept, len(rows) - len(kept), path)


def _read(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
        found = Row(str(row["lang"]), row["candidate"], row["reference"], float(row["score"] if "score" in row else row["rating"]))
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{where}: expected lang, candidate, reference and score ({error!r}).") from error
    if not isinstance(found.prediction, str) or not isinstance(found.reference, str) or not math.isfinite(found.rating):
        raise FileError(f"{where}: expected candidate and reference as texts, and a finite score.")
    return found
