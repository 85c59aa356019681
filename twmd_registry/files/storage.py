"""Files on the file systems of pyarrow and fsspec: local ones, S3, GCS, Azure, HDFS and more."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, MissingExtraError
from twmd_registry.files.compressed import PACKED
from twmd_registry.files.tables import TABLE_SUFFIXES, form_of
from twmd_registry.messages import listed, warn

_SHOWN = 5
"""Skipped files to name."""


class StoredFile(NamedTuple):
    """A file.

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


def list_tables(inputs: Sequence[str]) -> list[StoredFile]:
    """Return the tables of every path, pattern or folder, sorted by name within each; warn about other files there."""
    found, others = list[StoredFile](), list[str]()
    for pattern in inputs:
        files = _find_files(pattern)
        tables = [file for file in files if form_of(file.path) in TABLE_SUFFIXES]
        if not tables:
            suffixes = f"{', '.join(TABLE_SUFFIXES)}, optionally followed by {' or '.join(PACKED)}"
            raise FileError(f"{pattern}: the name of an input file must end in one of {suffixes}.")
        found += tables
        others += [file.name for file in files if file not in tables]
    for path, times in Counter(file.path for file in found).items():
        if times > 1:
            raise FileError(f"{path} is named {times} times: name it once.")
    if others:
        warn(f"skipped files whose names do not end like a table's: {listed(others, _SHOWN)}.")
    return found


def _find_files(pattern: str) -> list[StoredFile]:
    """Return the files of a path, pattern or folder, without ``.*`` and ``_*`` below it, sorted by name."""
    from fsspec.implementations.arrow import ArrowFSWrapper

    filesystem, path = find_filesystem(pattern)
    fs, root = ArrowFSWrapper(filesystem), path
    try:
        names = fs.find(path)
        if not names:
            names, root = fs.glob(path), re.split(r"[*?[]", path)[0].rpartition("/")[0]
        visible = sorted(name for name in names if not re.search(r"(^|/)[._]", name[len(root) :]))
        about = {name: info for name in visible if (info := fs.info(name))["type"] == "file"}
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {pattern}: {str(error).splitlines()[0].removesuffix('.')}.") from error
    if not about:
        raise FileError(f"{pattern} matches no file.")
    scheme = pattern[: pattern.find("://") + 3] if "://" in pattern else ""
    return [
        StoredFile(filesystem, name, scheme + name, int(info.get("size") or 0), str(info.get("mtime") or ""))
        for name, info in about.items()
    ]
