"""`DiskCache`: encoded texts for later processes, in safetensors files of a bounded total size."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

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
FORMAT = "5"
"""The version of the shard's format."""
DAMAGED = (SafetensorError, ValueError, TypeError, KeyError)
"""Errors that reading a damaged file raises."""

T = TypeVar("T")


class ModelUse(NamedTuple):
    """The cached texts of a model: its name, texts, shards, bytes, and when it was last used (seconds since 1970)."""

    model: str
    texts: int
    shards: int
    bytes: int
    used: float


def cache_folder() -> Path:
    """Return the folder of the cache."""
    return home() / "cache"


class DiskCache:
    """Keeps encoded texts between processes, during a single call of a scorer.

    A shard is a safetensors file, named by its texts. Its folder is named by everything else that vectors depend on:
    the model's content, layers, reading mode, kind of device, and versions of the libraries. Shards never change.
    Writers hold a lock; readers need none. If the bound is reached, the least recently used shards are removed, but
    none that this call has used: a loop over more texts than fit would remove each just before its next use. Texts are
    not written; their token ids are.

    Scoring continues after every failure, with a warning: a damaged shard is removed and its texts are encoded again; a
    folder that cannot be used is ignored for the rest of the call.
    """

    def __init__(self, encoder: Encoder, most_bytes: int) -> None:
        """Begin a call with a bound of bytes for all shards together; nothing is read or written yet."""
        self._root, self._most_bytes, self._since = cache_folder(), most_bytes, time.time()
        parts = (f"{encoder.files.name}@{encoder.files.fingerprint}", encoder.adapter, encoder.dtype)
        self._model, self._made_with = " ".join(part for part in parts if part), _versions(encoder)
        self._usable = True

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Return the texts that are cached."""
        return self._attempt(lambda: self._find(keys), {})

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Write texts, as far as the bound allows."""
        self._attempt(lambda: self._keep(texts), None)

    def _attempt(self, work: Callable[[], T], otherwise: T) -> T:
        if self._usable:
            try:
                return work()
            except OSError as error:
                self._usable = False
                warn(f"disk cache: {self._root} cannot be used ({error}); scoring goes on without it.")
        return otherwise

    def _by_folder(self, keys: Sequence[TextKey]) -> dict[Path, dict[str, TextKey]]:
        """Group texts by the folder of their shards, and name each by its hash."""
        folders: dict[Path, dict[str, TextKey]] = {}
        for key in keys:
            folder = self._root / _hash(json.dumps([self._made_with, *key[:-1]]))[:16]
            folders.setdefault(folder, {})[_hash(key[-1])] = key
        return folders

    def _find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        found: dict[TextKey, CachedText] = {}
        damaged = 0
        for folder, named in self._by_folder(keys).items():
            for path in folder.glob("*.safetensors"):
                try:
                    texts = _read(path, named.keys())
                    if texts:
                        os.utime(path, (now := time.time(), now))  # the kernel's own time may lag behind `_since`
                    found |= {named[name]: text for name, text in texts.items()}
                except FileNotFoundError:  # another process has removed it
                    continue
                except DAMAGED:
                    path.unlink(missing_ok=True)
                    damaged += 1
        if damaged:
            warn(f"disk cache: {damaged} damaged file(s) in {self._root} are removed; their texts are encoded again.")
        return found

    def _keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        most_bytes = min(SHARD_BYTES, self._most_bytes // SHARES)
        for folder, named in self._by_folder(list(texts)).items():
            for part in _split({name: texts[key] for name, key in named.items()}, most_bytes):
                content = _pack(part, self._model)
                path = folder / f"{_hash(' '.join(sorted(part)))[:32]}.safetensors"
                folder.mkdir(parents=True, exist_ok=True)
                with FileLock(self._root / "lock", timeout=WAIT_SECONDS):
                    if not path.exists():  # another process may have written it
                        if not self._make_room(len(content)):
                            return
                        write_atomically(path, content)

    def _make_room(self, size: int) -> bool:
        """Remove the least recently used shards; return False, and remove none, if that is not enough."""
        for path in self._root.glob("*/*.part"):  # left by a writer that died, as this process holds the lock
            path.unlink(missing_ok=True)
        shards = sorted((status.st_mtime, status.st_size, path) for path, status in _shards(self._root))
        excess, removed = sum(own for _, own, _ in shards) + size - self._most_bytes, []
        for used, own, path in shards:
            if excess > 0 and used < self._since:
                removed.append(path)
                excess -= own
        for path in removed if excess <= 0 else ():
            path.unlink(missing_ok=True)
        return excess <= 0


def list_models(root: Path) -> list[ModelUse]:
    """Return the cached texts by model, the largest first; damaged files are skipped."""
    uses: dict[str, ModelUse] = {}
    for path, status in _shards(root):
        try:
            model, texts = _model(path), len(_texts(path, status.st_ino))
        except (FileNotFoundError, *DAMAGED):
            continue
        old = uses.get(model, ModelUse(model, 0, 0, 0, 0.0))
        size, used = old.bytes + status.st_size, max(old.used, status.st_mtime)
        uses[model] = ModelUse(model, old.texts + texts, old.shards + 1, size, used)
    return sorted(uses.values(), key=lambda use: -use.bytes)


def clear(root: Path, models: Sequence[str]) -> None:
    """Remove the shards of some models, named as by `list_models`, and every damaged shard."""
    if not root.is_dir():
        return
    with FileLock(root / "lock", timeout=WAIT_SECONDS):
        for path, _ in _shards(root):
            try:
                remove = _model(path) in models
            except DAMAGED:
                remove = True
            if remove:
                path.unlink(missing_ok=True)


def _shards(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in root.glob("*/*.safetensors"):
        try:
            yield path, path.stat()
        except FileNotFoundError:
            continue


def _versions(encoder: Encoder) -> list[str]:
    """Return what rounding depends on beside model and text."""
    import tokenizers
    import torch
    import transformers

    libraries = [module.__version__ for module in (torch, transformers, tokenizers)]
    return [FORMAT, __version__, *libraries, encoder.device.type]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _split(texts: dict[str, CachedText], most_bytes: int) -> Iterator[dict[str, CachedText]]:
    """Yield as many texts together as fit into a shard, in their order; a larger text is alone."""
    part: dict[str, CachedText] = {}
    size = 0
    for key, (vectors, tokens) in texts.items():
        own = vectors.nbytes + 3 * tokens.ids.nbytes + 600  # of JSON
        if part and size + own > most_bytes:
            yield part
            part, size = {}, 0
        part[key] = vectors, tokens
        size += own
    if part:
        yield part


def _pack(texts: Mapping[str, CachedText], model: str) -> bytes:
    """Return the content of a shard: per text, vectors, token ids with special tokens, and the rest as JSON bytes."""
    arrays: dict[str, np.ndarray] = {}
    for key, text in texts.items():
        vectors, tokens = text
        facts = json.dumps([_checksum(key, text), *tokens[3:]]).encode()
        arrays[f"{key}.vectors"], arrays[f"{key}.facts"] = vectors, np.frombuffer(facts, dtype=np.uint8)
        arrays[f"{key}.ids"] = np.stack([tokens.special, tokens.ids, tokens.codes])
    return save(arrays, {"model": model})


@functools.lru_cache(maxsize=4096)
def _texts(path: Path, _inode: int) -> frozenset[str]:
    """Return the hashes of a shard's texts; a replaced file has another inode."""
    with safe_open(path, framework="np") as file:
        return frozenset(name.partition(".")[0] for name in file.keys())  # noqa: SIM118 (it is no dictionary)


def _model(path: Path) -> str:
    with safe_open(path, framework="np") as file:
        return str(file.metadata()["model"])


def _read(path: Path, keys: Set[str]) -> dict[str, CachedText]:
    """Read texts from a shard, and only their bytes; raises one of `DAMAGED` for a wrong checksum."""
    from twmd_registry.tensors import TextTokens

    texts: dict[str, CachedText] = {}
    wanted = keys & _texts(path, path.stat().st_ino)
    if wanted:
        with safe_open(path, framework="np") as file:
            for key in wanted:
                vectors, tokens, content = (file.get_tensor(f"{key}.{name}") for name in ("vectors", "ids", "facts"))
                checksum, empty, truncated, unknown, missing = json.loads(content.tobytes())
                special, ids, codes = tokens
                facts = (empty, truncated, unknown, tuple(missing))
                text = vectors, TextTokens(special.astype(np.uint8), ids, codes, *facts)
                if _checksum(key, text) != checksum:
                    raise ValueError(f"{path}: checksum")
                texts[key] = text
    return texts


def _checksum(key: str, text: CachedText) -> str:
    """Return the SHA-256 of everything that is known of a text."""
    vectors, tokens = text
    arrays, facts = (vectors, tokens.special, tokens.ids, tokens.codes), tokens[3:]
    digest = hashlib.sha256(json.dumps([key, *((array.shape, array.dtype.str) for array in arrays), *facts]).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
