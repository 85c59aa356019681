"""Reads the tables that visitors upload or paste, within the page's limits of size."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.judgments.reader import USUAL_REFERENCES, TableRow, read_rows
from twmd_registry.record.content import InputFile

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
"""Of the text formats that are read."""
LARGEST = 2_000_000
"""Bytes of the largest file."""
MOST_ROWS = 2_000
PREDICTION, REFERENCE = "prediction", "reference"
"""The column of the predictions, and how the names of all columns of references begin."""


class UploadedTable(NamedTuple):
    """Texts to score.

    Attributes:
        name: The file's name, without its folder.
        predictions: One text per row.
        references: One list of texts per row.
        source: What a record keeps of the file.
        rows: The number of every row in the file, from 1; a header is a row, too.
    """

    name: str
    predictions: list[str]
    references: list[list[str]]
    source: InputFile
    rows: list[int]


def read_upload(path: Path) -> UploadedTable:
    """Read a CSV, TSV or JSON-lines file with a column ``prediction`` and columns whose names begin with ``reference``.

    A cell of JSON lines may be a list of references. Where there are several columns, an empty cell is no reference.

    Args:
        path: The file.

    Raises:
        FileError: Another suffix, a file that is empty, too large, cannot be read or has too many rows, a column that
            is missing, or a row that cannot be scored; names the file without its folder, and the row.
    """
    if path.suffix.lower() not in SUFFIXES:
        choices = f"the suffix of a table is one of {', '.join(SUFFIXES)} here"
        raise FileError(f"{path.name}: {choices}, not {path.suffix!r}.")
    try:
        _check_size(path.stat().st_size, path.name)  # before it is in memory
        return _read(path.name, path.read_bytes(), path.suffix.lower())
    except FileNotFoundError as error:
        raise FileError(f"{path.name}: it is not here any more: upload it again.") from error


def read_pasted(text: str) -> UploadedTable:
    """Read a pasted table; its first line shows the format: JSON, tabs, or commas.

    Args:
        text: The table.

    Raises:
        FileError: The text is blank; otherwise as for `read_upload`.
    """
    text = text.rstrip("\n") + "\n"
    if not text.strip():
        columns = f"with the columns {PREDICTION} and {REFERENCE}"
        raise FileError(f"Nothing to score: upload a table, or paste one, {columns}.")
    first = next(filter(str.strip, text.splitlines()))
    form = ".jsonl" if first.lstrip().startswith("{") else ".tsv" if "\t" in first else ".csv"
    name = f"pasted{form}"
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise FileError(f"{name} is not valid Unicode: lone surrogate at character {error.start}.") from error
    _check_size(len(content), name)
    return _read(name, content, form)


def _read(name: str, content: bytes, form: str) -> UploadedTable:
    if not content:
        raise FileError(f"{name} is empty.")
    # Not unpacked: a small file may unpack to more than fits into memory.
    rows = read_rows(name, content, form)
    if not rows:
        raise FileError(f"{name}: there is no row under the header.")
    if len(rows) > MOST_ROWS:
        limit = f"this page scores up to {MOST_ROWS:,}; 'twmd score' scores any number"
        raise FileError(f"{name} has {len(rows):,} rows: {limit}.")
    predictions, references = [row.text(PREDICTION) for row in rows], [_references(row) for row in rows]
    source = InputFile("predictions", name, hashlib.sha256(content).hexdigest())
    return UploadedTable(name, predictions, references, source, [row.number for row in rows])


def _check_size(size: int, name: str) -> None:
    if size > LARGEST:
        raise FileError(f"{name} has {size:,} bytes: this page reads up to {LARGEST:,}; 'twmd score' reads any number.")


def _references(row: TableRow) -> list[str]:
    columns = tuple(name for name in row.values if name.startswith(REFERENCE))
    if not columns:
        row.take(REFERENCE)  # refuses the row
    return row.references(() if set(USUAL_REFERENCES) <= set(columns) else columns)
