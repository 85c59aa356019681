"""Reading and writing files: lines of text end at line feeds and nowhere else, errors name the line or row."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError, SpecError
from twmd_registry.judgments.fields import USUAL_REFERENCES, Columns, Fields
from twmd_registry.judgments.rows import decode, form_of, unpack
from twmd_registry.judgments.table import FORMS
from twmd_registry.registry.paths import write_whole

STDIN = Path("-")
"""The name under which standard input is read."""
_DELIMITED = (("\t", ".tsv"), (",", ".csv"), (";", ".csv"))


class SourceFile(NamedTuple):
    """A file that was read.

    Attributes:
        name: Its name as the user gave it, for tables and messages.
        content: Its bytes; of a compressed file those that it unpacks to.
        sha256: Of the file itself.
    """

    name: str
    content: bytes
    sha256: str

    @property
    def short_name(self) -> str:
        """Its name without its folder: what is published says nothing of anybody's disk."""
        return Path(self.name).name

    @property
    def lines(self) -> list[str]:
        """Its lines, ended by line feeds only; a last line without one counts, an empty rest does not."""
        lines = decode(self.name, self.content).split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    def rows(self, columns: Columns = Columns()) -> list[Fields] | None:  # noqa: B008 (frozen)
        """Its rows, where it is a table; None for lines of text.

        Raises:
            FileError: It is not of the form that its name or its first line tells, or has no row; names the row.
        """
        form = _form(self, columns)
        if form is None:
            return None
        rows = FORMS[form](self.name, self.content)
        if not rows:
            raise FileError(f"{self.name}: there is no row under the header.")
        return rows


def _form(source: SourceFile, columns: Columns) -> str | None:
    """Of a table its form, one of `FORMS`: by its name, or else by its first line, which names a column that texts are taken from."""
    form = form_of(source.name)
    if form in FORMS:
        return form
    known = {*columns.wanted, *Columns().wanted}
    first = source.content.partition(b"\n")[0].decode("utf-8-sig", "replace").removesuffix("\r")
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return next((form for delimiter, form in _DELIMITED if _is_header(first, delimiter, known)), None)
    return ".jsonl" if isinstance(row, dict) and not known.isdisjoint(row) else None


def _is_header(line: str, delimiter: str, known: set[str]) -> bool:
    """Whether a line is two or more different names without blanks around them, one of them a known column."""
    try:
        names = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return False
    return len(names) > 1 and len(set(names)) == len(names) and all(name and name == name.strip() for name in names) and not known.isdisjoint(names)


class SystemOutput(NamedTuple):
    """What one system wrote.

    Attributes:
        source: Where it was read.
        predictions: One text per segment.
        references: One list of texts per segment, when the file holds them.
        is_table: Whether the file has columns.
        originals: Per segment the text that was translated, when the file holds them.
    """

    source: SourceFile
    predictions: list[str]
    references: list[list[str]] | None = None
    is_table: bool = False
    originals: list[str] | None = None


class References(NamedTuple):
    """References of every segment, and the files they were read from.

    Attributes:
        sources: The files.
        segments: Per segment its references.
        is_table: Whether any of the files has columns.
        originals: Per segment the text that was translated, where a file holds them.
    """

    sources: list[SourceFile]
    segments: list[list[str]]
    is_table: bool = False
    originals: list[str] | None = None


def read_source(path: Path) -> SourceFile:
    """Read a file, unpacked where it is compressed by gzip or xz; ``-`` is standard input.

    Raises:
        FileError: It cannot be read or unpacked, or is empty.
    """
    name = "standard input" if path == STDIN else str(path)
    if path == STDIN and sys.stdin is None:
        raise FileError("standard input is closed.")
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise FileError(f"{name}: {error.strerror}.") from error
    unpacked = unpack(name, content)
    if not unpacked:
        hint = " Give predictions there, or by -i (twmd score -i FILE.jsonl, if one file holds all)." if path == STDIN else ""
        raise FileError(f"{name} is empty.{hint}")
    return SourceFile(name, unpacked, hashlib.sha256(content).hexdigest())


def read_system(path: Path, columns: Columns = Columns()) -> SystemOutput:  # noqa: B008 (frozen)
    """Read a system's output: lines of text in UTF-8, or a table (JSON lines, CSV, TSV, Parquet), maybe with references.

    Args:
        path: The file.
        columns: Where the texts of a table stand.

    Raises:
        FileError: As for `read_source` and `SourceFile.rows`, not UTF-8, or a row without a prediction, or with references in some rows only.
    """
    source = read_source(path)
    rows = source.rows(columns)
    if rows is None:
        return SystemOutput(source, source.lines)
    predictions = [row.text(columns.prediction) for row in rows]
    has_references = any(name in row.values for row in rows for name in columns.references or USUAL_REFERENCES)
    references = [row.references(columns.references) for row in rows] if has_references else None
    return SystemOutput(source, predictions, references, is_table=True, originals=_originals(rows))


def read_references(paths: Sequence[Path], columns: Columns = Columns()) -> References:  # noqa: B008 (frozen)
    """Read references: files of text are streams side by side; a row of a table holds its segment's own.

    Args:
        paths: The files.
        columns: As for `read_system`.

    Raises:
        FileError: As for `read_system`, or files of different length.
    """
    sources = [read_source(path) for path in paths]
    tables = [source.rows(columns) for source in sources]
    streams = [
        [[line] for line in source.lines] if rows is None else [row.references(columns.references) for row in rows]
        for source, rows in zip(sources, tables, strict=True)
    ]
    for source, stream in zip(sources, streams, strict=True):
        if len(stream) != len(streams[0]):
            raise FileError(
                f"{source.name} has {len(stream)} lines but {sources[0].name} has {len(streams[0])}: reference files must match line by line."
            )
    segments = [[text for texts in segment for text in texts] for segment in zip(*streams, strict=True)]
    originals = next((found for rows in tables if rows and (found := _originals(rows))), None)
    return References(sources, segments, any(rows is not None for rows in tables), originals)


def read_texts(paths: Sequence[Path], columns: Columns = Columns()) -> list[str]:  # noqa: B008 (frozen)
    """Read every text of some files, in whatever role: lines, or the predictions and references of tables.

    Args:
        paths: The files.
        columns: As for `read_system`.

    Raises:
        FileError: As for `read_system`.
        SpecError: As for `check_columns`.
    """
    systems = [read_system(path, columns) for path in paths]
    check_columns(columns, systems)
    return [text for one in systems for text in (*one.predictions, *(text for texts in one.references or [] for text in texts))]


def check_columns(columns: Columns, read: Iterable[SystemOutput | References]) -> None:
    """Refuse names of columns where no file has any.

    Raises:
        SpecError: As said.
    """
    if columns != Columns() and not any(one.is_table for one in read):
        raise SpecError("--prediction-column and --reference-column are for tables (JSON lines, CSV, TSV, Parquet), and no file is one.")


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, and its folder where there is none.

    Raises:
        FileError: It cannot be written.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}.") from error


def check_folder(folder: Path | None) -> None:
    """Refuse a folder that cannot be written, before anything is computed for it.

    Raises:
        FileError: It is a file, or below one, or it or the folder that it would be made in cannot be written.
    """
    if folder is None:
        return
    here = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not here.is_dir():
        raise FileError(f"{here} is a file: give a folder.")
    if not os.access(here, os.W_OK | os.X_OK):
        raise FileError(f"cannot write {folder}: no permission for {here}.")


def _originals(rows: Sequence[Fields]) -> list[str] | None:
    """Take the texts of the column ``source``, empty where a row has none; None where no row has a text there."""
    texts = [row.values.get("source") for row in rows]
    return [text if isinstance(text, str) else "" for text in texts] if any(isinstance(text, str) for text in texts) else None
