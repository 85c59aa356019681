"""`DiskCache`: encoded texts that come again in another process, in safetensors files and up to a number of bytes."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from twmd_registry.encode.cache import CachedText, TextKey
from twmd_registry.errors import warn
from twmd_registry.registry.paths import home, write_atomically
from twmd_registry.version import __version__

if TYPE_CHECKING:
    from twmd_registry.encode.encoder import Encoder

SHARD_BYTES = 32_000_000
"""Size of a shard: what is written, and given up, at once."""
SHARES = 8
"""A shard takes this part of the bound at most, so that making room does not empty the cache."""
WAIT_SECONDS = 60.0
"""How long a process waits for another one's write; that of one shard takes a fraction of a second."""
FORMAT = "3"
"""Of a shard."""
ARRAYS = ("vectors", "special", "ids")
"""Of a shard, the texts one after the other: shapes (layers, T, D), (T,), (T,)."""
ENTRIES, MODEL = "entries", "model"
"""Of a shard: a list of `_Entry` as JSON in bytes; and in its metadata, for people, whose vectors these are."""
DAMAGED = (SafetensorError, ValueError, TypeError, KeyError, OverflowError)
"""What reading a damaged file raises."""

T = TypeVar("T")


class _Entry(NamedTuple):
    """Where a text is in its shard, and what no array says of it.

    Attributes:
        key: SHA-256 of the text.
        start: The first of its tokens among those of the shard.
        tokens: Number of its tokens.
        flags: Empty, truncated, unknown.
        missing: What the vocabulary does not hold of it.
        checksum: SHA-256 of all of it.
    """

    key: str
    start: int
    tokens: int
    flags: list[bool]
    missing: list[str]
    checksum: str


class ModelUse(NamedTuple):
    """What is kept of one model.

    Attributes:
        model: Its name and content, its adapter if it has one, and its number format.
        texts: How many texts.
        shards: In how many files.
        bytes: The files' sizes.
        used: When one of them was last read or written, in seconds since 1970.
    """

    model: str
    texts: int
    shards: int
    bytes: int
    used: float


def cache_folder() -> Path:
    """Return the folder of encoded texts."""
    return home() / "cache"


class DiskCache:
    """Keeps encoded texts between processes, for one call of a scorer.

    A shard is one safetensors file, named by its texts, in a folder named by everything else that vectors depend on:
    content of the model, layers, how long texts are read, the kind of device, and the versions of the libraries that
    compute them. Shards never change. Writers hold a lock; readers need none. The shards of all models take at most as
    many bytes as the call may use; those that were not used for longest make room, but none that this call has used:
    going round more texts than fit would otherwise remove each just before it is needed again. No text is written, but
    its token ids are.

    Whatever fails, scoring continues: a damaged shard is removed and its texts are encoded again, and a folder that
    cannot be used is left alone for the rest of the call; each with one warning.
    """

    def __init__(self, encoder: Encoder, most_bytes: int, folder: Path | None = None) -> None:
        """Begin a call; nothing is read or written yet.

        Args:
            encoder: Computes the vectors.
            most_bytes: The bound.
            folder: Where texts are kept; None for `cache_folder()`.
        """
        self._root, self._most_bytes, self._since = folder or cache_folder(), most_bytes, time.time()
        self._model, self._made_with = name_of(encoder), _versions(encoder)
        self._usable = True

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Return those of some texts that are kept."""
        return self._attempt(lambda: self._find(keys), {})

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Keep texts, as far as there is room."""
        self._attempt(lambda: self._keep(texts), None)

    def _attempt(self, work: Callable[[], T], otherwise: T) -> T:
        """Do something with the folder; what fails is not tried again in this call."""
        if not self._usable:
            return otherwise
        try:
            return work()
        except OSError as error:
            self._usable = False
            warn(f"disk cache: {self._root} cannot be used ({error}); scoring goes on without it.")
            return otherwise

    def _by_folder(self, keys: Sequence[TextKey]) -> dict[Path, dict[str, TextKey]]:
        """Group texts by the folder of their shards, each by its hash."""
        found: dict[Path, dict[str, TextKey]] = {}
        for key in keys:
            made_with = hashlib.sha256(json.dumps([self._made_with, *key[:-1]]).encode()).hexdigest()[:16]
            found.setdefault(self._root / made_with, {})[_hash(key.text)] = key
        return found

    def _find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        found: dict[TextKey, CachedText] = {}
        damaged = 0
        for folder, named in self._by_folder(keys).items():
            for path in folder.glob("*.safetensors"):
                try:
                    entries = _entries(path, path.stat().st_ino)
                    texts = _read(path, [entries[name] for name in named.keys() & entries.keys()])
                    if texts:
                        os.utime(path)
                except FileNotFoundError:  # another process has made room
                    continue
                except DAMAGED:
                    path.unlink(missing_ok=True)
                    damaged += 1
                    continue
                found |= {named[name]: text for name, text in texts.items()}
        if damaged:
            warn(f"disk cache: {damaged} damaged file(s) in {self._root} are removed; their texts are encoded again.")
        return found

    def _keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        for folder, named in self._by_folder(list(texts)).items():
            for part in _parts(
                {name: texts[key] for name, key in named.items()}, min(SHARD_BYTES, self._most_bytes // SHARES)
            ):
                content = pack(part, self._model)
                path = folder / f"{_hash(' '.join(sorted(part)))[:32]}.safetensors"
                folder.mkdir(parents=True, exist_ok=True)
                with FileLock(self._root / "lock", timeout=WAIT_SECONDS):
                    if path.exists():  # another process was faster
                        continue
                    if not self._make_room(len(content)):
                        return
                    write_atomically(path, content)

    def _make_room(self, size: int) -> bool:
        """Remove the shards that were not used for longest, until there is room; False, and nothing removed, where
        there is not enough.
        """
        for path in self._root.glob("*/*.part"):  # a writer that died has left it: writers hold the lock
            path.unlink(missing_ok=True)
        kept = sorted((about.st_mtime, about.st_size, path) for path, about in _shards(self._root))
        excess, removed = sum(own for _, own, _ in kept) + size - self._most_bytes, []
        for used, own, path in kept:
            if excess > 0 and used < self._since:
                removed.append(path)
                excess -= own
        if excess > 0:
            return False
        for path in removed:
            path.unlink(missing_ok=True)
        return True


def list_models(root: Path) -> list[ModelUse]:
    """Return what is kept, by model, the largest first; damaged files are left out."""
    uses: dict[str, ModelUse] = {}
    for path, about in _shards(root):
        try:
            model, texts = _model(path), len(_entries(path, about.st_ino))
        except (FileNotFoundError, *DAMAGED):
            continue
        old = uses.get(model, ModelUse(model, 0, 0, 0, 0.0))
        uses[model] = ModelUse(
            model, old.texts + texts, old.shards + 1, old.bytes + about.st_size, max(old.used, about.st_mtime)
        )
    return sorted(uses.values(), key=lambda use: -use.bytes)


def clear(root: Path, models: Sequence[str]) -> None:
    """Remove the shards of some models, named as `list_models` does, and every damaged one."""
    if not root.is_dir():
        return
    with FileLock(root / "lock", timeout=WAIT_SECONDS):
        for path, _ in _shards(root):
            try:
                doomed = _model(path) in models
            except DAMAGED:
                doomed = True
            if doomed:
                path.unlink(missing_ok=True)


def _shards(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in root.glob("*/*.safetensors"):
        try:
            yield path, path.stat()
        except FileNotFoundError:
            continue


def name_of(encoder: Encoder) -> str:
    """Return a model as ``twmd cache ls`` shows it: name and content, its adapter if it has one, number format."""
    return " ".join(
        part for part in (f"{encoder.files.name}@{encoder.files.fingerprint}", encoder.adapter, encoder.dtype) if part
    )


def _versions(encoder: Encoder) -> list[str]:
    """Return what vectors depend on beside model and text: another version may round in another way."""
    import tokenizers
    import torch
    import transformers

    return [
        FORMAT,
        __version__,
        torch.__version__,
        transformers.__version__,
        tokenizers.__version__,
        encoder.device.type,
    ]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _parts(texts: dict[str, CachedText], most_bytes: int) -> Iterator[dict[str, CachedText]]:
    """Yield texts in their order, as many together as fit into a shard; one that does not fit is alone."""
    part: dict[str, CachedText] = {}
    size = 0
    for key, text in texts.items():
        own = (
            text.vectors.nbytes + text.special.nbytes + text.ids.nbytes + 256
        )  # an entry: two hashes of 64 digits, numbers, commas
        if part and size + own > most_bytes:
            yield part
            part, size = {}, 0
        part[key] = text
        size += own
    if part:
        yield part


def pack(texts: Mapping[str, CachedText], model: str) -> bytes:
    """Return the content of a shard.

    Args:
        texts: By their hashes, at least one; all with the same layers and width.
        model: Whose vectors these are.
    """
    entries, start = [], 0
    for key, text in texts.items():
        entries.append(
            _Entry(key, start, len(text.ids), list(map(bool, text[3:6])), list(text.missing), _checksum(key, text))
        )
        start += len(text.ids)
    rows = list(texts.values())
    arrays = {
        "vectors": np.concatenate([text.vectors for text in rows], axis=1),  # (layers, T, D)
        "special": np.concatenate([text.special for text in rows]),
        "ids": np.concatenate([text.ids for text in rows]),
        ENTRIES: np.frombuffer(json.dumps(entries).encode(), dtype=np.uint8),
    }
    return save(arrays, {MODEL: model})


@functools.lru_cache(maxsize=4096)
def _entries(path: Path, _inode: int) -> dict[str, _Entry]:
    """Return what a shard says it holds, by the hashes of the texts; a file that took another's place has another
    inode.
    """
    with safe_open(path, framework="np") as file:
        return {row[0]: _Entry(*row) for row in json.loads(file.get_tensor(ENTRIES).tobytes())}


def _model(path: Path) -> str:
    with safe_open(path, framework="np") as file:
        return str(file.metadata()[MODEL])


def _read(path: Path, entries: Sequence[_Entry]) -> dict[str, CachedText]:
    """Read texts from a shard, and of the file no more than they take (it is mapped into memory).

    Raises:
        ValueError: A text is not what was written; any of `DAMAGED`, likewise.
    """
    if not entries:
        return {}
    with safe_open(path, framework="np") as file:
        arrays = [file.get_slice(name) for name in ARRAYS]
        texts = {entry.key: _read_text(arrays, entry) for entry in entries}
    if any(_checksum(entry.key, texts[entry.key]) != entry.checksum for entry in entries):
        raise ValueError(f"{path}: checksum")
    return texts


def _read_text(arrays: Sequence[Any], entry: _Entry) -> CachedText:
    (layers, _, width), span = arrays[0].get_shape(), slice(entry.start, entry.start + entry.tokens)
    if entry.tokens:
        vectors, special, ids = arrays[0][:, span], arrays[1][span], arrays[2][span]
    else:  # safetensors refuses a slice that begins where the array ends
        vectors, special, ids = np.zeros((layers, 0, width), np.float32), np.zeros(0, np.uint8), np.zeros(0, np.int64)
    empty, truncated, unknown = entry.flags
    return CachedText(vectors, special, ids, empty, truncated, unknown, tuple(entry.missing))


def _checksum(key: str, text: CachedText) -> str:
    """Return SHA-256 of a text: what it depends on, what it is, and the shape it has."""
    arrays = text.vectors, text.special, text.ids
    about = [key, *((array.shape, array.dtype.str) for array in arrays), *map(bool, text[3:6]), text.missing]
    digest = hashlib.sha256(json.dumps(about).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
