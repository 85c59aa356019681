"""`Encoder`: one loaded model, from texts to token vectors of the layers asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from threading import RLock

import numpy as np
import torch
from torch import Tensor

from twmd_registry.encode.cache import TextCache
from twmd_registry.encode.layers import depth_of, find_blocks, hidden_states
from twmd_registry.encode.pieces import Vocabulary, pieces_of
from twmd_registry.encode.tokenization import TokenIds, codes_of, find_unknown, tokenise
from twmd_registry.encode.windows import EncoderSequences, Window, take_apart
from twmd_registry.errors import SpecError
from twmd_registry.models.adapter import AdapterFiles, merge
from twmd_registry.models.batching import check_finite, default_batch_tokens, run_batches
from twmd_registry.models.files import ModelFiles
from twmd_registry.models.linear import onednn_layout
from twmd_registry.models.load import check_limit, check_token_ids, length_limit, load_encoder, load_tokenizer
from twmd_registry.models.resident import LoadedModel
from twmd_registry.models.vectors import is_static, load_static
from twmd_registry.tensors import EncodedTexts

SHORTEST_LIMIT = 3
"""One token of the text, and two special tokens."""


class Encoder(LoadedModel):
    """An encoder on a device.

    Attributes:
        files: Which model it is.
        depth: Number of its layers; hidden states run from 0 to `depth`.
        width: Dimensions of a token vector.
        limit: Most tokens it can read, special tokens included; None for no limit.
        dtype: Name of its number format.
        lock: To be held while it is used: it reads hidden states by hooks, which threads would share.
        adapter: Name of its adapter; None without one.
        identity: Everything that its vectors depend on: content of model and adapter, and number format.
        references: Encoded references that a later call will need again; nothing unless a scorer asks for it.
        sentences_encoded: How many texts have gone through it.
    """

    def __init__(self, files: ModelFiles, adapter: AdapterFiles | None, dtype: str, device: torch.device) -> None:
        """Load the model.

        Args:
            files: Its files.
            adapter: A PEFT adapter to merge.
            dtype: Name of a torch dtype.
            device: Where it runs.

        Raises:
            ModelError: It cannot be loaded.
        """
        self.files = files
        self.static = is_static(files)
        if self.static:
            network, self.tokenizer = load_static(files, dtype)
        else:
            network, self.tokenizer = load_encoder(files, dtype), load_tokenizer(files)
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
        self.sentences_encoded = 0

    def decode_tokens(self, ids: Sequence[int]) -> list[str]:
        """Tokens as they read: without the marks of a vocabulary that marks beginnings, and as they stand where that
        says nothing.
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

    def check_limit(self, limit: int | None) -> int | None:
        """Settle the length limit that applies: the one asked for, or the model's own.

        Raises:
            SpecError: More than the model can read, or no room for a token of the text.
        """
        return check_limit(limit, self.limit, least=SHORTEST_LIMIT, name=self.files.name)

    def window(self, limit: int | None, stride: int | None) -> Window | None:
        """Settle how long texts are taken apart; None where they are cut.

        Raises:
            SpecError: Windows that would leave tokens between them out.
        """
        if stride is None or limit is None:
            return None
        room = limit - self.tokenizer.num_special_tokens_to_add()
        if stride > room:
            raise SpecError(
                f"truncation=window:{limit}/{stride} leaves tokens out: a window holds {room} of a text beside "
                "special tokens."
            )
        return Window(limit, stride)

    def tokenise(self, texts: Sequence[str], limit: int | None = None, *, window: Window | None = None) -> TokenIds:
        """Token ids of some texts, cut at `limit` or at the model's own limit; whole where they are taken apart."""
        return tokenise(self.tokenizer, texts, None if window else limit or self.limit, drop_unknown=self.static)

    def encode(
        self,
        tokens: TokenIds,
        layers: Iterable[int],
        *,
        window: Window | None = None,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> EncodedTexts:
        """Run the encoder over tokenised texts, each once, longest first.

        Args:
            tokens: The texts, at least one.
            layers: The hidden states to return.
            window: How longer texts are taken apart; None when there are none.
            batch_tokens: Most padded tokens at once; None picks a number for the device.
            progress: Called after every batch with the number of texts (or windows) in it.

        Returns:
            The texts in their own order: float32 vectors on the encoder's device.

        Raises:
            ModelError: Out of memory with a single text, vectors that are not finite, or a tokenizer of another model.
        """
        self.wake()
        lengths, wanted = tokens.lengths, sorted(set(layers))
        if not self.static:
            check_token_ids(max(int(row.max()) for row in tokens.ids), self.network, self.files.label)
        sequences = take_apart(tokens, window)
        store = {
            k: torch.zeros(int(lengths.sum()), self.width, dtype=torch.float32, device=self.device) for k in wanted
        }

        def forward(batch: np.ndarray) -> None:
            inputs, tokens = self._pad(sequences, batch)
            states = hidden_states(self.network, self.blocks, wanted, inputs)
            where = torch.from_numpy(np.concatenate([sequences.places[i] for i in batch])).to(self.device)
            for k, state in states.items():
                flat = (
                    state.flatten(0, 1) if tokens is None else state.flatten(0, 1).index_select(0, tokens)
                )  # (T of the batch, D)
                check_finite(flat, self.files.label, self.dtype)
                write = store[k].index_copy_ if sequences.repeats is None else store[k].index_add_
                write(0, where, flat.to(torch.float32))
            if progress is not None:
                progress(len(batch))

        with onednn_layout(self.network):
            run_batches(sequences.lengths, batch_tokens or default_batch_tokens(self.device), forward)
        if sequences.repeats is not None:
            repeats = torch.from_numpy(sequences.repeats).to(self.device, torch.float32)
            store = {k: vectors / repeats[:, None] for k, vectors in store.items()}
        self.sentences_encoded += len(lengths)
        special, ids = (np.concatenate(side) for side in (tokens.special, tokens.ids))
        told = (lengths, special, ids, self.unknown_codes(ids, special, chain.from_iterable(tokens.missing)))
        return EncodedTexts(store, *(torch.from_numpy(side).to(self.device) for side in told))

    def unknown_codes(self, ids: np.ndarray, special: np.ndarray, missing: Iterable[str]) -> np.ndarray:
        """What stands where the vocabulary does not hold the text; see `EncodedTexts.unknown`.

        Args:
            ids: Token ids of many texts in a row; shape (T,).
            special: Their marks; see `EncodedTexts.special`.
            missing: Their unknown tokens as they were written, in order; those of a static model are left out.
        """
        codes = np.zeros(len(ids), dtype=np.int64)
        if not self.static:
            codes[find_unknown(ids, special, self.tokenizer.unk_token_id)] = codes_of(self.tokenizer, missing)
        return codes

    @cached_property
    def pieces(self) -> Vocabulary:
        """The vocabulary.

        Raises:
            SpecError: It marks words in a way that is not known here.
        """
        return pieces_of(self.tokenizer)

    def _pad(self, sequences: EncoderSequences, batch: np.ndarray) -> tuple[dict[str, Tensor], Tensor | None]:
        """Network inputs of some sequences, and which of their padded tokens are tokens; no mask at all when nothing is
        padded.
        """
        rows = [sequences.ids[i] for i in batch]
        widths = np.array([len(row) for row in rows])
        ids = np.full((len(rows), int(widths.max())), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        inputs = {"input_ids": torch.from_numpy(ids).to(self.device)}
        if (widths == ids.shape[1]).all():
            return inputs, None
        mask = np.arange(ids.shape[1]) < widths[:, None]
        attention = torch.from_numpy(mask.astype(np.int64)).to(self.device)
        return inputs | {"attention_mask": attention}, torch.from_numpy(np.flatnonzero(mask)).to(self.device)
