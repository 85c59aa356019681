"""`TextCache`: encoded texts that later calls reuse."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.tensors import TextTokens


class TextKey(NamedTuple):
    """Everything that determines an encoded text: `Encoder.identity`, the hidden states, ascending, and the text."""

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
    """A cached text, its size in bytes, and the turn that last used it."""

    cached: CachedText
    size: int
    turn: int


class TextCache:
    """Keeps texts up to a number of bytes, dropping the least recently used.

    A turn is one call of a scorer. Texts used in this turn stay until it ends, even if newer ones do not fit. Otherwise
    a loop over too many texts would drop each one just before its next use.

    Attributes:
        max_bytes: The limit: the largest that any turn requested.
        held_bytes: Bytes of arrays and texts in the cache.
    """

    def __init__(self) -> None:
        """Start empty, without room before the first turn."""
        self.max_bytes = self.held_bytes = 0
        self._entries = OrderedDict[TextKey, _Entry]()
        self._turn = 0

    def __len__(self) -> int:
        """Return the number of texts in the cache."""
        return len(self._entries)

    def begin(self, max_bytes: int) -> None:
        """Begin a turn with a limit in bytes."""
        self.max_bytes = max(self.max_bytes, max_bytes)
        self._turn += 1

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Return the cached texts."""
        cached = {}
        for key in keys:
            if key in self._entries:
                entry = self._entries[key] = self._entries[key]._replace(turn=self._turn)
                cached[key] = entry.cached
                self._entries.move_to_end(key)
        return cached

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Add texts as far as they fit, dropping older ones."""
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
