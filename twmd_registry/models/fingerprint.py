"""The identity of a model: a hash of the content that determines its output, independent of the layout of its files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any

from twmd_registry.errors import ModelError
from twmd_registry.registry.hashes import (
    LENGTH,
    SHARD_INDEX,
    TensorEntry,
    digest_bytes,
    json_sha256,
    parse_json,
    read_header,
    read_once,
    tensors_sha256,
    weight_files,
)
from twmd_registry.registry.names import TOKENIZERS
from twmd_registry.registry.pipeline import PLAIN, describe_pipeline

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
"""Stands for any value of a key."""
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
"""Keys by file that cannot move a score, and the values for which that holds: notes on a file's origin, and libraries'
defaults, which only some versions write. Loading leaves out the same keys.
"""
EMPTY: tuple[Any, ...] = (None, {}, [])
"""Values without meaning in ``adapter_config.json``."""
GENERIC = "PreTrainedTokenizerFast"
"""Class name of a tokenizer without its own class, which every version of transformers reads."""


def tensors_in(path: Path) -> list[TensorEntry]:
    """Return the tensors in a safetensors file; none for any other file."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError), path.open("rb") as file:
        return read_header(file)
    return []


def settings_of(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file without `NEUTRAL`, in a canonical form; None if it is not an object.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        content = parse_json(path.read_bytes())
        if path.name == "tokenizer_config.json":
            return _own_settings(_without_neutral(path.name, content), path.with_name("tokenizer.json"))
        return _without_neutral(path.name, content)
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"cannot read {path.name}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _without_neutral(name: str, content: dict[str, Any]) -> dict[str, Any]:
    neutral = NEUTRAL.get(name, {})
    kept = {
        key: value
        for key, value in content.items()
        if ANY not in (choices := neutral.get(key, ())) and value not in choices
    }
    if name == "config.json":  # a network may contain others
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
    """Return ``tokenizer_config.json`` without the tokens that ``tokenizer.json`` describes identically."""
    remaining, kind = settings, settings.get("tokenizer_class")
    if isinstance(kind, str) and kind != GENERIC:
        remaining["tokenizer_class"] = GENERIC if kind == "TokenizersBackend" else kind.removesuffix("Fast")
    if "added_tokens_decoder" in remaining:
        described = read_once(tokenizer, _added_tokens) if tokenizer.is_file() else {}
        tokens = remaining.pop("added_tokens_decoder").items()
        if others := {number: token for number, token in tokens if described.get(number) != token}:
            remaining["added_tokens_decoder"] = others
    return remaining


def _added_tokens(file: BufferedReader) -> dict[str, dict[str, Any]]:
    """Return the added tokens of ``tokenizer.json`` in the form of ``tokenizer_config.json``."""
    tokens = parse_json(file.read())["added_tokens"]
    return {str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in tokens}


def _digest_settings(file: BufferedReader) -> str:
    """Return the sha256 of a JSON file's `settings_of`, or of the file if it has none."""
    path, raw = Path(file.name), hashlib.sha256(file.read()).hexdigest()
    if path.name == "tokenizer.json" and raw in TOKENIZERS:
        return TOKENIZERS[raw]
    settings = settings_of(path)
    if settings is None:
        return raw
    settings.pop("model_max_length", None)  # signatures show the applied limit
    return json_sha256(settings)


def settings_sha256(paths: Iterable[Path]) -> dict[str, str]:
    """Return digests of the settings, vocabularies and tokenizers in files, by name; skip empty ones."""
    digests = {}
    for path in paths:
        if path.name == "tokenizer_config.json":  # also depends on another file
            with path.open("rb") as file:
                digests[path.name] = _digest_settings(file)
        else:
            digests[path.name] = read_once(path, _digest_settings if path.suffix == ".json" else digest_bytes)
    return {name: digest for name, digest in digests.items() if digest != json_sha256({})}


def weight_map(shards: Iterable[Path]) -> dict[str, str]:
    """Return the file of every tensor in shards, by name, like a matching index."""
    return {tensor.name: path.name for path in shards for tensor in tensors_in(path)}


def tokenizer_files(folder: Path) -> list[Path]:
    """List a folder's tokenizer files: ``tokenizer.json``, or the older vocabulary and added tokens."""
    if (folder / "tokenizer.json").is_file():
        return [folder / "tokenizer.json"]
    vocabulary = [folder / name for name in _SLOW_TOKENIZER if (folder / name).is_file()]
    added = [folder / name for name in _ADDED_TOKENS if (folder / name).is_file()]
    return [*vocabulary, *added] if vocabulary else []


def _settings_files(folder: Path) -> list[Path]:
    settings = [folder / "config.json", folder / "tokenizer_config.json"]
    return [*(path for path in settings if path.is_file()), *tokenizer_files(folder)]


def model_files(folder: Path) -> list[Path]:
    """List the files that determine a model's output, and their shards' index. Nothing else is loaded."""
    weights = weight_files(folder)
    index = [] if weights == [folder / "model.safetensors"] else [folder / SHARD_INDEX]
    return [*weights, *(index if weights else []), *_settings_files(folder)]


def model_sha256(folder: Path) -> str:
    """Return the sha256 of everything that determines a model's output: tensors, configuration, tokenizer."""
    return json_sha256({"weights": tensors_sha256(weight_files(folder))} | settings_sha256(_settings_files(folder)))


def sentence_sha256(folder: Path) -> str:
    """Return the sha256 of everything that determines a model's sentence vectors.

    It equals `model_sha256` if sentence-transformers would do the same without ``modules.json``: average token vectors.
    """
    pipeline, network = describe_pipeline(folder), model_sha256(folder)
    return network if pipeline == PLAIN else json_sha256({"network": network, "pipeline": pipeline})


def fingerprint(folder: Path) -> str:
    """Return the first `LENGTH` hexadecimal digits of `model_sha256`."""
    return model_sha256(folder)[:LENGTH]
