"""From the rows of a file to segments; a row that cannot be scored is set aside with its number and the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.engine.validation import Segments, check_segments
from twmd_registry.errors import InputError, no_column
from twmd_registry.judgments.fields import Columns, take_references
from twmd_registry.scale.forms import SHOWN, RawRow

ID = "id"
"""The column that names a row, where the input has one; it comes back beside the scores."""


class RowPlace(NamedTuple):
    """Where a row stands: its number among all, its file, its number there (from 0), and its ``id`` if it has one."""

    row: int
    file: str
    row_in_file: int
    id: str | None = None


def id_of(raw: RawRow) -> str | None:
    """Return the ``id`` of a row as text; other values than texts as JSON, for a column of Parquet has one type."""
    value = (raw.values or {}).get(ID)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate has no place in Parquet


class RejectedRow(NamedTuple):
    """A row that cannot be scored."""

    place: RowPlace
    reason: str
    raw: str

    def as_line(self) -> str:
        """One line of ``rejects.jsonl``."""
        place = {name: value for name, value in self.place._asdict().items() if value is not None}
        return json.dumps({**place, "reason": self.reason, "raw": self.raw}) + "\n"

    def __str__(self) -> str:
        """For a message, with numbers from 1."""
        return f"row {self.place.row + 1} ({self.place.file}, row {self.place.row_in_file + 1} there): {self.reason}"


class CheckedRows(NamedTuple):
    """Rows, sorted into those that can be scored and those that cannot.

    Attributes:
        segments: The texts of those that can.
        places: Where they stand.
        rejects: The others.
        references: The columns from which their references were read, in the order in which they came up.
    """

    segments: Segments
    places: list[RowPlace]
    rejects: list[RejectedRow]
    references: tuple[str, ...] = ()

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows that can be scored, among all; shape (segments,)."""
        return np.array([place.row for place in self.places], dtype=np.int64)


def check_rows(rows: Sequence[tuple[RowPlace, RawRow]], columns: Columns) -> CheckedRows:
    """Sort rows into those that can be scored and those that cannot."""
    found = CheckedRows(Segments([], []), [], [])
    read: dict[str, None] = {}
    for place, raw in rows:
        try:
            prediction, references = _take(raw, columns)
        except InputError as error:
            shown = raw.raw or json.dumps(raw.values, default=str)[:SHOWN]
            found.rejects.append(RejectedRow(place, str(error).removesuffix("."), shown))
        else:
            found.segments.predictions.append(prediction)
            found.segments.references.append(references)
            found.places.append(place)
            read |= dict.fromkeys(columns.references_of(raw.values or {}))
    return found._replace(references=tuple(read))


def _take(raw: RawRow, columns: Columns) -> tuple[str, list[str]]:
    """The texts of a row.

    Raises:
        InputError: It has no such column, both usual columns of references, or something else than texts in them.
    """
    if raw.values is None:
        raise InputError(raw.trouble)
    given = take_references(raw.values, columns.references)
    try:
        checked = check_segments([_column(raw.values, columns.prediction)], [given])
    except InputError as error:  # which row it is stands beside the reason
        raise InputError(str(error).replace("[0]", "", 1)) from error
    return checked.predictions[0], checked.references[0]


def _column(values: dict[str, Any], name: str) -> Any:
    if name not in values:
        raise InputError(no_column([name], values))
    return values[name]
