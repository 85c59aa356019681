"""Where data sets are read and scores are written: local paths, and URLs through fsspec (``s3://``, ``hf://``)."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, MissingExtraError
from twmd_registry.registry.paths import write_whole

LOCK = ".lock"
"""The file by which a run holds its output folder."""
_BUFFER = 1 << 20
_VERSIONS = ("ETag", "etag", "blob_id", "mtime", "LastModified", "last_modified", "created")
"""What file systems call that which changes with a file's content."""


class ListedFile(NamedTuple):
    """A file as its file system lists it.

    Attributes:
        url: Its full name.
        size: Bytes.
        version: Its checksum or time of change, as text.
    """

    url: str
    size: int
    version: str


def _resolve(url: str) -> tuple[Any, str]:
    """The file system of a path or URL, and its path there.

    Raises:
        MissingExtraError: The file system needs a package.
        FileError: There is no such protocol.
    """
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingExtraError(f"{url}: {error}") from error
    except ValueError as error:
        raise FileError(f"{url}: {error}.") from error
    return fs, str(path)


def reason_of(error: Exception) -> str:
    """What went wrong, in one line: of an error of the operating system, without its number."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return lines[0].removesuffix(".") if lines else type(error).__name__


def find(pattern: str) -> list[ListedFile]:
    """The files of a path, a pattern, or a folder with everything below it, sorted by name.

    In a folder, names that begin with a dot or an underscore are passed over: they are other programs' notes.

    Raises:
        FileError: There is none, or it cannot be listed.
        MissingExtraError: As for `_resolve`.
    """
    fs, path = _resolve(pattern)
    try:
        if fs.isdir(path):
            names = [name for name in fs.find(path) if not _is_note(name.removeprefix(path))]
        else:
            names = fs.glob(path) if any(sign in path for sign in "*?[") and not fs.exists(path) else [path]
        found = [describe(fs, name) for name in sorted(names) if fs.isfile(name) or name == path]
    except OSError as error:
        raise FileError(f"cannot read {pattern}: {reason_of(error)}.") from error
    if not found:
        raise FileError(f"{pattern} names no file.")
    return found


def _is_note(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.strip("/").split("/"))


def describe(fs: Any, path: str) -> ListedFile:
    """A file as its file system lists it.

    Raises:
        OSError: There is none.
    """
    about = fs.info(path)
    version = next((str(about[name]) for name in _VERSIONS if about.get(name) is not None), "")
    url = path if _is_local(fs) else str(fs.unstrip_protocol(path))
    return ListedFile(url, int(about.get("size") or 0), version)


def look_up(url: str) -> ListedFile:
    """A file as its file system lists it now.

    Raises:
        FileError: There is none, or it cannot be listed.
    """
    fs, path = _resolve(url)
    try:
        return describe(fs, path)
    except OSError as error:
        raise FileError(f"cannot read {url}: {reason_of(error)}.") from error


def _is_local(fs: Any) -> bool:
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


@contextlib.contextmanager
def open_binary(url: str) -> Iterator[io.BufferedReader]:
    """Open a file for reading; what goes wrong while it is read names the file.

    Raises:
        FileError: It cannot be opened or read.
    """
    fs, path = _resolve(url)
    try:
        with fs.open(path, "rb") as raw, io.BufferedReader(raw, _BUFFER) as file:
            yield file
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {url}: {reason_of(error)}.") from error


class OutputFolder:
    """An output folder: files are written whole or not at all."""

    def __init__(self, url: str) -> None:
        """Find its file system; nothing is made yet.

        Args:
            url: A path or URL; every worker must see the same folder under it.
        """
        self._fs, self._path = _resolve(url)
        self.local = _is_local(self._fs)
        self.url = self._path if self.local else url

    def names(self) -> set[str]:
        """The names of its files, without the lock.

        Raises:
            FileError: It cannot be listed, or is none.
        """
        try:
            if not self._fs.exists(self._path):
                return set()
            isdir = self._fs.isdir(self._path)
            found = self._fs.ls(self._path, detail=False, refresh=True) if isdir else ()
        except OSError as error:
            raise FileError(f"cannot read {self.url}: {reason_of(error)}.") from error
        if not isdir:
            raise FileError(f"{self.url} is a file: give a folder.")
        return {str(name).rstrip("/").rpartition("/")[2] for name in found} - {LOCK, ""}

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            FileError: It cannot be read.
        """
        try:
            return bytes(self._fs.cat_file(f"{self._path}/{name}"))
        except OSError as error:
            raise FileError(f"cannot read {self.url}/{name}: {reason_of(error)}.") from error

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return bool(self._fs.isfile(f"{self._path}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Write a file: locally through another name and a rename; an object store shows an object when it is there whole.

        Raises:
            FileError: It cannot be written; says how to go on.
        """
        try:
            if self.local:
                write_whole(Path(self._path) / name, content)
            else:
                self._fs.pipe_file(f"{self._path}/{name}", content)
        except OSError as error:
            raise FileError(
                f"cannot write {self.url}/{name}: {reason_of(error)}. Finished parts are kept: make room, and go on by --resume."
            ) from error

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder, so that no second run writes into it.

        A local folder is held by a lock of the operating system, which ends with the process, however it ends. An object store has none: there
        the lock is an object, and one that a dead run left behind is taken away by hand.

        Raises:
            FileError: Another run holds it, or it cannot be written.
        """
        if self.local:
            with self._lock_here():
                yield
            return
        mine = {"host": platform.node(), "pid": os.getpid()}
        try:
            self._fs.pipe_file(f"{self._path}/{LOCK}", json.dumps(mine).encode(), mode="create")
        except FileExistsError as error:
            holder = json.loads(self.read(LOCK))
            raise FileError(
                f"{self.url} is in use by process {holder['pid']} on {holder['host']}: one run at a time. If that run is gone, delete {LOCK} in it."
            ) from error
        except OSError as error:
            raise FileError(f"cannot write {self.url}: {reason_of(error)}.") from error
        try:
            yield
        finally:
            self.remove(LOCK)

    @contextlib.contextmanager
    def _lock_here(self) -> Iterator[None]:
        import filelock

        try:
            Path(self._path).mkdir(parents=True, exist_ok=True)
            held = filelock.FileLock(Path(self._path) / LOCK, blocking=False)
            held.acquire()
        except filelock.Timeout as error:
            raise FileError(f"{self.url} is in use by another run: wait for it, or give another output folder.") from error
        except OSError as error:
            raise FileError(f"cannot write {self.url}: {reason_of(error)}.") from error
        try:
            yield
        finally:
            held.release()
