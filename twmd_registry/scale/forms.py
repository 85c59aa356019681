"""The rows of JSON lines, CSV, TSV and Parquet files: counted once, then read from any place in the file."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.scale.storage import open_binary, reason_of

LONGEST_RECORD = 1 << 26
"""Bytes of the longest line that is read as one."""
LONGEST_QUOTE = 1 << 20
"""Bytes after which a quote in CSV that nobody closes counts as a mistake of the row that it stands in."""
SHOWN = 500
"""Characters of a rejected row that are kept."""


class Form(StrEnum):
    """The forms of input files."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"


SUFFIXES = {".jsonl": Form.JSONL, ".ndjson": Form.JSONL, ".csv": Form.CSV, ".tsv": Form.TSV, ".parquet": Form.PARQUET, ".pq": Form.PARQUET}
"""Which form a file has, by its name."""


class RawRow(NamedTuple):
    """A row as it was read.

    Attributes:
        values: By column; None for a row that cannot be taken apart.
        trouble: Why it cannot; empty where it can.
        raw: What stands in the file, cut; empty for Parquet, where it is the values.
    """

    values: dict[str, Any] | None
    trouble: str
    raw: str


class RowCount(NamedTuple):
    """What a look through a file found.

    Attributes:
        columns: Its columns; none for JSON lines, whose rows name their own.
        offsets: Where every row begins, in bytes; of Parquet, which needs none, zeros.
    """

    columns: tuple[str, ...]
    offsets: Iterator[int]


class RowSpan(NamedTuple):
    """Rows of one file in a row.

    Attributes:
        first: The first, from 0.
        rows: How many.
        offset: Where the first begins, in bytes.
    """

    first: int
    rows: int
    offset: int


class _ParquetRecord(NamedTuple):
    offset: int
    content: bytes


def form_of(name: str) -> Form | None:
    """The form of a file by the end of its name; None for an unknown one."""
    lowered = name.lower()
    return next((form for suffix, form in SUFFIXES.items() if lowered.endswith(suffix)), None)


def _lines(file: io.BufferedReader, offset: int) -> Iterator[_ParquetRecord]:
    """Lines that are not empty, ended by line feeds and nothing else.

    Raises:
        FileError: A line is too long to be one.
    """
    while line := file.readline(LONGEST_RECORD + 1):
        if len(line) > LONGEST_RECORD:
            raise FileError(f"the line at byte {offset} has more than {LONGEST_RECORD} bytes: these are no lines of text")
        start = len(codecs.BOM_UTF8) if offset == 0 and line.startswith(codecs.BOM_UTF8) else 0
        if line[start:].strip():
            yield _ParquetRecord(offset + start, line[start:])
        offset += len(line)


def _quoted_lines(file: io.BufferedReader, offset: int, *, delimiter: str) -> Iterator[_ParquetRecord]:
    """Records of CSV: a line, or several where a quoted field holds line feeds.

    A quote that is never closed costs its own line, not the rest of the file.
    """
    lines, again = _lines(file, offset), deque[_ParquetRecord]()
    while first := again.popleft() if again else next(lines, None):
        held = [first]
        while _is_open(held, delimiter):
            more = again.popleft() if again else next(lines, None)
            if more is None or more.offset - first.offset > LONGEST_QUOTE:
                again.extendleft(reversed([*held[1:], *([more] if more else [])]))
                held = [first]
                break
            held.append(more)
        yield _ParquetRecord(first.offset, b"".join(one.content for one in held))


def _is_open(held: Sequence[_ParquetRecord], delimiter: str) -> bool:
    """Whether a field in quotes does not end in these lines; of all but the last it is known that it does not."""
    if b'"' not in held[-1].content:
        return len(held) > 1
    content = b"".join(one.content for one in held)
    # What a quote does depends on what stands before it: csv itself is asked.
    try:
        list(csv.reader([content.decode("utf-8", "replace")], delimiter=delimiter, strict=True))
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


_DELIMITERS = {Form.CSV: ",", Form.TSV: "\t"}
_SPLIT: dict[Form, Callable[[io.BufferedReader, int], Iterator[_ParquetRecord]]] = {
    Form.JSONL: _lines,
    **{form: partial(_quoted_lines, delimiter=sign) for form, sign in _DELIMITERS.items()},
}


def _fields(content: bytes, form: Form) -> list[str]:
    """The fields of a record of CSV or TSV.

    Raises:
        ValueError: It is none.
    """
    try:
        rows = list(csv.reader([content.decode("utf-8")], delimiter=_DELIMITERS[form], strict=True))
    except csv.Error as error:
        raise ValueError(f"not {form.upper()}: {error}") from error
    return rows[0] if rows else []


def _parse_delimited(content: bytes, form: Form, columns: Sequence[str]) -> dict[str, Any]:
    fields = _fields(content, form)
    if len(fields) != len(columns):
        raise ValueError(f"expected {len(columns)} fields ({', '.join(columns)}), got {len(fields)}")
    return dict(zip(columns, fields, strict=True))


def _parse_json(content: bytes, _form: Form, _columns: Sequence[str]) -> dict[str, Any]:
    try:
        values = json.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("not JSON: nested too deeply") from error
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(values, dict):
        raise TypeError("expected a JSON object")
    return values


_PARSE: dict[Form, Callable[[bytes, Form, Sequence[str]], dict[str, Any]]] = {
    Form.JSONL: _parse_json,
    Form.CSV: _parse_delimited,
    Form.TSV: _parse_delimited,
}


def count_rows(file: io.BufferedReader, form: Form) -> RowCount:
    """Look through a file.

    Raises:
        FileError: It has no header or a name twice in it, or is not of this form.
    """
    if form is Form.PARQUET:
        opened = _parquet(file)
        return RowCount(tuple(opened.schema_arrow.names), iter([0] * opened.metadata.num_rows))
    records = _SPLIT[form](file, 0)
    header: tuple[str, ...] = ()
    if form in _DELIMITERS:
        first = next(records, None)
        header = _header(first.content, form) if first else ()
    return RowCount(header, (record.offset for record in records))


def _header(content: bytes, form: Form) -> tuple[str, ...]:
    try:
        names = _fields(content, form)
    except ValueError as error:
        raise FileError(f"the header is {error}") from error
    if len(set(names)) < len(names):
        raise FileError(f"a column's name occurs twice: {', '.join(names)}")
    return tuple(names)


def _parquet(file: io.BufferedReader) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(file)
    except ValueError as error:
        raise FileError(reason_of(error)) from error


def read_span(url: str, form: Form, columns: Sequence[str], span: RowSpan, wanted: Sequence[str] = ()) -> list[RawRow]:
    """Read some rows of a file.

    Args:
        url: The file.
        form: Its form.
        columns: Its columns, as counted.
        span: Which rows.
        wanted: The columns that will be looked at; of Parquet, no others are read.

    Raises:
        FileError: The file cannot be read, or ends before the last of them.
    """
    with open_binary(url) as file:
        try:
            if form is Form.PARQUET:
                rows = _read_parquet(file, span, [name for name in columns if name in wanted])
            else:
                file.seek(span.offset)
                rows = [_read(one.content, form, columns) for one in itertools.islice(_SPLIT[form](file, span.offset), span.rows)]
        except FileError as error:
            raise FileError(f"{url}: {error}.") from error
    if len(rows) != span.rows:
        raise FileError(f"{url} has changed since its rows were counted: row {span.first + span.rows} is not there any more.")
    return rows


def _read(content: bytes, form: Form, columns: Sequence[str]) -> RawRow:
    raw = content.decode("utf-8", "replace").strip("\r\n")[:SHOWN]
    try:
        return RawRow(_PARSE[form](content, form, columns), "", raw)
    except UnicodeDecodeError as error:
        return RawRow(None, f"not UTF-8: byte 0x{content[error.start]:02x}", raw)
    except (ValueError, TypeError) as error:
        return RawRow(None, str(error), raw)


def _read_parquet(file: io.BufferedReader, span: RowSpan, columns: list[str]) -> list[RawRow]:
    opened = _parquet(file)
    sizes = [opened.metadata.row_group(group).num_rows for group in range(opened.metadata.num_row_groups)]
    starts = list(itertools.accumulate(sizes, initial=0))
    groups = [g for g, size in enumerate(sizes) if starts[g] < span.first + span.rows and span.first < starts[g] + size]
    if not groups:
        return []
    try:
        table = opened.read_row_groups(groups, columns=columns).slice(span.first - starts[groups[0]], span.rows)
    except ValueError as error:
        raise FileError(reason_of(error)) from error
    try:
        return [RawRow(values, "", "") for values in table.to_pylist()]
    except UnicodeDecodeError:
        return [_read_row(table, row) for row in range(table.num_rows)]


def _read_row(table: Any, row: int) -> RawRow:
    try:
        return RawRow({name: table[name][row].as_py() for name in table.column_names}, "", "")
    except UnicodeDecodeError as error:
        return RawRow(None, f"not UTF-8: {error.reason}", "")
