"""Content hashes of files, tensors and JSON, and the names of published weights. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import time
from array import array
from collections.abc import Callable, Iterable
from io import BufferedReader, FileIO
from operator import attrgetter, index
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import ModelError, refuse_repeated_keys
from twmd_registry.registry.names import (
    EMBEDDED_MODEL,
    EMBEDDED_WEIGHTS,
    LARGE_MODEL,
    LARGE_WEIGHTS,
    MULTILINGUAL_MODEL,
    MULTILINGUAL_WEIGHTS,
)

SHARD_INDEX = "model.safetensors.index.json"
LENGTH = 12
"""Hexadecimal digits of a hash in signatures."""

_CHUNK = 1 << 20
"""Bytes to read at once."""
_SETTLED = 1_000_000_000
"""Nanoseconds after which every file system gives another change another time."""

_remembered: dict[tuple[str, Any], tuple[tuple[int, ...], Any]] = {}
"""The file's stamp and the function's result, by path and function."""


def stamp_of(file: BufferedReader | FileIO) -> tuple[int, ...]:
    """Return values that change with an open file. Its ctime is set by the system and cannot be set back."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_once(path: Path, read: Callable[[BufferedReader], Any]) -> Any:
    """Return what a function reads from a file; read it again only if the file's stamp has changed.

    Raises:
        ModelError: The file cannot be read, or changes while it is read.
    """
    key = str(path.absolute()), read
    try:
        with path.open("rb") as file:
            stamp = stamp_of(file)
            known, value = _remembered.get(key, ((), None))
            if known == stamp:
                return value
            started = time.time_ns()
            value = read(file)
            is_same = stamp_of(file) == stamp
    except OSError as error:
        raise ModelError(f"cannot read {path.name}: {error.strerror}.") from error
    if not is_same:
        raise ModelError(f"{path.name} was changed while it was read: try again.")
    if started - max(stamp[3:]) > _SETTLED:
        _remembered[key] = stamp, value
    return value


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file's bytes; raise ModelError if it cannot be read."""
    return str(read_once(path, digest_bytes))


def digest_bytes(file: BufferedReader) -> str:
    """Return the sha256 of an open file's bytes."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def forget_hashes() -> None:
    """Read every file again, for verification on systems where a change may leave no trace."""
    _remembered.clear()


def tensors_sha256(paths: Iterable[Path]) -> str:
    """Return the sha256 over names, dtypes, shapes and bytes of all tensors in some safetensors files."""
    files = [read_once(path, _digest_tensors) for path in paths]
    return json_sha256(sorted(tensor for tensors in files for tensor in tensors))


def _digest_tensors(file: BufferedReader) -> list[list[Any]]:
    """Return name, dtype, shape and sha256 of every tensor, or only the file's sha256 if it is incomplete.

    Position numbers that count from 0 are left out: earlier versions of transformers wrote them, and all compute them.
    """
    try:
        tensors = read_header(file)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        file.seek(0)
        return [[digest_bytes(file)]]
    digests = []
    for tensor in tensors:
        file.seek(tensor.start)
        digest, part = hashlib.sha256(), b""
        for place in range(tensor.start, tensor.end, _CHUNK):
            digest.update(part := file.read(min(_CHUNK, tensor.end - place)))
        is_whole = tensor.name.endswith("position_ids") and len(part) == tensor.end - tensor.start
        if not (is_whole and part == array("q", range(len(part) // 8)).tobytes()):
            digests.append([tensor.name, tensor.dtype, tensor.shape, digest.hexdigest()])
    return digests


class TensorEntry(NamedTuple):
    """A tensor in a safetensors file, with the offsets of its first byte and of the byte after its last."""

    name: str
    dtype: str
    shape: list[int]
    start: int
    end: int


def read_header(file: BufferedReader) -> list[TensorEntry]:
    """Return the tensors of a safetensors file, in byte order."""
    size, header = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
    if header > size - 8:
        raise ValueError(header)
    table = json.loads(file.read(header), object_pairs_hook=refuse_repeated_keys)
    table.pop("__metadata__", None)
    tensors = []
    for name, entry in table.items():
        start, end = (8 + header + index(place) for place in entry["data_offsets"])
        tensors.append(TensorEntry(name, str(entry["dtype"]), list(entry["shape"]), start, end))
    tensors.sort(key=attrgetter("start", "end"))
    if [8 + header, *(tensor.end for tensor in tensors)] != [*(tensor.start for tensor in tensors), size]:
        raise ValueError(size)  # some bytes belong to no tensor, or to two
    return tensors


def json_sha256(content: Any) -> str:
    """Return the sha256 of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def parse_json(raw: bytes) -> Any:
    """Parse JSON; raise ValueError for a repeated key."""
    return json.loads(raw, object_pairs_hook=refuse_repeated_keys)


def weight_files(folder: Path) -> list[Path]:
    """List the safetensors files of a model folder: one file or all shards. Raises ModelError for a damaged index."""
    index = folder / SHARD_INDEX
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        return []
    try:
        shards = parse_json(index.read_bytes())["weight_map"].values()
        names = {Path(str(shard)).name for shard in shards}
    except OSError as error:
        raise ModelError(f"cannot read {index}: {error.strerror}.") from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ModelError(f"{index} is not an index of safetensors shards.") from error
    if other := sorted(name for name in names if not name.endswith(".safetensors")):
        raise ModelError(f"{index} lists {other[0]!r}: expected shards that end in .safetensors.")
    return sorted(folder / name for name in names)


def known_name(model: str) -> str:
    """Return the public name of a model folder with known weights, otherwise the argument."""
    known = {EMBEDDED_WEIGHTS: EMBEDDED_MODEL, MULTILINGUAL_WEIGHTS: MULTILINGUAL_MODEL, LARGE_WEIGHTS: LARGE_MODEL}
    weights = weight_files(Path(model)) if os.path.isdir(model) else []  # noqa: PTH112 (Path.is_dir raises for long names)
    return known.get(tensors_sha256(weights), model) if weights else model
