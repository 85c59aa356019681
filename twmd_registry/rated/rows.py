"""What every reader of rated data gives, and how files are read."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.errors import FileError, warn


class Rated(NamedTuple):
    """Segments that people have rated.

    Attributes:
        group: The group of every segment (a language pair, a system); one name for all where there are none.
        predictions: Texts; the first of a pair.
        references: A text per segment (the second of a pair), or a list of texts per segment.
        ratings: Shape (segments,).
        dropped: Rows that were left out: a text too short, or not rated.
        item: What every segment is a version of (a source sentence, an input): segments of one item may be compared with each other; None
            where the data do not say.
        system: What wrote every segment; None where the data do not say.
    """

    group: list[str]
    predictions: list[str]
    references: list[Any]
    ratings: np.ndarray
    dropped: int
    item: list[str] | None = None
    system: list[str] | None = None


class Row(NamedTuple):
    """One rated segment."""

    group: str
    prediction: str
    reference: str | list[str]
    rating: float
    item: str | None = None
    system: str | None = None


def gather(rows: Iterable[Row], dropped: int, where: Path | str) -> Rated:
    """Bundle rows; where one row has a list of references, all get lists.

    Args:
        rows: The rows.
        dropped: Rows that were left out.
        where: Where they were read, for the message.

    Raises:
        FileError: There is none.
    """
    kept = list(rows)
    if not kept:
        raise FileError(f"{where} holds no rated segment{f' ({dropped} rows left out)' if dropped else ''}.")
    group, predictions, references, ratings, item, system = (list(column) for column in zip(*kept, strict=True))
    if any(isinstance(one, list) for one in references):
        references = [[one] if isinstance(one, str) else one for one in references]
    return Rated(
        group,
        predictions,
        references,
        np.array(ratings, dtype=np.float64),
        dropped,
        None if None in item else item,
        None if None in system else system,
    )


def warn_of_lost_groups(dropped: Iterable[str], kept: Iterable[Row], where: Path) -> None:
    """Say which groups have rows, and none that is rated.

    Args:
        dropped: The group of every row that was left out.
        kept: The others.
        where: Where they were read.
    """
    rows = Counter(dropped)
    lost = sorted(set(rows) - {row.group for row in kept})
    if lost:
        warn(f"{where.name}: groups without a rated row, left out: {', '.join(f'{name} ({rows[name]} rows)' for name in lost)}.")


def select(rated: Rated, rows: np.ndarray) -> Rated:
    """Some of the segments, in the order of `rows`.

    Args:
        rated: Rated segments.
        rows: Their numbers; shape (chosen,).
    """

    def take(column: list[Any]) -> list[Any]:
        return [column[i] for i in rows.tolist()]

    return rated._replace(
        group=take(rated.group),
        predictions=take(rated.predictions),
        references=take(rated.references),
        ratings=rated.ratings[rows],
        item=None if rated.item is None else take(rated.item),
        system=None if rated.system is None else take(rated.system),
    )


def read_text(path: Path) -> str:
    """A file's text, UTF-8 with or without a byte-order mark, line ends as they are.

    Raises:
        FileError: It cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: {error.strerror if isinstance(error, OSError) else error}.") from error


def read_csv(path: Path, text: str, **form: Any) -> list[list[str]]:
    """Take comma- or tab-separated text apart.

    Args:
        path: Where it comes from, for the message.
        text: The text.
        form: More arguments for `csv.reader`.

    Raises:
        FileError: A field is too long, as after a quote that nobody closes; names the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), **form)
    try:
        return list(reader)
    except csv.Error as error:
        raise FileError(f"{path}, line {reader.line_num}: {error}; is a quote not closed?") from error


def read_lines(path: Path) -> list[str]:
    r"""A file's lines, ended by ``\n`` or ``\r\n`` and nothing else; a last line without an end counts.

    Raises:
        FileError: It cannot be read.
    """
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines
