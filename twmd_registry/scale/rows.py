"""From the rows of a file to segments; a row that cannot be scored is set aside with its number and the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.border import Segments, check_segments
from twmd_registry.errors import InputError, no_column
from twmd_registry.scale.forms import SHOWN, RawRow

USUAL_REFERENCES = ("references", "reference")
"""Where references stand when nobody says: the first of these that a row has."""
ID = "id"
"""The column that names a row, where the input has one; it comes back beside the scores."""


class Columns(NamedTuple):
    """Where texts stand.

    Attributes:
        prediction: The column of the predictions.
        references: The columns of the references, each a text or a list of texts; empty for the usual one.
    """

    prediction: str = "prediction"
    references: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        """Every column that may be looked at."""
        return (self.prediction, *(self.references or USUAL_REFERENCES), ID)

    def references_of(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The columns from which the references of a row are read; empty where it has none of the usual ones."""
        return self.references or tuple(name for name in USUAL_REFERENCES if name in values)[:1]


class Place(NamedTuple):
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


class Reject(NamedTuple):
    """A row that cannot be scored."""

    place: Place
    reason: str
    raw: str

    def as_line(self) -> str:
        """One line of ``rejects.jsonl``."""
        place = {name: value for name, value in self.place._asdict().items() if value is not None}
        return json.dumps({**place, "reason": self.reason, "raw": self.raw}) + "\n"

    def __str__(self) -> str:
        """For a message."""
        return f"row {self.place.row} ({self.place.file}, row {self.place.row_in_file} there, counted from 0): {self.reason}"


class Checked(NamedTuple):
    """Rows, sorted into those that can be scored and those that cannot.

    Attributes:
        segments: The texts of those that can.
        places: Where they stand.
        rejects: The others.
        references: The columns from which their references were read, in the order in which they came up.
    """

    segments: Segments
    places: list[Place]
    rejects: list[Reject]
    references: tuple[str, ...] = ()

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows that can be scored, among all; shape (segments,)."""
        return np.array([place.row for place in self.places], dtype=np.int64)


def check_rows(rows: Sequence[tuple[Place, RawRow]], columns: Columns) -> Checked:
    """Sort rows into those that can be scored and those that cannot."""
    found = Checked(Segments([], []), [], [])
    read: dict[str, None] = {}
    for place, raw in rows:
        try:
            prediction, references = _take(raw, columns, place.row)
        except InputError as error:
            shown = raw.raw or json.dumps(raw.values, default=str)[:SHOWN]
            found.rejects.append(Reject(place, str(error).removesuffix("."), shown))
        else:
            found.segments.predictions.append(prediction)
            found.segments.references.append(references)
            found.places.append(place)
            read |= dict.fromkeys(columns.references_of(raw.values or {}))
    return found._replace(references=tuple(read))


def _take(raw: RawRow, columns: Columns, row: int) -> tuple[str, list[str]]:
    """The texts of a row.

    Raises:
        InputError: It has no such column, or something else than texts in it.
    """
    if raw.values is None:
        raise InputError(raw.trouble)
    names = columns.references_of(raw.values)
    if not names:
        raise InputError(no_column(USUAL_REFERENCES, raw.values))
    referred: list[Any] = [_column(raw.values, name) for name in names]
    if len(referred) == 1:
        (given,) = referred
    else:
        given = [text for one in referred for text in (one if isinstance(one, list) else [one])]
    checked = check_segments([_column(raw.values, columns.prediction)], [given], first_row=row)
    return checked.predictions[0], checked.references[0]


def _column(values: dict[str, Any], name: str) -> Any:
    if name not in values:
        raise InputError(no_column([name], values))
    return values[name]
