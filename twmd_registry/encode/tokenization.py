"""Texts to token ids, and long texts to overlapping windows, whose vectors of one token are averaged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twmd_registry.text_flags import UNKNOWN_SHARE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


LEFT_OUT = 3
"""The mark of a word that has no vector."""


class Window(NamedTuple):
    """Windows of a long text.

    Attributes:
        size: Most tokens of a window, special tokens included.
        stride: Tokens of the text between the beginnings of two windows.
    """

    size: int
    stride: int


class TokenIds(NamedTuple):
    """The tokens of some texts.

    Attributes:
        ids: One array of token ids per text, special tokens included.
        special: One array per text: 0 for a token of the text, 1 for the special token that opens it, 2 for any other
            special token, `LEFT_OUT` for a word that is left out because the vocabulary does not hold it.
        truncated: Whether a text was cut; shape (number of texts,).
        unknown: Whether more than `UNKNOWN_SHARE` of a text's own tokens are unknown, where such are kept; shape
            (number of texts,).
        missing: Surface strings of every text's out-of-vocabulary tokens, or of the words that are dropped.
    """

    ids: list[np.ndarray]
    special: list[np.ndarray]
    truncated: np.ndarray
    unknown: np.ndarray
    missing: Sequence[tuple[str, ...]] = ()

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every text, special tokens included."""
        return np.fromiter((len(row) for row in self.ids), dtype=np.int64, count=len(self.ids))

    @property
    def content(self) -> np.ndarray:
        """Tokens of every text that are the text's own, left out or not."""
        owners = np.repeat(np.arange(len(self.ids)), self.lengths)
        own = np.isin(np.concatenate([np.zeros(0, dtype=np.uint8), *self.special]), (0, LEFT_OUT))
        return np.bincount(owners[own], minlength=len(self.ids))

    def select(self, rows: np.ndarray) -> TokenIds:
        """Return some of the texts, in the order given."""
        missing = [self.missing[i] for i in rows] if self.missing else ()
        return TokenIds(
            [self.ids[i] for i in rows],
            [self.special[i] for i in rows],
            self.truncated[rows],
            self.unknown[rows],
            missing,
        )


def tokenise(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], limit: int | None, *, drop_unknown: bool = False
) -> TokenIds:
    """Turn texts into token ids.

    The tokenizer's own truncation and padding (some published ``tokenizer.json`` files carry both) are switched off; a
    text that is too long loses tokens at its end, before the special tokens that close it.

    Args:
        tokenizer: A fast tokenizer.
        texts: The texts.
        limit: Most tokens of a text, special tokens included; None for no limit.
        drop_unknown: Whether words that the vocabulary does not hold are left out.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    rows = [_cut(encoding, limit) for encoding in backend.encode_batch_fast(list(texts))]
    truncated = np.array([len(encoding) > len(ids) for encoding, (ids, _) in rows], dtype=bool)
    unknown = np.zeros(len(rows), dtype=bool)
    missing: list[tuple[str, ...]] = [()] * len(rows)
    places = [find_unknown(ids, special, tokenizer.unk_token_id) for _, (ids, special) in rows]
    odd = [i for i, gone in enumerate(places) if len(gone)]
    # Only the slower call gives the character offsets of a token.
    for i, encoding in zip(odd, backend.encode_batch([texts[i] for i in odd]), strict=True):
        special = rows[i][1][1]
        missing[i] = tuple(texts[i][slice(*encoding.offsets[place])] for place in places[i])
        unknown[i] = not drop_unknown and len(places[i]) > UNKNOWN_SHARE * int((special == 0).sum())
        if drop_unknown:
            special[places[i]] = LEFT_OUT
    return TokenIds([ids for _, (ids, _) in rows], [special for _, (_, special) in rows], truncated, unknown, missing)


def find_unknown(ids: np.ndarray, special: np.ndarray, unknown_id: int | None) -> np.ndarray:
    """Return the places of the unknown tokens among a text's own."""
    return (
        np.flatnonzero((special == 0) & (ids == unknown_id)) if unknown_id is not None else np.zeros(0, dtype=np.int64)
    )


def codes_of(tokenizer: PreTrainedTokenizerFast, words: Iterable[str]) -> list[int]:
    """Return a number, never 0, for every string; strings that the tokenizer normalises alike have the same one."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    read = [normalizer.normalize_str(word) if normalizer else word for word in words]
    return [
        int.from_bytes(hashlib.blake2b(word.strip().encode(), digest_size=8).digest(), signed=True) | 1 for word in read
    ]


def _cut(encoding: Any, limit: int | None) -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """Mark special tokens, and cut a text at the limit; its closing special tokens stay."""
    ids = np.array(encoding.ids, dtype=np.int64)
    special = np.array(encoding.special_tokens_mask, dtype=np.uint8) * 2
    if len(special) and special[0]:
        special[0] = 1
    if limit is None or len(ids) <= limit:
        return encoding, (ids, special)
    content = np.flatnonzero(special == 0)
    closing = len(ids) - 1 - int(content[-1]) if len(content) else 0
    keep = np.r_[0 : limit - closing, len(ids) - closing : len(ids)]
    return encoding, (ids[keep], special[keep])


def split_into_windows(
    tokens: TokenIds, window: Window | None
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray | None]:
    """Cut texts that are too long into windows; each has the special tokens that open and close the text.

    The last window ends where the text does, so that every token is in at least one.

    Args:
        tokens: The texts.
        window: None for whole texts.

    Returns:
        Token ids of every window or whole text; the places of those tokens among the tokens of all texts in a row; and
        how often each of those places is encoded, shape (T,), None when each is encoded once.
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
        return ids, places, None
    return ids, places, np.bincount(np.concatenate(places), minlength=int(lengths.sum()))


def _windows(special: np.ndarray, window: Window) -> list[np.ndarray]:
    """Return the places of every window's tokens within its text."""
    own = np.flatnonzero(np.isin(special, (0, LEFT_OUT)))
    first, last = int(own[0]), int(own[-1]) + 1
    opening, closing = np.arange(first), np.arange(last, len(special))
    room = window.size - len(opening) - len(closing)
    begins = [*range(first, last - room, window.stride), last - room]
    return [np.r_[opening, begin : begin + room, closing] for begin in begins]
