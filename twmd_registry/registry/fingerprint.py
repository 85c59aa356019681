"""The identity of a model: a hash over the files that decide its output."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from twmd_registry.errors import ModelError
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_SHA256, MULTILINGUAL_MODEL, MULTILINGUAL_SHA256

SHARD_INDEX = "model.safetensors.index.json"
LENGTH = 12
"""Hexadecimal digits of a shown hash."""

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
_remembered: dict[str, tuple[int, int, str]] = {}
"""Path to size, mtime_ns and sha256."""
_trusted: ContextVar[bool] = ContextVar("trusted", default=True)
"""Whether a name in the Hub's cache stands in for the content; not inside `reread`."""


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file; raises ModelError if it cannot be read.

    A file is read again when its size or time has changed; one in the Hub's cache that is called by it is not read.
    """
    try:
        real = path.resolve()
        status = real.stat()
        if _trusted.get() and real.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", real.name):
            return real.name
        *stamp, known = _remembered.get(str(real), (None, None, ""))
        if stamp == [status.st_size, status.st_mtime_ns]:
            return known
        with real.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path.name}: {error.strerror}.") from error
    _remembered[str(real)] = (status.st_size, status.st_mtime_ns, digest)
    return digest


@contextlib.contextmanager
def reread() -> Iterator[None]:
    """Read every file once more: for verification, where a file may have changed with the same size and time."""
    token = _trusted.set(False)
    _remembered.clear()
    try:
        yield
    finally:
        _trusted.reset(token)


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
    """List a folder's tokenizer files: ``tokenizer.json``, or else the older vocabulary, and tokens added to it."""
    if (folder / "tokenizer.json").is_file():
        return [folder / "tokenizer.json"]
    vocabulary = [folder / name for name in _SLOW_TOKENIZER if (folder / name).is_file()]
    added = [folder / name for name in _ADDED_TOKENS if (folder / name).is_file()]
    return [*vocabulary, *added] if vocabulary else []


def model_files(folder: Path) -> list[Path]:
    """List the files that decide a model's output: the fingerprint covers them, and it is loaded from nothing else."""
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
