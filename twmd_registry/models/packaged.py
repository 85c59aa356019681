"""The models that come as packages, read directly: their network and tokenizer need torch and tokenizers alone.

Importing transformers' models takes longer than importing torch, and scoring a few texts; `Bert` computes what
``transformers.BertModel`` computes, for scoring only. Training, and adapters that this package does not bring, go
through transformers and PEFT.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from twmd_registry.errors import ModelError
from twmd_registry.models.adapter import AdapterFiles, check_base, packaged_adapters, read_adapter_config
from twmd_registry.models.files import PACKAGED, ModelFiles
from twmd_registry.models.inference import OneDnnLinear, has_onednn
from twmd_registry.registry.names import MULTILINGUAL_MODEL

WORDS = "embeddings.word_embeddings.weight"


class LastHidden(NamedTuple):
    """The last hidden states of texts; shape (B, N, D)."""

    last_hidden_state: Tensor


class Block(nn.Module):
    """A layer of BERT, with transformers' names of weights: self-attention, then two linear layers with GELU between
    them; each half is added to its input, and normalised (Vaswani et al. 2017, Devlin et al. 2019).
    """

    def __init__(self, config: SimpleNamespace) -> None:
        """Make the layer's parts, of the sizes in a ``config.json``."""
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads
        linear = OneDnnLinear if has_onednn() else nn.Linear

        def half(inputs: int) -> nn.ModuleDict:
            norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
            return nn.ModuleDict({"dense": linear(inputs, width), "LayerNorm": norm})

        projections = nn.ModuleDict({name: linear(width, width) for name in ("query", "key", "value")})
        self.attention: Any = nn.ModuleDict({"self": projections, "output": half(width)})
        self.intermediate: Any = nn.ModuleDict({"dense": linear(width, inner)})
        self.output: Any = half(inner)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the next hidden states; of shape (B, N, D), with a mask of shape (B, 1, 1, N)."""
        query, key, value = (
            project(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, N, D / heads)
            for project in self.attention["self"].values()
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)
        after = self.attention["output"]
        hidden = after["LayerNorm"](after["dense"](mixed) + hidden)
        inner = functional.gelu(self.intermediate["dense"](hidden))
        changed: Tensor = self.output["LayerNorm"](self.output["dense"](inner) + hidden)
        return changed


class Bert(nn.Module):
    """BERT's encoder, for scoring: no dropout, every text its own segment, positions from 0.

    Attributes:
        config: The content of its ``config.json``.
    """

    def __init__(self, config: Mapping[str, Any], words: nn.Module | None = None) -> None:
        """Make the network, with word embeddings of its own kind where given."""
        super().__init__()
        self.config = c = SimpleNamespace(**config)

        def table(rows: int) -> nn.Module:
            return nn.Embedding(rows, c.hidden_size, _weight=torch.empty(rows, c.hidden_size))

        self.embeddings: Any = nn.ModuleDict(
            {
                "word_embeddings": words or table(c.vocab_size),
                "position_embeddings": table(c.max_position_embeddings),
                "token_type_embeddings": table(c.type_vocab_size),
                "LayerNorm": nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps),
            }
        )
        self.encoder: Any = nn.ModuleDict({"layer": nn.ModuleList(Block(c) for _ in range(c.num_hidden_layers))})

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> LastHidden:
        """Return the last hidden states; of token ids and, where there is padding, a mask, both of shape (B, N)."""
        parts = self.embeddings
        hidden = parts["word_embeddings"](input_ids) + parts["token_type_embeddings"].weight[0]
        hidden = parts["LayerNorm"](hidden + parts["position_embeddings"].weight[: input_ids.shape[1]])
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None]
        for layer in self.encoder["layer"]:
            hidden = layer(hidden, mask)
        return LastHidden(hidden)


class FileEmbedding(nn.Module):
    """Word embeddings that are read from the model's file, row by row: only the rows of the texts at hand are in
    memory, where reading mapped weights would keep up to 64 KB of the file for every row.
    """

    def __init__(self, path: Path, dtype: torch.dtype) -> None:
        """Store the place of the rows in a safetensors file, which must never be written again."""
        super().__init__()
        self.path = path
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(size))[WORDS]
        self.offset, self.width = 8 + size + entry["data_offsets"][0], entry["shape"][1]
        self.like: Tensor
        self.register_buffer("like", torch.empty(0, dtype=dtype), persistent=False)  # follows the network's device

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of token ids; shape (...) to (..., D)."""
        numbers, places = np.unique(ids.cpu().numpy().ravel(), return_inverse=True)
        rows = np.empty((len(numbers), self.width), dtype="<f4")
        with self.path.open("rb", buffering=0) as file:
            for row, number in zip(rows, numbers.tolist(), strict=True):
                file.seek(self.offset + number * row.nbytes)
                if file.readinto(row.data) != row.nbytes:
                    raise ModelError(f"{self.path} ends before its word embeddings do: remove its folder.")
        return torch.from_numpy(rows[places].reshape(*ids.shape, -1)).to(self.like)


class PackagedTokenizer:
    """What scoring needs of transformers' fast tokenizers, from a ``tokenizer.json``.

    Attributes:
        backend_tokenizer: The tokenizer.
        model_max_length: Most tokens of a text.
        unk_token_id: The token of what the vocabulary does not hold.
        pad_token_id: The token that fills a batch.
    """

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer of a model's folder."""
        self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.model_max_length: int = settings["model_max_length"]
        self.unk_token_id = self.backend_tokenizer.token_to_id(settings["unk_token"])
        self.pad_token_id = self.backend_tokenizer.token_to_id(settings["pad_token"])

    def get_vocab(self) -> dict[str, int]:
        """Return token ids by token."""
        return self.backend_tokenizer.get_vocab()

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return tokens as they are in the vocabulary."""
        return [str(self.backend_tokenizer.id_to_token(number)) for number in ids]

    def num_special_tokens_to_add(self) -> int:
        """Return the number of special tokens around a text."""
        return self.backend_tokenizer.num_special_tokens_to_add(is_pair=False)


def is_packaged(files: ModelFiles, adapter: AdapterFiles | None) -> bool:
    """Return whether a model is that of a package, and its adapter, if any, of this one."""
    own = adapter is None or adapter.folder.parent == packaged_adapters()
    return own and files.name in PACKAGED and files.folder == PACKAGED[files.name][1]()


def load_bert(files: ModelFiles, adapter: AdapterFiles | None, dtype: str) -> Bert:
    """Load a packaged model in evaluation mode on the CPU, with a packaged adapter merged into it.

    Raises:
        ModelError: The adapter was made for another model, or a file is damaged.
    """
    path, kind = files.folder / "model.safetensors", getattr(torch, dtype)
    try:
        config = json.loads((files.folder / "config.json").read_text(encoding="utf-8"))
        # A folder that is replaced, never written, keeps its 384 MB of word embeddings in the file.
        words = FileEmbedding(path, kind) if files.name == MULTILINGUAL_MODEL else None
        with torch.device("meta"):
            network = Bert(config, words)
        with safe_open(path, framework="pt") as file:
            # Copies: tensors are mapped from the file, and a file may be written again.
            weights = {name: file.get_tensor(name).to(kind, copy=True) for name in network.state_dict()}
        if adapter is not None:
            _merge(weights, adapter, files)
        network.load_state_dict(weights, assign=True)
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"model {files.label} is damaged ({str(error).splitlines()[0]}): reinstall it.") from error
    return network.eval().requires_grad_(False)  # noqa: FBT003 (torch's own signature)


def _merge(weights: dict[str, Tensor], adapter: AdapterFiles, files: ModelFiles) -> None:
    """Replace every weight W that a LoRA adapter changes by ``W + alpha / r B A`` (Hu et al. 2022)."""
    check_base(adapter, files)
    scale = read_adapter_config(adapter, "lora_alpha") / read_adapter_config(adapter, "r")
    tensors = load_file(adapter.folder / "adapter_model.safetensors")
    for name, down in tensors.items():
        place = name.removeprefix("base_model.model.").replace(".lora_A", "")
        if ".lora_A." in name and place in weights:  # an adapter may change the pooler, too, which is never run
            up = tensors[name.replace(".lora_A", ".lora_B")]
            weights[place] += (up.float() @ down.float()) * scale
