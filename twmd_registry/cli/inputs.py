"""Reading the texts that are named on the command line, and writing files."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError, SpecError
from twmd_registry.judgments.reader import USUAL_REFERENCES, Columns, TableRow, decode, detect_form, read_rows, unpack
from twmd_registry.registry.paths import write_whole

STDIN = Path("-")
"""The name under which standard input is read."""


class SourceFile(NamedTuple):
    """A file that was read.

    Attributes:
        name: Its name as the user gave it, for tables and messages.
        sha256: Of the file itself.
        is_table: Whether it has columns.
    """

    name: str
    sha256: str
    is_table: bool

    @property
    def short_name(self) -> str:
        """Its name without its folder: what is published says nothing of anybody's disk."""
        return Path(self.name).name


class SystemOutput(NamedTuple):
    """The texts of one system.

    Attributes:
        source: The file.
        predictions: One text per segment.
        references: One list of texts per segment, when the file holds them.
        originals: Per segment the text that was translated, when the file holds them.
    """

    source: SourceFile
    predictions: list[str]
    references: list[list[str]] | None = None
    originals: list[str] | None = None


def _read(path: Path, columns: Columns) -> tuple[SourceFile, list[str], list[TableRow] | None]:
    """Read a file, or standard input by ``-``; returns its lines, or its rows where it is a table.

    Raises:
        FileError: It cannot be read or unpacked, is empty, not of the form that its name or first line tells, not
            UTF-8, or a table without a row.
    """
    name = "standard input" if path == STDIN else str(path)
    if path == STDIN and sys.stdin is None:
        raise FileError("standard input is closed.")
    try:
        packed = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise FileError(f"{name}: {error.strerror}.") from error
    content = unpack(name, packed)
    if not content:
        hint = " Give predictions there, or by -i (twmd score -i FILE.jsonl, if one file holds all)."
        raise FileError(f"{name} is empty.{hint if path == STDIN else ''}")
    form = detect_form(name, content, (*columns.wanted, *Columns().wanted))
    source = SourceFile(name, hashlib.sha256(packed).hexdigest(), form is not None)
    if form is None:
        lines = decode(name, content).split("\n")
        return source, lines[:-1] if lines[-1] == "" else lines, None
    rows = read_rows(name, content, form)
    if not rows:
        raise FileError(f"{name}: there is no row under the header.")
    return source, [], rows


def read_system(path: Path, columns: Columns = Columns()) -> SystemOutput:  # noqa: B008 (frozen)
    """Read a system's output: lines of text, or a table (JSON lines, CSV, TSV, Parquet), maybe with references.

    Args:
        path: The file; ``-`` is standard input.
        columns: The columns that hold the texts of a table.

    Raises:
        FileError: It cannot be read, or a row has no prediction, or references are in some rows only.
    """
    source, lines, rows = _read(path, columns)
    if rows is None:
        return SystemOutput(source, lines)
    predictions = [row.text(columns.prediction) for row in rows]
    has_references = any(name in row.values for row in rows for name in columns.references or USUAL_REFERENCES)
    references = [row.references(columns.references) for row in rows] if has_references else None
    return SystemOutput(source, predictions, references, _originals(rows))


def read_references(
    paths: Sequence[Path],
    columns: Columns = Columns(),  # noqa: B008 (frozen)
) -> tuple[list[SourceFile], list[list[str]], list[str] | None]:
    """Read references: files of text are streams side by side; a row of a table holds its segment's own.

    Args:
        paths: The files.
        columns: As for `read_system`.

    Returns:
        The files, the references of every segment, and the texts that were translated, where a file holds them.

    Raises:
        FileError: As for `read_system`, or files of different length.
    """
    sources: list[SourceFile] = []
    streams: list[list[list[str]]] = []
    originals = None
    for path in paths:
        source, lines, rows = _read(path, columns)
        stream = [[line] for line in lines] if rows is None else [row.references(columns.references) for row in rows]
        sources.append(source)
        streams.append(stream)
        if len(stream) != len(streams[0]):
            lengths = f"{source.name} has {len(stream)} lines but {sources[0].name} has {len(streams[0])}"
            raise FileError(f"{lengths}: reference files must match line by line.")
        originals = originals or _originals(rows or [])
    segments = [[text for texts in segment for text in texts] for segment in zip(*streams, strict=True)]
    return sources, segments, originals


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
    check_columns(columns, [system.source for system in systems])
    return [
        text for one in systems for text in (*one.predictions, *(text for own in one.references or [] for text in own))
    ]


def check_columns(columns: Columns, sources: Iterable[SourceFile]) -> None:
    """Refuse names of columns where no file has any, by a `SpecError`."""
    if columns != Columns() and not any(source.is_table for source in sources):
        forms = "tables (JSON lines, CSV, TSV, Parquet)"
        raise SpecError(f"--prediction-column and --reference-column are for {forms}, and no file is one.")


def _originals(rows: Sequence[TableRow]) -> list[str] | None:
    """Return the texts of the column ``source``, empty where a row has none; None where no row has a text there."""
    texts = [row.values.get("source") for row in rows]
    if not any(isinstance(text, str) for text in texts):
        return None
    return [text if isinstance(text, str) else "" for text in texts]


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
