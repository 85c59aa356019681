"""The plan: which rows of which files are scored together. It depends on the data and the metrics alone, not on who scores."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, SpecError, no_column
from twmd_registry.judgments.fields import Columns
from twmd_registry.judgments.rows import PACKED
from twmd_registry.scale.forms import SUFFIXES, Form, RowSpan, count_rows, form_of, read_span
from twmd_registry.scale.rows import RowPlace, check_rows
from twmd_registry.scale.storage import ListedFile, find, look_up, open_binary

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
        form: Its form.
        columns: Its columns; none for JSON lines.
        rows: Its rows.
    """

    file: ListedFile
    name: str
    form: Form
    columns: tuple[str, ...]
    rows: int


class TableSlice(NamedTuple):
    """Some rows of one table.

    Attributes:
        table: The number of the table.
        span: Which rows.
    """

    table: int
    span: RowSpan


class Partition(NamedTuple):
    """Rows that are scored together and written into one file.

    Attributes:
        number: From 0.
        start: The number of its first row among all.
        slices: Where its rows are.
    """

    number: int
    start: int
    slices: tuple[TableSlice, ...]

    @property
    def name(self) -> str:
        """The name of its files, without what they end in."""
        return f"part-{self.number:05d}"

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(one.span.rows for one in self.slices)


class ScaleRequest(NamedTuple):
    """What a user asks for, before any row is counted.

    Attributes:
        signatures: Of the metrics, without the number of references.
        columns: Where texts stand.
        part_rows: Rows of a part.
        files: The input files.
    """

    signatures: tuple[str, ...]
    columns: Columns
    part_rows: int
    files: tuple[ListedFile, ...]


@dataclass(frozen=True)
class ScalePlan:
    """What is to be scored, by what, in which parts.

    Attributes:
        signatures: Of the metrics, without the number of references.
        columns: Where texts stand.
        part_rows: Rows of every part but the last: a multiple of every centering batch.
        tables: The input files, in the order of their rows.
        parts: The parts.
    """

    signatures: tuple[str, ...]
    columns: Columns
    part_rows: int
    tables: tuple[InputTable, ...]
    parts: tuple[Partition, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(table.rows for table in self.tables)

    @cached_property
    def hash(self) -> str:
        """Hash of the plan: what every part was scored by."""
        return sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """The content of ``plan.json``."""
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
                tables=tuple(
                    InputTable(ListedFile(*file), name, Form(form), tuple(columns), rows) for file, name, form, columns, rows in content["tables"]
                ),
                parts=tuple(
                    Partition(number, start, tuple(TableSlice(table, RowSpan(*span)) for table, span in slices))
                    for number, start, slices in content["parts"]
                ),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FileError("plan.json is not a plan that this package wrote: give an empty output folder.") from error


def list_files(inputs: Sequence[str]) -> list[ListedFile]:
    """All input files: those of every path, pattern or folder, in the order given, sorted by name within each.

    Raises:
        FileError: There is none, one is named twice, or is of an unknown form.
        MissingExtraError: A file system needs a package.
    """
    found: list[ListedFile] = []
    for given in inputs:
        listed = find(given)
        known = [file for file in listed if form_of(file.url)]
        if not known:
            packed = " Unpack compressed files: workers read from the middle of a file." if any(file.url.endswith(PACKED) for file in listed) else ""
            raise FileError(f"{given}: the name of an input file ends in one of {', '.join(SUFFIXES)}.{packed}")
        found += known
    for name, times in Counter(file.url for file in found).items():
        if times > 1:
            raise FileError(f"{name} is named {times} times: every row is scored once.")
    return found


def align_part_rows(rows: int, step: int) -> int:
    """Rows of a part so that every centering batch lies in one: the next multiple of `step`."""
    return math.ceil(rows / step) * step


def make_plan(asked: ScaleRequest) -> ScalePlan:
    """Count all rows and cut them into parts.

    JSON lines, CSV and TSV are read through once; of Parquet, only the end is.

    Raises:
        FileError: A file cannot be read; there is no row; none of the first rows of a file can be scored.
    """
    folder = _common_folder([file.url for file in asked.files])
    tables: list[InputTable] = []
    borders: list[list[tuple[int, int]]] = []
    start = 0
    for file in asked.files:
        table, own = _count(file, file.url.removeprefix(folder).lstrip("/"), start, asked.part_rows)
        if table.rows:
            _try_rows(table, RowSpan(0, min(table.rows, _TRIED), own[0][1]), asked.columns)
        tables.append(table)
        borders.append(own)
        start += table.rows
    if not start:
        raise FileError(f"there is nothing to score: no row in {', '.join(table.name for table in tables)}.")
    return ScalePlan(asked.signatures, asked.columns, asked.part_rows, tuple(tables), tuple(_cut(tables, borders, asked.part_rows)))


def _common_folder(urls: Sequence[str]) -> str:
    folders = [url.split("/")[:-1] for url in urls]
    return "/".join(names[0] for names in itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False)))


def _count(file: ListedFile, name: str, start: int, part_rows: int) -> tuple[InputTable, list[tuple[int, int]]]:
    """A file with its number of rows, and (first row, offset) of what every part has of it."""
    form = form_of(file.url) or Form.JSONL
    rows, borders = 0, list[tuple[int, int]]()
    with open_binary(file.url) as opened:
        try:
            counted = count_rows(opened, form)
            for offset in counted.offsets:
                if rows == 0 or (start + rows) % part_rows == 0:
                    borders.append((rows, offset))
                rows += 1
        except FileError as error:
            raise FileError(f"{file.url}: {error}.") from error
    return InputTable(file, name, form, counted.columns, rows), borders


def _try_rows(table: InputTable, span: RowSpan, columns: Columns) -> None:
    """Refuse a file of whose first rows none can be scored: a column's name is wrong, rather than its rows.

    Raises:
        FileError: As said.
    """
    missing = next((name for name in (columns.prediction, *columns.references) if table.columns and name not in table.columns), None)
    if missing is not None:
        raise FileError(f"{table.file.url}: {no_column([missing], table.columns)}.")
    rows = read_span(table.file.url, table.form, table.columns, span, columns.wanted)
    checked = check_rows([(RowPlace(i, table.name, i), row) for i, row in enumerate(rows)], columns)
    if not checked.places:
        raise FileError(f"{table.file.url}: none of its first {span.rows} rows can be scored; the first: {checked.rejects[0].reason}.")


def _cut(tables: Sequence[InputTable], borders: Sequence[list[tuple[int, int]]], part_rows: int) -> Iterator[Partition]:
    """Cut rows into parts."""
    slices: dict[int, list[TableSlice]] = {}
    start = 0
    for t, (table, own) in enumerate(zip(tables, borders, strict=True)):
        ends = [*(first for first, _ in own[1:]), table.rows][: len(own)]  # nothing of a file without rows
        for (first, offset), end in zip(own, ends, strict=True):
            slices.setdefault((start + first) // part_rows, []).append(TableSlice(t, RowSpan(first, end - first, offset)))
        start += table.rows
    for number, held in slices.items():
        yield Partition(number, number * part_rows, tuple(held))


def check_same(plan: ScalePlan, asked: ScaleRequest) -> None:
    """Refuse to go on by another plan than the one that the finished parts were scored by.

    Raises:
        SpecError: They differ; names what does.
    """
    files = [table.file for table in plan.tables]
    differing = {
        "the metrics": (plan.signatures, asked.signatures),
        "the columns": (plan.columns, asked.columns),
        "the rows of a part": (plan.part_rows, asked.part_rows),
        "the input files": ([file.url for file in files], [file.url for file in asked.files]),
    }
    for what, (before, now) in differing.items():
        if before != now:
            raise SpecError(f"--resume: {what} are not those that the output folder was begun with ({_brief(before)}), but {_brief(now)}.")
    for file, found in zip(files, asked.files, strict=True):
        if file != found:
            raise SpecError(f"--resume: {file.url} has changed since the run began: give an empty output folder.")


def _brief(value: object) -> str:
    shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return shown if len(shown) <= 400 else f"{shown[:397]}..."


def check_unchanged(table: InputTable) -> None:
    """Refuse a file that is not the one whose rows were counted.

    Raises:
        FileError: It has changed, or is gone.
    """
    if look_up(table.file.url) != table.file:
        raise FileError(f"{table.file.url} has changed since its rows were counted: give an empty output folder.")
