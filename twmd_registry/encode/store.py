"""`TextStore`: the encoded texts of one piece of work, and those that a later piece will need again."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from twmd_registry.carriers import Encoded, span_indices
from twmd_registry.encode.encoder import Encoder
from twmd_registry.encode.windows import Window


class Reading(NamedTuple):
    """How texts are read.

    Attributes:
        limit: Most tokens of a text, or of a window; None for no limit.
        window: How longer texts are taken apart; None to cut them.
    """

    limit: int | None
    window: Window | None = None


class TextStore:
    """Encodes texts piece by piece, each different text once as long as what must be kept fits.

    The future is known (every piece is planned beforehand), so what is kept is what is needed soonest.

    Attributes:
        empty: Which texts have no token of their own; filled in as texts are read.
        truncated: Which texts were cut; likewise.
        unknown: Which texts consist of tokens that the vocabulary does not hold; likewise.
        missing: By text, the words that are left out because they have no vector; likewise.
    """

    def __init__(self, encoder: Encoder, texts: Sequence[str], layers: Sequence[int], reading: Reading, uses: dict[int, list[int]]) -> None:
        """Prepare; nothing is encoded yet.

        Args:
            encoder: Who encodes.
            texts: Every different text.
            layers: The hidden states that are needed.
            reading: How long texts are read.
            uses: For texts that are needed in several pieces, which.
        """
        self._encoder, self._texts, self._layers, self._reading, self._uses = encoder, texts, list(layers), reading, uses
        self._ids = np.zeros(0, dtype=np.int64)
        self._held = self._nothing()
        self.empty = np.zeros(len(texts), dtype=bool)
        self.truncated = np.zeros(len(texts), dtype=bool)
        self.unknown = np.zeros(len(texts), dtype=bool)
        self.missing: dict[int, tuple[str, ...]] = {}

    def _nothing(self) -> Encoded:
        device = self._encoder.device
        vectors = {k: torch.zeros(0, self._encoder.width, device=device) for k in self._layers}
        none = torch.zeros(0, dtype=torch.int64, device=device)
        return Encoded(vectors, none, torch.zeros(0, dtype=torch.uint8, device=device), none)

    def fetch(self, ids: np.ndarray, *, batch_tokens: int | None, progress: Callable[[int], None] | None) -> tuple[Encoded, np.ndarray]:
        """Encode those of some texts that are not held yet.

        Args:
            ids: Numbers of the texts that are needed now.
            batch_tokens: Most padded tokens at once.
            progress: Called with the number of texts done.

        Returns:
            What is held now, and for each of `ids` its row in it. A text without a token of its own has length 0.
        """
        new = np.setdiff1d(ids, self._ids)
        if len(new):
            fresh = self._encode(new, batch_tokens, progress)
            joined = {k: torch.cat([self._held.layers[k], fresh.layers[k]]) if len(self._ids) else fresh.layers[k] for k in self._layers}
            lengths, special, tokens = (torch.cat(both) for both in zip(self._held[1:], fresh[1:], strict=True))
            self._held = Encoded(joined, lengths, special, tokens)
            self._ids = np.r_[self._ids, new]
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
        layers = {k: vectors[positions] for k, vectors in self._held.layers.items()}
        self._held = Encoded(layers, all_lengths[kept], self._held.special[positions], self._held.ids[positions])
        self._ids = self._ids[rows]

    def _encode(self, ids: np.ndarray, batch_tokens: int | None, progress: Callable[[int], None] | None) -> Encoded:
        tokens = self._encoder.tokenise([self._texts[i] for i in ids], self._reading.limit, window=self._reading.window)
        blank = np.array([not self._texts[i].strip() for i in ids])
        self.truncated[ids] = tokens.truncated
        self.unknown[ids] = tokens.unknown
        self.empty[ids] = blank | (tokens.content == 0)
        self.missing |= {int(i): words for i, words in zip(ids, tokens.missing, strict=False) if words}
        full = np.flatnonzero(~self.empty[ids])
        if len(full) == 0:
            return self._nothing()._replace(lengths=torch.zeros(len(ids), dtype=torch.int64, device=self._encoder.device))
        chosen = tokens.select(full)
        encoded = self._encoder.encode(chosen, self._layers, window=self._reading.window, batch_tokens=batch_tokens, progress=progress)
        lengths = torch.zeros(len(ids), dtype=torch.int64, device=self._encoder.device)
        lengths[torch.from_numpy(full).to(lengths.device)] = encoded.lengths
        return encoded._replace(lengths=lengths)
