"""What a person at a terminal gets beside the plain text: colours, complaints of one line, silence where it was asked for.

Text is laid out first and painted afterwards, so that no width ever counts a colour, and text without its colours is what a file gets.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TextIO

from twmd_registry.errors import visible

if TYPE_CHECKING:
    from tqdm import tqdm

PATIENCE_S = 2.0
"""Seconds after which work counts as long and a progress bar appears."""
_HEADED = re.compile(r"^(?P<header>.+)\n(?P<rule>-+(?: +-+)*)\n(?P<rows>(?:.+\n?)*)", re.MULTILINE)
_LINE = re.compile(r".+")
_CELL = re.compile(r"\S+(?: \S+)*")
_DASHES = re.compile(r"-+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Style(StrEnum):
    """How a piece of text is painted: the parameters of ECMA-48's SGR."""

    HEADER = "1"
    GOOD = "1;32"
    BAD = "1;31"
    DOUBTFUL = "33"


class StyledSpan(NamedTuple):
    """A piece of a text, from one index to before another, and its style."""

    start: int
    end: int
    style: Style


Rule = Callable[[str], Iterable[StyledSpan]]
"""What is painted in a text."""


def shows_colours(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that can show colours, and its user has not refused them by NO_COLOR (https://no-color.org)."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def painted(text: str, marks: Iterable[StyledSpan]) -> str:
    """Put the colours of marks into a text; of two that overlap the first is kept."""
    parts, at = [], 0
    for mark in sorted(marks):
        if mark.start >= at:
            parts += [text[at : mark.start], f"\x1b[{mark.style}m{text[mark.start : mark.end]}\x1b[0m"]
            at = mark.end
    return "".join([*parts, text[at:]])


def say(text: str, *rules: Rule) -> None:
    """Print results; on a terminal with colours, with every table's header in bold and what the rules mark."""
    print(painted(text, [mark for rule in (_headers, *rules) for mark in rule(text)]) if shows_colours(sys.stdout) else text)


def count_rows_from_one(message: str) -> str:
    """Replace Python's indices of texts, from 0, by what people count.

    >>> count_rows_from_one("empty: predictions[3], references[0][1]")
    'empty: prediction of row 4, reference 2 of row 1'
    """
    message = re.sub(r"\breferences\[(\d+)\]\[(\d+)\]", lambda found: f"reference {int(found[2]) + 1} of row {int(found[1]) + 1}", message)
    return re.sub(r"\b(prediction|reference)s\[(\d+)\]", lambda found: f"{found[1]} of row {int(found[2]) + 1}", message)


def complain(head: str, style: Style, message: object) -> None:
    """Write one line to stderr, whatever the message holds: the name of a file, say, that would steer the terminal."""
    if sys.stderr is None:
        return
    line = visible(count_rows_from_one(" ".join(part.strip() for part in str(message).splitlines() if part.strip())))
    shown = painted(head, [StyledSpan(0, len(head), style)]) if shows_colours(sys.stderr) else head
    print(f"{shown} {line}", file=sys.stderr)


def matches(pattern: str, style: Style) -> Rule:
    """A rule that paints every match of a pattern, in which ``^`` and ``$`` are the ends of a line."""
    return lambda text: (StyledSpan(found.start(), found.end(), style) for found in re.finditer(pattern, text, re.MULTILINE))


def best(columns: Mapping[str, bool]) -> Rule:
    """A rule that paints the best number of a column, as it is printed, where a table has several.

    Args:
        columns: From a column's header to whether more is better.
    """
    return lambda text: (mark for table in _HEADED.finditer(text) for mark in _best_of(table, columns))


def _headers(text: str) -> Iterator[StyledSpan]:
    return (StyledSpan(*table.span("header"), Style.HEADER) for table in _HEADED.finditer(text))


def _best_of(table: re.Match[str], columns: Mapping[str, bool]) -> Iterator[StyledSpan]:
    rows = [list(_CELL.finditer(table.string, *line.span())) for line in _LINE.finditer(table.string, *table.span("rows"))]
    headers = [table["header"][slice(*dashes.span())].strip() for dashes in _DASHES.finditer(table["rule"])]
    for back, header in enumerate(reversed(headers), 1):
        name = header.partition(" (")[0]
        # Counted from the right: the first cell of a row is a name, which may hold anything.
        cells = [row[-back] for row in rows if back < len(row)] if name in columns else []
        numbers = [
            (float(number[0]), StyledSpan(cell.start(), cell.start() + number.end(), Style.GOOD))
            for cell in cells
            if (number := _NUMBER.match(cell[0]))
        ]
        values = {value for value, _ in numbers}
        if len(values) > 1:
            chosen = max(values) if columns[name] else min(values)
            yield from (mark for value, mark in numbers if value == chosen)


@functools.cache
def _null_stream() -> TextIO:
    """A stream that forgets, with all that a file has; it stays open, for what a library found at its start it may write to at exit."""
    return Path(os.devnull).open("w", encoding="utf-8", errors="backslashreplace")


@contextlib.contextmanager
def silence(*, wanted: bool) -> Iterator[None]:
    """Let nothing reach stderr meanwhile, where that is wanted: no warning, no progress bar, no library's remark.

    Args:
        wanted: Whether it is.
    """
    if not wanted:
        yield
        return
    with contextlib.redirect_stderr(_null_stream()):
        yield


class ProgressBar:
    """What reports of progress go to: a bar with what is done, the total, the rate and the time left."""

    def __init__(self, bar: tqdm[NoReturn]) -> None:
        """Report to a bar of tqdm."""
        self._bar = bar

    def __call__(self, done: int) -> None:
        """Move the bar on."""
        self._bar.update(done)

    def expect(self, total: int) -> None:
        """Add to what is to come."""
        self._bar.total = (self._bar.total or 0) + total


@contextlib.contextmanager
def progress_bar(unit: str = "segments", total: int | None = None) -> Iterator[ProgressBar | None]:
    """Show a bar on stderr when that is a terminal and the work turns out to be long; else nothing.

    Args:
        unit: What is counted.
        total: How many there are; None where the work itself says it later.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    # miniters: the steps of the work differ in size, and after a large one tqdm would wait for another such step.
    with tqdm(unit=f" {unit}", total=total, delay=PATIENCE_S, miniters=1, leave=False, dynamic_ncols=True) as bar:
        yield ProgressBar(bar)
