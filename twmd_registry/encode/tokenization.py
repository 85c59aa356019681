"""Texts to token ids, and long texts to overlapping windows, whose vectors of one token are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import regex

from twmd_registry.registry.names import UNKNOWN_SHARE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


BLANK = regex.compile(r"[\s\p{Default_Ignorable_Code_Point}]*")
"""A text of white space, marks of direction, soft hyphens and the like; a tokenizer may make tokens of it."""
LEFT_OUT = 3
"""The mark of a word that has no vector."""


class TokenIds(NamedTuple):
    """The tokens of some texts.

    Attributes:
        ids: One array of token ids per text, special tokens included.
        special: One array per text: 0 for a token of the text, 1 for the special token that opens it, 2 for any other
            special token, `LEFT_OUT` for a word that is left out because the vocabulary does not hold it.
        empty: Whether a text is blank, or has no token of its own, left out or not; shape (number of texts,).
        truncated: Whether a text was cut; shape (number of texts,).
        unknown: Whether more than `UNKNOWN_SHARE` of a text's own tokens are unknown, where such are kept; shape
            (number of texts,).
        missing: Surface strings of every text's out-of-vocabulary tokens, or of the words that are dropped.
    """

    ids: list[np.ndarray]
    special: list[np.ndarray]
    empty: np.ndarray
    truncated: np.ndarray
    unknown: np.ndarray
    missing: Sequence[tuple[str, ...]] = ()

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every text, special tokens included."""
        return np.fromiter((len(row) for row in self.ids), dtype=np.int64, count=len(self.ids))

    def select(self, rows: np.ndarray) -> TokenIds:
        """Return some of the texts, in the order given."""
        missing = [self.missing[i] for i in rows] if self.missing else ()
        return TokenIds(
            [self.ids[i] for i in rows],
            [self.special[i] for i in rows],
            self.empty[rows],
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
    rows: list[np.ndarray] = []
    marks: list[np.ndarray] = []
    empty, truncated, unknown = np.zeros((3, len(texts)), dtype=bool)
    missing: list[tuple[str, ...]] = [()] * len(texts)
    for i, encoding in enumerate(backend.encode_batch_fast(list(texts))):
        ids = np.array(encoding.ids, dtype=np.int64)
        special = np.array(encoding.special_tokens_mask, dtype=np.uint8) * 2
        special[:1] //= 2  # the token that opens the text has the mark 1
        if limit is not None and len(ids) > limit:
            own = np.flatnonzero(special == 0)
            closing = len(ids) - 1 - int(own[-1]) if len(own) else 0
            kept = np.r_[0 : limit - closing, len(ids) - closing : len(ids)]
            ids, special, truncated[i] = ids[kept], special[kept], True
        rows.append(ids)
        marks.append(special)
        empty[i] = BLANK.fullmatch(texts[i]) is not None or bool(special.all())
    places = [
        np.flatnonzero((special == 0) & (ids == tokenizer.unk_token_id))
        for ids, special in zip(rows, marks, strict=True)
    ]
    odd = [i for i, gone in enumerate(places) if len(gone)]
    # Only the slower call gives the character offsets of a token.
    for i, encoding in zip(odd, backend.encode_batch([texts[i] for i in odd]), strict=True):
        missing[i] = tuple(texts[i][slice(*encoding.offsets[place])] for place in places[i])
        unknown[i] = not drop_unknown and len(places[i]) > UNKNOWN_SHARE * int((marks[i] == 0).sum())
        if drop_unknown:
            marks[i][places[i]] = LEFT_OUT
    return TokenIds(rows, marks, empty, truncated, unknown, missing)


def split_into_windows(
    tokens: TokenIds, size: int | None, stride: int | None
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray | None]:
    """Cut texts that are too long into windows; each has the special tokens that open and close the text.

    The last window ends where the text does, so that every token is in at least one.

    Args:
        tokens: The texts.
        size: Most tokens of a window, special tokens included.
        stride: Tokens of the text between the beginnings of two windows; None for whole texts.

    Returns:
        Token ids of every window or whole text; the places of those tokens among the tokens of all texts in a row; and
        how often each of those places is encoded, shape (T,), None when each is encoded once.
    """
    lengths = tokens.lengths
    starts = np.cumsum(lengths) - lengths
    ids: list[np.ndarray] = []
    places: list[np.ndarray] = []
    for row, special, start in zip(tokens.ids, tokens.special, starts.tolist(), strict=True):
        if size is None or stride is None or len(row) <= size:
            windows = [np.arange(len(row))]
        else:
            windows = _windows(special, size, stride)
        for picked in windows:
            ids.append(row[picked])
            places.append(picked + start)
    if len(ids) == len(tokens.ids):
        return ids, places, None
    return ids, places, np.bincount(np.concatenate(places), minlength=int(lengths.sum()))


def _windows(special: np.ndarray, size: int, stride: int) -> list[np.ndarray]:
    """Return the places of every window's tokens within its text."""
    own = np.flatnonzero(np.isin(special, (0, LEFT_OUT)))
    first, last = int(own[0]), int(own[-1]) + 1
    opening, closing = np.arange(first), np.arange(last, len(special))
    room = size - len(opening) - len(closing)
    begins = [*range(first, last - room, stride), last - room]
    return [np.r_[opening, begin : begin + room, closing] for begin in begins]
