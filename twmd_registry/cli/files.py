"""Reading and writing files: lines end at line feeds and nowhere else, errors name the line."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, no_column, not_utf8
from twmd_registry.registry.home import write_whole

STDIN = Path("-")
"""The name under which standard input is read."""
FIELDS = ("prediction", "reference", "references")
"""What a JSON line may hold. A file whose first line is an object with one of these is read as JSON lines."""


class Source(NamedTuple):
    """A file that was read.

    Attributes:
        name: Its name as the user gave it, for tables and messages.
        text: Its content.
        sha256: Of its bytes.
    """

    name: str
    text: str
    sha256: str

    @property
    def short_name(self) -> str:
        """Its name without its folder: what is published says nothing of anybody's disk."""
        return Path(self.name).name

    @property
    def lines(self) -> list[str]:
        """Its lines, ended by line feeds only; a last line without one counts, an empty rest does not."""
        lines = self.text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    @property
    def is_json_lines(self) -> bool:
        """Whether it holds JSON lines: its name says so, or its first line does."""
        if self.name.endswith((".jsonl", ".ndjson")):
            return True
        try:
            first = json.loads(self.lines[0])
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and not set(FIELDS).isdisjoint(first)


class System(NamedTuple):
    """What one system wrote.

    Attributes:
        source: Where it was read.
        predictions: One text per segment.
        references: One list of texts per segment, when the file holds them.
        originals: Per segment the text that was translated, when the file holds them.
    """

    source: Source
    predictions: list[str]
    references: list[list[str]] | None = None
    originals: list[str] | None = None


class References(NamedTuple):
    """References of every segment, the files they were read from, and the translated texts where a file holds them."""

    sources: list[Source]
    segments: list[list[str]]
    originals: list[str] | None = None


def read_source(path: Path) -> Source:
    """Read a text file in UTF-8, with or without a byte-order mark; ``-`` is standard input.

    Raises:
        FileError: It cannot be read, is empty or not UTF-8; names the line.
    """
    name = "standard input" if path == STDIN else str(path)
    if path == STDIN and sys.stdin is None:
        raise FileError("standard input is closed.")
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise FileError(f"{name}: {error.strerror}.") from error
    if not content:
        hint = " Give predictions there, or by -i (twmd score -i FILE.jsonl, if one file holds all)." if path == STDIN else ""
        raise FileError(f"{name} is empty.{hint}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from error
    return Source(name, text, hashlib.sha256(content).hexdigest())


def read_rows(source: Source) -> list[dict[str, Any]]:
    """The objects of JSON lines.

    Raises:
        FileError: A line holds no JSON object; names the line.
    """
    rows = []
    for number, line in enumerate(source.lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileError(f"{source.name}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise FileError(f"{source.name}, line {number}: expected an object with prediction and reference or references.")
        rows.append(row)
    return rows


def read_system(path: Path) -> System:
    """A system's output: text lines, or JSON lines with ``prediction`` and maybe ``reference(s)``.

    Raises:
        FileError: As for `read_source` and `read_rows`, or a line without ``prediction``, or references in some lines only.
    """
    source = read_source(path)
    if not source.is_json_lines:
        return System(source, source.lines)
    rows = read_rows(source)
    predictions = [_prediction(row, source, number) for number, row in enumerate(rows, 1)]
    if not any("reference" in row or "references" in row for row in rows):
        return System(source, predictions, originals=_originals(rows))
    return System(source, predictions, _references(rows, source), _originals(rows))


def read_references(paths: Sequence[Path]) -> References:
    """References: text files are streams side by side; JSON lines hold each segment's own list.

    Raises:
        FileError: As for `read_source` and `read_rows`, or files of different length.
    """
    sources = [read_source(path) for path in paths]
    tables = [read_rows(source) if source.is_json_lines else None for source in sources]
    streams = [[[line] for line in source.lines] if rows is None else _references(rows, source) for source, rows in zip(sources, tables, strict=True)]
    for source, stream in zip(sources, streams, strict=True):
        if len(stream) != len(streams[0]):
            raise FileError(
                f"{source.name} has {len(stream)} lines but {sources[0].name} has {len(streams[0])}: reference files must match line by line."
            )
    segments = [[text for texts in segment for text in texts] for segment in zip(*streams, strict=True)]
    return References(sources, segments, next((found for rows in tables if rows and (found := _originals(rows))), None))


def read_texts(path: Path) -> list[str]:
    """Every text of a file, in whatever role: lines, or the predictions and references of JSON lines.

    Raises:
        FileError: As for `read_system`.
    """
    system = read_system(path)
    return system.predictions + [text for texts in system.references or [] for text in texts]


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


def _prediction(row: dict[str, Any], source: Source, number: int) -> str:
    value = _field(row, ("prediction",), source, number)
    if not isinstance(value, str):
        raise FileError(f"{source.name}, line {number}: prediction must be a text, not {_kind(value)}.")
    return value


def _references(rows: list[dict[str, Any]], source: Source) -> list[list[str]]:
    found = []
    for number, row in enumerate(rows, 1):
        value = _field(row, ("references", "reference"), source, number)
        texts = value if isinstance(value, list) else [value]
        if not texts:
            raise FileError(f"{source.name}, line {number}: an empty list of references: every segment needs at least one.")
        for text in texts:
            if not isinstance(text, str):
                raise FileError(f"{source.name}, line {number}: a reference must be a text, not {_kind(text)}.")
        found.append(texts)
    return found


def _originals(rows: list[dict[str, Any]]) -> list[str] | None:
    """Take the texts of the column ``source``, empty where a row has none; None where no row has a text there."""
    texts = [row.get("source") for row in rows]
    return [text if isinstance(text, str) else "" for text in texts] if any(isinstance(text, str) for text in texts) else None


def _kind(value: object) -> str:
    """What a JSON value is, in JSON's words."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a number"


def _field(row: dict[str, Any], names: tuple[str, ...], source: Source, number: int) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise FileError(f"{source.name}, line {number}: {no_column(names, row)}.")
