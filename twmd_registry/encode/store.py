"""`TextStore`: the encoded texts of a call, reused by later chunks."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor

from twmd_registry.encode.cache import CachedText, TextCache, TextKey
from twmd_registry.encode.encoder import Encoder, tokenise
from twmd_registry.tensors import EncodedTexts, TextFacts, TextTokens, span_indices


@dataclass
class TextStore:
    """Encodes texts chunk by chunk, and each distinct text once if the texts of later chunks fit.

    All chunks of a call are planned in advance, so the texts needed soonest are held. A cache keeps texts for later
    calls.
    """

    encoder: Encoder
    texts: Sequence[str]
    pairs: tuple[np.ndarray, np.ndarray]  # The numbers of the texts on both sides of the pairs; each of shape (pairs,)
    layers: Sequence[int]  # Hidden states to read, ascending
    uses: dict[int, list[int]]  # Chunks that need each text which several chunks need
    facts: TextFacts
    limit: int | None = None  # Like `stride`, for `Encoder.encode`
    stride: int | None = None
    cache: TextCache | None = None
    cacheable: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))  # Whether each text may be cached
    batch_tokens: int | None = None  # Like `progress`, for `Encoder.encode`
    progress: Callable[[int], None] | None = None
    max_tokens: int | None = None  # Limit of tokens held for later chunks; None for all
    held: EncodedTexts | None = None  # Texts in memory
    held_texts: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # Their indices

    def fetch(self, chunk: slice, number: int = 0) -> tuple[EncodedTexts, np.ndarray]:
        """Return the encoded texts of a chunk of pairs, and others that are held, with the numbers of all.

        Only texts that are neither held nor cached are encoded. A text without a token of its own has length 0.
        Afterwards only texts needed by chunks after `number` are held.
        """
        device = self.encoder.device
        none = torch.zeros(0, dtype=torch.int64, device=device)
        no_vectors = torch.zeros(0, self.encoder.width, dtype=torch.float32, device=device)
        nothing = EncodedTexts(dict.fromkeys(self.layers, no_vectors), none, none.to(torch.uint8), none, none)
        new = np.setdiff1d([side[chunk] for side in self.pairs], self.held_texts)
        parts = [self.held or nothing]
        numbers = self.held_texts
        if self.cache is not None and (cached := self._find_cached(self.cache, new)):
            parts.append(self._to_device(cached))
            numbers = np.r_[numbers, list(cached)]
            new = np.setdiff1d(new, list(cached))
        if len(new):
            cut, static = None if self.stride else self.limit, self.encoder.static
            tokens = tokenise(self.encoder.tokenizer, [self.texts[i] for i in new], cut, drop_unknown=static)
            self.facts.add(new.tolist(), tokens)
            full, encoded = [text for text in tokens if not text.empty], nothing
            if full:
                encoded = self.encoder.encode(
                    full, self.layers, self.limit, self.stride, batch_tokens=self.batch_tokens, progress=self.progress
                )
            lengths = torch.tensor([0 if text.empty else len(text.ids) for text in tokens])
            parts.append(encoded._replace(lengths=lengths.to(device)))
            numbers = np.r_[numbers, new]
            if self.cache is not None:
                self.cache.keep(self._to_memory(new, tokens, parts[-1]))
        held, *others = [part for part in parts if len(part.lengths)] or parts
        if others:
            layers = {k: torch.cat([held.layers[k], *(part.layers[k] for part in others)]) for k in self.layers}
            _, *arrays = zip(held, *others, strict=True)
            held = EncodedTexts(layers, *map(torch.cat, arrays))
        self.held, self.held_texts = held, numbers
        if self.max_tokens is not None:
            self._forget(number, self.max_tokens)
        return held, numbers

    def _forget(self, chunk: int, max_tokens: int) -> None:
        """Hold only texts needed after `chunk`, the soonest needed first, up to a number of tokens."""
        held = cast("EncodedTexts", self.held)
        _, all_lengths, special, ids, codes = held
        waiting = []
        for row, text in enumerate(self.held_texts.tolist()):
            later = self.uses.get(text, [])
            place = bisect.bisect_right(later, chunk)
            if place < len(later):
                waiting.append((later[place], row))
        rows = np.array([row for _, row in sorted(waiting)], dtype=np.int64)
        rows = rows[np.cumsum(all_lengths.cpu().numpy()[rows]) <= max_tokens]
        kept = torch.from_numpy(rows).to(all_lengths.device)
        places = span_indices((torch.cumsum(all_lengths, 0) - all_lengths)[kept], all_lengths[kept])
        layers = {k: vectors.index_select(0, places) for k, vectors in held.layers.items()}
        self.held = EncodedTexts(layers, all_lengths[kept], special[places], ids[places], codes[places])
        self.held_texts = self.held_texts[rows]

    def _find_cached(self, cache: TextCache, texts: np.ndarray) -> dict[int, CachedText]:
        """Return cached texts by number, in the order of `texts`."""
        keys = {self._key(i): i for i in texts[self.cacheable[texts]].tolist()}
        return {keys[key]: text for key, text in cache.find(list(keys)).items()}

    def _key(self, text: int) -> TextKey:
        return TextKey(self.encoder.identity, tuple(self.layers), self.limit, self.stride, self.texts[text])

    def _to_device(self, cached: dict[int, CachedText]) -> EncodedTexts:
        """Copy cached texts to the encoder's device, and add facts about them."""
        vectors, tokens = zip(*cached.values(), strict=True)
        self.facts.add(list(cached), tokens)
        by_layer = (np.concatenate(matrices) for matrices in zip(*vectors, strict=True))
        layers = dict(zip(self.layers, map(self._load, by_layer), strict=True))
        lengths = np.array([len(text.ids) for text in tokens])
        sides = zip(*((text.special, text.ids, text.codes) for text in tokens), strict=True)
        arrays = (lengths, *map(np.concatenate, sides))
        return EncodedTexts(layers, *map(self._load, arrays))

    def _load(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.encoder.device)

    def _to_memory(
        self, texts: np.ndarray, tokens: Sequence[TextTokens], fresh: EncodedTexts
    ) -> dict[TextKey, CachedText]:
        """Copy the cacheable texts to main memory; an empty text has no tokens there."""
        layers = [fresh.layers[k].cpu().numpy() for k in self.layers]
        copied, end = {}, 0
        for i, text, length in zip(texts.tolist(), tokens, fresh.lengths.tolist(), strict=True):
            start, end = end, end + length
            if self.cacheable[i]:
                special, ids, codes = (array[:length] for array in (text.special, text.ids, text.codes))
                vectors = np.stack([layer[start:end] for layer in layers])
                copied[self._key(i)] = CachedText(vectors, text._replace(special=special, ids=ids, codes=codes))
        return copied
