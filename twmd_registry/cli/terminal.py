"""Print results, errors and progress, with rich's colours on a terminal and plain elsewhere."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any, TextIO

from twmd_registry.messages import visible
from twmd_registry.progress import Progress

PATIENCE_S = 1.0
"""Seconds after which a progress bar appears."""
HEADER, BAD, DOUBTFUL = "bold", "bold red", "yellow"
"""rich's styles."""


def _show(stream: TextIO, text: str, head: str = "", style: str = "") -> None:
    """Print a text, on a terminal with rich (which obeys NO_COLOR) and a styled head."""
    if not stream.isatty():
        print(head + text, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream)
    with console.capture() as shown:
        # Highlighting would colour arbitrary parts of signatures.
        console.print(Text(head, style), text, sep="", markup=False, highlight=False, emoji=False, soft_wrap=True)
    stream.write(shown.get())  # rich would not clear a progress bar first


def say(text: str) -> None:
    """Print results."""
    _show(sys.stdout, text)


@contextlib.contextmanager
def printed(text: str) -> Iterator[None]:
    """Print results before files are written, so neither is lost if the other cannot be written."""
    try:
        say(text)
        sys.stdout.flush()
    finally:
        yield


def count_rows_from_one(message: str) -> str:
    """Replace Python's indices of texts, from 0, by row numbers from 1.

    >>> count_rows_from_one("empty: predictions[3], references[0][1]")
    'empty: prediction of row 4, reference 2 of row 1'
    """

    def count(index: re.Match[str]) -> str:
        stream = f" {int(index[3]) + 1}" if index[3] else ""
        return f"{index[1]}{stream} of row {int(index[2]) + 1}"

    return re.sub(r"\b(prediction|reference|candidate)s\[(\d+)\](?:\[(\d+)\])?", count, message)


def complain(head: str, style: str, message: object) -> None:
    """Write one line to stderr, with control characters escaped, so a file's name cannot control the terminal."""
    line = " ".join(part.strip() for part in str(message).splitlines() if part.strip())
    _show(sys.stderr, f" {visible(count_rows_from_one(line))}", head, style)


@functools.cache
def null_stream() -> TextIO:
    """Open the null device and keep it open, because a library may still write to it at exit."""
    return Path(os.devnull).open("w", encoding="utf-8", errors="backslashreplace")


@contextlib.contextmanager
def progress_bar(
    unit: str = "segments", total: int | None = None, first: str = "loading the model"
) -> Iterator[Progress | None]:
    """Show a bar if stderr is a terminal and the work takes long; `first` describes it until the first unit is done.

    It shows counts, times and the rate. Threads may share it.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    counts = rich.MofNCompleteColumn(), rich.TextColumn(unit)
    times = rich.TimeElapsedColumn(), rich.TimeRemainingColumn(), rich.TextColumn("{task.fields[rate]}")
    columns = rich.BarColumn(), *counts, *times, rich.TextColumn("{task.description}")
    # stdout may be a file, which the bar must not touch. The remaining time follows the mean pace, because steps of the
    # work differ in size.
    settings: dict[str, Any] = {"transient": True, "redirect_stdout": False, "speed_estimate_period": math.inf}
    bar = rich.Progress(*columns, console=Console(file=sys.stderr), **settings)
    number = bar.add_task(first, total=total, rate="")

    def advance(done: int) -> None:
        (task,) = bar.tasks
        rate = f"{(task.completed + done) / max(task.elapsed or 0, 1e-3):.3g}/s"
        bar.update(number, advance=done, description="", rate=rate)

    def expect(more: int) -> None:
        (task,) = bar.tasks
        bar.update(number, total=(task.total or 0) + more)

    advance.expect = expect  # type: ignore[attr-defined]
    start = Timer(PATIENCE_S, bar.start)
    start.daemon = True
    start.start()
    try:
        yield advance
    finally:
        start.cancel()
        start.join()
        if bar.live.is_started:
            bar.stop()
