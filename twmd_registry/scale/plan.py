"""The plan: the rows that are scored together. It depends on the data and the metrics, not on the workers."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from twmd_registry.errors import FileError, SpecError, no_column
from twmd_registry.judgments.reader import PACKED, TABLE_SUFFIXES, Columns, OpenTable, TableRow, form_of
from twmd_registry.scale.storage import FileVersion, find_files, open_table

PART_ROWS = 10_000
"""The default number of rows of a part."""
_TRIED = 100
"""Rows of every file that are checked before anything is scored."""
_FORMAT = "twmd-plan"

InputTable = tuple[FileVersion, str, int]
"""The file, its name without the folder that all have in common, and its rows (0 until they are counted)."""
TableSlice = tuple[int, int, int, int]
"""The number of a table, the first row (from 0), the number of rows, and the byte at which the first row begins."""


@dataclass(frozen=True)
class ScalePlan:
    """Data, metrics and parts of a run.

    Attributes:
        signatures: Of the metrics, without the number of references.
        part_rows: Rows of every part but the last: a multiple of every centering batch.
        tables: The input files, in the order of their rows.
        parts: The slices of every part; empty until the rows are counted.
    """

    signatures: tuple[str, ...]
    columns: Columns
    part_rows: int
    tables: tuple[InputTable, ...]
    parts: tuple[tuple[TableSlice, ...], ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(rows for _, _, rows in self.tables)

    @cached_property
    def hash(self) -> str:
        """The hash of the plan; every part contains it."""
        return sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the content of ``plan.json``."""
        return json.dumps({"format": _FORMAT} | asdict(self), indent=None, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ScalePlan:
        """Read a plan; other text is a `FileError`."""
        try:
            content: dict[str, Any] = json.loads(text)
            prediction, references = content["columns"]
            return cls(
                signatures=tuple(content["signatures"]),
                columns=Columns(prediction, tuple(references)),
                part_rows=content["part_rows"],
                tables=tuple(((*file,), name, rows) for file, name, rows in content["tables"]),
                parts=tuple(tuple((t, f, n, offset) for t, f, n, offset in slices) for slices in content["parts"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FileError("plan.json is not a plan that this package wrote: give an empty output folder.") from error


def part_name(number: int) -> str:
    """Return the file name of a part, without its suffix."""
    return f"part-{number:05d}"


def list_tables(inputs: Sequence[str]) -> tuple[InputTable, ...]:
    """Return the input files of every path, pattern or folder, in the order given, sorted by name within each."""
    files: list[FileVersion] = []
    for given in inputs:
        known = [file for file in find_files(given) if form_of(file[0]) in TABLE_SUFFIXES]
        if not known:
            suffixes = f"{', '.join(TABLE_SUFFIXES)}, and may end in {' or '.join(PACKED)} after that"
            raise FileError(f"{given}: the name of an input file ends in one of {suffixes}.")
        files += known
    for url, times in Counter(url for url, *_ in files).items():
        if times > 1:
            raise FileError(f"{url} is named {times} times: every row is scored once.")
    folders = [url.split("/")[:-1] for url, *_ in files]
    same = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    common = "/".join(names[0] for names in same)
    return tuple((file, file[0].removeprefix(common).lstrip("/"), 0) for file in files)


def align_part_rows(rows: int, step: int) -> int:
    """Round the rows of a part up to a multiple of `step`, so that every centering batch lies in a single part."""
    return math.ceil(rows / step) * step


def cut_into_parts(plan: ScalePlan) -> ScalePlan:
    """Return a plan with its rows counted and cut into parts.

    Text files are read once; of Parquet files, only the end is read. A file of which none of the first rows can be
    scored is refused.
    """
    tables: list[InputTable] = []
    parts: list[list[TableSlice]] = []
    total = 0
    for t, (file, name, _) in enumerate(plan.tables):
        rows, borders = 0, list[tuple[int, int]]()
        with open_table(file[0]) as opened:
            for offset in opened.offsets():
                if rows == 0 or (total + rows) % plan.part_rows == 0:
                    borders.append((rows, offset))
                rows += 1
            if rows:
                _try_rows(file[0], opened, min(rows, _TRIED), borders[0][1], plan.columns)
        for (first, offset), (end, _) in itertools.pairwise([*borders, (rows, 0)]):
            if (total + first) % plan.part_rows == 0:
                parts.append([])
            parts[-1].append((t, first, end - first, offset))
        tables.append((file, name, rows))
        total += rows
    if not total:
        raise FileError(f"there is nothing to score: no row in {', '.join(name for _, name, _ in tables)}.")
    return replace(plan, tables=tuple(tables), parts=tuple(map(tuple, parts)))


def _try_rows(url: str, opened: OpenTable, rows: int, offset: int, columns: Columns) -> None:
    """Refuse a file if none of its first rows can be scored: then the name of a column is wrong."""
    for name in (columns.prediction, *columns.references) if opened.columns else ():
        if name not in opened.columns:
            raise FileError(f"{url}: {no_column([name], opened.columns)}.")
    first = ""
    for _, values in opened.read(0, rows, offset, columns.wanted):
        try:
            if not isinstance(values, str):
                TableRow("", values).segment(columns)
                return
            first = first or values
        except FileError as error:
            first = first or str(error).removeprefix(": ").removesuffix(".")
    raise FileError(f"{url}: none of its first {rows} rows can be scored; the first: {first}.")


def check_same(plan: ScalePlan, asked: ScalePlan) -> None:
    """Refuse to resume by another plan than that of the finished parts; the rows of `asked` are not counted."""
    urls = [[file[0] for file, _, _ in own.tables] for own in (plan, asked)]
    differing: dict[str, tuple[object, object]] = {
        "the metrics": (plan.signatures, asked.signatures),
        "the columns": (plan.columns, asked.columns),
        "the rows of a part": (plan.part_rows, asked.part_rows),
        "the input files": (urls[0], urls[1]),
    }
    for what, (before, now) in differing.items():
        if before != now:
            begun = f"{what} are not those that the output folder was begun with ({_brief(before)})"
            raise SpecError(f"--resume: {begun}, but {_brief(now)}.")
    for (old, *_), (new, *_) in zip(plan.tables, asked.tables, strict=True):
        if old != new:
            raise SpecError(f"--resume: {old[0]} has changed since the run began: give an empty output folder.")


def _brief(value: object) -> str:
    shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return shown if len(shown) <= 400 else f"{shown[:397]}..."
