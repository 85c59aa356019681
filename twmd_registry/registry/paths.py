"""The user's data folder, with fitted mean vectors, presets and cached hashes, and atomic writing of files."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from twmd_registry.errors import FileError


def home() -> Path:
    """Return ``$TWMD_HOME``, or ``twmd_registry`` in ``$XDG_DATA_HOME`` or ``~/.local/share``.

    A user without a home folder, as in a container, has no files; writing one raises FileError.
    """
    if chosen := os.environ.get("TWMD_HOME"):
        return Path(chosen)
    if data := os.environ.get("XDG_DATA_HOME"):
        return Path(data) / "twmd_registry"
    try:
        return Path.home() / ".local" / "share" / "twmd_registry"
    except RuntimeError:
        return Path(os.devnull) / "twmd_registry"


def is_there(name: str | Path) -> bool:
    """Return whether a file or folder exists; False for an invalid name (too long, with NUL)."""
    return os.path.exists(name)  # noqa: PTH110 (Path's method raises for such a name)


def read_secret(file: Path, what: str) -> str:
    """Read a secret from a file; errors never show it. Raise FileError if the file cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise FileError(f"cannot read {what} {file}: {error.strerror}.") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file through a temporary file next to it, so no reader sees a partial file; raise OSError.

    A link stays a link, and an existing file keeps its permissions. If several threads, processes or machines write,
    the last one wins.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        partial.write_bytes(content)
        if path.exists():
            shutil.copymode(path, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, with its folder if missing; raise FileError if that fails."""
    try:
        write_atomically(path, content)
    except (OSError, ValueError) as error:  # ValueError: a name with NUL
        raise FileError(f"cannot write {path!s:.200}: {getattr(error, 'strerror', None) or error}.") from error
