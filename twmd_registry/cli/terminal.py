"""Print results, errors and progress: in colours on a terminal, and without them elsewhere.

Colours are added to finished text: they change no width, and a file gets the same text.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, TextIO

from twmd_registry.errors import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.text import Text

PATIENCE_S = 1.0
"""Seconds after which work counts as long and a progress bar appears."""
_TABLE = re.compile(r"^(?P<header>.+)\n(?P<rule>-+(?: +-+)*)\n(?P<rows>(?:.+\n?)*)", re.MULTILINE)
_CELL = re.compile(r"\S+(?: \S+)*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


HEADER, GOOD, BAD, DOUBTFUL = "bold", "bold green", "bold red", "yellow"
"""Styles of rich."""
Rule = Callable[["Text"], None]
"""Paints a part of a text."""


def shows_colours(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal with colours, and NO_COLOR (https://no-color.org) is not set."""
    is_terminal = stream is not None and stream.isatty()
    return is_terminal and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def _show(stream: TextIO, text: str, *rules: Rule) -> None:
    if not shows_colours(stream):
        print(text, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    painted = Text(text)
    for rule in rules:
        rule(painted)
    console = Console(file=stream, force_terminal=True, color_system="standard")
    with console.capture() as shown:
        console.print(painted, soft_wrap=True)
    stream.write(shown.get())  # rich's own writing to a stream does not make room beside a progress bar


def say(text: str, *rules: Rule) -> None:
    """Print results; a terminal with colours shows the headers of tables in bold, and applies the rules."""
    _show(sys.stdout, text, matches(r"^.+(?=\n-+(?: +-+)*\n)", HEADER), *rules)


@contextlib.contextmanager
def printed(text: str, *rules: Rule) -> Iterator[None]:
    """Print results before files are written: neither is lost when the other cannot be written."""
    try:
        say(text, *rules)
        sys.stdout.flush()
    finally:
        yield


def count_rows_from_one(message: str) -> str:
    """Replace Python's indices of texts, from 0, by what people count.

    >>> count_rows_from_one("empty: predictions[3], references[0][1]")
    'empty: prediction of row 4, reference 2 of row 1'
    """

    def count(index: re.Match[str]) -> str:
        stream = f" {int(index[3]) + 1}" if index[3] else ""
        return f"{index[1]}{stream} of row {int(index[2]) + 1}"

    return re.sub(r"\b(prediction|reference)s\[(\d+)\](?:\[(\d+)\])?", count, message)


def complain(head: str, style: str, message: object) -> None:
    """Write one line to stderr, with control characters escaped: a file's name must not control the terminal."""
    if sys.stderr is None:
        return
    line = visible(count_rows_from_one(" ".join(part.strip() for part in str(message).splitlines() if part.strip())))
    _show(sys.stderr, f"{head} {line}", lambda text: text.stylize(style, 0, len(head)))


def matches(pattern: str, style: str) -> Rule:
    """Return a rule that paints every match of a pattern, in which ``^`` and ``$`` are the ends of a line."""

    def paint(text: Text) -> None:
        text.highlight_regex(re.compile(pattern, re.MULTILINE), style)

    return paint


def best(columns: Mapping[str, bool]) -> Rule:
    """Return a rule that paints the best numbers of columns; it takes headers, and whether more is better."""

    def paint(text: Text) -> None:
        for table in _TABLE.finditer(text.plain):
            lines = re.compile(".+").finditer(table.string, *table.span("rows"))
            rows = [list(_CELL.finditer(table.string, *line.span())) for line in lines]
            headers = [table["header"][slice(*dashes.span())] for dashes in re.finditer("-+", table["rule"])]
            for back, header in enumerate(reversed(headers), 1):
                more_is_better = columns.get(header.strip().partition(" (")[0])
                # Counted from the right: the first cell of a row is a name, which may hold anything.
                cells = [row[-back] for row in rows if back < len(row)] if more_is_better is not None else []
                numbers = [(cell, number[0]) for cell in cells if (number := _NUMBER.match(cell[0]))]
                values = sorted({float(number) for _, number in numbers}, reverse=more_is_better is True)
                for cell, shown in numbers if len(values) > 1 else ():
                    if float(shown) == values[0]:
                        text.stylize(GOOD, cell.start(), cell.start() + len(shown))

    return paint


@functools.cache
def null_stream() -> TextIO:
    """Open the null device. It stays open: a library that keeps this stream may write to it at exit."""
    return Path(os.devnull).open("w", encoding="utf-8", errors="backslashreplace")


class ProgressBar:
    """A bar on stderr that shows what is done, the total, the times and the rate. Threads may share it."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        """Report to a task of rich's bar."""
        self._bar, self._task = bar, task

    def __call__(self, done: int) -> None:
        """Move the bar on."""
        (task,) = self._bar.tasks
        rate = f"{(task.completed + done) / max(task.elapsed or 0, 1e-3):.3g}/s"
        self._bar.update(self._task, advance=done, description="", rate=rate)

    def expect(self, total: int) -> None:
        """Add to the total."""
        (task,) = self._bar.tasks
        self._bar.update(self._task, total=(task.total or 0) + total)


@contextlib.contextmanager
def progress_bar(
    unit: str = "segments", total: int | None = None, first: str = "loading the model"
) -> Iterator[ProgressBar | None]:
    """Show a bar, with ``first`` until the first unit is done, when stderr is a terminal and the work takes long."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    counts = rich.MofNCompleteColumn(), rich.TextColumn(unit)
    times = rich.TimeElapsedColumn(), rich.TimeRemainingColumn(), rich.TextColumn("{task.fields[rate]}")
    columns = rich.BarColumn(), *counts, *times, rich.TextColumn("{task.description}")
    # stdout may be a file, with which this bar has nothing to do. The time left is that of the mean pace: the steps of
    # the work differ in size.
    settings: dict[str, Any] = {"transient": True, "redirect_stdout": False, "speed_estimate_period": math.inf}
    bar = rich.Progress(*columns, console=Console(file=sys.stderr), **settings)
    task = bar.add_task(first, total=total, rate="")
    start = Timer(PATIENCE_S, bar.start)
    start.daemon = True
    start.start()
    try:
        yield ProgressBar(bar, task)
    finally:
        start.cancel()
        start.join()
        if bar.live.is_started:
            bar.stop()
