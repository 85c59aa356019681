"""The identity of a model: a hash over the files that decide its output."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from twmd_registry.errors import ModelError
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_SHA256, MULTILINGUAL_MODEL, MULTILINGUAL_SHA256
from twmd_registry.registry.paths import home, write_atomically

SHARD_INDEX = "model.safetensors.index.json"
LENGTH = 12
"""Hexadecimal digits of a shown hash: 48 bits distinguish all public models."""

_SLOW_TOKENIZER = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "tokenizer.model",
)
_ADDED_TOKENS = ("added_tokens.json", "special_tokens_map.json")


_CACHE = "hashes.json"
"""Under `home`: path to [size, mtime_ns, sha256]."""
_WORTH_KEEPING = 1 << 20
"""The hash of a file from this size in bytes on is cached."""
_remembered: dict[str, list[int | str]] = {}
_reread: ContextVar[set[str] | None] = ContextVar("reread", default=None)
"""The files that the current `reread` has read; None outside of it."""


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file; raises ModelError if it cannot be read.

    A large file is read again only when its size or time has changed; a file in the Hub's cache is not read at all when
    its name there is its sha256. Under `reread` every file is read, once.
    """
    try:
        real = path.resolve()
        status = real.stat()
        stamp: list[int | str] = [status.st_size, status.st_mtime_ns]
        fresh = _reread.get()
        if fresh is None and real.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", real.name):
            return real.name
        if fresh is None or str(real) in fresh:
            for table in (_remembered, {} if status.st_size < _WORTH_KEEPING else _kept()):
                known = table.get(str(real))
                if isinstance(known, list) and known[:-1] == stamp and re.fullmatch(r"[0-9a-f]{64}", str(known[-1])):
                    return str(known[-1])
        with real.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path.name}: {error.strerror}.") from error
    _remembered[str(real)] = [*stamp, found]
    if fresh is not None:
        fresh.add(str(real))
    if status.st_size >= _WORTH_KEEPING:
        _keep(str(real), [*stamp, found])
    return found


@contextlib.contextmanager
def reread() -> Iterator[None]:
    """Trust no cached hash: for verification, where a file may have changed with the same size and time."""
    token = _reread.set(set())
    try:
        yield
    finally:
        _reread.reset(token)


def _kept() -> dict[str, Any]:
    """Read the hashes of earlier processes; a damaged file counts as empty."""
    try:
        table = json.loads((home() / _CACHE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _keep(path: str, entry: list[int | str]) -> None:
    """Keep a hash for later processes and drop those of deleted files. A home that cannot be written is no error."""
    table = {known: value for known, value in _kept().items() if Path(known).is_file()} | {path: entry}
    with contextlib.suppress(OSError):
        write_atomically(home() / _CACHE, json.dumps(table, indent=1).encode())


def weight_files(folder: Path) -> list[Path]:
    """List the safetensors files of a model folder: one, or the index (ModelError if it is none) and all shards."""
    index = folder / SHARD_INDEX
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        return []
    try:
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return [index, *sorted({folder / Path(str(shard)).name for shard in shards})]
    except (ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"{index.name} is not an index of safetensors shards.") from error


def tokenizer_files(folder: Path) -> list[Path]:
    """List the files of a folder's tokenizer: ``tokenizer.json``, or without one the older vocabulary files.

    Older vocabularies come with added and special tokens in files of their own. Files for certain versions of
    transformers, as ``tokenizer.4.0.json``, come first (ModelError if one is named and not there); the library reads
    the one that fits its own version.
    """
    versioned = _versioned_tokenizers(folder)
    fast = folder / "tokenizer.json"
    if fast.is_file():
        return [*versioned, fast]
    vocabulary = [folder / name for name in _SLOW_TOKENIZER if (folder / name).is_file()]
    added = [folder / name for name in _ADDED_TOKENS if (folder / name).is_file()]
    return [*versioned, *vocabulary, *added] if vocabulary else versioned


def _versioned_tokenizers(folder: Path) -> list[Path]:
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []  # none, or a broken one, which the library reports when it loads it
    listed = settings.get("fast_tokenizer_files") if isinstance(settings, dict) else None
    names = sorted(set(map(str, listed)) - {"tokenizer.json"}) if isinstance(listed, list) else []
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise ModelError(
                f"tokenizer_config.json names {name!r} in fast_tokenizer_files, but the model's folder holds no such "
                "file: fetch the model again, or remove that entry."
            )
    return [folder / name for name in names]


def model_files(folder: Path) -> list[Path]:
    """List the files that decide a model's output: weights, configuration, tokenizer.

    The fingerprint covers these files, and a model is loaded from nothing else (`twmd_registry.models.files.isolate`).
    Where there is a ``tokenizer.json`` the older vocabulary files beside it are left out, so that a partial Hub
    download and a whole copy agree.
    """
    settings = [folder / "config.json", folder / "tokenizer_config.json"]
    return [*weight_files(folder), *(path for path in settings if path.is_file()), *tokenizer_files(folder)]


def fingerprint(folder: Path) -> str:
    """Return the first `LENGTH` hexadecimal digits of the sha256 over the names and sha256 of `model_files`."""
    return digest({path.name: sha256_of(path) for path in model_files(folder)})


def known_name(model: str) -> str:
    """Return the public name of a model folder with known weights; else the given name."""
    weights = Path(model) / "model.safetensors"
    known = {EMBEDDED_SHA256: EMBEDDED_MODEL, MULTILINGUAL_SHA256: MULTILINGUAL_MODEL}
    return known.get(sha256_of(weights), model) if weights.is_file() else model


def digest(content: dict[str, str]) -> str:
    """Hash a table of names and hashes; the order of the table does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:LENGTH]
