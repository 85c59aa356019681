"""What a model *is*: a hash over the files that decide its output."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path

from twmd_registry.errors import ModelError
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_SHA256

LENGTH = 12
"""Hexadecimal digits of a hash that are shown: 48 bits, enough to tell any two models of the world apart."""

_SLOW_TOKENIZER = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")


@functools.lru_cache(maxsize=256)
def _sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read again only when its size or time has changed.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        status = path.stat()
        return _sha256(path.resolve(), status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise ModelError(f"cannot read {path.name}: {error.strerror}.") from error


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model folder, one or all shards; empty when it has none."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        return []
    try:
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return sorted({folder / Path(str(shard)).name for shard in shards})
    except (ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"{index.name} is not an index of safetensors shards.") from error


def fingerprint(folder: Path) -> str:
    """Hash weights, configuration and tokenizer of a model folder.

    Where there is a ``tokenizer.json`` the older vocabulary files beside it decide nothing and are left out,
    so that a partial Hub download and a whole copy agree.

    Returns:
        The first `LENGTH` hexadecimal digits of the sha256 over file names and their sha256.

    Raises:
        ModelError: A file cannot be read.
    """
    fast = folder / "tokenizer.json"
    tokenizer = [fast] if fast.is_file() else [folder / name for name in _SLOW_TOKENIZER]
    settings = [folder / "config.json", folder / "tokenizer_config.json", *tokenizer]
    files = [*weight_files(folder), *(path for path in settings if path.is_file())]
    return digest({path.name: sha256_of(path) for path in files})


def known_name(model: str) -> str:
    """The public name of a model that is given as a folder, where its weights are known; else the name given."""
    weights = Path(model) / "model.safetensors"
    return EMBEDDED_MODEL if weights.is_file() and sha256_of(weights) == EMBEDDED_SHA256 else model


def digest(content: dict[str, str]) -> str:
    """Hash a table of names and hashes; the order of the table does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:LENGTH]
