"""Regression models (Herbold 2024), from sentence-transformers.

A cross-encoder reads both texts of a pair at once. A siamese model encodes them separately, and scores ``weight *
cos(u, v) + bias`` for sentence vectors u and v.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from twmd_registry.errors import ModelError, shown
from twmd_registry.models import probe
from twmd_registry.models.files import HEAD_FILE, ModelFiles, adapter_content, merge, read_adapter_config, reading
from twmd_registry.models.fingerprint import settings_of
from twmd_registry.models.inference import LoadedModel, keep_order
from twmd_registry.models.load import check_vocabulary, length_limit, load_network, load_tokenizer, opened
from twmd_registry.models.sentence import Line, SentenceEncoder, replace_network
from twmd_registry.models.vectors import is_static
from twmd_registry.registry.names import Activation
from twmd_registry.registry.paths import write_atomically
from twmd_registry.registry.pipeline import PIPELINE
from twmd_registry.tensors import TextTokens

BASE = "base"
"""Metadata entry with the base model's content."""
ACTIVATIONS: dict[Activation, torch.nn.Module] = {"identity": torch.nn.Identity(), "sigmoid": torch.nn.Sigmoid()}


def save_line(line: Line, folder: Path, base: str) -> None:
    """Write the line next to an adapter, with the hash of the base model that both were trained on."""
    numbers = {"weight": torch.tensor([[line.weight]]), "bias": torch.tensor([line.bias])}
    write_atomically(folder / HEAD_FILE, save(numbers, metadata={BASE: base}))


def load_line(path: Path, base: str) -> Line:
    """Read a line; raise ModelError if it is damaged or was trained on a base model with other content."""
    try:
        with safe_open(path, framework="pt") as file:
            numbers = {name: file.get_tensor(name) for name in sorted(file.keys())}
            trained_on = (file.metadata() or {}).get(BASE)
        line = Line(*(float(numbers.pop(name)) for name in Line._fields))
    except (OSError, SafetensorError, RuntimeError, KeyError, ValueError) as error:
        raise ModelError(f"{path.name} is not the head of a regression model: {str(error).splitlines()[0]}") from error
    if numbers or not np.isfinite(line).all():
        found = f"it also contains {', '.join(numbers)}" if numbers else "it gives numbers that are not finite"
        raise ModelError(f"{path.name} is not the head of a regression model: {found}.")
    if trained_on != base:
        raise ModelError(f"this adapter was trained on a model with content @{trained_on}, not @{base}.")
    return line


def is_siamese(adapter: ModelFiles | None) -> bool:
    """Return whether an adapter has the line of a siamese model."""
    return adapter is not None and (adapter.folder / HEAD_FILE).is_file()


def load_regressor(
    files: ModelFiles, adapter: ModelFiles | None, dtype: str, device: torch.device
) -> SentenceEncoder | CrossEncoderRegressor:
    """Load a regression model: a siamese one if its adapter has a line, otherwise a cross-encoder."""
    if is_static(files):
        raise ModelError(f"model {files.label} contains static word vectors: stsscore needs a regression model.")
    if adapter is not None and is_siamese(adapter):
        with reading(adapter, adapter_content):
            line = load_line(adapter.folder / HEAD_FILE, files.fingerprint)
        return SentenceEncoder(files, adapter, dtype, device, line)
    if adapter and read_adapter_config(adapter, "task_type") == "FEATURE_EXTRACTION":
        raise ModelError(f"adapter {adapter.name} is an encoder's and has no {HEAD_FILE}: stsscore needs a head.")
    return CrossEncoderRegressor(files, adapter, dtype, device)


class CrossEncoderRegressor(LoadedModel):
    """A cross-encoder on a device.

    `joints` counts a pair's special tokens beyond those of its texts; the opening one counts once.
    """

    shortest = 5  # two texts of one token each and three special tokens

    def __init__(self, files: ModelFiles, adapter: ModelFiles | None, dtype: str, device: torch.device) -> None:
        """Load the model, and merge an adapter with the head in its weights.

        Raises ModelError, also without a trained regression head.
        """
        self.files, self.device, self.dtype = files, device, dtype
        self.tokenizer: Any = load_tokenizer(files)
        if self.tokenizer.pad_token_id is None:
            where = "pad_token in its tokenizer_config.json, and pad_token_id in its config.json"
            raise ModelError(f"the tokenizer of {files.label} has no padding token: set {where}.")
        network, self.encoder = _load_regression_network(files, adapter, dtype)
        self.network = self.place(network)
        check_vocabulary(self.tokenizer, self.encoder, files.label)
        single, joined = (self.tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True))
        self.joints = joined - 2 * single + 1
        self.limit = length_limit(self.encoder, self.tokenizer, self.shortest, files.label)
        self.lock = RLock()  # a tokenizer has state
        self._pads = probe.run(files.label, self._padding_changes_nothing) and not probe.switching_part(self.encoder)

    @torch.no_grad()
    def _padding_changes_nothing(self) -> bool:
        """Return whether short pairs score the same separately and padded together.

        Raises ModelError if they score differently next to a pair of equal length.
        """
        words = sorted(self.tokenizer.get_vocab(), key=self.tokenizer.get_vocab().__getitem__)[-8:]
        texts = [" ".join(words[:2]), " ".join(words), " ".join(words[::-1])]
        pairs = [(text, text) for text in texts]
        with keep_order(self.network):
            separate, level, padded = (
                torch.cat([self._run(part, self.limit, "identity") for part in parts])[:, None]
                for parts in ([[pair] for pair in pairs], [pairs[:1], pairs[1:]], [pairs])
            )
        if len({len(ids) for ids in self.tokenizer(texts[1:])["input_ids"]}) == 1 and not probe.equals(
            level, separate, self.dtype, scale=1.0
        ):
            raise ModelError(f"model {self.files.label} scores a pair differently in another batch, or at random.")
        return probe.equals(padded, separate, self.dtype, scale=1.0)

    def _run(self, pairs: Sequence[tuple[str, str]], limit: int | None, activation: Activation) -> torch.Tensor:
        """Return the head's outputs for B pairs; shape (B,)."""
        probe.switch_back(self.encoder)
        if limit is not None:
            name = "max_seq_length" if hasattr(type(self.network), "max_seq_length") else "max_length"
            setattr(self.network, name, limit)
        outputs: torch.Tensor = self.network.predict(
            list(pairs),
            batch_size=len(pairs),
            activation_fn=ACTIVATIONS[activation],
            convert_to_tensor=True,
            show_progress_bar=False,
        )
        return outputs

    def predict(
        self,
        texts: Sequence[str],
        tokens: Sequence[TextTokens],
        pairs: np.ndarray,
        *,
        limit: int | None = None,
        activation: Activation = "identity",
        batch_tokens: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict one number per pair, longest pairs first. The lock must be held.

        A pair beyond `limit` tokens loses tokens of its longer text, then of both.

        Args:
            texts: The texts.
            tokens: Their tokens, uncut.
            pairs: Numbers of texts; shape (pairs, 2).
            limit: Maximum tokens of a pair.
            activation: Applied to the head's output.
            batch_tokens: Maximum padded tokens per batch.

        Returns:
            The activated outputs, shape (pairs,), float64, and whether a pair's texts were cut, shape (pairs, 2).
        """
        sizes = np.array([len(text.ids) for text in tokens])[pairs]  # (pairs, 2)
        max_tokens = self.check_limit(limit)
        kept = fit_pairs(sizes, None if max_tokens is None else max_tokens - self.joints + 1)
        cut, lengths = kept < sizes, kept.sum(1) - 1 + self.joints
        values = np.zeros(len(pairs))

        def forward(batch: np.ndarray) -> list[torch.Tensor]:
            outputs = self._run([(texts[i], texts[j]) for i, j in pairs[batch].tolist()], max_tokens, activation)
            values[batch] = outputs.to("cpu", torch.float64).numpy()
            return [outputs]

        self.run_batches(lengths, batch_tokens, forward, pads=self._pads)
        return values, cut


def fit_pairs(sizes: np.ndarray, room: int | None) -> np.ndarray:
    """Return how many of their tokens two texts keep if both share so much room; shape (pairs, 2), like `sizes`.

    The longer text loses tokens, then both, as with transformers' ``longest_first``.
    """
    if room is None:
        return sizes
    shorter = np.minimum(sizes.min(1), room // 2)
    first = np.where(sizes[:, 0] > sizes[:, 1], room - shorter, shorter)  # if equal, the second keeps one token more
    return np.where(sizes.sum(1, keepdims=True) > room, np.stack([first, room - first], axis=1), sizes)


def _load_regression_network(files: ModelFiles, adapter: ModelFiles | None, dtype: str) -> tuple[Any, Any]:
    """Load sentence-transformers' `CrossEncoder` on the CPU; return it and its encoder."""
    from transformers import AutoModelForSequenceClassification

    if adapter:
        network = merge(load_network(AutoModelForSequenceClassification, files, dtype, num_labels=1), adapter, files)
    else:
        network = load_network(AutoModelForSequenceClassification, files, dtype, headed=True)
        if (outputs := network.config.num_labels) != 1:
            raise ModelError(f"model {files.label} has {outputs} outputs: stsscore needs a regression model with one.")
    model = load_cross_encoder(files, network)
    if dtype != "float32":
        _keep_ties_apart(model, network, files)
    return model, getattr(network, network.base_model_prefix, network)


def load_cross_encoder(files: ModelFiles, network: Any) -> Any:
    """Load sentence-transformers' `CrossEncoder` from a folder on the CPU, with this network in it."""
    with opened(files, f"model {files.label}") as folder:
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(
            str(folder),
            num_labels=1,
            activation_fn=torch.nn.Identity(),
            device="cpu",
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    replace_network(model if "model" in model._modules else model[0], network)  # noqa: SLF001 (before 5.4: its own)
    return model


def _keep_ties_apart(model: Any, network: Any, files: ModelFiles) -> None:
    """Compute the head in float32, because half precision would round many pairs to one number."""
    if not hasattr(model, "set_keep_in_fp32_modules"):
        raise ModelError(f"half precision of the cross-encoder {files.label} needs sentence-transformers 6.2 or newer.")
    parts = [part for name, part in network.named_children() if name != network.base_model_prefix]
    layers = {layer for part in parts for layer in part.modules() if isinstance(layer, torch.nn.Linear)}
    for layer in layers:
        layer.__class__ = torch.nn.Linear
    model.set_keep_in_fp32_modules([name for name, layer in model.named_modules() if layer in layers])


def trained_activation(folder: Path) -> str | None:
    """Return the class name of the activation a cross-encoder was trained with, if its folder names one.

    Raises:
        ModelError: The entry does not name a class of ``torch.nn``, or is not where it belongs.
    """
    paths = (folder / name for name in ("config.json", PIPELINE))
    config, saved = ((settings_of(path) if path.is_file() else None) or {} for path in paths)
    inside = config.get("sentence_transformers") or {}
    if not isinstance(inside, dict):
        raise ModelError(f"{folder / 'config.json'}: sentence_transformers is {shown(inside)}: expected an object.")
    old = config.get("sbert_ce_default_activation_function")
    named = next((name for name in (saved.get("activation_fn"), inside.get("activation_fn"), old) if name), None)
    if named is None:
        return None
    library, _, activation = named.rpartition(".") if isinstance(named, str) else ("", "", "")
    if library.partition(".")[0] != "torch" or not hasattr(torch.nn, activation):
        expected = "a class of torch, such as torch.nn.modules.linear.Identity"
        raise ModelError(f"{folder}: its activation_fn is {shown(named)}: expected {expected}.")
    return activation
