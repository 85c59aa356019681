"""Shards: files that hold encoded texts, each with a checksum of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from twmd_registry.encode.cache import CachedText

ARRAYS = ("vectors", "special", "ids")
"""Of a shard, the texts one after the other: shapes (layers, T, D), (T,), (T,)."""
ENTRIES = "entries"
"""Of a shard, what it holds: JSON as bytes. An index that is lost is built again from it."""
MODEL = "model"
"""In a shard's metadata, for people: whose vectors these are."""


class ShardEntry(NamedTuple):
    """Where a text is in its shard, and what no array of it says.

    Attributes:
        key: Hash of everything it depends on.
        start: The first of its tokens among those of the shard.
        tokens: Number of its tokens.
        flags: Empty, truncated and unknown, as the bits 1, 2 and 4.
        missing: What the vocabulary does not hold of it, as a JSON list.
        checksum: SHA-256 of everything there is of it, its key included.
    """

    key: str
    start: int
    tokens: int
    flags: int
    missing: str
    checksum: str


class PackedShard(NamedTuple):
    """A shard that is not written yet: the content of its file, and what it holds."""

    content: bytes
    entries: list[ShardEntry]


class ShardHeader(NamedTuple):
    """What a file says it holds.

    Attributes:
        model: Whose vectors these are.
        layers: How many hidden states of every text.
        entries: What it holds.
    """

    model: str
    layers: int
    entries: list[ShardEntry]


def pack(texts: Mapping[str, CachedText], model: str) -> PackedShard:
    """Put texts into one shard.

    Args:
        texts: By their keys, at least one; all with the same layers and width.
        model: Whose vectors these are.

    Returns:
        The shard.
    """
    entries, start = [], 0
    for key, text in texts.items():
        flags = text.empty + 2 * text.truncated + 4 * text.unknown
        entries.append(ShardEntry(key, start, len(text.ids), flags, json.dumps(text.missing), checksum(key, text)))
        start += len(text.ids)
    rows = list(texts.values())
    arrays = {
        "vectors": np.concatenate([text.vectors for text in rows], axis=1),  # (layers, T, D)
        "special": np.concatenate([text.special for text in rows]),
        "ids": np.concatenate([text.ids for text in rows]),
        ENTRIES: np.frombuffer(json.dumps(entries).encode(), dtype=np.uint8),
    }
    return PackedShard(save(arrays, {MODEL: model}), entries)


def packed_bytes(texts: Mapping[str, CachedText], model: str) -> int:
    """At least as many bytes as a shard of these texts takes."""
    return sum(map(text_bytes, texts.values())) + 1024 + 12 * len(model)  # JSON writes a character in 12 bytes at most


def text_bytes(text: CachedText) -> int:
    """At least as many bytes as a text adds to a shard."""
    # Of its entry: two hashes of 64 digits, three numbers, quotes and commas; and JSON that is a string of JSON.
    return text.vectors.nbytes + text.special.nbytes + text.ids.nbytes + 256 + 2 * len(json.dumps(text.missing))


def read_entries(path: Path) -> ShardHeader | None:
    """What a shard says it holds; None where it is gone or damaged."""
    try:
        with safe_open(path, framework="np") as file:
            entries = [ShardEntry(*row) for row in json.loads(file.get_tensor(ENTRIES).tobytes())]
            model, layers = file.metadata()[MODEL], file.get_slice(ARRAYS[0]).get_shape()[0]
    except (FileNotFoundError, SafetensorError, ValueError, TypeError, KeyError):
        return None
    sound = all([*map(type, entry)] == [str, int, int, int, str, str] and max(entry[1:4]) < 1 << 62 for entry in entries)
    return ShardHeader(model, layers, entries) if sound else None


def read_texts(path: Path, entries: Sequence[ShardEntry]) -> dict[str, CachedText] | None:
    """Read texts out of a shard, and of the file no more than they take (it is mapped into memory).

    Returns:
        The texts by their keys; None where the file is gone, damaged, or does not hold exactly these.
    """
    try:
        with safe_open(path, framework="np") as file:
            arrays = [file.get_slice(name) for name in ARRAYS]
            texts = {entry.key: _read_text(arrays, entry) for entry in entries}
    except (FileNotFoundError, SafetensorError, ValueError, TypeError, OverflowError):
        return None
    return texts if all(checksum(entry.key, texts[entry.key]) == entry.checksum for entry in entries) else None


def _read_text(arrays: Sequence[Any], entry: ShardEntry) -> CachedText:
    (layers, _, width), span = arrays[0].get_shape(), slice(entry.start, entry.start + entry.tokens)
    if entry.tokens:
        vectors, special, ids = arrays[0][:, span], arrays[1][span], arrays[2][span]
    else:  # safetensors refuses a slice that begins where the array ends
        vectors, special, ids = np.zeros((layers, 0, width), np.float32), np.zeros(0, np.uint8), np.zeros(0, np.int64)
    empty, truncated, unknown = (bool(entry.flags & bit) for bit in (1, 2, 4))
    return CachedText(vectors, special, ids, empty, truncated, unknown, tuple(json.loads(entry.missing)))


def checksum(key: str, text: CachedText) -> str:
    """SHA-256 of a text: what it depends on, what it is, and the shape it has."""
    arrays = text.vectors, text.special, text.ids
    about = [key, *((array.shape, array.dtype.str) for array in arrays), *map(bool, text[3:6]), text.missing]
    digest = hashlib.sha256(json.dumps(about).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
