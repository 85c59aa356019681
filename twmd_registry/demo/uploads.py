"""Reads the tables that visitors upload or paste, within the page's limits of size."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeAlias

from twmd_registry.errors import FileError
from twmd_registry.judgments.reader import USUAL_REFERENCES, TableRow, read_rows
from twmd_registry.record.content import InputFile

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
LARGEST = 2_000_000
"""Bytes of the largest file."""
MOST_ROWS = 2_000
PREDICTION, REFERENCE = "prediction", "reference"
"""The column of the predictions, and the prefix of all columns of references."""
UploadedTable: TypeAlias = tuple[InputFile, list[int], list[str], list[list[str]]]
"""The file for a record; the number of every row in the file, from 1; predictions; lists of references."""


def read_upload(path: Path) -> UploadedTable:
    """Read a CSV, TSV or JSON-lines file with a column ``prediction`` and columns whose names begin with ``reference``.

    A cell of JSON lines may be a list of references. Where there are several columns, an empty cell is no reference.

    Raises:
        FileError: Another suffix, a file that is empty, too large, cannot be read or has too many rows, a column that
            is missing, or a row that cannot be scored; names the file without its folder, and the row.
    """
    form = path.suffix.lower()
    if form not in SUFFIXES:
        choices = f"the suffix of a table is one of {', '.join(SUFFIXES)} here"
        raise FileError(f"{path.name}: {choices}, not {path.suffix!r}.")
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise FileError(f"{path.name}: this file was deleted; upload it again.") from error
    return _read_table(path.name, content, form)


def read_pasted(text: str) -> UploadedTable:
    """Read a pasted table; its first line shows the format: JSON, tabs, or commas.

    Raises:
        FileError: The text is blank; otherwise as for `read_upload`.
    """
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
    texts = [row.text(PREDICTION) for row in rows], [_references(row) for row in rows]
    return source, [row.number for row in rows], *texts


def _references(row: TableRow) -> list[str]:
    columns = tuple(name for name in row.values if name.startswith(REFERENCE))
    if not columns:
        row.take(REFERENCE)  # raises the error of a missing column
    return row.references(() if set(USUAL_REFERENCES) <= set(columns) else columns)
