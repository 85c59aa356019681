"""A regression model on a device: a pair of texts in, a number out (Herbold 2024)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from twmd_registry.errors import ModelError
from twmd_registry.models.adapter import HEAD_FILE, AdapterFiles, merge, read_adapter_config
from twmd_registry.models.files import ModelFiles
from twmd_registry.models.inference import LoadedModel, check_finite
from twmd_registry.models.load import (
    BLANK,
    check_token_types,
    check_vocabulary,
    length_limit,
    load_encoder,
    load_network,
    load_tokenizer,
)
from twmd_registry.models.packaged import is_packaged, load_bert
from twmd_registry.models.siamese import SiameseRegressor, load_line, mark_second_texts
from twmd_registry.models.vectors import is_static
from twmd_registry.registry.fingerprint import SHARD_INDEX, weight_files
from twmd_registry.registry.names import UNKNOWN_SHARE
from twmd_registry.tensors import TextFlags

_TEXTS_AT_ONCE = 4096


class Regressor(LoadedModel):
    """A regression model on a device: a cross-encoder, or a siamese one.

    Attributes:
        dtype: Name of the encoder's number format.
        lock: Held while the model is used: its tokenizer has state.
        reads_apart: Whether it encodes each text alone, so that their order has no effect.
    """

    shortest = 5  # two texts of one token each and three special tokens

    def __init__(self, files: ModelFiles, adapter: AdapterFiles | None, dtype: str, device: torch.device) -> None:
        """Load the model, and merge an adapter: of a cross-encoder with the head in its weights, of a siamese model
        with the head in a file of its own.

        Raises:
            ModelError: It cannot be loaded, has no trained regression head, or a head with several outputs.
        """
        if is_static(files):
            raise ModelError(
                f"model {files.label} holds static word vectors: stsscore needs a regression model, which reads "
                "both texts."
            )
        self.tokenizer = load_tokenizer(files)
        self.tokenizer.padding_side = "right"  # `take_apart` needs it; a cross-encoder does not mind
        if adapter and adapter.head:
            mark_second_texts(self.tokenizer, files.label)
            if is_packaged(files, adapter):
                encoder = load_bert(files, adapter, dtype)
            else:
                encoder = merge(load_encoder(files, dtype), adapter, files)
            network = SiameseRegressor(encoder, load_line(adapter.head, files.fingerprint))
        elif adapter and read_adapter_config(adapter, "task_type") == "FEATURE_EXTRACTION":
            raise ModelError(
                f"adapter {adapter.name} is one of an encoder and has no {HEAD_FILE}: stsscore needs what makes "
                "a number of its vectors."
            )
        else:
            network = _cross_encoder(files, adapter, dtype)
            encoder = getattr(network, network.base_model_prefix, network)
        self.network = network.to(device).eval()
        self.files = files
        self.reads_apart = isinstance(network, SiameseRegressor)
        if not is_packaged(files, adapter):
            check_vocabulary(self.tokenizer, encoder, files.label)
        if not self.reads_apart:
            check_token_types(self.tokenizer, encoder, files.label)
        self.limit = length_limit(encoder, self.tokenizer)
        self.device = device
        self.dtype = dtype
        self.lock = RLock()

    def flag_texts(self, texts: Sequence[str]) -> TextFlags:
        """Return which texts have no token (blank, or every character dropped), and which have unknown ones."""
        flags = TextFlags._make([*np.zeros((6, len(texts)), dtype=bool), {}])
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            part = list(texts[start : start + _TEXTS_AT_ONCE])
            rows = self.tokenizer(part, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            for i, (text, ids, spans) in enumerate(
                zip(part, rows["input_ids"], rows["offset_mapping"], strict=True), start
            ):
                words = tuple(
                    text[slice(*span)]
                    for token, span in zip(ids, spans, strict=True)
                    if token == self.tokenizer.unk_token_id
                )
                flags.empty[i] = not ids or BLANK.fullmatch(text) is not None
                flags.unknown[i] = len(words) > UNKNOWN_SHARE * len(ids)
                flags.missing.update({i: words} if words else {})
        return flags

    def predict(
        self,
        firsts: Sequence[str],
        seconds: Sequence[str],
        *,
        limit: int | None = None,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict one number per pair, longest pairs first; of a pair that is too long the longer text is cut.

        Args:
            firsts: First texts (the predictions).
            seconds: Second texts (the references).
            limit: Most tokens of a pair; None for the model's own limit.
            batch_tokens: Most padded tokens at once.
            progress: Called after every batch with the number of pairs in it.

        Returns:
            The head's raw output (logit), shape (pairs,), float64; and whether a pair's first and second text were cut,
            shape (pairs, 2).

        Raises:
            ModelError: Out of memory with a single pair, a prediction that is not finite, or a tokenizer of another
                model.
        """
        cut = self.check_limit(limit)
        rows = self.tokenizer(list(firsts), list(seconds), verbose=False)
        truncated = np.zeros((len(firsts), 2), dtype=bool)
        for i in [i for i, row in enumerate(rows["input_ids"]) if cut is not None and len(row) > cut]:
            short = self.tokenizer(firsts[i], seconds[i], truncation="longest_first", max_length=cut)
            truncated[i] = [short.sequence_ids(0).count(text) < rows.sequence_ids(i).count(text) for text in (0, 1)]
            for name, row in short.items():
                rows[name][i] = row
        lengths = np.array([len(row) for row in rows["input_ids"]])
        values = np.zeros(len(lengths))

        def forward(batch: np.ndarray) -> None:
            inputs = self.tokenizer.pad(
                {name: [column[i] for i in batch] for name, column in rows.items()}, return_tensors="pt"
            )
            logits = self.network(**inputs.to(self.device)).logits[:, 0]
            check_finite(logits, self.files.label, self.dtype)
            values[batch] = logits.to("cpu", torch.float64).numpy()
            if progress is not None:
                progress(len(batch))

        self.run_batches(lengths, batch_tokens, forward)
        return values, truncated


def _cross_encoder(files: ModelFiles, adapter: AdapterFiles | None, dtype: str) -> Any:
    from transformers import AutoModelForSequenceClassification

    if adapter:
        network = merge(load_network(AutoModelForSequenceClassification, files, dtype, num_labels=1), adapter, files)
    else:
        _check_architecture(files)
        network = load_network(AutoModelForSequenceClassification, files, dtype)
        _check_head(files, network)
    _keep_head_exact(network)
    return network


def _keep_head_exact(network: Any) -> None:
    """Run everything above the encoder in float32: a head in half precision rounds many pairs to one number."""
    for name, part in network.named_children():
        if name != network.base_model_prefix:
            part.float().register_forward_pre_hook(
                lambda _part, inputs: tuple(x.float() if torch.is_tensor(x) else x for x in inputs)
            )


def _check_architecture(files: ModelFiles) -> None:
    """Refuse a configuration of an architecture without a head for sequences, such as one for masked words."""
    named = json.loads((files.folder / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    if named and not any(str(architecture).endswith("ForSequenceClassification") for architecture in named):
        raise ModelError(
            f"model {files.label} is a {', '.join(map(str, named))} and has no trained head: stsscore needs a "
            "regression model."
        )


def _check_head(files: ModelFiles, network: Any) -> None:
    """Refuse a head that is not in the weights (it would be random) or has several outputs, as a classifier's."""
    inside = f"{network.base_model_prefix}."
    head = {name for name in network.state_dict() if not name.startswith(inside)}
    stored = {name for path in weight_files(files.folder) if path.name != SHARD_INDEX for name in _tensor_names(path)}
    if not head <= stored:
        raise ModelError(
            f"model {files.label} has no trained head ({', '.join(sorted(head - stored))} missing): stsscore "
            "needs a regression model."
        )
    outputs = network.config.num_labels
    if outputs != 1:
        raise ModelError(f"model {files.label} has {outputs} outputs: stsscore needs a regression model with one.")


def _tensor_names(path: Path) -> list[str]:
    with safe_open(path, framework="pt") as file:
        return list(file.keys())
