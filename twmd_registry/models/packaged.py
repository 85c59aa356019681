"""The packaged models, read without transformers: network and tokenizer only need torch and tokenizers.

Importing transformers' models takes longer than importing torch and scoring a few texts. `Bert` computes the same as
``transformers.BertModel``, for scoring only. Training and external adapters use transformers and PEFT.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from twmd_registry.errors import ModelError
from twmd_registry.models.assembled import model_folders
from twmd_registry.models.files import (
    ModelFiles,
    adapter_content,
    check_base,
    packaged_adapters,
    read_adapter_config,
    reading,
)
from twmd_registry.models.inference import OneDnnLinear
from twmd_registry.registry.hashes import stamp_of
from twmd_registry.registry.names import (
    EMBEDDED_FINGERPRINT,
    EMBEDDED_MODEL,
    MULTILINGUAL_FINGERPRINT,
    MULTILINGUAL_MODEL,
)

KNOWN = {(EMBEDDED_MODEL, EMBEDDED_FINGERPRINT), (MULTILINGUAL_MODEL, MULTILINGUAL_FINGERPRINT)}
"""Name and content of the models read here."""
WORDS = "embeddings.word_embeddings.weight"
SHORT = 64
"""Up to this many tokens, attention in bfloat16 is two products on a CPU, because torch's takes up to twice as long."""


class Bert(nn.Module):
    """BERT's encoder (Devlin et al. 2019) with transformers' names of weights, for scoring.

    There is no dropout, every text is its own segment, and positions start at 0. A layer is self-attention, then two
    linear layers with GELU in between. Each half is added to its input and normalised (Vaswani et al. 2017).
    """

    def __init__(self, config: Mapping[str, Any], words: Callable[[Tensor], Tensor] | None = None) -> None:
        """Build the network, without a table of word embeddings if a function returns them."""
        super().__init__()
        self.words = words
        self.config = c = SimpleNamespace(**config)
        width, inner = c.hidden_size, c.intermediate_size

        def table(rows: int) -> nn.Module:
            return nn.Embedding(rows, width, _weight=torch.empty(rows, width))

        def norm() -> nn.Module:
            return nn.LayerNorm(width, eps=c.layer_norm_eps)

        def layer() -> nn.Module:
            projections = nn.ModuleDict({name: OneDnnLinear(width, width) for name in ("query", "key", "value")})
            after = nn.ModuleDict({"dense": OneDnnLinear(width, width), "LayerNorm": norm()})
            return nn.ModuleDict(
                {
                    "attention": nn.ModuleDict({"self": projections, "output": after}),
                    "intermediate": nn.ModuleDict({"dense": OneDnnLinear(width, inner)}),
                    "output": nn.ModuleDict({"dense": OneDnnLinear(inner, width), "LayerNorm": norm()}),
                }
            )

        self.embeddings: Any = nn.ModuleDict(
            {
                **({} if words else {"word_embeddings": table(c.vocab_size)}),
                "position_embeddings": table(c.max_position_embeddings),
                "token_type_embeddings": table(c.type_vocab_size),
                "LayerNorm": norm(),
            }
        )
        self.encoder: Any = nn.ModuleDict({"layer": nn.ModuleList(layer() for _ in range(c.num_hidden_layers))})

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, read: Collection[int] = ()
    ) -> SimpleNamespace:
        """Return the last hidden states under transformers' name, given token ids and, with padding, a mask (B, N).

        With `read`, also return the hidden states with these numbers, and run no layer above the highest.
        """
        parts = self.embeddings
        hidden = (self.words or parts["word_embeddings"])(input_ids) + parts["token_type_embeddings"].weight[0]
        hidden = parts["LayerNorm"](hidden + parts["position_embeddings"].weight[: input_ids.shape[1]])  # (B, N, D)
        mask = None if attention_mask is None else attention_mask[:, None, None].to(hidden.dtype).log()  # 0 or -inf
        layers, states = self.encoder["layer"], {0: hidden} if 0 in read else {}
        for number in range(1, max(read, default=len(layers)) + 1):
            layer = layers[number - 1]
            query, key, value = (
                project(hidden).unflatten(-1, (self.config.num_attention_heads, -1)).transpose(1, 2)
                for project in layer["attention"]["self"].values()
            )  # (B, heads, N, D / heads)
            if query.is_cpu and hidden.dtype == torch.bfloat16 and hidden.shape[1] <= SHORT:
                query, key = (side.contiguous().to(torch.float32) for side in (query, key))
                scores = (query @ key.mT).mul_(query.shape[-1] ** -0.5)  # (B, heads, N, N)
                mixed = (scores if mask is None else scores.add_(mask)).softmax(-1).to(value.dtype) @ value
            else:
                mixed = functional.scaled_dot_product_attention(query, key, value, mask)
            after, output = layer["attention"]["output"], layer["output"]
            hidden = after["LayerNorm"](after["dense"](mixed.transpose(1, 2).flatten(2)).add_(hidden))
            inner = layer["intermediate"]["dense"](hidden, gelu=True)
            hidden = output["LayerNorm"](output["dense"](inner).add_(hidden))
            if number in read:
                states[number] = hidden
        return SimpleNamespace(last_hidden_state=hidden, hidden_states=states)


def embeddings_in_file(path: Path, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return a function that reads word embeddings from a safetensors file by token id, shape (...) to (..., D).

    Only the rows of current texts are in memory. Mapped weights would keep up to 64 KB of the file for every row.
    Raises ModelError if the file changes.
    """
    with path.open("rb") as file:
        stamp = stamp_of(file)
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[WORDS]
    offset, width = 8 + size + entry["data_offsets"][0], entry["shape"][1]

    def read_rows(ids: Tensor) -> Tensor:
        numbers, places = np.unique(ids.cpu().numpy().ravel(), return_inverse=True)
        rows = np.empty((len(numbers), width), dtype="<f4")
        try:
            with path.open("rb", buffering=0) as file:
                for row, number in zip(rows, numbers.tolist(), strict=True):
                    file.seek(offset + number * row.nbytes)
                    file.readinto(row.data)
                is_same = stamp_of(file) == stamp
        except OSError:
            is_same = False
        if not is_same:
            raise ModelError(f"{path} was changed or removed while it was in use: make a new scorer.")
        return torch.from_numpy(rows[places].reshape(*ids.shape, -1)).to(ids.device, dtype)

    return read_rows


NAMED_TOKENS = ("unk_token", "pad_token", "cls_token", "sep_token")


class PackagedTokenizer:
    """What scoring needs from transformers' fast tokenizers, under their names, from a ``tokenizer.json``."""

    unk_token_id: int
    pad_token_id: int
    cls_token_id: int
    sep_token_id: int

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer of a model's folder."""
        self._read_vocabulary(folder / "tokenizer.json")
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
        self.model_max_length: int | None = settings.get("model_max_length")
        find = self.backend_tokenizer.get_vocab().__getitem__
        for name in NAMED_TOKENS:
            setattr(self, f"{name}_id", find(settings[name]))

    def _read_vocabulary(self, path: Path) -> None:
        self.backend_tokenizer = Tokenizer.from_file(str(path))

    def get_vocab(self) -> dict[str, int]:
        """Return token ids by token."""
        return self.backend_tokenizer.get_vocab()

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return tokens as they are in the vocabulary."""
        return [str(self.backend_tokenizer.id_to_token(number)) for number in ids]

    def num_special_tokens_to_add(self) -> int:
        """Return the number of special tokens around a text."""
        return self.backend_tokenizer.num_special_tokens_to_add(is_pair=False)


class UnigramTokenizer(PackagedTokenizer):
    """The same for a Unigram vocabulary, with only the pieces that occur in texts: 250,000 pieces take 290 MB.

    Leaving out pieces that do not occur in a text does not change its tokens. `full_ids` maps token ids of
    `backend_tokenizer` to the full vocabulary.
    """

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer of a model's folder."""
        super().__init__(folder)
        for name in NAMED_TOKENS:
            setattr(self, f"{name}_id", int(self.full_ids[getattr(self, f"{name}_id")]))

    def _read_vocabulary(self, path: Path) -> None:
        self._content = json.loads(path.read_bytes())
        pieces, scores = zip(*self._content["model"].pop("vocab"), strict=True)
        # One string and arrays, because a string, number and dictionary entry per piece take 90 MB.
        self._text, self._starts = "".join(pieces), np.cumsum([0, *map(len, pieces)])
        self._scores, hashes = np.array(scores), np.array([hash(piece.encode()) for piece in pieces])
        self._by_hash = np.argsort(hashes)
        self._hashes = hashes[self._by_hash]
        self._longest = max(map(len, pieces))
        added = self._content["added_tokens"]
        self._special = re.compile("|".join(re.escape(token["content"]) for token in added))
        # The worst piece determines the cost of an unknown character.
        self._always = {*(token["id"] for token in added), int(self._scores.argmin())}
        self._make(self._always)

    def _make(self, held: set[int]) -> None:
        """Build the tokenizer for pieces, in the order of the full vocabulary."""
        self._held, self.full_ids = held, np.array(sorted(held))
        vocabulary = list(zip(self.convert_ids_to_tokens(self.full_ids), self._scores[self.full_ids], strict=True))
        ids = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        added = [{**token, "id": ids[token["content"]]} for token in self._content["added_tokens"]]
        model = {**self._content["model"], "vocab": vocabulary}
        content = {**self._content, "added_tokens": added, "model": model}
        self.backend_tokenizer = Tokenizer.from_str(json.dumps(content))

    def add_pieces(self, texts: Sequence[str]) -> None:
        """Add the pieces that occur in texts to `backend_tokenizer`."""
        normalise = self.backend_tokenizer.normalizer.normalize_str
        split = self.backend_tokenizer.pre_tokenizer.pre_tokenize_str
        words = {
            word
            for text in texts
            for between in self._special.split(text)  # like the tokenizer, before normalisation
            for word, _ in split(normalise(between))
        }
        # As bytes: Python hashes a string's memory, which different strings may share.
        parts = (
            hash(word[start:end].encode())
            for word in words
            for start in range(len(word))
            for end in range(start + 1, min(start + self._longest, len(word)) + 1)
        )
        piece_ids = np.unique(np.fromiter(parts, dtype=np.int64))
        places = np.searchsorted(self._hashes, piece_ids).clip(max=len(self._hashes) - 1)
        # If two strings share a hash, an extra piece is held, which changes nothing.
        ids = set(self._by_hash[places[self._hashes[places] == piece_ids]].tolist())
        if not ids <= self._held:
            self._make(ids | self._always)

    def get_vocab(self) -> dict[str, int]:
        """Return token ids by token, in the full vocabulary."""
        return {piece: number for number, piece in enumerate(self.convert_ids_to_tokens(range(len(self._scores))))}

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return tokens as they are in the vocabulary."""
        return [self._text[self._starts[number] : self._starts[number + 1]] for number in ids]


def is_packaged(files: ModelFiles, adapter: ModelFiles | None) -> bool:
    """Return whether a model has the content of a packaged one, and its adapter, if any, is packaged too."""
    is_packaged = adapter is None or adapter.folder.parent == packaged_adapters()
    is_whole = (files.folder / "model.safetensors").is_file()  # transformers reads the shards of a saved copy
    return is_packaged and is_whole and (files.name, files.fingerprint) in KNOWN


def read_tokenizer(files: ModelFiles) -> PackagedTokenizer:
    """Return the tokenizer of a packaged model."""
    with reading(files):  # json.loads skips a byte-order mark in bytes, but not in text
        return (UnigramTokenizer if files.name == MULTILINGUAL_MODEL else PackagedTokenizer)(files.folder)


def load_bert(files: ModelFiles, adapter: ModelFiles | None, dtype: str) -> Bert:
    """Load a packaged model in evaluation mode on the CPU, with a packaged adapter merged into it.

    Raises:
        ModelError: The adapter was made for another model, or a file is damaged.
    """
    path, kind = files.folder / "model.safetensors", getattr(torch, dtype)
    with reading(files):
        try:
            config = json.loads((files.folder / "config.json").read_bytes())
            # In a folder built by this package, 384 MB of word embeddings stay in the file.
            words = embeddings_in_file(path, kind) if files.folder.parent == model_folders() else None
            with torch.device("meta"):
                network = Bert(config, words)
            with safe_open(path, framework="pt") as file:
                # Copy, because tensors are mapped from the file, which may be overwritten.
                weights = {name: file.get_tensor(name).to(kind, copy=True) for name in network.state_dict()}
            if adapter is not None:
                with reading(adapter, adapter_content):
                    _merge(weights, adapter, files)
            network.load_state_dict(weights, assign=True)
        except ModelError:
            raise  # also an OSError
        except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError(f"model {files.label} is damaged ({str(error).splitlines()[0]}): reinstall it.") from error
    return network.eval().requires_grad_(False)  # noqa: FBT003 (torch's own signature)


def _merge(weights: dict[str, Tensor], adapter: ModelFiles, files: ModelFiles) -> None:
    """Add ``alpha / r B A`` of a LoRA adapter (Hu et al. 2022) to every weight that it changes, with its own alpha."""
    check_base(adapter, files)
    alpha, alphas, rank = (read_adapter_config(adapter, key) for key in ("lora_alpha", "alpha_pattern", "r"))
    tensors = load_file(adapter.folder / "adapter_model.safetensors")
    for name, down in tensors.items():
        place = name.removeprefix("base_model.model.").replace(".lora_A", "")
        if ".lora_A." in name and place in weights:  # an adapter may also change the pooler, which is never run
            up = tensors[name.replace(".lora_A", ".lora_B")]
            weights[place] += (up.float() @ down.float()) * (alphas.get(place.removesuffix(".weight"), alpha) / rank)
