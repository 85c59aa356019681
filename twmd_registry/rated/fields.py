"""A row of named fields, and what its fields must be: texts, lists of texts, numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, no_column
from twmd_registry.rated.rows import read_lines

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


class Fields(NamedTuple):
    """One row.

    Attributes:
        where: Its place, for messages.
        values: By the fields' names.
    """

    where: str
    values: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Its line or row, without the file."""
        return self.where.rpartition(", ")[2]

    def take(self, name: str) -> Any:
        """Look a field up.

        Raises:
            FileError: There is none of that name; with the menu of names.
        """
        if name not in self.values:
            raise FileError(f"{self.where}: {no_column([name], self.values)}.")
        return self.values[name]

    def text(self, name: str) -> str:
        """Take a text.

        Raises:
            FileError: There is no such field, or it holds something else.
        """
        value = self.take(name)
        if not isinstance(value, str):
            raise FileError(f"{self.where}: expected a text as {name}, not {value!r}.")
        return value

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
    return [_parse(line, f"{path}, line {number}") for number, line in enumerate(read_lines(path), 1) if line.strip()]


def _parse(line: str, where: str) -> Fields:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where}: expected a JSON object ({error}).") from error
    if not isinstance(values, dict):
        raise FileError(f"{where}: expected a JSON object, not {values!r}.")
    return Fields(where, values)
