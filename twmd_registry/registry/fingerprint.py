"""The identity of a model: a hash over the content that decides its output, however it is laid out in files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader, FileIO
from operator import itemgetter
from pathlib import Path
from typing import Any

from twmd_registry.errors import ModelError, refuse_repeated_keys
from twmd_registry.registry.names import (
    EMBEDDED_MODEL,
    EMBEDDED_WEIGHTS,
    MULTILINGUAL_MODEL,
    MULTILINGUAL_WEIGHTS,
    TOKENIZERS,
)

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

ANY = object()
"""Stands for every value of a key."""
NEUTRAL: dict[str, dict[str, tuple[Any, ...]]] = {
    "config.json": {
        **dict.fromkeys(("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"), (ANY,)),
        **dict.fromkeys(("gradient_checkpointing", "use_cache"), (ANY,)),
        **dict.fromkeys(("add_cross_attention", "is_decoder"), (False,)),
        **dict.fromkeys(("bos_token_id", "eos_token_id", "classifier_dropout"), (None,)),
        "tie_word_embeddings": (True,),
    },
    "tokenizer_config.json": {
        **dict.fromkeys(("name_or_path", "special_tokens_map_file", "backend", "is_local"), (ANY,)),
        **dict.fromkeys(("local_files_only", "clean_up_tokenization_spaces", "padding_side"), (ANY,)),
        **dict.fromkeys(("max_length", "stride", "truncation_strategy", "pad_to_multiple_of"), (ANY,)),
        "truncation_side": ("right",),
        "pad_token_type_id": (0,),
        "extra_special_tokens": ({}, []),
    },
    "tokenizer.json": {"truncation": (ANY,), "padding": (ANY,)},
    "adapter_config.json": {
        **dict.fromkeys(("auto_mapping", "base_model_name_or_path", "inference_mode", "peft_version"), (ANY,)),
        **dict.fromkeys(("megatron_core", "revision"), (ANY,)),
        **dict.fromkeys(("ensure_weight_tying", "fan_in_fan_out", "lora_bias", "use_dora", "use_rslora"), (False,)),
        "init_lora_weights": (True,),
        "qalora_group_size": (16,),
        "use_qalora": (False,),
    },
}
"""By file, keys that cannot move a score, and the values for which that holds: notes on how a file came about, and the
libraries' defaults, which one version writes and another does not. What is left out here is not loaded either.
"""
EMPTY: tuple[Any, ...] = (None, {}, [])
"""The values that say nothing in ``adapter_config.json``."""
GENERIC = "PreTrainedTokenizerFast"
"""The name of a tokenizer without a class of its own that every version of transformers reads."""
_AT_ONCE = 1 << 20
"""Bytes that are read at once."""
_SETTLED = 1_000_000_000
"""Nanoseconds after which another change of a file has another time, on every file system."""

_remembered: dict[tuple[str, Any], tuple[tuple[int, ...], Any]] = {}
"""By path and function: the file's stamp, and what the function read in it."""


def stamp_of(file: BufferedReader | FileIO) -> tuple[int, ...]:
    """Return what changes with an open file; its ctime is the system's, and cannot be set back."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_once(path: Path, read: Callable[[BufferedReader], Any]) -> Any:
    """Return what a function reads in a file; the file is read again when its stamp has changed. Raises ModelError if
    it cannot be read, or changes meanwhile.
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
    """Return the sha256 of a file's bytes; raises ModelError if it cannot be read."""
    return str(_read_once(path, _digest_bytes))


def _digest_bytes(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def reread() -> Iterator[None]:
    """Read every file once more: for verification, on systems where a change may leave no trace."""
    _remembered.clear()
    yield


def tensors_sha256(paths: Iterable[Path]) -> str:
    """Return the sha256 over names, dtypes, shapes and bytes of all tensors of some safetensors files."""
    files = [_read_once(path, _digest_tensors) for path in paths]
    return json_sha256(sorted(tensor for tensors in files for tensor in tensors))


def _digest_tensors(file: BufferedReader) -> list[list[Any]]:
    """Return name, dtype, shape and sha256 of every tensor; of a file that is not whole, its sha256 alone.

    Position numbers that count from 0 are left out: earlier versions of transformers wrote them, and all compute them.
    """
    try:
        tensors = _read_header(file)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        file.seek(0)
        return [[_digest_bytes(file)]]
    digests = []
    for name, dtype, shape, start, end in tensors:
        file.seek(start)
        digest, part = hashlib.sha256(), b""
        for place in range(start, end, _AT_ONCE):
            digest.update(part := file.read(min(_AT_ONCE, end - place)))
        is_whole = name.endswith("position_ids") and len(part) == end - start
        if not (is_whole and part == array("q", range(len(part) // 8)).tobytes()):
            digests.append([name, dtype, shape, digest.hexdigest()])
    return digests


def _read_header(file: BufferedReader) -> list[tuple[str, str, list[int], int, int]]:
    """Return name, dtype, shape, start and end of a safetensors file's tensors, in the order of their bytes."""
    size, header = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
    if header > size - 8:
        raise ValueError(header)
    table = json.loads(file.read(header), object_pairs_hook=refuse_repeated_keys)
    table.pop("__metadata__", None)
    tensors = []
    for name, entry in table.items():
        start, end = (8 + header + int(place) for place in entry["data_offsets"])
        tensors.append((name, str(entry["dtype"]), list(entry["shape"]), start, end))
    tensors.sort(key=itemgetter(3, 4))
    starts, ends = ([8 + header, *map(itemgetter(4), tensors)], [*map(itemgetter(3), tensors), size])
    if starts != ends:
        raise ValueError(size)  # bytes that belong to no tensor, or to two
    return tensors


def largest_dimension(path: Path) -> int:
    """Return the largest dimension of the tensors in a safetensors file; 0 if it is none."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError), path.open("rb") as file:
        return max((size for _, _, shape, *_ in _read_header(file) for size in shape), default=0)
    return 0


def json_sha256(content: Any) -> str:
    """Return the sha256 of what JSON can hold; the order of an object's keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def settings_of(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file without `NEUTRAL`, in one of several ways to write the same; None if it is not
    an object. Raises ModelError if it cannot be read.
    """
    try:
        content = _parse(path.read_bytes())
        if path.name == "tokenizer_config.json":
            return _own_settings(_without_neutral(path.name, content), path.with_name("tokenizer.json"))
        return _without_neutral(path.name, content)
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"cannot read {path.name}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _parse(raw: bytes) -> Any:
    return json.loads(raw, object_pairs_hook=refuse_repeated_keys)


def _without_neutral(name: str, content: dict[str, Any]) -> dict[str, Any]:
    neutral = NEUTRAL.get(name, {})
    kept = {
        key: value
        for key, value in content.items()
        if ANY not in (choices := neutral.get(key, ())) and value not in choices
    }
    if name == "config.json":  # a network may consist of several
        for key, value in kept.items():
            if isinstance(value, dict) and "model_type" in value:
                kept[key] = _without_neutral(name, value)
    elif name == "adapter_config.json":
        kept = {key: value for key, value in kept.items() if value not in EMPTY}
        if isinstance(modules := kept.get("target_modules"), list):
            kept["target_modules"] = sorted(modules)
    elif name == "tokenizer.json" and (merges := kept.get("model", {}).get("merges")):
        pairs = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
        kept["model"] = {**kept["model"], "merges": pairs}
    return kept


def _own_settings(settings: dict[str, Any], tokenizer: Path) -> dict[str, Any]:
    """Return ``tokenizer_config.json`` without the tokens that ``tokenizer.json`` describes in the same words."""
    own, kind = settings, settings.get("tokenizer_class")
    if isinstance(kind, str) and kind != GENERIC:
        own["tokenizer_class"] = GENERIC if kind == "TokenizersBackend" else kind.removesuffix("Fast")
    if "added_tokens_decoder" in own:
        described = _read_once(tokenizer, _added_tokens) if tokenizer.is_file() else {}
        tokens = own.pop("added_tokens_decoder").items()
        if others := {number: token for number, token in tokens if described.get(number) != token}:
            own["added_tokens_decoder"] = others
    return own


def _added_tokens(file: BufferedReader) -> dict[str, dict[str, Any]]:
    """Return the added tokens of ``tokenizer.json`` as ``tokenizer_config.json`` describes them."""
    tokens = _parse(file.read())["added_tokens"]
    return {str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in tokens}


def _digest_settings(file: BufferedReader) -> str:
    """Return the sha256 of a JSON file's `settings_of`; of the file where it has none."""
    path, raw = Path(file.name), hashlib.sha256(file.read()).hexdigest()
    if path.name == "tokenizer.json" and raw in TOKENIZERS:
        return TOKENIZERS[raw]
    settings = settings_of(path)
    if settings is None:
        return raw
    settings.pop("model_max_length", None)  # signatures have the limit that was applied
    return json_sha256(settings)


def settings_sha256(paths: Iterable[Path]) -> dict[str, str]:
    """Return what identifies the settings, vocabularies and tokenizers in some files, by name; without empty ones."""
    digests = {}
    for path in paths:
        if path.name == "tokenizer_config.json":  # depends on another file, too
            with path.open("rb") as file:
                digests[path.name] = _digest_settings(file)
        else:
            digests[path.name] = _read_once(path, _digest_settings if path.suffix == ".json" else _digest_bytes)
    return {name: digest for name, digest in digests.items() if digest != json_sha256({})}


def weight_files(folder: Path) -> list[Path]:
    """List the safetensors files of a model folder: one, or all shards of the index (ModelError if it is none)."""
    index = folder / SHARD_INDEX
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        return []
    try:
        shards = _parse(index.read_bytes())["weight_map"].values()
        names = {Path(str(shard)).name for shard in shards}
    except OSError as error:
        raise ModelError(f"cannot read {index}: {error.strerror}.") from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ModelError(f"{index} is not an index of safetensors shards.") from error
    if other := sorted(name for name in names if not name.endswith(".safetensors")):
        raise ModelError(f"{index} lists {other[0]!r}, which is no shard: expected names that end in .safetensors.")
    return sorted(folder / name for name in names)


def weight_map(shards: Iterable[Path]) -> dict[str, str]:
    """Return the file of every tensor of some shards, by name: what an index says that fits them."""
    names: dict[str, str] = {}
    for path in shards:
        with (
            contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError),
            path.open("rb") as file,
        ):
            names.update((name, path.name) for name, *_ in _read_header(file))
    return names


def tokenizer_files(folder: Path) -> list[Path]:
    """List a folder's tokenizer files: ``tokenizer.json``, or else the older vocabulary, and tokens added to it."""
    if (folder / "tokenizer.json").is_file():
        return [folder / "tokenizer.json"]
    vocabulary = [folder / name for name in _SLOW_TOKENIZER if (folder / name).is_file()]
    added = [folder / name for name in _ADDED_TOKENS if (folder / name).is_file()]
    return [*vocabulary, *added] if vocabulary else []


def _settings_files(folder: Path) -> list[Path]:
    settings = [folder / "config.json", folder / "tokenizer_config.json"]
    return [*(path for path in settings if path.is_file()), *tokenizer_files(folder)]


def model_files(folder: Path) -> list[Path]:
    """List the files that decide a model's output, and the index of their shards; it is loaded from nothing else."""
    weights = weight_files(folder)
    index = [] if weights == [folder / "model.safetensors"] else [folder / SHARD_INDEX]
    return [*weights, *(index if weights else []), *_settings_files(folder)]


def model_sha256(folder: Path) -> str:
    """Return the sha256 over what decides a model's output: tensors, configuration, tokenizer."""
    return json_sha256({"weights": tensors_sha256(weight_files(folder))} | settings_sha256(_settings_files(folder)))


def fingerprint(folder: Path) -> str:
    """Return the first `LENGTH` hexadecimal digits of `model_sha256`."""
    return model_sha256(folder)[:LENGTH]


def known_name(model: str) -> str:
    """Return the public name of a model folder with known weights; else the given name."""
    known = {EMBEDDED_WEIGHTS: EMBEDDED_MODEL, MULTILINGUAL_WEIGHTS: MULTILINGUAL_MODEL}
    weights = weight_files(Path(model)) if os.path.isdir(model) else []  # noqa: PTH112 (Path.is_dir raises for long names)
    return known.get(tensors_sha256(weights), model) if weights else model
