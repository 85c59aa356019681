"""The rows of text files as Arrow tables, in which a bad row does not end a file."""

from __future__ import annotations

import codecs
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from hashlib import sha256
from typing import Any

from twmd_registry.errors import FileError
from twmd_registry.files.compressed import MAX_UNPACKED, open_unpacked, read_whole
from twmd_registry.files.storage import StoredFile
from twmd_registry.files.tables import (
    DELIMITERS,
    SAY_QUOTED,
    USUAL_REFERENCES,
    Columns,
    OpenTable,
    TableRow,
    Values,
    check_quoted,
    form_of,
    read_array,
    seems_quoted,
)
from twmd_registry.messages import warn

FILE, NUMBER, ROW, REJECTED = "input_file", "input_row", "row_hash", "rejected"
"""Columns that are added: the file, the row's number in it, a number that no row of another file has, and why the row
cannot be scored.
"""
ADDED = {FILE, NUMBER, ROW, REJECTED}
_BUFFER = 1 << 20
_BLOCK_ROWS = 1000
_TRIED = 100
"""Rows to check in the first file of every format before anything is scored."""
_SHOWN = 500
"""Characters of a rejected row to show."""
THE_ROW = "; the row: "
"""Parts the reason why a row cannot be scored from the row."""


def check_first_rows(files: Sequence[StoredFile], columns: Columns) -> None:
    """Refuse a format if none of the first rows of its first file can be scored, because a column's name is probably
    wrong. Warn about quotes in TSV.
    """
    if columns.quoted_tsv:
        check_quoted("--quoted-tsv", map(form_of, (file.path for file in files)))
    for file in {form_of(file.path): file for file in reversed(files)}.values():
        try:
            opened = file.filesystem.open_input_file(file.path)
        except OSError as error:
            raise FileError(f"cannot read {file.name}: {error.strerror or error}.") from error
        with opened:
            records = list(itertools.islice(_records(opened, file.path, columns), _TRIED))
        header = file.name if form_of(file.path) in DELIMITERS else None
        found = [check_row(values, columns, raw, header) for raw, values in records]
        if found and all(isinstance(reason, str) for reason in found):
            raise FileError(f"{file.name}: none of its first {len(found)} rows can be scored; the first: {found[0]}.")
        rows = [values for _, values in records if isinstance(values, dict)]
        if form_of(file.path) == ".tsv" and not columns.quoted_tsv and any(map(seems_quoted, rows)):
            warn(f"{file.name}: quotes are ordinary characters in TSV, but a cell looks quoted: {SAY_QUOTED}.")


def check_row(
    values: Values, columns: Columns, raw: bytes = b"", header: str | None = None
) -> tuple[str, list[str]] | str:
    """Return a row's prediction and references, or why it cannot be scored, with the row.

    `header` names a file of delimited text, where an empty cell is a missing text.
    """
    try:
        if isinstance(values, str):
            reason = values
        elif names := sorted(values.keys() & ADDED):
            reason = f"{names[0]!r} is the name of a column of the output: rename this one"
        else:
            return TableRow("", values, header=header).segment(columns)
    except FileError as error:
        reason = str(error).removeprefix(f"{header or ''}: ").removeprefix(": ").removesuffix(".")
    shown = raw.decode("utf-8", "replace").strip("\r\n") or json.dumps(values, default=str, ensure_ascii=False)
    return _writable(f"{reason}{THE_ROW}{shown[:_SHOWN]}")


def read_blocks(file: Any, path: str, columns: Columns) -> Iterator[Any]:
    """Yield the rows of a text file, open as `pyarrow.NativeFile`, as tables with typed columns.

    References are lists of texts. All other columns are texts, or JSON for values that are not texts. `FILE` and
    `NUMBER` (from 0) locate a row. `REJECTED` has the reason why a row cannot be scored.
    """
    import pyarrow as pa

    name = path.rpartition("/")[2]
    seed = int.from_bytes(sha256(path.encode()).digest()[:8], "little")
    header = name if form_of(path) in DELIMITERS else None
    lists = dict.fromkeys(columns.references or USUAL_REFERENCES, pa.list_(pa.string()))
    types = lists | {NUMBER: pa.int64(), ROW: pa.uint64()}
    records = enumerate(_records(file, path, columns))
    while block := list(itertools.islice(records, _BLOCK_ROWS)):
        rows = []
        for number, (raw, values) in block:
            found = check_row(values, columns, raw, header)
            row = {FILE: name, NUMBER: number, ROW: (seed + number) % (1 << 64), REJECTED: None}
            if isinstance(values, str) or isinstance(found, str):
                row[REJECTED] = f"{name}, row {number + 1}: {found}"
            else:
                row |= _typed(values, columns)
            rows.append(row)
        names = dict.fromkeys(name for row in rows for name in row)
        yield pa.table(
            {name: pa.array([row.get(name) for row in rows], types.get(name, pa.string())) for name in names}
        )


def _records(file: Any, path: str, columns: Columns) -> Iterator[tuple[bytes, Values]]:
    """Yield a file's rows: bytes (none for Parquet and arrays), and values or the reason why there are none."""
    form, name = form_of(path), path.rpartition("/")[2]
    try:
        opened: Any = open_unpacked(io.BufferedReader(file, _BUFFER))
        if form == ".json":
            form = ".jsonl"
            if opened.peek(_BUFFER).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[":
                content = read_whole(name, lambda: nullcontext(opened), MAX_UNPACKED)
                yield from ((b"", values) for values in read_array(name, content.decode("utf-8-sig")) or ())
                return
        for raw, values in OpenTable(opened, form, quoted_tsv=columns.quoted_tsv).records():
            if values is not None:
                yield raw, values
    except FileError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise FileError(f"cannot read {path}: {str(error).splitlines()[0].removesuffix('.')}.") from error


def _typed(values: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """Convert a row's values to the types of their columns."""
    row = dict[str, Any]()
    for name, value in values.items():
        if value is None:
            row[name] = None
        elif name in (columns.references or USUAL_REFERENCES):
            cells = value if len(columns.references) > 1 else TableRow("", values).reference_cells((name,))
            row[name] = cells if isinstance(cells, list) else [cells]
        else:
            row[name] = _writable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return row


def _writable(text: str) -> str:
    """Escape lone surrogates, which JSON allows but Arrow does not."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
