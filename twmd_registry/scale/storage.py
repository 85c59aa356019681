"""Input files and output folders, local or at URLs (``s3://``, ``hf://``), through fsspec."""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import os
import platform
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twmd_registry.errors import FileError, MissingExtraError, TwmdError
from twmd_registry.judgments.reader import PACKED, OpenTable, form_of, open_unpacked
from twmd_registry.registry.paths import write_atomically

LOCK = ".lock"
"""The lock file of an output folder."""
_BUFFER = 1 << 20
_VERSIONS = ("ETag", "etag", "blob_id", "mtime", "LastModified", "last_modified", "created")
"""Names of properties that change with a file's content, in different file systems."""

FileVersion = tuple[str, int, str]
"""The URL of a file, its bytes, and its checksum or time of change as text."""


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
    """Return the files of a path, a pattern, or a folder with everything below it, sorted by name.

    In a folder, names that begin with a dot or an underscore are skipped.
    """
    fs, path = _resolve(pattern)
    with _file_errors(f"cannot read {pattern}"):
        if fs.isdir(path):
            below = {name: name.removeprefix(path).strip("/").split("/") for name in fs.find(path)}
            names = [name for name, parts in below.items() if not any(part.startswith((".", "_")) for part in parts)]
        else:
            names = fs.glob(path) if any(sign in path for sign in "*?[") and not fs.exists(path) else [path]
        files = [_describe(fs, name) for name in sorted(names) if fs.isfile(name) or name == path]
    if not files:
        raise FileError(f"{pattern} names no file.")
    return files


def _describe(fs: Any, path: str) -> FileVersion:
    about = fs.info(path)
    version = next((str(about[name]) for name in _VERSIONS if about.get(name) is not None), "")
    return path if _is_local(fs) else str(fs.unstrip_protocol(path)), int(about.get("size") or 0), version


def _is_local(fs: Any) -> bool:
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


@contextlib.contextmanager
def open_table(url: str, version: FileVersion | None = None) -> Iterator[OpenTable]:
    """Open a file with columns, decompressed; errors while it is open name the file.

    With a `version`, the file as it was listed when its rows were counted, a file that has changed since is refused.
    """
    fs, path = _resolve(url)
    with _file_errors(f"cannot read {url}"):
        if version is not None and _describe(fs, path) != version:
            raise FileError(f"{url} has changed since its rows were counted: give an empty output folder.")
        with fs.open(path, "rb") as raw, io.BufferedReader(raw, _BUFFER) as file:
            # By its name: reading the first bytes would fetch a block from an object store for every part.
            yield OpenTable(open_unpacked(file) if url.lower().endswith(PACKED) else file, form_of(url))


class OutputFolder:
    """An output folder whose files are never half-written.

    Methods raise `FileError` if it cannot be read or written. Its `url`, or path, must be valid for every worker.
    """

    def __init__(self, url: str) -> None:
        """Find the file system; nothing is created yet."""
        self._fs, self._path = _resolve(url)
        self.local = _is_local(self._fs)
        self.url = self._path if self.local else url

    def names(self) -> set[str]:
        """Return the names of its files, without the lock; refuse a file."""
        with _file_errors(f"cannot read {self.url}"):
            if not self._fs.exists(self._path):
                return set()
            if not self._fs.isdir(self._path):
                raise FileError(f"{self.url} is a file: give a folder.")
            found = self._fs.ls(self._path, detail=False, refresh=True)
        return {str(name).rstrip("/").rpartition("/")[2] for name in found} - {LOCK, ""}

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
        """Lock the folder, so that no second run writes into it.

        The lock of a local folder is the operating system's, which ends with the process. In an object store the lock
        is an object, which a user has to remove if the run was killed.
        """
        with contextlib.ExitStack() as held:
            with _file_errors(f"cannot write {self.url}"):
                if self.local:
                    self._lock_locally(held)
                else:
                    self._lock_object(held)
            yield

    def _lock_locally(self, held: contextlib.ExitStack) -> None:
        import filelock

        Path(self._path).mkdir(parents=True, exist_ok=True)
        try:
            held.enter_context(filelock.FileLock(Path(self._path) / LOCK, blocking=False))
        except filelock.Timeout as error:
            raise FileError(
                f"{self.url} is in use by another run: wait for it, or give another output folder."
            ) from error

    def _lock_object(self, held: contextlib.ExitStack) -> None:
        own = {"host": platform.node(), "pid": os.getpid()}
        try:
            self._fs.pipe_file(f"{self._path}/{LOCK}", json.dumps(own).encode(), mode="create")
        except FileExistsError as error:
            other = json.loads(self.read(LOCK))
            user = f"process {other['pid']} on {other['host']}"
            hint = f"one run at a time. If that run is gone, delete {LOCK} in it"
            raise FileError(f"{self.url} is in use by {user}: {hint}.") from error
        held.callback(self.remove, LOCK)
