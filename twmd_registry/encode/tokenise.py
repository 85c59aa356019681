"""Texts to token ids: nothing hidden, nothing cut in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


LEFT_OUT = 3
"""The mark of a word that has no vector."""


class TokenIds(NamedTuple):
    """The tokens of some texts.

    Attributes:
        ids: One array of token ids per text, special tokens included.
        special: One array per text: 0 for a token of the text, 1 for the special token that opens it, 2 for
            any other special token, `LEFT_OUT` for a word that is left out because the vocabulary does not hold it.
        truncated: Whether a text was cut; shape (number of texts,).
        unknown: Whether a text has tokens, and none that the vocabulary holds; where such are kept; shape (number of texts,).
        missing: The words of every text that are left out; nothing where words never are.
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
        """Some of the texts, in the order given."""
        missing = [self.missing[i] for i in rows] if self.missing else ()
        return TokenIds([self.ids[i] for i in rows], [self.special[i] for i in rows], self.truncated[rows], self.unknown[rows], missing)


def tokenise(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], limit: int | None, *, drop_unknown: bool = False) -> TokenIds:
    """Turn texts into token ids.

    The tokenizer's own truncation and padding (some published ``tokenizer.json`` files carry both) are switched
    off; a text that is too long loses tokens at its end, before the special tokens that close it.

    Args:
        tokenizer: A fast tokenizer.
        texts: The texts.
        limit: Most tokens of a text, special tokens included; None for no limit.
        drop_unknown: Whether words that the vocabulary does not hold are left out (and named).
    """
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    # Only the slower call says where in its text a token is.
    rows = [_cut(encoding, limit) for encoding in (backend.encode_batch if drop_unknown else backend.encode_batch_fast)(list(texts))]
    truncated = np.array([len(encoding) > len(ids) for encoding, (ids, _) in rows], dtype=bool)
    unknown = np.array([not drop_unknown and _is_unknown(ids[special == 0], tokenizer.unk_token_id) for _, (ids, special) in rows], dtype=bool)
    missing = [_leave_out(text, *row, tokenizer.unk_token_id) for text, row in zip(texts, rows, strict=True)] if drop_unknown else []
    return TokenIds([ids for _, (ids, _) in rows], [special for _, (_, special) in rows], truncated, unknown, missing)


def _leave_out(text: str, encoding: Any, marked: tuple[np.ndarray, np.ndarray], unknown_id: int | None) -> tuple[str, ...]:
    """Mark the words that the vocabulary does not hold, and name them."""
    ids, special = marked
    gone = np.flatnonzero(ids == unknown_id)
    special[gone] = LEFT_OUT
    return tuple(text[slice(*encoding.offsets[i])] for i in gone)


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
