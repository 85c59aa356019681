"""A row of named fields, and what its fields must be: texts, lists of texts, numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, InputError, no_column
from twmd_registry.judgments.rows import decode, read_content, split_lines

USUAL_REFERENCES = ("references", "reference")
"""Where references stand when nobody names a column."""
SHOWN = 60
"""Characters of a wrong value that an error shows."""
_LIST = re.compile(r"\[\s*(['\"].*)?\]\s*", re.DOTALL)
"""How a cell begins and ends that holds a list of texts."""
NO_RATING = frozenset({"", "nan", "none", "null"})
"""Texts that stand for no rating, in small letters."""


def read_rating(value: Any, where: str, lowest: float = -math.inf, highest: float = math.inf) -> float:
    """Take a rating: a finite number from `lowest` to `highest`, written as a number or as text.

    Args:
        value: What the data have.
        where: Its place, for the message.
        lowest: The worst rating there is.
        highest: The best rating there is.

    Raises:
        FileError: It is no number, not finite, or outside the range.
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and lowest <= number <= highest):
        wanted = "a finite number" if math.isinf(highest) else f"a number from {lowest:g} to {highest:g}"
        raise FileError(f"{where}: expected a rating, {wanted}, not {value!r}.")
    return number


class Columns(NamedTuple):
    """Where the texts of a row stand.

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

    def references_of(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the columns from which the references of a row are read; none where it has none of the usual ones.

        Raises:
            InputError: It has both of the usual ones; says nothing of the place.
        """
        return self.references or _usual_column(values)


def take_references(values: Mapping[str, Any], columns: tuple[str, ...] = ()) -> Any:
    """Take what stands as the references of a row; that it is text is checked by the caller.

    In one column, unless it is called ``reference``, a text that looks like a list of quoted texts must be a JSON list, and is taken as one: a
    cell of CSV holds nothing but text. Of several columns, empty texts and nulls are no references as long as another one is there.

    Args:
        values: The row.
        columns: Where its references stand; none for one of `USUAL_REFERENCES`, whichever is there and not null.

    Returns:
        A text or a list, as it stands.

    Raises:
        InputError: No such column, both usual ones, or brackets that hold no JSON list of texts; says nothing of the place.
    """
    columns = columns or _usual_column(values)
    if missing := [name for name in columns or USUAL_REFERENCES if name not in values]:
        raise InputError(no_column(missing, values))
    if len(columns) == 1:
        return _listed(columns[0], values[columns[0]])
    texts = [text for name in columns for text in (values[name] if isinstance(values[name], list) else [values[name]])]
    return [text for text in texts if text is not None and text != ""] or texts[:1]


def _usual_column(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The one of `USUAL_REFERENCES` that is there, if any; where both are, the one that is not null."""
    present = [name for name in USUAL_REFERENCES if name in values]
    filled = [name for name in present if values[name] is not None]
    if len(filled) > 1:
        raise InputError(f"both {' and '.join(map(repr, filled))} are there: keep one of them, or name the column to take")
    return tuple(filled or present[:1])


def _listed(name: str, value: Any) -> Any:
    """The list that is written in a cell; anything else as it is."""
    if name == "reference" or not isinstance(value, str) or not _LIST.fullmatch(value):
        return value
    try:
        texts = json.loads(value)
    except (ValueError, RecursionError):
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        hint = 'write ["one", "another"], or call a column of single texts reference'
        raise InputError(f"{name} looks like a list and is no JSON list of texts: {hint}")
    return texts


class Fields(NamedTuple):
    """One row.

    Attributes:
        where: Its place, for messages.
        values: By the fields' names.
        header: Where the names of a table with a header stand, for messages.
    """

    where: str
    values: Mapping[str, Any]
    header: str | None = None

    @property
    def names_where(self) -> str:
        """Where the names of its fields stand: the table's header, or the row itself."""
        return self.header or self.where

    @property
    def place(self) -> str:
        """Its line or row, without the file and without how rows are counted."""
        return self.where.rpartition(", ")[2].partition(" (")[0]

    def take(self, name: str) -> Any:
        """Look a field up.

        Raises:
            FileError: There is none of that name; with the menu of names.
        """
        if name not in self.values:
            raise FileError(f"{self.names_where}: {no_column([name], self.values)}.")
        return self.values[name]

    def text(self, name: str) -> str:
        """Take a text.

        Raises:
            FileError: There is no such field, or it holds something else.
        """
        return self._checked(self.take(name), name)

    def _checked(self, value: Any, name: str) -> str:
        """Refuse what is no text, and a lone surrogate, which JSON can hold."""
        if not isinstance(value, str):
            raise FileError(f"{self.where}: expected a text as {name}, not {_shown(value)}.")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise FileError(f"{self.where}: {name} is not valid Unicode: lone surrogate at character {error.start}.") from error
        return value

    def references(self, columns: tuple[str, ...] = ()) -> list[str]:
        """Take the references, one or more texts; arguments as for `take_references`.

        Raises:
            FileError: As for `take_references`, or something else than texts stands there.
        """
        try:
            value = take_references(self.values, columns)
        except InputError as error:
            raise FileError(f"{self.where}: {error}.") from error
        texts = value if isinstance(value, list) else [value]
        if not texts:
            raise FileError(f"{self.where}: an empty list of references: every row needs at least one.")
        return [self._checked(text, "a reference") for text in texts]

    def refuse_both_references(self) -> None:
        """Refuse a row that has both of `USUAL_REFERENCES`.

        Raises:
            FileError: It has.
        """
        try:
            _usual_column(self.values)
        except InputError as error:
            raise FileError(f"{self.where}: {error}.") from error

    def texts(self, name: str) -> str | list[str]:
        """Take a text, or a list of one or more texts.

        Raises:
            FileError: There is no such field, or it holds something else.
        """
        value = self.take(name)
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            return value
        if not isinstance(value, str):
            raise FileError(f"{self.where}: expected a text or a list of texts as {name}, not {value!r}.")
        return value

    def label(self, name: str) -> str:
        """Take the name of a group, an item or a system: a text, or a number as text.

        Raises:
            FileError: There is no such field, or it is empty.
        """
        value = self.take(name)
        if value is None or value == "" or value != value:  # noqa: PLR0124 (NaN, which is how tables write nothing)
            raise FileError(f"{self.where}: expected a name as {name}, not {value!r}.")
        return str(value)

    def rating(self, name: str) -> float | None:
        """Take a rating; None for an unrated row (null, NaN or an empty text).

        Raises:
            FileError: There is no such field, or it holds no finite number.
        """
        value = self.take(name)
        absent = value is None or (isinstance(value, float) and math.isnan(value))
        if absent or (isinstance(value, str) and value.strip().lower() in NO_RATING):
            return None
        return read_rating(value, f"{self.where}, {name}")


def read_jsonl(path: Path) -> list[Fields]:
    """Read JSON lines; empty lines are passed over.

    Raises:
        FileError: The file cannot be read, or a line is no JSON object; names the line.
    """
    return parse_jsonl(path, read_content(path))


def parse_jsonl(name: object, content: bytes) -> list[Fields]:
    """Take the content of such a file apart; errors likewise."""
    return [_parse(line, f"{name}, line {number}") for number, line in enumerate(split_lines(decode(name, content)), 1) if line.strip()]


def _parse(line: str, where: str) -> Fields:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where}: expected a JSON object ({error}).") from error
    if not isinstance(values, dict):
        raise FileError(f"{where}: expected a JSON object, not {_shown(values)}.")
    return Fields(where, values)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
