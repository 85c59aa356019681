"""Regression models (Herbold 2024): a cross-encoder reads both texts of a pair at once, a siamese model encodes them
separately: ``logit = weight * cos(u, v) + bias``, u and v the means of the last hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from twmd_registry.errors import ModelError
from twmd_registry.models import probe
from twmd_registry.models.files import HEAD_FILE, ModelFiles, adapter_content, merge, read_adapter_config, reading
from twmd_registry.models.inference import LoadedModel
from twmd_registry.models.load import (
    check_vocabulary,
    length_limit,
    load_encoder,
    load_network,
    load_tokenizer,
)
from twmd_registry.models.packaged import is_packaged, load_bert, read_tokenizer
from twmd_registry.models.vectors import is_static
from twmd_registry.registry.paths import write_atomically
from twmd_registry.tensors import TextTokens

BASE = "base"
"""The entry of its metadata that names the content of the base model."""


def fit_pair(first: TextTokens, second: TextTokens, limit: int | None) -> tuple[TextTokens, TextTokens]:
    """Return two texts cut to `limit` tokens in all, of which the token that opens both counts once: the longer text
    loses tokens, and then both, as by transformers' ``longest_first``.
    """
    if limit is None or len(first.ids) + len(second.ids) - 1 <= limit:
        return first, second
    shorter = min(len(first.ids), len(second.ids), (limit + 1) // 2)
    sizes = [shorter, limit + 1 - shorter]
    if len(first.ids) > len(second.ids):
        sizes.reverse()
    first, second = (
        text.cut(size) if len(text.ids) > size else text for text, size in zip((first, second), sizes, strict=True)
    )
    return first, second


def stack_pairs(pairs: Sequence[Sequence[Sequence[int] | np.ndarray]], padding: int) -> dict[str, Tensor]:
    """Return the arguments of `SiameseRegressor.forward` for B pairs of token ids."""
    lengths = np.array([[len(ids) for ids in pair] for pair in pairs])  # (B, 2)
    mask = np.arange(lengths.max()) < lengths[..., None]  # (B, 2, T)
    padded = np.full(mask.shape, padding, dtype=np.int64)
    padded[mask] = np.concatenate([ids for pair in pairs for ids in pair])
    return {"input_ids": torch.from_numpy(padded), "attention_mask": torch.from_numpy(mask)}


class SiameseRegressor(torch.nn.Module):
    """An encoder, and a line from the cosine of two texts' mean vectors to a rating."""

    def __init__(self, encoder: Any, line: torch.nn.Linear | None = None) -> None:
        """Store both; without a line, make one that maps cosines to ratings up to 5."""
        super().__init__()
        self.encoder = encoder
        self.line = line or torch.nn.Linear(1, 1, dtype=torch.float32)
        if line is None:
            torch.nn.init.constant_(self.line.weight, 5.0)
            torch.nn.init.zeros_(self.line.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return one number per pair, shape (B, 1), as transformers' networks do: after the mean squared error where
        there are labels, shape (B,). The token ids of first and second texts and their mask: shape (B, 2, T).
        """
        ids, mask = (rows.transpose(0, 1).flatten(0, 1) for rows in (input_ids, attention_mask))  # (2B, T)
        hidden = self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()  # (2B, T, D)
        weight = mask[..., None].float()
        first, second = ((hidden * weight).sum(1) / weight.sum(1)).chunk(2)  # (B, D) each
        logits = self.line(torch.nn.functional.cosine_similarity(first, second)[:, None])  # (B, 1)
        losses = [] if labels is None else [torch.nn.functional.mse_loss(logits[:, 0], labels.float())]
        return *losses, logits


def save_line(line: torch.nn.Linear, folder: Path, base: str) -> None:
    """Write the line beside an adapter, with the content of the base model that both were trained on."""
    numbers = {"weight": line.weight.detach().clone(), "bias": line.bias.detach().clone()}
    write_atomically(folder / HEAD_FILE, save(numbers, metadata={BASE: base}))


def load_line(path: Path, base: str) -> torch.nn.Linear:
    """Read a line that was trained on a base model of this content; else, or from a damaged file, a `ModelError`."""
    line = torch.nn.Linear(1, 1, dtype=torch.float32)
    try:
        with safe_open(path, framework="pt") as file:
            line.load_state_dict({name: file.get_tensor(name) for name in sorted(file.keys())})
            trained_on = (file.metadata() or {}).get(BASE)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"{path.name} is not the head of a regression model: {str(error).splitlines()[0]}") from error
    if trained_on != base:
        raise ModelError(
            f"this adapter was trained on a model of the content @{trained_on}, not on @{base}: give the model "
            "it belongs to."
        )
    return line


class Regressor(LoadedModel):
    """A regression model on a device: a cross-encoder, or a siamese one, which reads texts apart. `joints` are special
    tokens of a pair beyond those of its texts, of which the one that opens both counts once.
    """

    shortest = 5  # two texts of one token each and three special tokens
    joints = 0
    tokenizer: Any

    def __init__(self, files: ModelFiles, adapter: ModelFiles | None, dtype: str, device: torch.device) -> None:
        """Load the model, and merge an adapter: of a cross-encoder with the head in its weights, of a siamese model
        with the head in a file of its own. Raises `ModelError`, too, without a trained regression head.
        """
        if is_static(files):
            raise ModelError(
                f"model {files.label} holds static word vectors: stsscore needs a regression model, which reads "
                "both texts."
            )
        network: Any
        head = adapter.folder / HEAD_FILE if adapter else None
        if adapter and head and head.is_file():
            if is_packaged(files, adapter):
                encoder, self.tokenizer = load_bert(files, adapter, dtype), read_tokenizer(files)
            else:
                encoder, self.tokenizer = merge(load_encoder(files, dtype), adapter, files), load_tokenizer(files)
                check_vocabulary(self.tokenizer, encoder, files.label)
            with reading(adapter, adapter_content):
                line = load_line(head, files.fingerprint)
            network = SiameseRegressor(encoder, line)
        elif adapter and read_adapter_config(adapter, "task_type") == "FEATURE_EXTRACTION":
            raise ModelError(
                f"adapter {adapter.name} is one of an encoder and has no {HEAD_FILE}: stsscore needs what makes "
                "a number of its vectors."
            )
        else:
            network = _cross_encoder(files, adapter, dtype)
            encoder = getattr(network, network.base_model_prefix, network)
            self.tokenizer = load_tokenizer(files)
            self.tokenizer.padding_side = "right"
            if self.tokenizer.pad_token_id is None:
                raise ModelError(
                    f"the tokenizer of {files.label} has no padding token, which a cross-encoder needs: set pad_token "
                    "in its tokenizer_config.json, and pad_token_id in its config.json."
                )
            check_vocabulary(self.tokenizer, encoder, files.label)
            alone, joined = (self.tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True))
            self.joints = joined - 2 * alone + 1
        self.network = network.to(device).eval()
        self.encoder = encoder
        self.files = files
        self.reads_apart = isinstance(network, SiameseRegressor)
        self.limit = length_limit(encoder, self.tokenizer, self.shortest, files.label)
        self.device = device
        self.dtype = dtype
        self.lock = RLock()  # a tokenizer has state
        self._pads = True
        if not (self.reads_apart and is_packaged(files, adapter)):
            self._pads = probe.run(files.label, self._padding_changes_nothing) and not probe.switching_part(encoder)
        if self.reads_apart and not self._pads:
            raise ModelError(f"model {files.label} gives other vectors where texts are padded: stsscore cannot use it.")

    @torch.no_grad()
    def _padding_changes_nothing(self) -> bool:
        """Return whether short pairs get the same number each alone and padded together; a `ModelError` if they do not
        beside a pair of the same length.
        """
        words = sorted(self.tokenizer.get_vocab(), key=self.tokenizer.get_vocab().__getitem__)[-8:]
        texts = [" ".join(words[:2]), " ".join(words), " ".join(words[::-1])]
        cut = {"truncation": self.limit is not None, "max_length": self.limit}
        tokens = [np.array(self.tokenizer(text, **cut)["input_ids"]) for text in texts]
        make = self._maker([(ids, ids) for ids in tokens], self.tokenizer(texts, texts, **cut))
        alone = torch.cat([self._logits(make(np.array([i]))) for i in range(3)])
        level = torch.cat([self._logits(make(np.array(rows))) for rows in ([0], [1, 2])])
        if len({len(ids) for ids in tokens[1:]}) == 1 and not probe.equals(level, alone, self.dtype, scale=1.0):
            raise ModelError(f"model {self.files.label} gives other numbers of a pair in another batch, or by chance.")
        return probe.equals(self._logits(make(np.arange(3))), alone, self.dtype, scale=1.0)

    def _logits(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the head's outputs of a batch of B pairs; shape (B, 1)."""
        probe.switch_back(self.encoder)
        logits: Tensor = self.network(**{name: rows.to(self.device) for name, rows in inputs.items()})[0]
        return logits

    def _maker(self, ids: Sequence[Any], rows: Any) -> Callable[[np.ndarray], Any]:
        """Return a function from numbers of pairs to the network's arguments for them, made of the token ids of both
        texts, or of the rows that the tokenizer makes of pairs.
        """
        if self.reads_apart:
            return lambda batch: stack_pairs([ids[i] for i in batch], self.tokenizer.pad_token_id or 0)
        return lambda batch: self.tokenizer.pad(
            {name: [column[i] for i in batch] for name, column in rows.items()}, return_tensors="pt"
        )

    def predict(
        self,
        texts: Sequence[str],
        tokens: Sequence[TextTokens],
        pairs: np.ndarray,
        *,
        limit: int | None = None,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict one number per pair, longest pairs first; of a pair beyond `limit` tokens the longer text is cut.

        `pairs` are numbers of texts, shape (pairs, 2), and `tokens` those of the whole texts. Returns the head's raw
        output (logit), shape (pairs,), float64, and whether a pair's texts were cut, shape (pairs, 2).
        """
        cut = self.check_limit(limit)
        room = None if cut is None else cut - self.joints
        fitted = [fit_pair(tokens[first], tokens[second], room) for first, second in pairs.tolist()]
        if self.reads_apart:
            lengths = np.array([len(first.ids) + len(second.ids) - 1 for first, second in fitted])
            rows = None
        else:
            firsts, seconds = ([texts[i] for i in side] for side in pairs.T)
            rows = self.tokenizer(firsts, seconds, truncation=cut is not None and "longest_first", max_length=cut)
            lengths = np.array([len(row) for row in rows["input_ids"]])
        inputs = self._maker([[text.ids for text in pair] for pair in fitted], rows)
        values = np.zeros(len(lengths))

        def forward(batch: np.ndarray) -> list[torch.Tensor]:
            logits = self._logits(inputs(batch))[:, 0]
            values[batch] = logits.to("cpu", torch.float64).numpy()
            if progress is not None:
                progress(len(batch))
            return [logits]

        self.run_batches(lengths, batch_tokens, forward, pads=self._pads)
        return values, np.array([[text.truncated for text in pair] for pair in fitted])


def _cross_encoder(files: ModelFiles, adapter: ModelFiles | None, dtype: str) -> Any:
    from transformers import AutoModelForSequenceClassification

    if adapter:
        network = merge(load_network(AutoModelForSequenceClassification, files, dtype, num_labels=1), adapter, files)
    else:
        network = load_network(AutoModelForSequenceClassification, files, dtype, headed=True)
        if (outputs := network.config.num_labels) != 1:
            raise ModelError(f"model {files.label} has {outputs} outputs: stsscore needs a regression model with one.")
    _keep_head_exact(network)
    return network


def _keep_head_exact(network: Any) -> None:
    """Run everything above the encoder in float32: a head in half precision rounds many pairs to one number."""
    for name, part in network.named_children():
        if name != network.base_model_prefix:
            part.float().register_forward_pre_hook(
                lambda _part, inputs: tuple(x.float() if torch.is_tensor(x) else x for x in inputs)
            )
