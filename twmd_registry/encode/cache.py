"""`TextCache`: encoded texts that come again in a later call, in main memory and up to a number of bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np


class TextKey(NamedTuple):
    """Everything that an encoded text depends on.

    Attributes:
        model: Content of the model, adapter and number format; see `Encoder.identity`.
        layers: The hidden states, ascending.
        limit: Most tokens of a text, or of a window.
        stride: Tokens between the beginnings of two windows; None where texts are cut.
        text: The text.
    """

    model: str
    layers: tuple[int, ...]
    limit: int | None
    stride: int | None
    text: str


class CachedText(NamedTuple):
    """One encoded text of t tokens, special ones included (t = 0 for an empty text).

    Attributes:
        vectors: One matrix per hidden state; shape (layers, t, D), float32.
        special: This and all others as in `TextTokens`.
    """

    vectors: np.ndarray
    special: np.ndarray
    ids: np.ndarray
    codes: np.ndarray
    empty: bool
    truncated: bool
    unknown: bool
    missing: tuple[str, ...] = ()


class EncodingCache(Protocol):
    """A cache of encoded texts: in main memory (`TextCache`) or in files (`DiskCache`)."""

    def find(self, keys: Sequence[TextKey]) -> dict[TextKey, CachedText]:
        """Return the texts of `keys` that are cached."""

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Keep texts, as far as there is room."""


class TextCache:
    """Keeps texts up to a number of bytes; the least recently used go first.

    A turn is one call of a scorer. What a turn has used makes no room for more of the same turn: going round more texts
    than fit would otherwise push out each of them just before it is needed again, and find none.

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
        found = {}
        for key in keys:
            if key in self._entries:
                found[key], size, _ = self._entries[key]
                self._entries[key] = found[key], size, self._turn
                self._entries.move_to_end(key)
        return found

    def keep(self, texts: Mapping[TextKey, CachedText]) -> None:
        """Keep texts that are not held, as far as there is room or older ones make it."""
        for key, text in texts.items():
            size = sum(map(sys.getsizeof, (*text[:4], key.text, *text.missing)))
            if size <= self.most_bytes and self._make_room(size):
                self._entries[key] = text, size, self._turn
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
