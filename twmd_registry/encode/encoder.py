"""`Encoder`: a loaded model that turns texts into tokens, and tokens into vectors of the requested layers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from twmd_registry.encode.pieces import Vocabulary, pieces_of
from twmd_registry.errors import ModelError, SpecError
from twmd_registry.models import probe
from twmd_registry.models.files import ModelFiles, merge
from twmd_registry.models.inference import LoadedModel, keep_order
from twmd_registry.models.load import check_vocabulary, length_limit, load_encoder, load_tokenizer
from twmd_registry.models.packaged import (
    Bert,
    PackagedTokenizer,
    UnigramTokenizer,
    is_packaged,
    load_bert,
    read_tokenizer,
)
from twmd_registry.models.vectors import is_static, load_static
from twmd_registry.registry.names import UNKNOWN_SHARE
from twmd_registry.registry.references import is_blank
from twmd_registry.tensors import LEFT_OUT, EncodedTexts, TextTokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from twmd_registry.encode.cache import TextCache


class Reading(NamedTuple):
    """A way to read hidden states."""

    blocks: nn.ModuleList | None  # Layers whose inputs are the states; None if the network returns the states
    pads: bool  # Whether texts of different lengths are read together
    numbers: frozenset[int]  # Hidden states that can be read this way


class Encoder(LoadedModel):
    """An encoder on a device.

    Attributes:
        depth: Number of its layers; hidden states run from 0 to `depth`.
        width: Dimensions of a token vector.
        adapter: Name of its adapter; None without one.
        identity: Content of model and adapter, and number format. Equal identities mean equal vectors.
        reference_cache: Encoded references for later calls; None until a scorer requests it.
        texts_encoded: Number of texts encoded so far.
    """

    shortest = 3  # a token of the text, and two special tokens
    reference_cache: TextCache | None = None

    tokenizer: PreTrainedTokenizerFast | PackagedTokenizer

    def __init__(
        self,
        files: ModelFiles,
        adapter: ModelFiles | None,
        dtype: str,
        device: torch.device,
        *,
        trainable: bool = False,
    ) -> None:
        """Load the model and merge an adapter; raise ModelError if that fails.

        A trainable network is always transformers' own.
        """
        self.files = files
        self.static = is_static(files)
        network: Any
        if is_packaged(files, adapter) and not trainable:
            network, self.tokenizer = load_bert(files, adapter, dtype), read_tokenizer(files)
        else:
            if self.static:
                network, self.tokenizer = load_static(files, dtype)
            else:
                network, self.tokenizer = load_encoder(files, dtype), load_tokenizer(files)
                check_vocabulary(self.tokenizer, network, files.label)
            if adapter is not None:
                network = merge(network, adapter, files)
        self.limit = length_limit(network, self.tokenizer, self.shortest, files.label)
        self.device, self.dtype = device, dtype
        self.network = self.place(network)
        self.blocks = find_blocks(network)
        self.depth = depth_of(network)
        self.width = int(network.config.hidden_size)
        self.lock = RLock()  # hidden states are read by hooks, which threads would share
        self.adapter = adapter.name if adapter else None
        self.identity = f"{files.fingerprint}|{self.adapter}|{dtype}"
        self.texts_encoded = 0
        with keep_order(self.network):
            self._readings = list(self._find_readings())

    def _find_readings(self) -> Iterator[Reading]:
        """Yield the ways to read hidden states, the best first, with the states that each reads correctly.

        A state is correct if it equals the network's own for a single text. `Bert` and static vectors need no test.
        """
        states = range(self.depth + 1)
        if self.static or isinstance(self.network, Bert):
            yield Reading(self.blocks, pads=True, numbers=frozenset(states))
            return
        label, network = self.files.label, self.network
        (text,) = tokenise(self.tokenizer, ["a"], None)
        first, last = (text.own[0], text.own[-1] + 1) if len(text.own) else (0, len(text.ids))
        texts = probe.short_texts(self.tokenizer, self.limit, (text.ids[:first], text.ids[last:]))

        def reader(blocks: nn.ModuleList | None) -> probe.Read:
            padding, device = self.tokenizer.pad_token_id or 0, self.device
            return lambda texts: hidden_states(network, blocks, states, probe.inputs_of(texts, padding, device))

        level = list[Reading]()
        for blocks in dict.fromkeys((self.blocks, None)):
            compare = partial(probe.compare, reader(blocks), reader(None), texts, self.width, self.dtype)
            found = probe.run(label, compare)
            if not (probe.switching_part(network) or hasattr(network.config, "attn_layers")):  # Reformer pads to chunks
                yield Reading(blocks, pads=True, numbers=found.padded)
            level.append(Reading(blocks, pads=False, numbers=found.level))
            if len(found.padded) == len(states):
                break
        yield from level

    def reading(self, layers: Iterable[int]) -> Reading:
        """Return the best way to read hidden states; raise ModelError if there is none."""
        for reading in self._readings:
            if reading.numbers.issuperset(layers):
                return reading
        readable = sorted(frozenset[int]().union(*(reading.numbers for reading in self._readings)))
        lacking = [k for k in layers if k not in readable] or layers
        missing, found = (", ".join(map(str, numbers)) or "none" for numbers in (lacking, readable))
        vectors = "token vectors that depend on the text alone"
        raise ModelError(f"model {self.files.label} has no {vectors} in hidden states {missing}, only in {found}.")

    def decode_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as text, without the marks of word starts; a token without text as in the vocabulary."""
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids))
        try:
            texts = [self.pieces.texts[i] for i in ids]
        except SpecError:
            return list(tokens)
        pairs = zip(tokens, texts, strict=True)
        return [token if token.startswith("##") or not text or "\ufffd" in text else text for token, text in pairs]

    def encode(
        self,
        tokens: Sequence[TextTokens],
        layers: Iterable[int],
        limit: int | None = None,
        stride: int | None = None,
        *,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> EncodedTexts:
        """Return the vectors of tokenised texts (at least one) by hidden state, float32 on the encoder's device.

        The longest texts run first. With a `stride`, a text of more than `limit` tokens is read in windows that start
        `stride` tokens apart. `progress` is called with the number of texts (or windows) per batch. Raises ModelError
        if a single text runs out of memory, or vectors are not finite.
        """
        lengths, distinct_layers = np.array([len(text.ids) for text in tokens]), sorted(set(layers))
        rows = np.split(np.arange(lengths.sum()), np.cumsum(lengths)[:-1])  # tokens of a text, or of a window
        repeats = None
        if limit is not None and stride is not None and lengths.max() > limit:
            whole = zip(rows, tokens, strict=True)
            rows = [row[part] for row, text in whole for part in split_into_windows(text, limit, stride)]
            repeats = np.bincount(np.concatenate(rows), minlength=int(lengths.sum()))
        reading = self.reading(distinct_layers)
        arrays = zip(*((text.special, text.ids, text.codes) for text in tokens), strict=True)
        special, ids, codes = map(np.concatenate, arrays)
        widths = np.array([len(row) for row in rows])
        shape = int(lengths.sum()), self.width
        vectors = {k: torch.zeros(shape, dtype=torch.float32, device=self.device) for k in distinct_layers}

        def forward(batch: np.ndarray) -> list[Tensor]:
            here = np.concatenate([rows[i] for i in batch])
            padded = np.full((len(batch), int(widths[batch].max())), self.tokenizer.pad_token_id or 0, dtype=np.int64)
            mask = np.arange(padded.shape[1]) < widths[batch, None]
            padded[mask] = ids[here]
            inputs = {"input_ids": torch.from_numpy(padded).to(self.device)}
            if has_padding := not mask.all():  # without a mask, attention takes a faster path
                inputs["attention_mask"] = torch.from_numpy(mask.astype(np.int64)).to(self.device)
            where = torch.from_numpy(here).to(self.device)
            present = torch.from_numpy(np.flatnonzero(mask)).to(self.device)
            states = []
            for k, state in hidden_states(self.network, reading.blocks, distinct_layers, inputs).items():
                flat = state.flatten(0, 1).index_select(0, present) if has_padding else state.flatten(0, 1)  # (T, D)
                states.append(flat)
                write = vectors[k].index_copy_ if repeats is None else vectors[k].index_add_
                write(0, where, flat.to(torch.float32))
            if progress is not None:
                progress(len(batch))
            return states

        self.run_batches(widths, batch_tokens, forward, pads=reading.pads)
        if repeats is not None:
            times = torch.from_numpy(repeats).to(self.device, torch.float32)
            vectors = {k: sums / times[:, None] for k, sums in vectors.items()}
        self.texts_encoded += len(lengths)
        facts = (torch.from_numpy(side).to(self.device) for side in (lengths, special, ids, codes))
        return EncodedTexts(vectors, *facts)

    @cached_property
    def pieces(self) -> Vocabulary:
        """The vocabulary; raises SpecError if it marks words in an unsupported way."""
        return pieces_of(self.tokenizer)


def tokenise(
    tokenizer: PreTrainedTokenizerFast | PackagedTokenizer,
    texts: Sequence[str],
    limit: int | None,
    *,
    drop_unknown: bool = False,
) -> list[TextTokens]:
    """Tokenise texts, without the tokenizer's own truncation and padding, which some ``tokenizer.json`` files set.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.
        limit: Maximum tokens. Tokens before the closing special tokens are cut.
        drop_unknown: Whether to leave out unknown words. Otherwise, unknown tokens whose strings are equal after
            normalisation get the same code.

    Returns:
        The tokens of every text.
    """
    if isinstance(tokenizer, UnigramTokenizer):
        tokenizer.add_pieces(texts)
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    tokenised: list[TextTokens] = []
    with_unknown: list[int] = []
    for text, encoding in zip(texts, backend.encode_batch_fast(list(texts)), strict=True):
        ids = np.array(encoding.ids, dtype=np.int64)
        if isinstance(tokenizer, UnigramTokenizer):
            ids = tokenizer.full_ids[ids]
        special = np.array(encoding.special_tokens_mask, dtype=np.uint8) * 2
        special[:1] //= 2  # mark 1 is the token that opens the text
        empty = is_blank(text) or bool(special.all())
        tokens = TextTokens(special, ids, np.zeros_like(ids), empty, truncated=False, unknown=False)
        if limit is not None and len(ids) > limit:
            tokens = tokens.cut(limit)
        if ((tokens.special == 0) & (tokens.ids == tokenizer.unk_token_id)).any():
            with_unknown.append(len(tokenised))
        tokenised.append(tokens)
    # Only the slower call returns character offsets.
    for i, encoding in zip(with_unknown, backend.encode_batch([texts[i] for i in with_unknown]), strict=True):
        special, ids, codes = tokenised[i].special, tokenised[i].ids, tokenised[i].codes
        places = np.flatnonzero((special == 0) & (ids == tokenizer.unk_token_id))
        spans = encoding.offsets  # computed at every access
        words = tuple(texts[i][slice(*spans[place])] for place in places)
        if drop_unknown:
            special[places] = LEFT_OUT
        else:
            alike = (backend.normalizer.normalize_str(word) if backend.normalizer else word for word in words)
            hashes = [hashlib.blake2b(word.strip().encode(), digest_size=8).digest() for word in alike]
            codes[places] = [int.from_bytes(digest, signed=True) | 1 for digest in hashes]
        unknown = not drop_unknown and len(places) > UNKNOWN_SHARE * int((special == 0).sum())
        tokenised[i] = tokenised[i]._replace(unknown=unknown, missing=words)
    return tokenised


def split_into_windows(text: TextTokens, size: int, stride: int) -> list[np.ndarray]:
    """Return the positions of every window's tokens within a text.

    Every window has the text's opening and closing special tokens. The last one ends with the text, so every token
    is in a window.
    """
    if len(text.ids) <= size:
        return [np.arange(len(text.ids))]
    first, last = int(text.own[0]), int(text.own[-1]) + 1
    opening, closing = np.arange(first), np.arange(last, len(text.ids))
    room = size - len(opening) - len(closing)
    begins = [*range(first, last - room, stride), last - room]
    return [np.r_[opening, begin : begin + room, closing] for begin in begins]


def find_blocks(network: nn.Module) -> nn.ModuleList | None:
    """Return a network's list of transformer layers; None without one (ALBERT runs a single layer many times)."""
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth_of(network):
            return module
    return None


def depth_of(network: nn.Module) -> int:
    """Return the number of a network's layers; raise ModelError if its configuration does not say."""
    depth = getattr(network.config, "num_hidden_layers", None)
    if not isinstance(depth, int) or depth < 0:
        raise ModelError(f"{type(network).__name__} is not supported: it has no num_hidden_layers.")
    return depth


def hidden_states(
    network: Any, blocks: nn.ModuleList | None, layers: Sequence[int], inputs: dict[str, Any]
) -> dict[int, Tensor]:
    """Return hidden states by number, ascending, each of shape (B, N, D), in the network's dtype.

    Hidden state k < L is the input of layer k of L transformer layers (`blocks`); state 0 is the embeddings. Hidden
    state L is the network's output. Layers above the highest requested state are not run. Without `blocks` all are run,
    and the network returns its hidden states. `Bert` does both. Padding that the network adds at the end, such as
    Longformer's to whole windows, is cut off. A state that is missing or not a tensor is left out.
    """
    if isinstance(network, Bert):
        found: dict[int, Tensor] = network(**inputs, read=layers).hidden_states
        return found
    probe.switch_back(network)
    if blocks is None:
        states = network(**inputs, output_hidden_states=True).hidden_states
        return _whole(dict(enumerate(states)), layers, inputs)

    read: dict[int, Any] = {}

    def reader(k: int) -> Any:
        def keep_input(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            read[k] = args[0] if args else kwargs.get("hidden_states")
            if k == layers[-1]:
                raise StopIteration  # no further layer needs to run

        return keep_input

    hooks = [blocks[k].register_forward_pre_hook(reader(k), with_kwargs=True) for k in layers if k < len(blocks)]
    try:
        read[len(blocks)] = network(**inputs).last_hidden_state
    except StopIteration:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return _whole(read, layers, inputs)


def _whole(states: dict[int, Any], layers: Sequence[int], inputs: dict[str, Any]) -> dict[int, Tensor]:
    """Return the hidden states that are tensors, without padding added by the network."""
    length = inputs["input_ids"].shape[1]
    first = {k: state[0] if isinstance(state, tuple) else state for k, state in states.items()}  # Pegasus-X's last
    return {k: first[k][:, :length] for k in layers if isinstance(first.get(k), Tensor)}


def rule_layer(depth: int) -> int:
    """Return the layer for a model without a tuned preset: five sixths of its depth, rounded."""
    return round(depth * 5 / 6)
