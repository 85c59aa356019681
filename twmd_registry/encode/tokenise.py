"""Texts to token ids: nothing hidden, nothing cut in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class TokenIds(NamedTuple):
    """The tokens of some texts.

    Attributes:
        ids: One array of token ids per text, special tokens included.
        special: One array per text: 0 for a token of the text, 1 for the special token that opens it, 2 for
            any other special token.
        truncated: Whether a text was cut; shape (number of texts,).
        unknown: Whether a text has tokens, and none that the vocabulary holds; shape (number of texts,).
    """

    ids: list[np.ndarray]
    special: list[np.ndarray]
    truncated: np.ndarray
    unknown: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every text, special tokens included."""
        return np.fromiter((len(row) for row in self.ids), dtype=np.int64, count=len(self.ids))

    @property
    def content(self) -> np.ndarray:
        """Tokens of every text that are the text's own."""
        return np.fromiter((int((row == 0).sum()) for row in self.special), dtype=np.int64, count=len(self.special))

    def select(self, rows: np.ndarray) -> TokenIds:
        """Some of the texts, in the order given."""
        return TokenIds([self.ids[i] for i in rows], [self.special[i] for i in rows], self.truncated[rows], self.unknown[rows])


def tokenise(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], limit: int | None) -> TokenIds:
    """Turn texts into token ids.

    The tokenizer's own truncation and padding (some published ``tokenizer.json`` files carry both) are switched
    off; a text that is too long loses tokens at its end, before the special tokens that close it.

    Args:
        tokenizer: A fast tokenizer.
        texts: The texts.
        limit: Most tokens of a text, special tokens included; None for no limit.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    rows = [_cut(encoding, limit) for encoding in backend.encode_batch_fast(list(texts))]
    truncated = np.array([len(encoding) > len(ids) for encoding, (ids, _) in rows], dtype=bool)
    unknown = np.array([_is_unknown(ids[special == 0], tokenizer.unk_token_id) for _, (ids, special) in rows], dtype=bool)
    return TokenIds([ids for _, (ids, _) in rows], [special for _, (_, special) in rows], truncated, unknown)


def _is_unknown(content: np.ndarray, unknown_id: int | None) -> bool:
    return len(content) > 0 and bool((content == unknown_id).all())


def _cut(encoding: Any, limit: int | None) -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """Mark special tokens and cut what is too long, keeping the special tokens at the end."""
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
