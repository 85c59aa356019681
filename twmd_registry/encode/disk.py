"""`DiskCache`: encoded texts for later processes, in safetensors files of a bounded total size."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from twmd_registry.errors import warn
from twmd_registry.registry.paths import home, write_atomically
from twmd_registry.version import __version__

if TYPE_CHECKING:  # they import torch, which listing and clearing the cache need not
    from twmd_registry.encode.encoder import Encoder
    from twmd_registry.encode.store import CachedText, TextKey

SHARD_BYTES, SHARES = 32_000_000, 8
"""The largest shard, in bytes and as a part of the bound: eviction must not empty the cache."""
WAIT_SECONDS = 60.0
"""Longest wait for the lock; another process writes a shard in a fraction of a second."""
VERSIONS = ["6", __version__, *map(version, ("torch", "transformers", "tokenizers"))]
"""Those of the shard's format and of software: what rounding depends on beside model and device."""
DAMAGED = (SafetensorError, ValueError, TypeError, KeyError)
"""Errors that reading a damaged file raises."""


def cache_folder() -> Path:
    """Return the folder of the cache."""
    return home() / "cache"


class DiskCache:
    """Keeps encoded texts between processes, during a single call of a scorer.

    A shard is a safetensors file, named by the hash of its content, and never changes. Its texts are named by the hash
    of everything that vectors depend on: text, model, layers, limit, kind of device, and versions of the libraries.
    Writers hold a lock; readers need none. If the bound is reached, the least recently used shards are removed, but
    none that this call has used: a loop over more texts than fit would remove each just before its next use. Texts are
    not written; their token ids are.

    Scoring continues after every failure, with a warning: a damaged shard is removed and its texts are encoded again; a
    folder that cannot be used is ignored for the rest of the call.
    """

    def __init__(self, encoder: Encoder, most_bytes: int) -> None:
        """Begin a call with a bound of bytes for all shards together; nothing is read or written yet."""
        self._root, self._most_bytes, self._since, self._usable = cache_folder(), most_bytes, time.time(), True
        parts = (f"{encoder.files.name}@{encoder.files.fingerprint}", encoder.adapter, encoder.dtype)
        self._model, self._device = " ".join(part for part in parts if part), encoder.device.type

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Return the texts that are cached."""
        cached: dict[TextKey, CachedText] = {}
        missing, damaged = {self._name(key): key for key in keys}, 0
        with self._usable_folder():
            for path, _ in _shards(self._root) if self._usable else ():
                try:
                    if here := missing.keys() & _describe(path)[1].keys():
                        texts = _unpack(path, here)
                        os.utime(path, (now := time.time(), now))  # the kernel's own time may lag behind `_since`
                        cached |= {missing.pop(name): texts[name] for name in here}
                except FileNotFoundError:  # another process has removed it
                    continue
                except DAMAGED:
                    path.unlink(missing_ok=True)
                    damaged += 1
        if damaged:
            warn(f"disk cache: {damaged} damaged file(s) in {self._root} are removed; their texts are encoded again.")
        return cached

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Write texts, as far as the bound allows."""
        part: dict[str, CachedText] = {}
        most_bytes, size = min(SHARD_BYTES, self._most_bytes // SHARES), 0
        with self._usable_folder():
            for key, text in texts.items() if self._usable else ():
                text_bytes = text[0].nbytes + 3 * text[1].ids.nbytes + 200  # of names and facts
                if part and size + text_bytes > most_bytes:
                    self._write(part)
                    part, size = {}, 0
                part[self._name(key)] = text
                size += text_bytes
            if part:
                self._write(part)

    @contextmanager
    def _usable_folder(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._usable = False
            warn(f"disk cache: {self._root} cannot be used ({error}); scoring continues without it.")

    def _name(self, key: TextKey) -> str:
        return _hash(json.dumps([VERSIONS, self._device, *key]).encode())

    def _write(self, texts: Mapping[str, CachedText]) -> None:
        """Write a shard, and remove the least recently used ones that it needs the room of."""
        content = _pack(texts, self._model)
        self._root.mkdir(parents=True, exist_ok=True)
        with FileLock(self._root / "lock", timeout=WAIT_SECONDS):
            for path in self._root.glob("*.part"):  # left by a writer that died, as this process holds the lock
                path.unlink(missing_ok=True)
            shards = sorted((status.st_mtime, status.st_size, path) for path, status in _shards(self._root))
            excess = sum(size for _, size, _ in shards) + len(content) - self._most_bytes
            old = [(size, path) for used, size, path in shards if used < self._since]
            if excess > sum(size for size, _ in old):
                return
            for size, path in old:
                if excess > 0:
                    path.unlink(missing_ok=True)
                    excess -= size
            write_atomically(self._root / f"{_hash(content)}.safetensors", content)


def list_models(root: Path) -> list[dict[str, Any]]:
    """Return the name of every model, the largest first, with its cached ``texts``, ``shards`` and ``bytes``, and when
    it was last ``used`` (seconds since 1970); damaged files are skipped.
    """
    uses: dict[str, dict[str, Any]] = {}
    for path, status in _shards(root):
        try:
            model, names = _describe(path)
        except (FileNotFoundError, *DAMAGED):
            continue
        use = uses.setdefault(model, {"model": model, "texts": 0, "shards": 0, "bytes": 0, "used": 0.0})
        use["texts"] += len(names)
        use["shards"] += 1
        use["bytes"] += status.st_size
        use["used"] = max(use["used"], status.st_mtime)
    return sorted(uses.values(), key=lambda use: -use["bytes"])


def clear(root: Path, models: Sequence[str]) -> None:
    """Remove the shards of some models, named as by `list_models`, and every damaged shard."""
    if not root.is_dir():
        return
    with FileLock(root / "lock", timeout=WAIT_SECONDS):
        for path, _ in _shards(root):
            with suppress(*DAMAGED):
                if _describe(path)[0] not in models:
                    continue
            path.unlink(missing_ok=True)


def _shards(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in root.glob("*.safetensors"):
        with suppress(FileNotFoundError):
            yield path, path.stat()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _pack(texts: Mapping[str, CachedText], model: str) -> bytes:
    """Return the content of a shard: the arrays of all texts, one after the other, and the rest as JSON."""
    every, tokens = zip(*texts.values(), strict=True)
    sides = [np.concatenate(side) for side in list(zip(*tokens, strict=True))[:3]]
    facts = [[name, len(text.ids), *text[3:]] for name, text in zip(texts, tokens, strict=True)]
    arrays = {"vectors": np.concatenate(every, axis=1), "ids": np.stack(sides)}
    return save(arrays, {"twmd": json.dumps([model, facts])})


@functools.lru_cache(maxsize=4096)
def _describe(path: Path) -> tuple[str, dict[str, list[Any]]]:
    """Return a shard's model, and what is known of its texts beside arrays, by their names."""
    with safe_open(path, framework="np") as file:
        model, facts = json.loads(file.metadata()["twmd"])
        return model, {name: about for name, *about in facts}


def _unpack(path: Path, names: Set[str]) -> dict[str, CachedText]:
    """Return texts of a shard by their names; raises one of `DAMAGED` for another content than it is named by."""
    from twmd_registry.tensors import TextTokens

    content, facts = path.read_bytes(), _describe(path)[1]
    if _hash(content) != path.stem:
        raise ValueError(f"{path} is damaged")
    texts: dict[str, CachedText] = {}
    arrays, end = load(content), 0
    for name, (length, empty, truncated, unknown, missing) in facts.items():
        start, end = end, end + length
        if name in names:  # copies, so that a text does not keep the others in memory
            special, ids, codes = arrays["ids"][:, start:end].copy()
            tokens = TextTokens(special.astype(np.uint8), ids, codes, empty, truncated, unknown, tuple(missing))
            texts[name] = arrays["vectors"][:, start:end].copy(), tokens
    return texts
