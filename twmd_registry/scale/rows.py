"""From the rows of a file to segments; a row that cannot be scored is set aside with its number and the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.border import Segments, check_segments
from twmd_registry.errors import InputError, no_column
from twmd_registry.scale.forms import SHOWN, RawRow

USUAL_REFERENCES = ("references", "reference")
"""Where references stand when nobody says: the first of these that a row has."""


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
        return (self.prediction, *(self.references or USUAL_REFERENCES))


class Place(NamedTuple):
    """Where a row stands: its number among all, its file, and its number there; numbers from 0."""

    row: int
    file: str
    row_in_file: int


class Reject(NamedTuple):
    """A row that cannot be scored."""

    place: Place
    reason: str
    raw: str

    def as_line(self) -> str:
        """One line of ``rejects.jsonl``."""
        return json.dumps({**self.place._asdict(), "reason": self.reason, "raw": self.raw}) + "\n"

    def __str__(self) -> str:
        """For a message."""
        return f"row {self.place.row} ({self.place.file}, row {self.place.row_in_file} there, counted from 0): {self.reason}"


class Checked(NamedTuple):
    """Rows, sorted into those that can be scored and those that cannot.

    Attributes:
        segments: The texts of those that can.
        places: Where they stand.
        rejects: The others.
    """

    segments: Segments
    places: list[Place]
    rejects: list[Reject]

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows that can be scored, among all; shape (segments,)."""
        return np.array([place.row for place in self.places], dtype=np.int64)


def check_rows(rows: Sequence[tuple[Place, RawRow]], columns: Columns) -> Checked:
    """Sort rows into those that can be scored and those that cannot."""
    found = Checked(Segments([], []), [], [])
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
    return found


def _take(raw: RawRow, columns: Columns, row: int) -> tuple[str, list[str]]:
    """The texts of a row.

    Raises:
        InputError: It has no such column, or something else than texts in it.
    """
    if raw.values is None:
        raise InputError(raw.trouble)
    names = columns.references or tuple(name for name in USUAL_REFERENCES if name in raw.values)[:1]
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
