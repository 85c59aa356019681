"""From the rows of a file to segments; a row that cannot be scored is set aside with its number and the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.border import Segments, check_segments
from twmd_registry.errors import InputError, no_column
from twmd_registry.rated.fields import Columns, take_references
from twmd_registry.scale.forms import SHOWN, RawRow


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
        """For a message, with numbers from 1."""
        return f"row {self.place.row + 1} ({self.place.file}, row {self.place.row_in_file + 1} there): {self.reason}"


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
            prediction, references = _take(raw, columns)
        except InputError as error:
            shown = raw.raw or json.dumps(raw.values, default=str)[:SHOWN]
            found.rejects.append(Reject(place, str(error).removesuffix("."), shown))
        else:
            found.segments.predictions.append(prediction)
            found.segments.references.append(references)
            found.places.append(place)
    return found


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
