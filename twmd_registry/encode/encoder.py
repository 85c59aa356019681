"""`Encoder`: one loaded model, from texts to token vectors of the layers asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from twmd_registry.encode.cache import TextCache
from twmd_registry.encode.pieces import Vocabulary, pieces_of
from twmd_registry.encode.tokenization import TokenIds, split_into_windows, tokenise
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.models.adapter import AdapterFiles, merge
from twmd_registry.models.files import ModelFiles
from twmd_registry.models.inference import LoadedModel, check_finite
from twmd_registry.models.load import check_vocabulary, length_limit, load_encoder, load_tokenizer
from twmd_registry.models.vectors import is_static, load_static
from twmd_registry.tensors import EncodedTexts


class Encoder(LoadedModel):
    """An encoder on a device.

    Attributes:
        depth: Number of its layers; hidden states run from 0 to `depth`.
        width: Dimensions of a token vector.
        dtype: Name of its number format.
        lock: Held while the model is used: hidden states are read by hooks, which threads would share.
        adapter: Name of its adapter; None without one.
        identity: Content of model and adapter, and number format: equal identities give equal vectors.
        references: Cache of encoded references for later calls; empty unless a scorer asks for it.
        texts_encoded: Number of texts encoded so far.
    """

    shortest = 3  # a token of the text, and two special tokens

    def __init__(self, files: ModelFiles, adapter: AdapterFiles | None, dtype: str, device: torch.device) -> None:
        """Load the model, and merge an adapter.

        Raises:
            ModelError: It cannot be loaded.
        """
        self.files = files
        self.static = is_static(files)
        if self.static:
            network, self.tokenizer = load_static(files, dtype)
        else:
            network, self.tokenizer = load_encoder(files, dtype), load_tokenizer(files)
            check_vocabulary(self.tokenizer, network, files.label)
        if adapter is not None:
            network = merge(network, adapter, files)
        self.limit = length_limit(network, self.tokenizer)
        self.network = network.to(device)
        self.blocks = find_blocks(network)
        self.depth = depth_of(network)
        self.width = int(network.config.hidden_size)
        self.device = device
        self.dtype = dtype
        self.lock = RLock()
        self.adapter = adapter.name if adapter else None
        self.identity = f"{files.fingerprint}|{self.adapter}|{dtype}"
        self.references = TextCache()
        self.texts_encoded = 0

    def decode_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as text, without the marks of a vocabulary that marks the beginning of words; a token without
        text of its own as it is in the vocabulary.
        """
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids))
        try:
            texts = [self.pieces.texts[i] for i in ids]
        except SpecError:
            return list(tokens)
        return [
            token if token.startswith("##") or not text or "\ufffd" in text else text
            for token, text in zip(tokens, texts, strict=True)
        ]

    def check_windows(self, limit: int, stride: int) -> None:
        """Check that windows leave no token between them out.

        Raises:
            SpecError: They do.
        """
        room = limit - self.tokenizer.num_special_tokens_to_add()
        if stride > room:
            raise SpecError(
                f"truncation=window:{limit}/{stride} leaves tokens out: a window holds {room} of a text beside "
                "special tokens."
            )

    def tokenise(self, texts: Sequence[str], limit: int | None = None, stride: int | None = None) -> TokenIds:
        """Return the token ids of texts, cut at `limit` or the model's own limit; with a stride, whole."""
        return tokenise(self.tokenizer, texts, None if stride else limit or self.limit, drop_unknown=self.static)

    def encode(
        self,
        tokens: TokenIds,
        layers: Iterable[int],
        limit: int | None = None,
        stride: int | None = None,
        *,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> EncodedTexts:
        """Run the encoder over tokenised texts, each once, longest first.

        Args:
            tokens: The texts, at least one.
            layers: The hidden states to return.
            limit: Most tokens of a window.
            stride: Tokens between the beginnings of two windows; None where texts are cut.
            batch_tokens: Most padded tokens at once; None picks a number for the device.
            progress: Called after every batch with the number of texts (or windows) in it.

        Returns:
            The texts in their own order: float32 vectors on the encoder's device.

        Raises:
            ModelError: Out of memory with a single text, or vectors that are not finite.
        """
        lengths, wanted = tokens.lengths, sorted(set(layers))
        rows, places, repeats = split_into_windows(tokens, limit, stride)
        widths = np.array([len(row) for row in rows])
        vectors = {
            k: torch.zeros(int(lengths.sum()), self.width, dtype=torch.float32, device=self.device) for k in wanted
        }

        def forward(batch: np.ndarray) -> None:
            ids = np.full((len(batch), int(widths[batch].max())), self.tokenizer.pad_token_id or 0, dtype=np.int64)
            mask = np.arange(ids.shape[1]) < widths[batch, None]
            ids[mask] = np.concatenate([rows[i] for i in batch])
            inputs = {"input_ids": torch.from_numpy(ids).to(self.device)}
            if padded := not mask.all():  # without a mask, attention takes a faster path
                inputs["attention_mask"] = torch.from_numpy(mask.astype(np.int64)).to(self.device)
            where = torch.from_numpy(np.concatenate([places[i] for i in batch])).to(self.device)
            present = torch.from_numpy(np.flatnonzero(mask)).to(self.device)
            for k, state in hidden_states(self.network, self.blocks, wanted, inputs).items():
                flat = state.flatten(0, 1).index_select(0, present) if padded else state.flatten(0, 1)  # (T, D)
                check_finite(flat, self.files.label, self.dtype)
                write = vectors[k].index_copy_ if repeats is None else vectors[k].index_add_
                write(0, where, flat.to(torch.float32))
            if progress is not None:
                progress(len(batch))

        self.run_batches(widths, batch_tokens, forward)
        if repeats is not None:
            times = torch.from_numpy(repeats).to(self.device, torch.float32)
            vectors = {k: sums / times[:, None] for k, sums in vectors.items()}
        self.texts_encoded += len(lengths)
        special, ids = np.concatenate(tokens.special), np.concatenate(tokens.ids)
        sides = lengths, special, ids, self.unknown_codes(ids, special, chain.from_iterable(tokens.missing))
        return EncodedTexts(vectors, *(torch.from_numpy(side).to(self.device) for side in sides))

    def unknown_codes(self, ids: np.ndarray, special: np.ndarray, missing: Iterable[str]) -> np.ndarray:
        """Return the codes of unknown tokens, see `EncodedTexts.unknown`; strings that the tokenizer normalises alike
        have the same code.

        Args:
            ids: Token ids of many texts in a row; shape (T,).
            special: Their marks; see `EncodedTexts.special`.
            missing: The surface strings of their unknown tokens, in order; none for a static model, which drops them.
        """
        codes = np.zeros(len(ids), dtype=np.int64)
        if not self.static:
            normalizer = self.tokenizer.backend_tokenizer.normalizer
            alike = (normalizer.normalize_str(word) if normalizer else word for word in missing)
            hashes = [hashlib.blake2b(word.strip().encode(), digest_size=8).digest() for word in alike]
            codes[(special == 0) & (ids == self.tokenizer.unk_token_id)] = [
                int.from_bytes(digest, signed=True) | 1 for digest in hashes
            ]
        return codes

    @cached_property
    def pieces(self) -> Vocabulary:
        """The vocabulary.

        Raises:
            SpecError: Its way of marking words is not supported.
        """
        return pieces_of(self.tokenizer)


class _StopForward(Exception):  # noqa: N818 - not an error: the signal that no further layer has to run
    """Raised inside a forward pass when the last hidden state needed has been read."""


def find_blocks(network: nn.Module) -> nn.ModuleList | None:
    """Return a network's list of transformer layers; None if it has none (ALBERT runs one layer many times)."""
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth_of(network):
            return module
    return None


def depth_of(network: nn.Module) -> int:
    """Return the number of a network's layers.

    Raises:
        ModelError: Its configuration does not say.
    """
    depth = getattr(network.config, "num_hidden_layers", None)
    if not isinstance(depth, int) or depth < 0:
        raise ModelError(
            f"{type(network).__name__} does not say how many layers it has (num_hidden_layers): it is not supported."
        )
    return depth


def hidden_states(
    network: nn.Module, blocks: nn.ModuleList | None, layers: Iterable[int], inputs: dict[str, Any]
) -> dict[int, Tensor]:
    """Run a network up to the highest layer asked for.

    Hidden state k < L is what layer k receives (k = 0: the embeddings); hidden state L is the network's own output.
    Layers above the highest one asked for are never run, where a network keeps its layers in a list.

    Args:
        network: The encoder.
        blocks: Its L transformer layers; None to take the hidden states that the network itself returns.
        layers: Numbers of hidden states, each from 0 to L.
        inputs: Arguments of the forward pass.

    Returns:
        Hidden state number to tensor (B, N, D), in the network's dtype.
    """
    wanted = sorted(set(layers))
    if blocks is None:
        states = network(**inputs, output_hidden_states=True).hidden_states
        return {k: states[k] for k in wanted}
    read: dict[int, Tensor] = {}

    def reader(k: int) -> Any:
        def keep_input(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            read[k] = args[0] if args else kwargs["hidden_states"]
            if k == wanted[-1]:
                raise _StopForward

        return keep_input

    hooks = [blocks[k].register_forward_pre_hook(reader(k), with_kwargs=True) for k in wanted if k < len(blocks)]
    try:
        read[len(blocks)] = network(**inputs).last_hidden_state
    except _StopForward:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return {k: read[k] for k in wanted}


def check_layer(layer: int, depth: int, model: str) -> int:
    """Refuse a layer the model does not have.

    Raises:
        SpecError: `layer` is above `depth`.
    """
    if layer > depth:
        raise SpecError(f"layer={layer} is out of range: {model} has hidden states 0 to {depth}.")
    return layer


def last_layers(asked: str, depth: int) -> tuple[int, ...]:
    """Return the hidden states that ``last:N`` asks for; not the embedding layer.

    Raises:
        SpecError: The model has fewer than N layers.

    >>> last_layers("last:5", 6)
    (2, 3, 4, 5, 6)
    """
    number = int(asked.partition(":")[2])
    if number == 1 and depth == 0:
        return (0,)  # static vectors have nothing above their embeddings
    if number > depth:
        raise SpecError(f"layer={asked} is out of range: this model has {depth} layers.")
    return tuple(range(depth - number + 1, depth + 1))


def rule_layer(depth: int) -> int:
    """Return the layer of a model without a tuned preset: five sixths of its depth, rounded.

    >>> rule_layer(12), rule_layer(24), rule_layer(6)
    (10, 20, 5)
    """
    return round(depth * 5 / 6)
