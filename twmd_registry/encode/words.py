"""Which tokens of a text take part, by the words they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twmd_registry.encode.pieces import Pieces
from twmd_registry.registry.names import Part

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class WordPolicy(NamedTuple):
    """What is left out.

    Attributes:
        subwords: Pieces that continue a word.
        punctuation: Tokens of punctuation alone.
        stop_words: Words, as the tokenizer writes them and in lower case, left out with all their pieces.
    """

    subwords: Part = Part.KEEP
    punctuation: Part = Part.KEEP
    stop_words: frozenset[str] = frozenset()

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is left out."""
        return self == WordPolicy()


def as_tokenized(words: frozenset[str], tokenizer: PreTrainedTokenizerFast) -> frozenset[str]:
    """Words as their pieces read once the tokenizer has normalised them (without accents, say)."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    if normalizer is None:
        return words
    return words | {normalizer.normalize_str(word).replace("▁", " ").strip().lower() for word in words}


def left_out(policy: WordPolicy, pieces: Pieces, ids: np.ndarray, own: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The tokens that a policy leaves out; special tokens are not its business.

    Args:
        policy: What to leave out.
        pieces: The vocabulary.
        ids: Token ids of many texts in a row; shape (T,).
        own: Which are no special tokens; shape (T,), bool.
        lengths: Tokens of every text.

    Returns:
        Shape (T,), bool.
    """
    starts = (np.cumsum(lengths) - lengths)[lengths > 0]
    gone = np.zeros(len(ids), dtype=bool)
    if policy.subwords is Part.DROP:
        gone |= pieces.continuing(ids, own, starts)
    if policy.punctuation is Part.DROP:
        gone |= pieces.punctuation[ids] & own
    if policy.stop_words:
        gone |= _in_stop_words(policy.stop_words, pieces, ids, pieces.words(ids, own, starts)) & own
    return gone


def _in_stop_words(stop_words: frozenset[str], pieces: Pieces, ids: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The tokens of words that are stop words."""
    raw = [bytearray() for _ in range(int(words[-1]) + 1 if len(words) else 0)]
    for number, token in zip(words.tolist(), ids.tolist(), strict=True):
        raw[number] += pieces.raw[token]
    stop = np.array([word.decode("utf-8", errors="replace").strip().lower() in stop_words for word in raw], dtype=bool)
    return np.asarray(stop[words])
