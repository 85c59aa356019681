"""`TextStore`: the encoded texts of a call, reused by later chunks and calls."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import torch

from twmd_registry.encode.cache import CachedText, EncodingCache, TextKey
from twmd_registry.encode.encoder import Encoder
from twmd_registry.tensors import EncodedTexts, TextFlags, span_indices


class TextStore:
    """Encodes texts chunk by chunk, and each different text once if the texts of later chunks fit.

    All chunks of a call are planned in advance, so the texts that are needed soonest are held. Caches keep texts for
    later calls.
    """

    def __init__(
        self,
        encoder: Encoder,
        texts: Sequence[str],
        layers: Sequence[int],
        uses: dict[int, list[int]],
        *,
        limit: int | None = None,
        stride: int | None = None,
        flags: TextFlags,
        caches: Sequence[tuple[EncodingCache, np.ndarray]] = (),
    ) -> None:
        """Store the arguments; nothing is encoded yet.

        Args:
            encoder: The encoder.
            texts: Every different text.
            layers: The hidden states that are needed.
            uses: The chunks of every text that several chunks need.
            limit: Most tokens of a text, or of a window; None for the model's own limit.
            stride: Tokens between the beginnings of two windows of a longer text; None to cut texts.
            flags: Receives facts about texts when they are read: empty, truncated, unknown, missing.
            caches: Caches, the fastest first, each with the texts that it may keep; shape (texts,), bool.
        """
        self._encoder, self._texts, self._layers, self._reading = encoder, texts, list(layers), (limit, stride)
        self._uses, self._flags, self._caches = uses, flags, caches
        none = torch.zeros(0, dtype=torch.int64, device=encoder.device)
        no_vectors = torch.zeros(0, encoder.width, dtype=torch.float32, device=encoder.device)
        self._nothing = EncodedTexts(dict.fromkeys(self._layers, no_vectors), none, none.to(torch.uint8), none, none)
        self._held_texts, self._held = np.zeros(0, dtype=np.int64), self._nothing

    def fetch(
        self, texts: np.ndarray, *, batch_tokens: int | None, progress: Callable[[int], None] | None
    ) -> tuple[EncodedTexts, np.ndarray]:
        """Return the encoded texts of a chunk; encode only texts that are neither held nor cached.

        Args:
            texts: Numbers of the texts.
            batch_tokens: Most padded tokens at once.
            progress: Called with the number of texts done.

        Returns:
            All held texts, and for each of `texts` its row in them. A text without a token of its own has length 0.
        """
        new = np.setdiff1d(texts, self._held_texts)
        if self._caches and (cached := self._find_cached(new)):
            self._hold(np.array(list(cached)), self._load(cached))
            new = np.setdiff1d(new, self._held_texts)
        if len(new):
            fresh = self._encode(new, batch_tokens, progress)
            self._hold(new, fresh)
            if self._caches:
                self._cache(self._unload(new, fresh), self._caches)
        order = np.argsort(self._held_texts)
        return self._held, order[np.searchsorted(self._held_texts, texts, sorter=order)]

    def forget(self, chunk: int, most_tokens: int) -> None:
        """Hold only texts that a chunk after `chunk` needs, the soonest needed first, up to a number of tokens."""
        all_lengths = self._held.lengths
        waiting = []
        for row, text in enumerate(self._held_texts.tolist()):
            later = self._uses.get(text, [])
            place = bisect.bisect_right(later, chunk)
            if place < len(later):
                waiting.append((later[place], row))
        rows = np.array([row for _, row in sorted(waiting)], dtype=np.int64)
        rows = rows[np.cumsum(all_lengths.cpu().numpy()[rows]) <= most_tokens]
        kept = torch.from_numpy(rows).to(all_lengths.device)
        places = span_indices((torch.cumsum(all_lengths, 0) - all_lengths)[kept], all_lengths[kept])
        layers = {k: vectors.index_select(0, places) for k, vectors in self._held.layers.items()}
        self._held = EncodedTexts(layers, all_lengths[kept], *(side[places] for side in self._held[2:]))
        self._held_texts = self._held_texts[rows]

    def _hold(self, texts: np.ndarray, fresh: EncodedTexts) -> None:
        held = self._held
        if len(self._held_texts):
            layers = {k: torch.cat([held.layers[k], fresh.layers[k]]) for k in self._layers}
            fresh = EncodedTexts(layers, *(torch.cat(both) for both in zip(held[1:], fresh[1:], strict=True)))
        self._held, self._held_texts = fresh, np.r_[self._held_texts, texts]

    def _encode(
        self, texts: np.ndarray, batch_tokens: int | None, progress: Callable[[int], None] | None
    ) -> EncodedTexts:
        tokens = self._encoder.tokenise([self._texts[i] for i in texts], *self._reading)
        self._flags.empty[texts], self._flags.truncated[texts] = tokens.empty, tokens.truncated
        self._flags.unknown[texts] = tokens.unknown
        self._flags.missing.update({int(i): words for i, words in zip(texts, tokens.missing, strict=False) if words})
        full, encoded = np.flatnonzero(~tokens.empty), self._nothing
        lengths = torch.zeros(len(texts), dtype=torch.int64, device=self._encoder.device)
        if len(full):
            encoded = self._encoder.encode(
                tokens.select(full), self._layers, *self._reading, batch_tokens=batch_tokens, progress=progress
            )
            lengths[torch.from_numpy(full).to(lengths.device)] = encoded.lengths
        return encoded._replace(lengths=lengths)

    def _find_cached(self, texts: np.ndarray) -> dict[int, CachedText]:
        """Return cached texts by their numbers, and copy those of a slower cache to the faster caches."""
        found: dict[int, CachedText] = {}
        for place, (cache, own) in enumerate(self._caches):
            sought = {self._key(i): i for i in texts[own[texts]].tolist() if i not in found}
            here = {sought[key]: text for key, text in cache.find(list(sought)).items()}
            self._cache(here, self._caches[:place])
            found |= here
        # In the order in which texts are encoded: it decides the blocks of pairs, and so the last bits of scores.
        return dict(sorted(found.items()))

    def _cache(self, texts: dict[int, CachedText], caches: Sequence[tuple[EncodingCache, np.ndarray]]) -> None:
        for cache, own in caches:
            cache.keep({self._key(i): text for i, text in texts.items() if own[i]})

    def _key(self, text: int) -> TextKey:
        return TextKey(self._encoder.identity, tuple(self._layers), *self._reading, self._texts[text])

    def _load(self, cached: dict[int, CachedText]) -> EncodedTexts:
        """Copy cached texts to the encoder's device, and set their flags."""
        for i, text in cached.items():
            self._flags.empty[i], self._flags.truncated[i] = text.empty, text.truncated
            self._flags.unknown[i] = text.unknown
        self._flags.missing.update({i: text.missing for i, text in cached.items() if text.missing})
        device, rows = self._encoder.device, list(cached.values())
        layers = {
            k: torch.from_numpy(np.concatenate([text.vectors[j] for text in rows])).to(device)
            for j, k in enumerate(self._layers)
        }
        special, ids = (np.concatenate([text[part] for text in rows]) for part in (1, 2))
        unknown = self._encoder.unknown_codes(ids, special, chain.from_iterable(text.missing for text in rows))
        lengths = np.array([len(text.ids) for text in rows])
        return EncodedTexts(layers, *(torch.from_numpy(side).to(device) for side in (lengths, special, ids, unknown)))

    def _unload(self, texts: np.ndarray, fresh: EncodedTexts) -> dict[int, CachedText]:
        """Copy the texts that a cache may keep to main memory."""
        wanted = np.logical_or.reduce([own for _, own in self._caches])
        layers = [fresh.layers[k].cpu().numpy() for k in self._layers]
        special, tokens = fresh.special.cpu().numpy(), fresh.ids.cpu().numpy()
        ends = np.cumsum(fresh.lengths.cpu().numpy())
        copied = {}
        for i, start, end in zip(texts.tolist(), np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True):
            if wanted[i]:
                vectors = np.stack([layer[start:end] for layer in layers])
                flags = self._flags
                copied[i] = CachedText(
                    vectors,
                    special[start:end].copy(),
                    tokens[start:end].copy(),
                    empty=bool(flags.empty[i]),
                    truncated=bool(flags.truncated[i]),
                    unknown=bool(flags.unknown[i]),
                    missing=flags.missing.get(i, ()),
                )
        return copied
