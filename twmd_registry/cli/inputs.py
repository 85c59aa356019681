"""Read the texts that are named on the command line."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.requested import columns_of
from twmd_registry.errors import FileError, SpecError
from twmd_registry.judgments.reader import USUAL_REFERENCES, Columns, TableRow, decode, detect_form, read_rows, unpack
from twmd_registry.record.content import InputFile

STDIN = Path("-")
"""The name under which standard input is read."""


class TextFile(NamedTuple):
    """A file that was read: lines of text, or a table.

    Attributes:
        name: Its name as the user gave it, for tables and messages.
        sha256: Of the file itself.
        lines: Of text; empty for a table.
        rows: Of a table; None for lines of text.
    """

    name: str
    sha256: str
    lines: list[str]
    rows: list[TableRow] | None

    @property
    def short_name(self) -> str:
        """Its name without its folder: what is published tells nothing of a user's disk."""
        return Path(self.name).name

    def originals(self) -> list[str] | None:
        """Return the texts of the column ``source``, empty where a row has none; None if no row has a text there."""
        texts = [row.values.get("source") for row in self.rows or []]
        if not any(isinstance(text, str) for text in texts):
            return None
        return [text if isinstance(text, str) else "" for text in texts]


class ScoringTask(NamedTuple):
    """One system with its references.

    Attributes:
        name: The system's name, for tables and records: its file's, without the folder where that tells systems apart.
        predictions: One text per segment.
        references: Per segment its references.
        files: The files that hold them, references first.
        originals: Per segment the text that was translated, where a file holds them.
    """

    name: str
    predictions: list[str]
    references: list[list[str]]
    files: list[InputFile]
    originals: list[str] | None = None


def read_file(path: Path, columns: Columns) -> TextFile:
    """Read a file, or standard input by ``-``; its name or first line tells whether it is a table."""
    name = "standard input" if path == STDIN else str(path)
    if path == STDIN and sys.stdin is None:
        raise FileError("standard input is closed.")
    try:
        packed = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise FileError(f"{name}: {error.strerror}.") from error
    content, sha256 = unpack(name, packed), hashlib.sha256(packed).hexdigest()
    if not content:
        hint = " Give predictions there, or by -i (twmd score -i FILE.jsonl, if one file holds all)."
        raise FileError(f"{name} is empty.{hint if path == STDIN else ''}")
    form = detect_form(name, content, (*columns.wanted, *Columns().wanted))
    if form is None:
        lines = decode(name, content).split("\n")
        return TextFile(name, sha256, lines[:-1] if lines[-1] == "" else lines, None)
    rows = read_rows(name, content, form)
    if not rows:
        raise FileError(f"{name}: there is no row under the header.")
    return TextFile(name, sha256, [], rows)


def read_system(file: TextFile, columns: Columns) -> tuple[list[str], list[list[str]] | None]:
    """Return the predictions of a system's output and, if it is a table that has them, its references."""
    if file.rows is None:
        return file.lines, None
    predictions = [row.text(columns.prediction) for row in file.rows]
    names = columns.references or USUAL_REFERENCES
    if not any(name in row.values for row in file.rows for name in names):
        return predictions, None
    return predictions, [row.references(columns.references) for row in file.rows]


def read_references(files: Sequence[TextFile], columns: Columns) -> list[list[str]]:
    """Return the references of every segment: files of text are streams side by side; a table's row holds its own."""
    streams: list[list[list[str]]] = []
    for file in files:
        rows = [[line] for line in file.lines] if file.rows is None else None
        streams.append(rows or [row.references(columns.references) for row in file.rows or []])
        if len(streams[-1]) != len(streams[0]):
            lengths = f"{file.name} has {len(streams[-1])} lines but {files[0].name} has {len(streams[0])}"
            raise FileError(f"{lengths}: reference files must match line by line.")
    return [[text for texts in segment for text in texts] for segment in zip(*streams, strict=True)]


def read_texts(paths: Sequence[Path], columns: Columns) -> list[str]:
    """Read every text of some files, in whatever role: lines, or the predictions and references of tables."""
    files = [read_file(path, columns) for path in paths]
    _check_columns(columns, files)
    systems = [read_system(file, columns) for file in files]
    return [
        text
        for predictions, references in systems
        for text in (*predictions, *(text for own in references or [] for text in own))
    ]


def _check_columns(columns: Columns, files: Iterable[TextFile]) -> None:
    if columns != Columns() and all(file.rows is None for file in files):
        forms = "tables (JSON lines, CSV, TSV, Parquet)"
        raise SpecError(f"--prediction-column and --reference-column are for {forms}, and no file is one.")


def read_tasks(arguments: Arguments) -> list[ScoringTask]:
    """Read all systems and their references; the numbers of lines must agree."""
    if not arguments.references and not arguments.input and (sys.stdin is None or sys.stdin.isatty()):
        raise SpecError("nothing to score: name reference files, and predictions by -i or on standard input.")
    columns = columns_of(arguments)
    sources = [read_file(path, columns) for path in arguments.references]
    shared = read_references(sources, columns)
    originals = next((texts for file in sources if (texts := file.originals()) is not None), None)
    systems = [read_file(path, columns) for path in arguments.input or [STDIN]]
    read = [read_system(file, columns) for file in systems]
    _check_columns(columns, [*systems, *sources])
    tasks = []
    for file, (predictions, own) in zip(systems, read, strict=True):
        if sources and own is not None:
            again = f"leave {arguments.references[0]} out, or take them out of it"
            raise SpecError(f"{file.name} holds references already: {again}.")
        if not sources and own is None:
            hint = "name a reference file before -i, or give a table with a column reference or references"
            raise SpecError(f"no references for {file.name}: {hint}.")
        references = shared if own is None else own
        if len(references) != len(predictions):
            lengths = f"{file.name} has {len(predictions)} segments but {sources[0].name} has {len(references)}"
            raise FileError(f"{lengths}: they must match line by line.")
        inputs = [("references", source) for source in sources] + [("predictions", file)]
        files = [InputFile(role, each.short_name, each.sha256) for role, each in inputs]
        originals_of = originals or file.originals()
        tasks.append(ScoringTask(_name(file, systems), predictions, references, files, originals_of))
    return tasks


def _name(file: TextFile, systems: Sequence[TextFile]) -> str:
    alike = {other.name for other in systems if other.short_name == file.short_name}
    return file.short_name if len(alike) == 1 else file.name
