"""Rated data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import FileError

SHORTEST = 2
"""Rows with fewer characters in either text are dropped: the TWMD authors' protocol for WMT."""


class Rated(NamedTuple):
    """Segments that people have rated.

    Attributes:
        group: The group (language pair) of every segment.
        predictions: Texts.
        references: One per segment.
        ratings: Shape (segments,).
        dropped: Rows that were left out because a text was too short.
    """

    group: list[str]
    predictions: list[str]
    references: list[str]
    ratings: np.ndarray
    dropped: int


def read_wmt(path: Path) -> Rated:
    """Read a WMT metrics-task file: JSON lines with ``lang, candidate, reference`` and ``score`` or ``rating``.

    Raises:
        FileError: The file is missing, empty, or a line has another form; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: {error}.") from error
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            rating = float(row["score"] if "score" in row else row["rating"])
            rows.append((str(row["lang"]), row["candidate"], row["reference"], rating))
        except (ValueError, KeyError, TypeError) as error:
            raise FileError(f"{path}, line {number}: expected lang, candidate, reference and score ({error!r}).") from error
    kept = [row for row in rows if len(row[1]) >= SHORTEST and len(row[2]) >= SHORTEST]
    if not kept:
        raise FileError(f"{path} holds no rated segment.")
    group, predictions, references, ratings = (list(column) for column in zip(*kept, strict=True))
    return Rated(group, predictions, references, np.array(ratings), len(rows) - len(kept))
