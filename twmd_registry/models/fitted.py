"""Small files of fitted values, named by their content and found by hash or path."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from twmd_registry.errors import ModelError
from twmd_registry.registry.hashes import LENGTH
from twmd_registry.registry.options import LocalFiles
from twmd_registry.registry.paths import home, is_there, write_file


class FittedKind(NamedTuple):
    """A kind of fitted file: its name in messages; the folder, stem and suffix of its files; its option."""

    what: str
    folder: str
    stem: str
    suffix: str
    key: str

    @property
    def home(self) -> Path:
        """Folder of files that the user has fitted."""
        return home() / self.folder

    @property
    def packaged(self) -> Path:
        """Folder of packaged files."""
        return Path(str(resources.files("twmd_registry"))) / "data" / self.folder

    def name(self, digest: str) -> str:
        """Return the file name for a hash."""
        return f"{self.stem}-{digest}{self.suffix}"


def sha256_of(content: bytes) -> str:
    """Return the full hash of content."""
    return hashlib.sha256(content).hexdigest()


def hash_of(content: bytes) -> str:
    """Return the first digits of a content's hash, which identify it."""
    return sha256_of(content)[:LENGTH]


class FittedFile(NamedTuple):
    """A fitted file that is not yet written: its kind and content."""

    kind: FittedKind
    content: bytes

    @property
    def hash(self) -> str:
        """First digits of the content's hash, as in signatures."""
        return hash_of(self.content)

    def save(self, path: str | Path | None = None) -> Path:
        """Write the file atomically.

        Args:
            path: The file, if it has the suffix of such files; otherwise a folder, where the file is named by its hash.
                None for the folder in which ``background:HASH``, ``idf=background:HASH`` and ``baseline=HASH`` are
                found.

        Returns:
            The path of the file, which is a value of the key.

        Raises:
            FileError: It cannot be written.
        """
        place = self.kind.home if path is None else Path(path)
        if place.suffix != self.kind.suffix:
            place /= self.kind.name(self.hash)
        write_file(place, self.content)
        return place


def save(kind: FittedKind, content: bytes, folder: Path) -> Path:
    """Write content to a folder, like `FittedFile.save`."""
    return FittedFile(kind, content).save(folder / kind.name(hash_of(content)))


def locate(kind: FittedKind, name: str, digest: Callable[[bytes], str] = hash_of) -> Path:
    """Find a file by its hash (packaged, in the user's folder, in the working folder) or by its path.

    Raises:
        ModelError: The file is missing, or its content does not match its name.
    """
    if not re.fullmatch(rf"[0-9a-f]{{{LENGTH}}}", name):
        with suppress(OSError, ValueError):  # too long for a name, or with NUL
            if Path(name).is_file():
                return Path(name)
        hint = " (two of them, HASH+HASH, are for against=source or both)" if "+" in name else ""
        raise ModelError(f"{kind.what} {name!r} is neither a file nor a hash of {LENGTH} hexadecimal digits{hint}.")
    for folder in (kind.packaged, kind.home, Path()):
        path = folder / kind.name(name)
        if is_there(path):
            if digest(path.read_bytes()) != name:
                raise ModelError(f"{path.name} does not have the content in its name: it was changed or damaged.")
            return path
    put = f"put {kind.name(name)} into {kind.home}"
    raise ModelError(f"{kind.what} {name} is not on this machine: {put}, or locate it with --part {kind.key}=FILE.")


Content = TypeVar("Content")


class FittedPart(NamedTuple, Generic[Content]):
    """Fitted values read from a file, the file's sha256, and the file's notes on their origin."""

    content: Content
    sha256: str
    about: dict[str, Any]

    @property
    def hash(self) -> str:
        """First digits of `sha256`, as in signatures."""
        return self.sha256[:LENGTH]


def find_signed(
    find: Callable[[str], FittedPart[Content]], signed: str | None, local_files: LocalFiles | None, kind: FittedKind
) -> FittedPart[Content] | None:
    """Find a file by its name in the specification (None without one), or at the user's path for a signature.

    Raises:
        ModelError: The file is missing or does not have the signed content.
    """
    path = getattr(local_files, kind.key) if local_files else None
    if local_files is None or signed is None or path is None:
        return None if signed is None else find(signed)
    try:
        part = find(path)
        if part.hash == signed:
            return part
        content = part.hash
        problem = ModelError(f"{path} contains the {kind.what} {content}, not {signed} as requested.")
    except ModelError as error:  # it may belong to another specification, with another model
        content, problem = hash_of(Path(path).read_bytes()) if Path(path).is_file() else "", error
    if content in local_files.signed - {signed}:
        return find(signed)
    raise problem
