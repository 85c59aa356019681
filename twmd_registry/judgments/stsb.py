"""The STS benchmark (Cer et al. 2017): pairs of sentences rated from 0 to 5."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.errors import FileError
from twmd_registry.judgments.fields import read_rating
from twmd_registry.judgments.rows import RatedRow, RatedSegments, gather, read_csv, read_text

HIGHEST = 5.0
"""The best rating."""
COLUMNS = 3


def read_stsb(path: Path) -> RatedSegments:
    """Read ``sentence1,sentence2,rating`` without a header.

    Raises:
        FileError: The file is missing, empty, or a row has another form, or a rating that is none; names the row.
    """
    rows = read_csv(path, read_text(path))
    return gather((_read(row, f"{path}, row {number}") for number, row in enumerate(rows, 1)), path)


def _read(row: list[str], where: str) -> RatedRow:
    if len(row) != COLUMNS:
        raise FileError(f"{where}: expected sentence1,sentence2,rating, without a header; got {len(row)} fields.")
    first, second, rating = row
    return RatedRow("stsb", first, second, read_rating(rating, where, 0, HIGHEST))
