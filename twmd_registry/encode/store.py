"""`TextStore`: the encoded texts of one piece of work, and those that a later piece (or call) will need again."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch

from twmd_registry.encode.cache import CachedText, EncodingCache, TextKey
from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.windows import Window
from twmd_registry.tensors import EncodedTexts, span_indices


class ReadingMode(NamedTuple):
    """How texts are read.

    Attributes:
        limit: Most tokens of a text, or of a window; None for no limit.
        window: How longer texts are taken apart; None to cut them.
    """

    limit: int | None
    window: Window | None = None


class PersistentCaches(NamedTuple):
    """Texts that will come again in later calls.

    Attributes:
        shelf: Where they are kept.
        texts: Which they are; shape (texts,), bool.
    """

    shelf: EncodingCache
    texts: np.ndarray


class TextStore:
    """Encodes texts piece by piece, each different text once as long as what must be kept fits.

    The future of a call is known (every piece is planned beforehand), so what is kept is what is needed soonest. Of
    later calls nothing is known but which texts are `PersistentCaches`.

    Attributes:
        empty: Which texts have no token of their own; filled in as texts are read.
        truncated: Which texts were cut; likewise.
        unknown: Which texts have a large share of unknown tokens, as in `TokenIds`; likewise.
        missing: By text, what the vocabulary does not hold of it, as in `TokenIds`; likewise.
    """

    def __init__(
        self,
        encoder: Encoder,
        texts: Sequence[str],
        layers: Sequence[int],
        reading: ReadingMode,
        uses: dict[int, list[int]],
        *,
        lasting: Sequence[PersistentCaches] = (),
    ) -> None:
        """Prepare; nothing is encoded yet.

        Args:
            encoder: Who encodes.
            texts: Every different text.
            layers: The hidden states that are needed.
            reading: How long texts are read.
            uses: For texts that are needed in several pieces, which.
            lasting: Texts that a later call will need, too; the nearest shelf first.
        """
        self._encoder, self._texts, self._layers, self._reading, self._uses = (
            encoder,
            texts,
            list(layers),
            reading,
            uses,
        )
        self._lasting = lasting
        self._ids = np.zeros(0, dtype=np.int64)
        self._held = self._nothing()
        self.empty = np.zeros(len(texts), dtype=bool)
        self.truncated = np.zeros(len(texts), dtype=bool)
        self.unknown = np.zeros(len(texts), dtype=bool)
        self.missing: dict[int, tuple[str, ...]] = {}

    def _nothing(self) -> EncodedTexts:
        device = self._encoder.device
        vectors = {k: torch.zeros(0, self._encoder.width, dtype=torch.float32, device=device) for k in self._layers}
        none = torch.zeros(0, dtype=torch.int64, device=device)
        return EncodedTexts(vectors, none, torch.zeros(0, dtype=torch.uint8, device=device), none, none)

    def fetch(
        self, ids: np.ndarray, *, batch_tokens: int | None, progress: Callable[[int], None] | None
    ) -> tuple[EncodedTexts, np.ndarray]:
        """Encode those of some texts that are not held yet.

        Args:
            ids: Numbers of the texts that are needed now.
            batch_tokens: Most padded tokens at once.
            progress: Called with the number of texts done.

        Returns:
            What is held now, and for each of `ids` its row in it. A text without a token of its own has length 0.
        """
        new = np.setdiff1d(ids, self._ids)
        kept = self._kept(new)
        if kept:
            self._hold(np.array(list(kept)), self._recall(kept))
            new = np.setdiff1d(new, self._ids)
        if len(new):
            fresh = self._encode(new, batch_tokens, progress)
            self._hold(new, fresh)
            self._keep(self._told(new, fresh))
        order = np.argsort(self._ids)
        return self._held, order[np.searchsorted(self._ids, ids, sorter=order)]

    def forget(self, piece: int, most_tokens: int) -> None:
        """Keep only texts that a piece after `piece` needs, the soonest needed first, up to a number of tokens."""
        lengths = self._held.lengths.cpu().numpy()
        waiting = []
        for row, text in enumerate(self._ids.tolist()):
            later = self._uses.get(text, [])
            place = bisect.bisect_right(later, piece)
            if place < len(later):
                waiting.append((later[place], row))
        rows = np.array([row for _, row in sorted(waiting)], dtype=np.int64)
        rows = rows[np.cumsum(lengths[rows]) <= most_tokens]
        if len(rows) == 0:
            self._ids, self._held = self._ids[:0], self._nothing()
            return
        kept = torch.from_numpy(rows).to(self._held.lengths.device)
        all_lengths = self._held.lengths
        positions = span_indices((torch.cumsum(all_lengths, 0) - all_lengths)[kept], all_lengths[kept])
        layers = {k: vectors.index_select(0, positions) for k, vectors in self._held.layers.items()}
        self._held = EncodedTexts(layers, all_lengths[kept], *(side[positions] for side in self._held[2:]))
        self._ids = self._ids[rows]

    def _hold(self, ids: np.ndarray, fresh: EncodedTexts) -> None:
        """Hold more texts."""
        joined = {
            k: torch.cat([self._held.layers[k], fresh.layers[k]]) if len(self._ids) else fresh.layers[k]
            for k in self._layers
        }
        self._held = EncodedTexts(joined, *(torch.cat(both) for both in zip(self._held[1:], fresh[1:], strict=True)))
        self._ids = np.r_[self._ids, ids]

    def _key(self, text: int) -> TextKey:
        return TextKey(self._encoder.identity, tuple(self._layers), self._reading, self._texts[text])

    def _kept(self, ids: np.ndarray) -> dict[int, CachedText]:
        """Those of some texts that an earlier call has encoded, by their numbers; what a far shelf gives is kept on the
        nearer ones.
        """
        found: dict[int, CachedText] = {}
        for place, (shelf, texts) in enumerate(self._lasting):
            sought = {self._key(i): i for i in ids[texts[ids]].tolist() if i not in found}
            here = {sought[key]: kept for key, kept in shelf.find(list(sought)).items()}
            self._keep(here, place)
            found |= here
        # In the order of their numbers, as what is encoded is: blocks of pairs, and so the last bits of scores, are
        # then the same.
        return dict(sorted(found.items()))

    def _keep(self, told: dict[int, CachedText], shelves: int | None = None) -> None:
        """Keep texts by their numbers on the first `shelves` shelves (None for all), each those that are its own."""
        for shelf, texts in self._lasting[:shelves]:
            shelf.keep({self._key(i): kept for i, kept in told.items() if texts[i]})

    def _recall(self, kept: dict[int, CachedText]) -> EncodedTexts:
        """Texts that an earlier call has encoded, on the encoder's device."""
        for i, text in kept.items():
            self.empty[i], self.truncated[i], self.unknown[i] = text.empty, text.truncated, text.unknown
        self.missing |= {i: text.missing for i, text in kept.items() if text.missing}
        device, rows = self._encoder.device, list(kept.values())
        layers = {
            k: torch.from_numpy(np.concatenate([text.vectors[j] for text in rows])).to(device)
            for j, k in enumerate(self._layers)
        }
        special, ids = (np.concatenate([text[part] for text in rows]) for part in (1, 2))
        unknown = self._encoder.unknown_codes(ids, special, chain.from_iterable(text.missing for text in rows))
        lengths = np.array([len(text.ids) for text in rows])
        return EncodedTexts(layers, *(torch.from_numpy(side).to(device) for side in (lengths, special, ids, unknown)))

    def _told(self, ids: np.ndarray, fresh: EncodedTexts) -> dict[int, CachedText]:
        """Those of some texts that a later call will need; in main memory, so that the device has room for others."""
        if not self._lasting:
            return {}
        wanted = np.logical_or.reduce([lasting.texts for lasting in self._lasting])
        layers = [fresh.layers[k].cpu().numpy() for k in self._layers]
        special, tokens = fresh.special.cpu().numpy(), fresh.ids.cpu().numpy()
        ends = np.cumsum(fresh.lengths.cpu().numpy())
        told = {}
        for i, start, end in zip(ids.tolist(), np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True):
            if wanted[i]:
                vectors = np.stack([layer[start:end] for layer in layers])
                flags = bool(self.empty[i]), bool(self.truncated[i]), bool(self.unknown[i]), self.missing.get(i, ())
                told[i] = CachedText(vectors, special[start:end].copy(), tokens[start:end].copy(), *flags)
        return told

    def _encode(
        self, ids: np.ndarray, batch_tokens: int | None, progress: Callable[[int], None] | None
    ) -> EncodedTexts:
        tokens = self._encoder.tokenise([self._texts[i] for i in ids], self._reading.limit, window=self._reading.window)
        blank = np.array([not self._texts[i].strip() for i in ids])
        self.truncated[ids] = tokens.truncated
        self.unknown[ids] = tokens.unknown
        self.empty[ids] = blank | (tokens.content == 0)
        self.missing |= {int(i): words for i, words in zip(ids, tokens.missing, strict=False) if words}
        full = np.flatnonzero(~self.empty[ids])
        if len(full) == 0:
            return self._nothing()._replace(
                lengths=torch.zeros(len(ids), dtype=torch.int64, device=self._encoder.device)
            )
        chosen = tokens.select(full)
        encoded = self._encoder.encode(
            chosen, self._layers, window=self._reading.window, batch_tokens=batch_tokens, progress=progress
        )
        lengths = torch.zeros(len(ids), dtype=torch.int64, device=self._encoder.device)
        lengths[torch.from_numpy(full).to(lengths.device)] = encoded.lengths
        return encoded._replace(lengths=lengths)
