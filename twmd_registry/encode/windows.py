"""Texts longer than an encoder reads: overlapping windows, each encoded by itself, a token's vectors averaged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twmd_registry.encode.tokenization import LEFT_OUT, TokenIds


class Window(NamedTuple):
    """How long texts are taken apart.

    Attributes:
        size: Most tokens of a window, special tokens included.
        stride: Tokens of the text between the beginnings of two windows.
    """

    size: int
    stride: int


class EncoderSequences(NamedTuple):
    """What goes through the encoder: whole texts, or windows of them.

    Attributes:
        ids: Token ids of every sequence.
        places: Of every sequence's tokens, their places among the tokens of all texts in a row.
        repeats: How often each of those places is encoded; shape (T,); None when each is once.
    """

    ids: list[np.ndarray]
    places: list[np.ndarray]
    repeats: np.ndarray | None

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every sequence."""
        return np.fromiter((len(row) for row in self.ids), dtype=np.int64, count=len(self.ids))


def take_apart(tokens: TokenIds, window: Window | None) -> EncoderSequences:
    """Cut texts that are too long into windows; each has the special tokens that open and close the text.

    The last window ends where the text does, so that every token is in at least one.

    Args:
        tokens: The texts.
        window: None for whole texts.
    """
    lengths = tokens.lengths
    starts = np.cumsum(lengths) - lengths
    ids: list[np.ndarray] = []
    places: list[np.ndarray] = []
    for row, special, start in zip(tokens.ids, tokens.special, starts.tolist(), strict=True):
        for picked in _windows(special, window) if window and len(row) > window.size else [np.arange(len(row))]:
            ids.append(row[picked])
            places.append(picked + start)
    if len(ids) == len(tokens.ids):
        return EncoderSequences(ids, places, None)
    return EncoderSequences(ids, places, np.bincount(np.concatenate(places), minlength=int(lengths.sum())))


def _windows(special: np.ndarray, window: Window) -> list[np.ndarray]:
    """The places of every window's tokens within its text."""
    own = np.flatnonzero(np.isin(special, (0, LEFT_OUT)))
    first, last = int(own[0]), int(own[-1]) + 1
    opening, closing = np.arange(first), np.arange(last, len(special))
    room = window.size - len(opening) - len(closing)
    begins = [*range(first, last - room, window.stride), last - room]
    return [np.r_[opening, begin : begin + room, closing] for begin in begins]
