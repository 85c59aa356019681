"""The plan: the rows that are scored together; input files and output folders, local or at URLs, through fsspec."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, MissingExtraError, SpecError, TwmdError
from twmd_registry.files.compressed import PACKED, open_unpacked
from twmd_registry.files.tables import (
    SAY_QUOTED,
    STREAMED_SUFFIXES,
    Columns,
    OpenTable,
    TableRow,
    check_quoted,
    form_of,
    seems_quoted,
)
from twmd_registry.messages import warn
from twmd_registry.registry.paths import write_atomically

LOCK = ".lock"
"""The lock file of an output folder."""
_BUFFER = 1 << 20
_VERSIONS = ("ETag", "etag", "blob_id", "mtime", "LastModified", "last_modified", "created")
"""Names of properties that change with a file's content, in different file systems."""


class FileVersion(NamedTuple):
    """A file as it was found; `version` is its checksum or time of change as text."""

    url: str
    size: int
    version: str


def _resolve(url: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and its path there."""
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingExtraError(f"{url}: {error}") from error
    except ValueError as error:
        raise FileError(f"{url}: {error}.") from error
    return fs, str(path)


@contextlib.contextmanager
def _file_errors(task: str, hint: str = "") -> Iterator[None]:
    """Turn errors of files into a `FileError` of a single line, from `task` to `hint`."""
    try:
        yield
    except TwmdError:
        raise
    except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
        lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
        reason = lines[0].removesuffix(".") if lines else type(error).__name__
        if isinstance(error, FileNotFoundError):
            reason = "there is no such file"
        raise FileError(f"{task}: {reason}.{hint}") from error


def find_files(pattern: str) -> list[FileVersion]:
    """Return the files of a path, a pattern or a folder (but for ``.*`` and ``_*`` in it), sorted by name."""
    fs, path = _resolve(pattern)
    with _file_errors(f"cannot read {pattern}"):
        if fs.isdir(path):
            below = {name: name.removeprefix(path).strip("/").split("/") for name in fs.find(path)}
            names = [name for name, parts in below.items() if not any(part.startswith((".", "_")) for part in parts)]
        else:
            is_pattern = any(sign in path for sign in "*?[") and not fs.exists(path)
            found = fs.glob(path) if is_pattern else [path]
            hidden = is_pattern and not path.rpartition("/")[2].startswith(".")  # as in a shell
            names = [name for name in found if not (hidden and name.rpartition("/")[2].startswith("."))]
        files = [_describe(fs, name) for name in sorted(names) if fs.isfile(name) or name == path]
    if not files:
        raise FileError(f"{pattern} names no file.")
    return files


def _describe(fs: Any, path: str) -> FileVersion:
    about = fs.info(path)
    version = next((str(about[name]) for name in _VERSIONS if about.get(name) is not None), "")
    url = path if _is_local(fs) else str(fs.unstrip_protocol(path))
    return FileVersion(url, int(about.get("size") or 0), version)


def _is_local(fs: Any) -> bool:
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


@contextlib.contextmanager
def open_table(url: str, version: FileVersion | None = None, *, quoted_tsv: bool = False) -> Iterator[OpenTable]:
    """Open a file with columns, decompressed; refuse one that has changed since it was listed as `version`."""
    fs, path = _resolve(url)
    with _file_errors(f"cannot read {url}"):
        if version is not None and _describe(fs, path) != version:
            raise FileError(f"{url} has changed since its rows were counted: give an empty output folder.")
        with fs.open(path, "rb") as raw, io.BufferedReader(raw, _BUFFER) as file:
            # By its name: reading the first bytes would fetch a block from an object store for every part.
            content = open_unpacked(file) if url.lower().endswith(PACKED) else file
            yield OpenTable(content, form_of(url), quoted_tsv=quoted_tsv)


class OutputFolder:
    """An output folder, at a URL or path that every worker has, whose files are never half-written."""

    def __init__(self, url: str) -> None:
        """Find the file system; nothing is created yet."""
        self._fs, self._path = _resolve(url)
        self.local = _is_local(self._fs)
        self.url = self._path if self.local else url

    def names(self) -> set[str]:
        """Return the names of its files, without the lock."""
        with _file_errors(f"cannot read {self.url}"):
            if not self._fs.exists(self._path):
                return set()
            paths = self._fs.ls(self._path, detail=False, refresh=True)
        return {str(name).rstrip("/").rpartition("/")[2] for name in paths} - {LOCK, ""}

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with _file_errors(f"cannot read {self.url}/{name}"):
            return bytes(self._fs.cat_file(f"{self._path}/{name}"))

    def has(self, name: str) -> bool:
        """Check whether there is a file of that name."""
        return bool(self._fs.isfile(f"{self._path}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Write a file. A local file is written under another name and renamed; object stores write whole objects."""
        hint = " Finished parts are kept: make room, and continue with --resume."
        with _file_errors(f"cannot write {self.url}/{name}", hint):
            if self.local:
                write_atomically(Path(self._path) / name, content)
            else:
                self._fs.pipe_file(f"{self._path}/{name}", content)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder, so that no second run writes into it; the lock of a local folder ends with the process."""
        import filelock

        folder = Path(self._path)
        with contextlib.ExitStack() as held:
            with _file_errors(f"cannot write {self.url}"):
                if self.local:
                    folder.mkdir(parents=True, exist_ok=True)
                try:
                    if self.local:
                        held.enter_context(filelock.FileLock(folder / LOCK, blocking=False))
                    else:
                        self._fs.pipe_file(f"{self._path}/{LOCK}", b"", mode="create")
                        held.callback(self.remove, LOCK)
                except (filelock.Timeout, FileExistsError) as error:
                    hint = "wait for it" if self.local else f"wait for it; if it is gone, delete {LOCK} in the folder"
                    raise FileError(f"{self.url} is in use by another run: {hint}.") from error
            yield


PART_ROWS = 10_000
"""The default number of rows of a part."""
_TRIED = 100
"""Rows of every file that are checked before anything is scored."""
_FORMAT = "twmd-plan"


class InputTable(NamedTuple):
    """A file, its name without the folder that all have in common, and its rows, 0 until they are counted."""

    file: FileVersion
    name: str
    rows: int


class TableSlice(NamedTuple):
    """Rows of a table: the table's number, the first row (from 0), their number, and the first row's byte."""

    table: int
    first: int
    rows: int
    offset: int


@dataclass(frozen=True)
class ScalePlan:
    """Data, metrics and parts of a run.

    Attributes:
        part_rows: Rows of every part but the last: a multiple of every centering batch.
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
        return sum(table.rows for table in self.tables)

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
            prediction, references, quoted_tsv = content["columns"]
            return cls(
                signatures=tuple(content["signatures"]),
                columns=Columns(prediction, tuple(references), quoted_tsv),
                part_rows=content["part_rows"],
                tables=tuple(InputTable(FileVersion(*file), name, rows) for file, name, rows in content["tables"]),
                parts=tuple(tuple(TableSlice(*cut) for cut in part) for part in content["parts"]),
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
        known = [file for file in find_files(given) if form_of(file.url) in STREAMED_SUFFIXES]
        if not known:
            suffixes = f"{', '.join(STREAMED_SUFFIXES)}, and may end in {' or '.join(PACKED)} after that"
            raise FileError(f"{given}: the name of an input file ends in one of {suffixes}.")
        files += known
    for url, times in Counter(file.url for file in files).items():
        if times > 1:
            raise FileError(f"{url} is named {times} times: every row is scored once.")
    folders = [file.url.split("/")[:-1] for file in files]
    same = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    common = "/".join(names[0] for names in same)
    return tuple(InputTable(file, file.url.removeprefix(common).lstrip("/"), 0) for file in files)


def cut_into_parts(plan: ScalePlan) -> ScalePlan:
    """Return a plan with its rows counted and cut into parts; refuse a file of which no first row can be scored."""
    if plan.columns.quoted_tsv:
        check_quoted("--quoted-tsv", [form_of(table.file.url) for table in plan.tables])
    tables: list[InputTable] = []
    parts: list[list[TableSlice]] = []
    total = 0
    for number, table in enumerate(plan.tables):
        rows, borders = 0, list[tuple[int, int]]()
        with open_table(table.file.url, quoted_tsv=plan.columns.quoted_tsv) as opened:
            for offset in opened.offsets():
                if rows == 0 or (total + rows) % plan.part_rows == 0:
                    borders.append((rows, offset))
                rows += 1
            if rows:
                _try_rows(table.file.url, opened, min(rows, _TRIED), borders[0][1], plan.columns)
        for (first, offset), (end, _) in itertools.pairwise([*borders, (rows, 0)]):
            if (total + first) % plan.part_rows == 0:
                parts.append([])
            parts[-1].append(TableSlice(number, first, end - first, offset))
        tables.append(table._replace(rows=rows))
        total += rows
    if not total:
        raise FileError(f"there is nothing to score: no row in {', '.join(table.name for table in tables)}.")
    return replace(plan, tables=tuple(tables), parts=tuple(map(tuple, parts)))


def _try_rows(url: str, opened: OpenTable, rows: int, offset: int, columns: Columns) -> None:
    """Refuse a file if none of its first rows can be scored: then the name of a column is wrong. Warn of quotes."""
    first, tried = "", [values for _, values in opened.read(0, rows, offset, columns.wanted)]
    for values in tried:
        try:
            if not isinstance(values, str):
                TableRow("", values, header=url if opened.header_row else None).segment(columns)
                break
            first = first or values
        except FileError as error:
            first = first or str(error).removeprefix(": ").removesuffix(".")
    else:
        raise FileError(f"{url}: none of its first {rows} rows can be scored; the first: {first}.")
    is_plain = form_of(url) == ".tsv" and not columns.quoted_tsv
    if is_plain and any(seems_quoted(values) for values in tried if not isinstance(values, str)):
        warn(f"{url}: quotes are letters in TSV, and a cell looks quoted: {SAY_QUOTED}.")


def check_same(plan: ScalePlan, requested: ScalePlan) -> None:
    """Refuse to resume by another plan than that of the finished parts; the rows of `requested` are not counted."""
    for what, before, now in (
        ("the metrics", plan.signatures, requested.signatures),
        ("the columns", plan.columns, requested.columns),
        ("the rows of a part", plan.part_rows, requested.part_rows),
        ("the input files", *([table.file for table in either.tables] for either in (plan, requested))),
    ):
        if before != now:
            raise SpecError(f"--resume: {what} are not those of its plan.json: give them, or an empty output folder.")
