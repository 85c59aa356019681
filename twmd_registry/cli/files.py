"""Reading texts from files: lines end at line feeds and nowhere else, nothing is guessed, errors name the line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError

JSONL = (".jsonl", ".ndjson")


class System(NamedTuple):
    """What one system wrote.

    Attributes:
        name: The file's name, for tables.
        predictions: One text per segment.
        references: One list of texts per segment, when the file holds them.
    """

    name: str
    predictions: list[str]
    references: list[list[str]] | None = None


def decode(content: bytes, name: str) -> str:
    """Decode UTF-8, with or without a byte-order mark.

    Raises:
        FileError: It is empty or not UTF-8; names the line.
    """
    if not content:
        raise FileError(f"{name} is empty.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileError(f"{name} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}. Convert it first.") from error


def read_bytes(path: Path) -> bytes:
    """Read a file.

    Raises:
        FileError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from error


def split_lines(text: str) -> list[str]:
    """Lines, ended by line feeds only; a last line without one counts, an empty rest does not."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_lines(path: Path) -> list[str]:
    """The lines of a text file.

    Raises:
        FileError: It is missing, empty or not UTF-8.
    """
    return split_lines(decode(read_bytes(path), str(path)))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file.

    Raises:
        FileError: It is missing, empty or not UTF-8, or a line holds no JSON object; names the line.
    """
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise FileError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise FileError(f"{path}, line {number}: expected an object with prediction and reference or references.")
        rows.append(row)
    return rows


def read_system(path: Path) -> System:
    """A system's output: text lines, or JSON lines with ``prediction`` and maybe ``reference(s)``.

    Raises:
        FileError: As for `read_rows`, or a line without ``prediction``, or references in some lines only.
    """
    if path.suffix not in JSONL:
        return System(str(path), read_lines(path))
    rows = read_rows(path)
    predictions = [_field(row, ("prediction",), path, number) for number, row in enumerate(rows, 1)]
    if not any("reference" in row or "references" in row for row in rows):
        return System(str(path), predictions)
    return System(str(path), predictions, _references(rows, path))


def read_stdin() -> System:
    """A system's output from standard input, one segment per line.

    Raises:
        FileError: Nothing comes, or it is not UTF-8.
    """
    return System("stdin", split_lines(decode(sys.stdin.buffer.read(), "standard input")))


def read_references(paths: Sequence[Path]) -> list[list[str]]:
    """References: text files are streams side by side; a JSON-lines file holds each segment's own list.

    Raises:
        FileError: As for `read_rows`, or files of different length.
    """
    streams = [_references(read_rows(path), path) if path.suffix in JSONL else [[line] for line in read_lines(path)] for path in paths]
    for path, stream in zip(paths, streams, strict=True):
        if len(stream) != len(streams[0]):
            raise FileError(f"{path} has {len(stream)} lines but {paths[0]} has {len(streams[0])}: reference files must match line by line.")
    return [[text for texts in segment for text in texts] for segment in zip(*streams, strict=True)]


def read_texts(path: Path) -> list[str]:
    """Every text of a file, in whatever role: lines, or the predictions and references of JSON lines.

    Raises:
        FileError: As for `read_rows`.
    """
    if path.suffix not in JSONL:
        return read_lines(path)
    system = read_system(path)
    return system.predictions + [text for texts in system.references or [] for text in texts]


def _references(rows: list[dict[str, Any]], path: Path) -> list[list[str]]:
    found = [_field(row, ("references", "reference"), path, number) for number, row in enumerate(rows, 1)]
    return [[value] if isinstance(value, str) else value for value in found]


def _field(row: dict[str, Any], names: tuple[str, ...], path: Path, number: int) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise FileError(f"{path}, line {number}: no {' or '.join(names)}; it has {', '.join(row) or 'nothing'}.")
