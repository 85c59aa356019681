"""What a sentence-transformers model does after its network: modules, prompts, similarity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import ModelError
from twmd_registry.messages import menu
from twmd_registry.registry.hashes import parse_json, tensors_sha256

MODULES, SEQUENCE, PIPELINE = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
_LIBRARY = "sentence_transformers."
_PIPELINE_KEYS: dict[str, Any] = {
    "max_seq_length": None,
    "do_lower_case": False,
    "default_prompt_name": None,
    "prompts": {},
    "similarity_fn_name": "cosine",
}
"""Settings of a sentence-transformers model that move a score, with the library's defaults."""
_NO_TEXT = ("query", "document")
"""Prompts that the library has for every model, without a text unless the folder has one."""
_FIXED: dict[str, Any] = {
    "processing_kwargs": {},
    "transformer_task": "feature-extraction",
    "text": {"method": "forward", "method_output_name": "last_hidden_state"},  # of modality_config
    "module_output_name": "token_embeddings",
}
"""Settings of the network's input and output that sbert does not read, and their only values."""
_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Pooling names before and since sentence-transformers 5.4, in the order of their vectors."""
_PARTS: dict[str, tuple[str, ...]] = {
    "Dropout": (),
    "Normalize": (),
    "Pooling": (".json",),
    **dict.fromkeys(
        ("CNN", "Dense", "LayerNorm", "LSTM", "WeightedLayerPooling", "WordWeights"), (".json", ".safetensors")
    ),
}
"""Modules after the network, and the types of files that each needs."""
_OF_SENTENCES = ("Dense", "Dropout", "LayerNorm", "Normalize")
"""Modules that read sentence vectors, unless ``module_input_name`` says otherwise."""
_MEAN = ("Pooling", {"include_prompt": True, "modes": ["mean"]}, None)
PLAIN = _PIPELINE_KEYS | {"modules": [_MEAN]}


class SentenceModule(NamedTuple):
    """A module after the network of a sentence-transformers model: class, subfolder, files."""

    name: str
    place: str
    files: list[Path]


def sentence_modules(folder: Path) -> list[SentenceModule]:
    """List the modules after the network of a sentence-transformers model, from ``modules.json``; none without it.

    Raises:
        ModelError: The file is damaged, names code outside the library or an unknown module, a module's files are
            missing, or the network is not in the folder itself or has settings that are not applied.
    """
    path = folder / MODULES
    if not path.is_file():
        return []
    try:
        listed = parse_json(path.read_bytes())
        (network, root), *others = [(str(module["type"]), str(module["path"])) for module in listed]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} is not a list of modules of sentence-transformers.") from error
    if root or network.rpartition(".")[2] != "Transformer":
        read = "sbert reads models that start with a Transformer in the folder itself"
        raise ModelError(f"{path} starts with {network} in {root or '.'!r}: {read} (static vectors: set vectors=raw).")
    if (folder / SEQUENCE).is_file():
        found = _read_object(folder / SEQUENCE)
        modalities = found.get("modality_config")
        found |= modalities if isinstance(modalities, dict) else {}
        for key, only in _FIXED.items():
            if (value := found.get(key) or only) != only:
                raise ModelError(f"{folder / SEQUENCE} sets {key} to {value}: sbert reads only models with {only}.")
    modules: dict[str, SentenceModule] = {}
    for module_type, place in others:
        name = module_type.rpartition(".")[2]
        if not module_type.startswith(_LIBRARY):
            raise ModelError(f"{path} names remote code {module_type!r}, which is never run: expected {_LIBRARY}...")
        if name not in _PARTS:
            raise ModelError(f"{path} names the module {name!r}, which sbert does not read; {menu(name, _PARTS)}.")
        if Path(place).name != place or place in {"", "..", *modules}:
            raise ModelError(f"{path} names {place!r}: expected a folder next to it, another for each module.")
        files = sorted(file for file in (folder / place).glob("*") if file.suffix in {".json", ".safetensors"})
        if missing := set(_PARTS[name]) - {file.suffix for file in files}:
            lacks = " and no ".join(f"{suffix} file" for suffix in sorted(missing))
            raise ModelError(f"{folder / place} has no {lacks}, which its {name} needs: fetch or save the model again.")
        modules[place] = SentenceModule(name, place, files)
    return [*modules.values()]


def pipeline_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of a sentence-transformers model that move a score, without its modules."""
    settings = _PIPELINE_KEYS | {"truncate_dim": None}
    for name in (SEQUENCE, PIPELINE) if (folder / MODULES).is_file() else ():
        if (folder / name).is_file():
            found = _read_object(folder / name)
            settings |= {key: found[key] for key in settings if found.get(key) is not None}
    prompts = settings["prompts"]
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ModelError(f"{folder / PIPELINE}: expected prompts that are texts.")
    if not isinstance(settings["do_lower_case"], bool):
        raise ModelError(
            f"{folder / SEQUENCE}: do_lower_case is {settings['do_lower_case']!r}: expected true or false."
        )
    for name in ("max_seq_length", "truncate_dim"):
        number = settings[name]
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ModelError(f"{folder}: {name} is {number!r}: expected a positive integer.")
    default = settings["default_prompt_name"]
    if default is not None and default not in [*_NO_TEXT, *prompts]:
        raise ModelError(f"{folder / PIPELINE}: default_prompt_name is {default!r}, which is not among its prompts.")
    settings["prompts"] = {name: text for name, text in prompts.items() if text}
    if default not in settings["prompts"]:
        settings["default_prompt_name"] = None
    return settings


def describe_pipeline(folder: Path) -> dict[str, Any]:
    """Return what follows the network of a sentence-transformers model, in a canonical form."""
    settings = pipeline_settings(folder)
    if settings["truncate_dim"] is None:
        del settings["truncate_dim"]
    modules = [(module.name, *_describe_module(module)) for module in sentence_modules(folder)]
    _check_pooling(folder, modules)
    if settings["similarity_fn_name"] == "cosine" and modules and modules[-1][0] == "Normalize":
        modules.pop()  # a cosine normalises anyway
    return settings | {"modules": modules or [_MEAN], "max_seq_length": None}  # signatures show the applied limit


def _check_pooling(folder: Path, modules: Sequence[tuple[str, dict[str, Any], str | None]]) -> None:
    """Refuse a model whose modules make no sentence vector, or need one before it is made."""
    kind = (_read_object(folder / PIPELINE) if (folder / PIPELINE).is_file() else {}).get("model_type")
    if not (folder / MODULES).is_file() or (not modules and kind not in (None, "SentenceTransformer")):
        return  # the library adds mean pooling
    before = [*takewhile(lambda module: module[0] != "Pooling", modules)]
    early = [name for name, config, _ in before if name in _OF_SENTENCES and "module_input_name" not in config]
    if early or len(before) == len(modules):
        place = f" before {early[0]}" if early else ""
        raise ModelError(f"{folder / MODULES} names no Pooling{place}: nothing turns a text's token vectors into one.")


def _describe_module(module: SentenceModule) -> tuple[dict[str, Any], str | None]:
    """Return a module's settings and the sha256 of its weights."""
    config: dict[str, Any] = {}
    for file in module.files:
        if file.suffix == ".json":
            config |= _read_object(file)
    activation = str(config.get("activation_function", "torch."))
    if not activation.startswith("torch."):
        raise ModelError(f"{module.place}/config.json names remote code {activation!r}, which is never run.")
    if module.name == "Pooling":
        named = config.get("pooling_mode") or [mode for name, mode in _POOLING.items() if config.get(name)] or "mean"
        modes = named if isinstance(named, list) else [named]
        if wrong := [mode for mode in modes if mode not in [*_POOLING.values()]]:
            known = menu(str(wrong[0]), _POOLING.values())
            raise ModelError(f"{module.place}/config.json: unknown pooling_mode {wrong[0]!r}; {known}.")
        config = {"include_prompt": config.get("include_prompt", True), "modes": modes}
    config = {key: value for key, value in config.items() if value != "sentence_embedding"}  # was omitted formerly
    weights = [file for file in module.files if file.suffix == ".safetensors"]
    return config, tensors_sha256(weights) if weights else None


def has_own_pipeline(model: str | None) -> bool:
    """Return whether a model is a folder with more after the network than mean pooling."""
    is_folder = model is not None and os.path.isdir(model)  # noqa: PTH112 (Path.is_dir raises for long names)
    return is_folder and describe_pipeline(Path(str(model))) != PLAIN


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: expected a JSON object.") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} is damaged: expected a JSON object.")
    return found
