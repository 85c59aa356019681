"""`TextCache`: encoded texts that come again in a later call."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.tensors import TextTokens


class TextKey(NamedTuple):
    """Everything that an encoded text depends on: `Encoder.identity`, and the hidden states, ascending."""

    encoder: str
    layers: tuple[int, ...]
    limit: int | None
    stride: int | None
    text: str


class CachedText(NamedTuple):
    """An encoded text: a matrix per hidden state, shape (layers, t, D), float32, and its t tokens; none if empty."""

    vectors: np.ndarray
    tokens: TextTokens


class _Entry(NamedTuple):
    """A cached text, its bytes, and the turn that used it last."""

    cached: CachedText
    size: int
    turn: int


class TextCache:
    """Keeps texts up to a number of bytes; the least recently used go first.

    A turn is one call of a scorer. Texts that this turn has used stay until it ends, even if newer ones find no room:
    in a loop over more texts than fit, each would otherwise be dropped just before its next use.

    Attributes:
        max_bytes: The bound; the largest that any turn requested.
        held_bytes: Bytes of arrays and texts in the cache.
    """

    def __init__(self) -> None:
        """Hold nothing, and keep nothing before a turn says how much."""
        self.max_bytes = self.held_bytes = 0
        self._entries = OrderedDict[TextKey, _Entry]()
        self._turn = 0

    def __len__(self) -> int:
        """Return the number of texts in the cache."""
        return len(self._entries)

    def begin(self, max_bytes: int) -> None:
        """Begin a call with a limit of bytes."""
        self.max_bytes = max(self.max_bytes, max_bytes)
        self._turn += 1

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Return the cached ones among some texts."""
        cached = {}
        for key in keys:
            if key in self._entries:
                entry = self._entries[key] = self._entries[key]._replace(turn=self._turn)
                cached[key] = entry.cached
                self._entries.move_to_end(key)
        return cached

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Keep texts that are not held, as far as there is room or older ones make it."""
        for key, text in texts.items():
            tokens = text.tokens
            held = (text.vectors, tokens.special, tokens.ids, tokens.codes, key.text, *tokens.missing)
            size = sum(map(sys.getsizeof, held))
            if size <= self.max_bytes and self._make_room(size):
                self._entries[key] = _Entry(text, size, self._turn)
                self.held_bytes += size

    def _make_room(self, size: int) -> bool:
        """Drop the least recently used texts of earlier turns; return whether that was enough."""
        while self.held_bytes + size > self.max_bytes:
            key, oldest = next(iter(self._entries.items()), (None, None))
            if key is None or oldest is None or oldest.turn == self._turn:
                return False
            del self._entries[key]
            self.held_bytes -= oldest.size
        return True
