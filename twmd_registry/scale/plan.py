"""The plan: which rows are scored together. It depends on the data and the metrics, not on the workers."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, SpecError, no_column
from twmd_registry.judgments.reader import PACKED, TABLE_SUFFIXES, Columns, OpenTable, TableRow, form_of
from twmd_registry.scale.storage import FileVersion, find_files, open_table

PART_ROWS = 10_000
"""Rows of a part, about."""
_TRIED = 100
"""Rows of a file that are tried before anything is scored."""
_FORMAT = "twmd-plan"


class InputTable(NamedTuple):
    """An input file.

    Attributes:
        file: What the file system says.
        name: Its name without the folder that all have in common.
        rows: How many rows it has; 0 as long as they are not counted.
    """

    file: FileVersion
    name: str
    rows: int = 0


class TableSlice(NamedTuple):
    """A range of rows of one table.

    Attributes:
        table: The number of the table.
        first: The first row, from 0.
        rows: How many.
        offset: The byte at which the first begins.
    """

    table: int
    first: int
    rows: int
    offset: int


@dataclass(frozen=True)
class ScalePlan:
    """What is to be scored, by what, in which parts.

    Attributes:
        signatures: Of the metrics, without the number of references.
        columns: The columns that hold texts.
        part_rows: Rows of every part but the last: a multiple of every centering batch.
        tables: The input files, in the order of their rows.
        parts: The slices of every part, which are scored together and written into one file; none as long as rows are
            not counted.
    """

    signatures: tuple[str, ...]
    columns: Columns
    part_rows: int
    tables: tuple[InputTable, ...]
    parts: tuple[tuple[TableSlice, ...], ...] = ()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(table.rows for table in self.tables)

    @cached_property
    def hash(self) -> str:
        """Hash of the plan, which every part keeps."""
        return sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Write the content of ``plan.json``."""
        return json.dumps({"format": _FORMAT} | asdict(self), indent=None, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ScalePlan:
        """Read a plan.

        Raises:
            FileError: It is none.
        """
        try:
            content: dict[str, Any] = json.loads(text)
            prediction, references = content["columns"]
            return cls(
                signatures=tuple(content["signatures"]),
                columns=Columns(prediction, tuple(references)),
                part_rows=content["part_rows"],
                tables=tuple(InputTable((*file,), name, rows) for file, name, rows in content["tables"]),
                parts=tuple(tuple(TableSlice(*one) for one in slices) for slices in content["parts"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FileError("plan.json is not a plan that this package wrote: give an empty output folder.") from error


def part_name(number: int) -> str:
    """Name the files of a part, without their suffix."""
    return f"part-{number:05d}"


def list_tables(inputs: Sequence[str]) -> tuple[InputTable, ...]:
    """List the input files of every path, pattern or folder, in the order given, sorted by name within each.

    Raises:
        FileError: There is none, one is named twice, or is of an unknown form.
        MissingExtraError: A file system needs a package.
    """
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
    return tuple(InputTable(file, file[0].removeprefix(common).lstrip("/")) for file in files)


def align_part_rows(rows: int, step: int) -> int:
    """Round the rows of a part up to the next multiple of `step`, so that every centering batch lies in one part."""
    return math.ceil(rows / step) * step


def cut_into_parts(plan: ScalePlan) -> ScalePlan:
    """Count all rows and cut them into parts.

    Text is read through once; of Parquet, only the end is.

    Raises:
        FileError: A file cannot be read; there is no row; none of the first rows of a file can be scored.
    """
    tables: list[InputTable] = []
    parts: list[list[TableSlice]] = []
    total = 0
    for t, table in enumerate(plan.tables):
        rows, borders = 0, list[tuple[int, int]]()
        with open_table(table.file[0]) as opened:
            for offset in opened.offsets():
                if rows == 0 or (total + rows) % plan.part_rows == 0:
                    borders.append((rows, offset))
                rows += 1
            if rows:
                _try_rows(table.file[0], opened, min(rows, _TRIED), borders[0][1], plan.columns)
        for (first, offset), (end, _) in itertools.pairwise([*borders, (rows, 0)]):
            if (total + first) % plan.part_rows == 0:
                parts.append([])
            parts[-1].append(TableSlice(t, first, end - first, offset))
        tables.append(table._replace(rows=rows))
        total += rows
    if not total:
        raise FileError(f"there is nothing to score: no row in {', '.join(table.name for table in tables)}.")
    return replace(plan, tables=tuple(tables), parts=tuple(map(tuple, parts)))


def _try_rows(url: str, opened: OpenTable, rows: int, offset: int, columns: Columns) -> None:
    """Refuse a file of whose first rows none can be scored: a column's name is wrong, rather than its rows."""
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
    """Refuse to go on by another plan than the one of the finished parts; rows of `asked` are not counted.

    Raises:
        SpecError: They differ; names what does.
    """
    urls = [[table.file[0] for table in one.tables] for one in (plan, asked)]
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
    for old, new in zip(plan.tables, asked.tables, strict=True):
        if old.file != new.file:
            raise SpecError(f"--resume: {old.file[0]} has changed since the run began: give an empty output folder.")


def _brief(value: object) -> str:
    shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return shown if len(shown) <= 400 else f"{shown[:397]}..."
