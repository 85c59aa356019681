"""A regression model that encodes the two texts separately: the cosine of their mean vectors on the ratings' scale.

``logit = weight * cos(u, v) + bias``, u and v the means of the last hidden states (Reimers & Gurevych 2019, the
regression objective, with a trained line instead of the bare cosine). Its input is that of a BERT cross-encoder, the
tokens of a pair in one row, so that both are scored and trained by the same code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from tokenizers.processors import TemplateProcessing
from torch import Tensor

from twmd_registry.errors import ModelError
from twmd_registry.models.adapter import HEAD_FILE
from twmd_registry.registry.paths import write_atomically

BASE = "base"
"""The entry of its metadata that names the content of the base model."""


def mark_second_texts(tokenizer: Any, name: str) -> None:
    """Make a fast tokenizer write pairs as `take_apart` reads them, in the format of BERT; a tokenizer without token
    types, such as XLM-RoBERTa's, gets them.

    Raises:
        ModelError: It has no special token at the beginning or at the end of a text.
    """
    if "token_type_ids" in tokenizer.model_input_names:
        return
    begin, end = tokenizer.cls_token, tokenizer.sep_token
    if begin is None or end is None:
        raise ModelError(f"{name} marks no beginning and end of a text: a siamese model cannot take pairs apart.")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=[(begin, tokenizer.cls_token_id), (end, tokenizer.sep_token_id)],
    )
    tokenizer.model_input_names = [*tokenizer.model_input_names, "token_type_ids"]


def take_apart(input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Take rows ``[CLS] a [SEP] b [SEP]`` apart into ``[CLS] a [SEP]`` and ``[CLS] b [SEP]``.

    Args:
        input_ids: Token ids, padded on the right; shape (B, T).
        attention_mask: 1 for tokens; shape (B, T).
        token_type_ids: 1 for the second text; shape (B, T).

    Returns:
        Token ids of B first texts, then of B second texts, each with its special tokens; and which of them are tokens.
        Both of shape (2B, T).
    """
    second = (token_type_ids == 1) & (attention_mask == 1)
    first_lengths = (attention_mask == 1).sum(1) - second.sum(1)
    lengths = torch.cat([first_lengths, second.sum(1) + 1])  # (2B,)
    places = torch.arange(int(lengths.max()), device=input_ids.device)  # (T',)
    # The second text's row begins with the pair's first token ([CLS]) and goes on where the first text ends.
    from_second = torch.where(places == 0, 0, first_lengths[:, None] + places - 1).clamp(max=input_ids.shape[1] - 1)
    from_first = places.clamp(max=input_ids.shape[1] - 1).expand(len(input_ids), -1)
    ids = torch.cat([input_ids.gather(1, from_first), input_ids.gather(1, from_second)])
    return ids, places < lengths[:, None]


class Prediction(NamedTuple):
    """The loss, None without labels, and one number per pair; shape (B, 1)."""

    loss: Tensor | None
    logits: Tensor


class SiameseRegressor(torch.nn.Module):
    """An encoder and a line.

    Attributes:
        encoder: Gives the last hidden states.
        line: From a cosine to a rating.
    """

    def __init__(self, encoder: Any, line: torch.nn.Linear | None = None) -> None:
        """Store both; without a line, make one that maps cosines to ratings up to 5."""
        super().__init__()
        self.encoder = encoder
        self.line = line or torch.nn.Linear(1, 1, dtype=torch.float32)
        if line is None:
            torch.nn.init.constant_(self.line.weight, 5.0)
            torch.nn.init.zeros_(self.line.bias)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, labels: Tensor | None = None
    ) -> Prediction:
        """Predict one number per pair; with ``labels`` (B,), also the mean squared error."""
        ids, mask = take_apart(input_ids, attention_mask, token_type_ids)
        hidden = self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()  # (2B, T, D)
        weight = mask[..., None].float()
        first, second = ((hidden * weight).sum(1) / weight.sum(1)).chunk(2)  # (B, D) each
        logits = self.line(torch.nn.functional.cosine_similarity(first, second)[:, None])  # (B, 1)
        loss = None if labels is None else torch.nn.functional.mse_loss(logits[:, 0], labels.float())
        return Prediction(loss, logits)


def save_line(line: torch.nn.Linear, folder: Path, base: str) -> None:
    """Write the line beside an adapter, with the content of the base model that both were trained on."""
    numbers = {"weight": line.weight.detach().clone(), "bias": line.bias.detach().clone()}
    write_atomically(folder / HEAD_FILE, save(numbers, metadata={BASE: base}))


def load_line(path: Path, base: str) -> torch.nn.Linear:
    """Read a line that was trained on a base model of this content.

    Raises:
        ModelError: The file is damaged, holds something else, or was trained on another base model.
    """
    line = torch.nn.Linear(1, 1, dtype=torch.float32)
    try:
        with safe_open(path, framework="pt") as file:
            line.load_state_dict({name: file.get_tensor(name) for name in sorted(file.keys())})
            trained_on = (file.metadata() or {}).get(BASE)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"{path.name} is not the head of a regression model: {str(error).splitlines()[0]}") from error
    if not all(bool(torch.isfinite(number).all()) for number in line.parameters()):
        raise ModelError(f"{path.name} holds a number that is not finite.")
    if trained_on != base:
        raise ModelError(
            f"this adapter was trained on a model of the content @{trained_on}, not on @{base}: give the model "
            "it belongs to."
        )
    return line
