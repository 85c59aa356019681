"""Read files compressed by gzip or xz, with a bound on their unpacked size."""

from __future__ import annotations

import gzip
import io
import lzma
import math
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from twmd_registry.errors import FileError

PACKED = (".gz", ".xz")
LONGEST_LINE = 1 << 23
PARQUET = b"PAR1"
_PIECE = 1 << 20
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
MAX_UNPACKED, MAX_RATIO = 1 << 28, 100
"""Limits of a compressed file: bytes when unpacked, or multiple of its size, whichever is larger."""


def is_packed(content: bytes) -> bool:
    """Return whether content is compressed by gzip or xz."""
    return content.startswith((_GZIP, _XZ))


def open_unpacked(file: io.BufferedReader) -> io.BufferedIOBase:
    """Return the unpacked content of a newly opened file; its first bytes reveal gzip and xz."""
    first = file.peek(len(_XZ))
    if first.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file)
    return lzma.LZMAFile(file) if first.startswith(_XZ) else file


def read_whole(name: object, opened: Callable[[], AbstractContextManager[Any]], max_bytes: float = math.inf) -> bytes:
    """Read a file to its end.

    Raises:
        FileError: The file cannot be read or unpacked, has a line that is too long for text, or unpacks to more than
            `max_bytes`. Reading stops before the memory is full.
    """
    content, line, is_text, problem = io.BytesIO(), 0, True, ""  # BytesIO returns its bytes without a copy
    try:
        with opened() as file:
            while not problem and (piece := file.read(_PIECE)):
                if not content.tell():
                    is_text = not piece.startswith((_GZIP, _XZ, PARQUET))
                content.write(piece)
                line = len(piece) - 1 - piece.rfind(b"\n") + (0 if b"\n" in piece else line)
                if content.tell() > max_bytes:
                    problem = f" unpacks to more than {max_bytes:,} bytes, far more than its size: unpack it yourself"
                elif is_text and line > LONGEST_LINE:
                    hint = "; write its array as JSON lines (jq -c '.[]')" if content.getvalue()[:1] == b"[" else ""
                    problem = f" has a line of more than {LONGEST_LINE:,} bytes: it is not text{hint}"
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise FileError(f"{name} is compressed and cannot be unpacked ({error}): was it cut off?") from error
    except (OSError, ValueError) as error:  # ValueError: a name with NUL
        raise FileError(f"{name!s:.200}: {getattr(error, 'strerror', None) or error}.") from error
    if problem:
        raise FileError(f"{name}{problem}.")
    return content.getvalue()


def unpack(name: object, content: bytes) -> bytes:
    """Unpack gzip or xz; return other content unchanged. Raises FileError like `read_whole`."""
    if not is_packed(content):
        return content
    max_bytes = max(MAX_UNPACKED, MAX_RATIO * len(content))
    return read_whole(name, lambda: open_unpacked(io.BufferedReader(io.BytesIO(content))), max_bytes)


def read_content(path: Path) -> bytes:
    """Read a file's unpacked bytes; raise FileError like `read_whole`."""
    return unpack(path, read_whole(path, lambda: path.open("rb")))
