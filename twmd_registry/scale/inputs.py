"""Input files on any of Ray's file systems, and the rows of text files.

Ray 2.60 reads JSON lines with pandas and CSV with pyarrow. They turn the texts ``007`` and ``2020-01-01`` into a number
and a date, reject a whole file for one bad line, and do not number rows. Text is therefore read by this package's
reader, through Ray's `FileBasedDatasource` (`twmd_registry.scale.reader`). Ray reads Parquet, which has types.
"""

from __future__ import annotations

import codecs
import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, MissingExtraError
from twmd_registry.files.compressed import MAX_UNPACKED, PACKED, open_unpacked, read_whole
from twmd_registry.files.tables import (
    DELIMITERS,
    PARQUET_SUFFIXES,
    SAY_QUOTED,
    TABLE_SUFFIXES,
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

ROW, REJECTED, SUMMARY, PLACE = "row_hash", "rejected", "summary", "place"
"""Columns of the output: a row's unique number, for Ray's checkpoints; why it could not be scored; facts for the
record, in one row per batch; and the folder of rejected rows, which becomes part of the path.
"""
FILE, NUMBER = "input_file", "input_row"
"""Columns of rows from text files: the file, and the row's number in it."""
RESERVED = {ROW, REJECTED, SUMMARY, PLACE, FILE, NUMBER}
REJECTS = "_rejected"
"""The folder of rejected rows in the output folder; readers of Parquet skip names that start with ``_``."""
_BUFFER = 1 << 20
_BLOCK_ROWS = 1000
_TRIED = 100
"""Rows to check in the first file of every format before anything is scored."""
_SHOWN, _SHOWN_FILES = 500, 5
"""Characters of a rejected row to show, and skipped files to name."""


class InputFile(NamedTuple):
    """An input file.

    Attributes:
        filesystem: Its `pyarrow.fs.FileSystem`.
        path: Its path there.
        name: Its path or URL, for messages.
        bytes: Its size.
        version: Its modification time, as text.
    """

    filesystem: Any
    path: str
    name: str
    bytes: int
    version: str


def find_filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a path or URL (pyarrow's, or fsspec's wrapped as such) and the path there."""
    from pyarrow import fs

    if "://" not in url:
        return fs.LocalFileSystem(), os.path.abspath(url)  # noqa: PTH100 (Path would take a name's blanks and dots)
    try:
        found, path = fs.FileSystem.from_uri(url)
    except (ValueError, NotImplementedError, OSError):
        import fsspec

        try:
            other, path = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise MissingExtraError(f"{url}: {error}") from error
        except ValueError as error:
            raise FileError(f"{url}: {error}.") from error
        found = fs.PyFileSystem(fs.FSSpecHandler(other))
    return found, str(path)


def list_files(inputs: Sequence[str]) -> list[InputFile]:
    """Return the tables of every path, pattern or folder, sorted by name within each; warn about other files there."""
    found, others = list[InputFile](), list[str]()
    for pattern in inputs:
        files = _find_files(pattern)
        tables = [file for file in files if form_of(file.path) in TABLE_SUFFIXES]
        if not tables:
            suffixes = f"{', '.join(TABLE_SUFFIXES)}, optionally followed by {' or '.join(PACKED)}"
            raise FileError(f"{pattern}: the name of an input file must end in one of {suffixes}.")
        found += tables
        others += [file.name for file in files if file not in tables]
    for name, times in Counter(file.name for file in found).items():
        if times > 1:
            raise FileError(f"{name} is named {times} times: name it once.")
    if others:
        more = ", ..." if len(others) > _SHOWN_FILES else ""
        warn(f"skipped files whose names do not end like a table's: {', '.join(others[:_SHOWN_FILES])}{more}.")
    return found


def _find_files(pattern: str) -> list[InputFile]:
    """Return the files of a path, pattern or folder (without ``.*`` and ``_*`` in it), sorted by name."""
    from fsspec.implementations.arrow import ArrowFSWrapper

    filesystem, path = find_filesystem(pattern)
    fs = ArrowFSWrapper(filesystem)
    try:
        if fs.isdir(path):
            below = {name: name.removeprefix(path).strip("/").split("/") for name in fs.find(path)}
            names = [name for name, parts in below.items() if not any(part.startswith((".", "_")) for part in parts)]
        else:
            is_pattern = any(sign in path for sign in "*?[") and not fs.exists(path)
            names = [name for name in (fs.glob(path) if is_pattern else [path]) if fs.isfile(name) or name == path]
            if is_pattern and not path.rpartition("/")[2].startswith("."):  # as in a shell
                names = [name for name in names if not name.rpartition("/")[2].startswith(".")]
        about = {name: fs.info(name) for name in sorted(names)}
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such file" if missing else str(error).splitlines()[0].removesuffix(".")
        raise FileError(f"cannot read {pattern}: {reason}.") from error
    if not about:
        raise FileError(f"{pattern} matches no file.")
    start = pattern.partition("://")[0] + "://" if "://" in pattern and not pattern.startswith("file://") else ""
    return [
        InputFile(filesystem, name, start + name, int(info.get("size") or 0), str(info.get("mtime") or ""))
        for name, info in about.items()
    ]


def check_first_rows(files: Sequence[InputFile], columns: Columns) -> None:
    """Refuse a format if none of the first rows of its first file can be scored, because a column's name is probably
    wrong. Warn about quotes in TSV.
    """
    if columns.quoted_tsv:
        check_quoted("--quoted-tsv", map(form_of, (file.path for file in files)))
    for file in {form_of(file.path): file for file in reversed(files)}.values():
        first, number, form = "", 0, form_of(file.path)
        with _opened(file) as opened:
            for raw, values in itertools.islice(_records(opened, file.path, columns), _TRIED):
                number += 1
                found = check_row(values, columns, raw, file.name if form in DELIMITERS else None)
                if isinstance(values, dict) and form == ".tsv" and not columns.quoted_tsv and seems_quoted(values):
                    warn(f"{file.name}: quotes are ordinary characters in TSV, but a cell looks quoted: {SAY_QUOTED}.")
                    break
                if not isinstance(found, str):
                    break
                first = first or found
            else:
                if number:
                    raise FileError(f"{file.name}: none of its first {number} rows can be scored; the first: {first}.")


def _opened(file: InputFile) -> Any:
    try:
        return file.filesystem.open_input_file(file.path)
    except OSError as error:
        raise FileError(f"cannot read {file.name}: {error.strerror or error}.") from error


def check_row(
    values: Values, columns: Columns, raw: bytes = b"", header: str | None = None
) -> tuple[str, list[str]] | str:
    """Return a row's prediction and references, or why it cannot be scored, with the row.

    `header` names a file of delimited text, where an empty cell is a missing text.
    """
    try:
        if isinstance(values, str):
            reason = values
        elif taken := sorted(RESERVED & values.keys()):
            reason = f"{taken[0]!r} is the name of a column of the output: rename this one"
        else:
            return TableRow("", values, header=header).segment(columns)
    except FileError as error:
        reason = str(error).removeprefix(f"{header or ''}: ").removeprefix(": ").removesuffix(".")
    shown = raw.decode("utf-8", "replace").strip("\r\n") or json.dumps(values, default=str, ensure_ascii=False)
    return _writable(f"{reason}; the row: {shown[:_SHOWN]}")


def read_blocks(file: Any, path: str, columns: Columns) -> Iterator[Any]:
    """Yield the rows of a text file, open as `pyarrow.NativeFile`, as tables with typed columns.

    References are lists of texts. All other columns are texts, or JSON for values that are not texts. `FILE` and
    `NUMBER` (from 0) locate a row. `REJECTED` has the reason why a row cannot be scored.
    """
    name = path.rpartition("/")[2]
    seed = int.from_bytes(sha256(path.encode()).digest()[:8], "little")
    header = name if form_of(path) in DELIMITERS else None
    records = enumerate(_records(file, path, columns))
    while block := list(itertools.islice(records, _BLOCK_ROWS)):
        rows = []
        for number, (raw, values) in block:
            found = check_row(values, columns, raw, header)
            here = {FILE: name, NUMBER: number}
            if isinstance(found, str):
                rows.append(here | {REJECTED: f"{name}, row {number + 1}: {found}"})
            else:
                rows.append(here | _typed(values, columns))  # type: ignore[arg-type]
            rows[-1][ROW] = (seed + number) % (1 << 64)
        yield _table(rows, columns)


def _records(file: Any, path: str, columns: Columns) -> Iterator[tuple[bytes, Values]]:
    """Yield a file's rows: bytes (none for Parquet and arrays), and values or the reason why there are none."""
    form, name = form_of(path), path.rpartition("/")[2]
    try:
        buffered = io.BufferedReader(file, _BUFFER)
        opened: Any = open_unpacked(buffered)
        if form == ".json":
            start = opened.peek(_BUFFER).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
            form = ".jsonl"
            if start == b"[":
                content = read_whole(name, lambda: nullcontext(opened), MAX_UNPACKED)
                yield from ((b"", values) for values in read_array(name, content.decode("utf-8-sig")) or ())
                return
        for raw, values in OpenTable(opened, form, quoted_tsv=columns.quoted_tsv).records():
            if values is not None:
                yield raw, values
    except FileError:
        raise
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0].removesuffix(".")
        raise FileError(f"cannot read {path}: {reason}.") from error


def _typed(values: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """Convert a row's values to the types of their columns."""
    references = columns.references or USUAL_REFERENCES
    row = dict[str, Any]()
    for name, value in values.items():
        if name in references and value is not None:
            one = (name,) if len(columns.references) < 2 else ()
            cells = TableRow("", values).reference_cells(one) if one else value
            row[name] = cells if isinstance(cells, list) else [cells]
        elif isinstance(value, str) or value is None:
            row[name] = value if value is None else _writable(value)
        else:
            row[name] = _writable(json.dumps(value, ensure_ascii=False))
    return row


def _writable(text: str) -> str:
    """Escape lone surrogates, which JSON can hold and Arrow cannot."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _table(rows: Sequence[dict[str, Any]], columns: Columns) -> Any:
    import pyarrow as pa

    lists = dict.fromkeys(columns.references or USUAL_REFERENCES, pa.list_(pa.string()))
    types = {columns.prediction: pa.string(), **lists, NUMBER: pa.int64(), ROW: pa.uint64(), REJECTED: pa.string()}
    names = dict.fromkeys((*(name for row in rows for name in row), ROW, REJECTED))
    return pa.table({name: pa.array([row.get(name) for row in rows], types.get(name, pa.string())) for name in names})


def short_names(files: Sequence[InputFile]) -> list[str]:
    """Return the names of files without their common folder."""
    folders = [Path(file.path).parent.parts for file in files]
    common = len(list(itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))))
    return ["/".join(Path(file.path).parts[common:]) for file in files]


def is_parquet(file: InputFile) -> bool:
    """Return whether Ray reads a file with its own reader."""
    return form_of(file.path) in PARQUET_SUFFIXES
