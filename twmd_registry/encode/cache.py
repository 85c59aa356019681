"""`TextCache`: encoded texts that come again in a later call."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from twmd_registry.tensors import TextTokens

TextKey = tuple[str, tuple[int, ...], int | None, int | None, str]
"""Everything that an encoded text depends on: `Encoder.identity`, the hidden states, ascending, limit and stride, and
last the text.
"""
CachedText = tuple[np.ndarray, TextTokens]
"""One encoded text: a matrix per hidden state, shape (layers, t, D), float32, and its t tokens; none if it is empty."""


class TextCache:
    """Keeps texts up to a number of bytes; the least recently used go first.

    A turn is one call of a scorer. Texts that this turn has used stay until it ends, even if newer ones find no room:
    in a loop over more texts than fit, each would otherwise be dropped just before its next use.

    Attributes:
        most_bytes: The bound; the largest that any turn asked for.
        held_bytes: Bytes of arrays and texts in the cache.
    """

    def __init__(self) -> None:
        """Hold nothing, and keep nothing before a turn says how much."""
        self.most_bytes = self.held_bytes = 0
        self._entries = OrderedDict[TextKey, tuple[CachedText, int, int]]()  # with its size and its turn
        self._turn = 0

    def __len__(self) -> int:
        """Return the number of texts in the cache."""
        return len(self._entries)

    def begin(self, most_bytes: int) -> None:
        """Begin a call with a limit of bytes."""
        self.most_bytes = max(self.most_bytes, most_bytes)
        self._turn += 1

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Return those of some texts that are held."""
        cached = {}
        for key in keys:
            if key in self._entries:
                cached[key], size, _ = self._entries[key]
                self._entries[key] = cached[key], size, self._turn
                self._entries.move_to_end(key)
        return cached

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Keep texts that are not held, as far as there is room or older ones make it."""
        for key, (vectors, tokens) in texts.items():
            size = sum(
                map(sys.getsizeof, (vectors, tokens.special, tokens.ids, tokens.codes, key[-1], *tokens.missing))
            )
            if size <= self.most_bytes and self._make_room(size):
                self._entries[key] = (vectors, tokens), size, self._turn
                self.held_bytes += size

    def _make_room(self, size: int) -> bool:
        """Drop the least recently used texts of earlier turns; return whether that was enough."""
        while self.held_bytes + size > self.most_bytes:
            oldest = next(iter(self._entries.items()), None)
            if oldest is None or oldest[1][2] == self._turn:
                return False
            del self._entries[oldest[0]]
            self.held_bytes -= oldest[1][1]
        return True
