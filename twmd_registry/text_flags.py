"""Facts about texts beside their scores: which are empty, cut, or unknown to the model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

UNKNOWN_SHARE = 0.1
"""A warning names the texts of which a larger share of the tokens is unknown."""


class TextFlags(NamedTuple):
    """Facts about some different texts; each array of shape (texts,), bool.

    Attributes:
        empty: Texts that have no token of their own.
        truncated: Texts that were cut.
        unknown: Texts in which more than `UNKNOWN_SHARE` of the tokens are unknown to an encoder that keeps them.
        vanished: Texts without a token left to compare.
        wordless: Texts of which only special tokens are compared.
        weightless: Texts in which every token has the idf 0.
        missing: By text, its out-of-vocabulary strings: unknown tokens, or words without a vector, which are dropped.
    """

    empty: np.ndarray
    truncated: np.ndarray
    unknown: np.ndarray
    vanished: np.ndarray
    wordless: np.ndarray
    weightless: np.ndarray
    missing: dict[int, tuple[str, ...]]

    @classmethod
    def none(cls, texts: int) -> TextFlags:
        """Return flags that are all false, for `texts` texts."""
        empty, truncated, unknown, vanished, wordless, weightless = np.zeros((6, texts), dtype=bool)
        return cls(empty, truncated, unknown, vanished, wordless, weightless, missing={})

    @property
    def missing_words(self) -> list[str]:
        """Return the out-of-vocabulary words of all texts."""
        return [word for _, words in sorted(self.missing.items()) for word in words]
