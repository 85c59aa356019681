"""Load networks and tokenizers from safetensors only, never with remote code, in the requested dtype."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twmd_registry.errors import ModelError, SpecError
from twmd_registry.models.files import MAX_EXPERTS, MAX_LABELS, MAX_LAYERS, ModelFiles, content_of, isolate, reading
from twmd_registry.models.fingerprint import model_files, settings_of, tokenizer_files

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

NO_LIMIT = 1_000_000
"""Length limits from here on mean "no limit" (transformers writes about 1e30)."""


def pick_device(device: str) -> torch.device:
    """Return the best device for ``auto``, or the named one; raise SpecError if it is not available."""
    import torch

    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).item()
        if chosen.type == "cuda" and chosen.index is None:
            return torch.device("cuda", torch.cuda.current_device())  # every thread has its own current device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        here = ["auto", "cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
        here += ["mps"] if torch.backends.mps.is_available() else []
        raise SpecError(f"device {device!r} is not available here: expected {', '.join(here)}.") from error
    return chosen


@contextlib.contextmanager
def opened(files: ModelFiles, what: str, content: Callable[[Path], str] = content_of) -> Iterator[Path]:
    """Yield a folder with only the fingerprinted files; turn any error inside into a `ModelError` about `what`."""
    with reading(files, content), isolate(model_files(files.folder)) as folder:
        try:
            with _quiet_library():
                yield folder
        except Exception as error:
            reason = _reason(error).replace(str(folder), str(files.folder))
            raise ModelError(f"{what} cannot be loaded: {reason}") from error


@contextlib.contextmanager
def _quiet_library() -> Iterator[None]:
    """Silence the libraries' load reports and progress bars. Scorers load models one at a time."""
    from transformers.utils import logging as library

    verbosity, has_bars = library.get_verbosity(), library.is_progress_bar_enabled()
    sentences = logging.getLogger("sentence_transformers")
    level = sentences.level
    try:
        sentences.setLevel(logging.ERROR)
        library.set_verbosity_error()
        library.disable_progress_bar()
        yield
    finally:
        sentences.setLevel(level)
        library.set_verbosity(verbosity)
        if has_bars:
            library.enable_progress_bar()


def _loading_dtype(dtype: str) -> dict[str, torch.dtype]:
    """Return ``from_pretrained``'s argument for the number format of weights.

    If the caller's default dtype holds them exactly it is used, because transformers sets torch's process-wide default
    dtype to this format.
    """
    import torch
    import transformers
    from packaging.version import Version

    default, requested = torch.get_default_dtype(), getattr(torch, dtype)
    keeps = requested is torch.float32 and default in {torch.float32, torch.float64}
    name = "dtype" if Version(transformers.__version__) >= Version("4.56") else "torch_dtype"
    return {name: default if keeps else requested}


def load_network(kind: Any, files: ModelFiles, dtype: str, *, headed: bool = False, **settings: Any) -> Any:
    """Load a network of a transformers auto class in evaluation mode on the CPU; ``from_pretrained`` gets the settings.

    Raises ModelError if it cannot be loaded, or if weights are missing, which transformers would fill with random
    numbers. With `headed` the head's weights are required too; otherwise an adapter may bring them.
    """
    import torch

    from twmd_registry.models.inference import use_onednn

    load_config(files)
    with opened(files, f"model {files.label}") as folder:
        network, report = kind.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **_loading_dtype(dtype),
            **settings,
        )
    _check_complete(network, set(report["missing_keys"]), files, headed=headed)
    use_onednn(network)
    network = network.to(getattr(torch, dtype)).eval()
    for weights in (*network.parameters(), *network.buffers()):
        weights.data = weights.data.clone()  # otherwise they stay mapped from the file, which may be overwritten
    return network


def load_config(files: ModelFiles) -> Any:
    """Return a model's configuration without its weights; refuse one that names remote code for attention."""
    from transformers import AutoConfig

    _check_layers(files)
    with opened(files, f"model {files.label}") as folder:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if chunk := getattr(config, "chunk_size_feed_forward", None):
        setting = f"texts of multiples of {chunk} tokens (chunk_size_feed_forward): set it to 0 in its config.json"
        raise ModelError(f"model {files.label} only reads {setting}.")
    if "lsh" in getattr(config, "attn_layers", ()):
        raise ModelError(f"model {files.label} attends at random (LSH): its scores would differ every time.")
    if "/" in str(attention := config._attn_implementation):  # noqa: SLF001
        raise ModelError(f"model {files.label} needs remote code for attention ({attention}), which is never run.")
    return config


def _check_layers(files: ModelFiles) -> None:
    """Refuse a configuration with more layers, groups, experts or classes than the library can create."""
    parts = [settings_of(files.folder / "config.json") or {}]
    largest, most = {"layers": MAX_LAYERS, "experts": MAX_EXPERTS, "labels": MAX_LABELS}, {"layers": 1, "experts": 1}
    for part in parts:
        parts += [value for value in part.values() if isinstance(value, dict)]
        for key, value in part.items():
            counts = re.search(r"(layers?|groups|group_num|experts|labels)$", key)
            if not counts or not isinstance(value, int):
                continue
            kind = counts[1] if counts[1] in largest else "layers"
            if value > largest[kind]:
                raise ModelError(f"model {files.label} says {key}={value}: expected at most {largest[kind]}.")
            most[kind] = max(most.get(kind, 1), value)
    if most["experts"] * most["layers"] > MAX_EXPERTS:
        raise ModelError(f"model {files.label} has too many experts in its layers: expected at most {MAX_EXPERTS}.")


def load_encoder(files: ModelFiles, dtype: str) -> Any:
    """Load a model's encoder like `load_network`; for an encoder-decoder, only its encoder."""
    import transformers
    from transformers import AutoModel

    config = load_config(files)
    half = getattr(transformers, f"{type(config).__name__.removesuffix('Config')}EncoderModel", None)
    if half is not None and not hasattr(config, "encoder"):  # T5 and similar, saved with a decoder or without
        network = load_network(half, files, dtype)
    elif not getattr(config, "is_encoder_decoder", False):
        network = load_network(AutoModel, files, dtype)
    else:
        network = load_network(AutoModel, files, dtype).get_encoder()
        network.config = getattr(network, "config", config)
    network.config.use_cache = False
    return network


def _reason(error: Exception) -> str:
    text = str(error)
    if "trust_remote_code" in text:
        return "it needs remote code, which is never run."
    if type(error).__name__ == "SafetensorError":
        return f"its weights file is damaged or incomplete ({text}): fetch it again."
    if "mismatch" in text:
        return "its weights do not have the shapes in its config.json."
    if isinstance(error, KeyError):
        return f"KeyError: {text}."
    if lacking := re.fullmatch(r"(\w+)\.__init__\(\) missing \d+ required positional arguments?: (.+)", text):
        return f"the settings of its {lacking[1]} lack {lacking[2]}."
    first, *others = text.strip().splitlines() or [type(error).__name__]
    return f"{first} {others[0].strip()}" if others and first.endswith(":") else first


def _check_complete(network: Any, missing: set[str], files: ModelFiles, *, headed: bool) -> None:
    """Refuse a network with weights missing from its files, except a pooler's, which a bare encoder never uses."""
    inside = f"{network.base_model_prefix}."
    if not hasattr(network, network.base_model_prefix):
        missing = {key for key in missing if not key.startswith("pooler.")}
    elif not headed:
        missing = {key for key in missing if key.startswith(inside)}
    if needed := sorted(missing):
        lacking = f"{len(needed)} of the weights in its config.json ({needed[0]}, ...)"
        raise ModelError(f"model {files.label} lacks {lacking}, which would be random: fetch or save it again.")


def load_tokenizer(files: ModelFiles) -> PreTrainedTokenizerFast:
    """Load a fast tokenizer; raise ModelError without one, or if it has no vocabulary or an impossible limit."""
    from transformers import AutoTokenizer

    if not tokenizer_files(files.folder):
        raise ModelError(f"model {files.label} has no tokenizer: expected tokenizer.json in its folder.")
    with opened(files, f"the tokenizer of {files.label}") as folder:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True, trust_remote_code=False)
    is_fast = getattr(tokenizer, "is_fast", False)
    if not is_fast or not tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens):
        raise ModelError(f"the tokenizer of {files.label} has no fast form, or only special tokens.")
    _longest(tokenizer, files.label)
    return tokenizer


def _longest(tokenizer: Any, label: str) -> float:
    """Return a tokenizer's limit; raise ModelError if it is not a number of tokens."""
    longest = NO_LIMIT if tokenizer.model_max_length is None else tokenizer.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not longest >= 1:
        limit = f"model_max_length {longest!r:.20} in tokenizer_config.json"
        raise ModelError(f"the tokenizer of {label} has {limit}: expected a number of tokens.")
    return longest


def check_vocabulary(tokenizer: PreTrainedTokenizerFast, network: Any, label: str) -> None:
    """Refuse a tokenizer with token ids without an embedding, which would kill a GPU's process."""
    try:
        rows = network.get_input_embeddings().weight.shape[0]
    except (AttributeError, NotImplementedError) as error:
        raise ModelError(f"model {label} has no table of token embeddings: it is not supported.") from error
    pair = tokenizer("a", "b")  # a template may give special tokens ids that differ from the vocabulary's
    entries = (*tokenizer.get_vocab().items(), *zip(pair.tokens(), pair["input_ids"], strict=True))
    token, highest = max(entries, key=lambda entry: entry[1])
    if highest >= rows:
        ids = f"token id {highest} ({token!r}), but its network has ids 0 to {rows - 1}"
        raise ModelError(f"the tokenizer of {label} has {ids}: save the model with its own tokenizer.")


def length_limit(network: Any, tokenizer: PreTrainedTokenizerFast, shortest: int, label: str) -> int | None:
    """Return the maximum tokens that tokenizer and network can read, special tokens included; None without a limit.

    RoBERTa-like networks count positions from after the padding index, so their table has more rows than tokens. Raises
    ModelError for a limit below `shortest`, or that is not a number.
    """
    limits = [_longest(tokenizer, label)]
    embeddings = getattr(network, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    config = network.config
    rows = getattr(config, "max_encoder_position_embeddings", None) or getattr(config, "max_position_embeddings", None)
    if rows and rows > 0:  # XLNet's -1 means no limit
        padding = getattr(table, "padding_idx", None)
        limits.append(rows if padding is None else rows - padding - 1)
    places = getattr(embeddings, "position_ids", None)
    if table is not None and places is not None and hasattr(table, "weight"):  # YOSO counts from 2
        limits.append(int((places < table.weight.shape[0]).sum()))
    known = [int(limit) for limit in limits if limit < NO_LIMIT]
    limit = min(known) if known else None
    if limit is not None and limit < shortest:
        where = "model_max_length in its tokenizer_config.json, and its config.json"
        raise ModelError(f"model {label} reads at most {limit} tokens: expected at least {shortest}. See {where}.")
    return limit
