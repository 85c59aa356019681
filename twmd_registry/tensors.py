"""Data structures that the stages exchange.

Symbols in shapes, the same in every file: B pairs of a block, I items (texts, each once per centering group), T tokens
of all items, concatenated, W n-grams, N hypothesis tokens, M reference tokens, D dimensions, L layers, V entries of a
vocabulary, G centering groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

EPSILON = torch.finfo(torch.float32).eps
"""Relative rounding error of float32."""
ZERO_TOLERANCE = 8
"""A vector whose norm is at most this many times its rounding error is treated as zero."""
MASKED = float("-inf")
"""Value of padded positions before a maximum or softmax."""


class TokenVectors(NamedTuple):
    """The concatenated token vectors of many texts, without padding."""

    vectors: Tensor  # Shape (T, D)
    lengths: Tensor  # Tokens of each item; shape (I,), int64, on the vectors' device
    # Tokens that count in averages; shape (T,), bool; None for all. Others can only be matched
    counted: Tensor | None = None
    weights: Tensor | None = None  # Weight of each token; shape (T,), at least 0; None for equal weights
    # Position of each token among all encoded tokens; for an n-gram, its first token's among the units; shape (T,)
    positions: Tensor | None = None
    copied: Tensor | None = None  # Tokens that a prediction copies from its source; shape (T,), bool; None for none
    # Bound on the norm of each vector's rounding error; shape (T,); empty before `center`
    rounding: Tensor = torch.empty(0)

    def select(self, keep: Tensor) -> TokenVectors:
        """Return the tokens for which `keep` (T,) is true; an item may be left without any."""
        rounding = self.rounding[keep] if len(self.rounding) else self.rounding
        lengths = torch.bincount(torch.repeat_interleave(self.lengths)[keep], minlength=len(self.lengths))
        counted, weights, positions, copied = (
            None if values is None else values[keep]
            for values in (self.counted, self.weights, self.positions, self.copied)
        )
        return TokenVectors(self.vectors[keep], lengths, counted, weights, positions, copied, rounding)


class PaddedTokens(NamedTuple):
    """The tokens of one side of B pairs, padded to N positions.

    A weight is a multiplicity: a token of weight 2 counts as two tokens of weight 1. A token of weight 0 has no share
    of the plan, but greedy matching may select it, like a special token in bert_score. Every text has a token of
    positive weight.
    """

    mask: Tensor  # Positions with tokens; shape (B, N), bool
    weights: Tensor  # Weight of each token, at least 0, and 0 in padded positions; shape (B, N)
    # Shape (B, N, D); padded positions are arbitrary. Aligners read similarities and need no vectors
    vectors: Tensor = torch.empty(0)
    # Whether a pair's batch has a longer text (key ``padding``), which gives greedy matching a partner of similarity 0;
    # shape (B,), bool; None without batches
    padded: Tensor | None = None

    @property
    def log_weights(self) -> Tensor:
        """Logarithms of the weights, 0 for weight 0; shape (B, N)."""
        return torch.where(self.weights > 0, self.weights, 1.0).log()

    @property
    def shares(self) -> Tensor:
        """Weights divided by their sum; shape (B, N)."""
        return self.weights / self.weights.sum(1, keepdim=True)

    def mean(self, x: Tensor) -> Tensor:
        """Return the weighted mean over the tokens; (B, N) to (B,)."""
        return torch.where(self.weights > 0, x * self.weights, 0.0).sum(1) / self.weights.sum(1)


LEFT_OUT = 3
"""Marks a word without a vector."""


class TextTokens(NamedTuple):
    """The tokens of a text."""

    # 0 for a token of the text, 1 for the special token that opens it, 2 for any other special token, `LEFT_OUT` for an
    # out-of-vocabulary word that is left out; shape (t,), uint8
    special: np.ndarray
    ids: np.ndarray  # Token ids, special tokens included; shape (t,), int64
    codes: np.ndarray  # As in `EncodedTexts`; shape (t,), int64
    empty: bool  # Whether the text is blank or has no token of its own, left out or not
    truncated: bool  # Whether it was cut
    unknown: bool  # Whether more than `UNKNOWN_SHARE` of its own tokens are unknown but kept
    missing: tuple[str, ...] = ()  # Surface strings of out-of-vocabulary tokens, or of dropped words

    @property
    def own(self) -> np.ndarray:
        """The positions of the text's own tokens, left out or not."""
        return np.flatnonzero(np.isin(self.special, (0, LEFT_OUT)))

    def cut(self, limit: int) -> TextTokens:
        """Drop the text's last tokens; keep the special tokens that close it."""
        closing = len(self.ids) - 1 - int(self.own[-1]) if len(self.own) else 0
        kept = np.r_[0 : limit - closing, len(self.ids) - closing : len(self.ids)]
        return self._replace(special=self.special[kept], ids=self.ids[kept], codes=self.codes[kept], truncated=True)


FLAGS = ("empty", "truncated", "unknown", "vanished", "wordless", "weightless")
"""Facts about a text: it has no token of its own; it was cut; more than `UNKNOWN_SHARE` of its tokens are unknown but
kept; no token is left to compare; only special tokens are compared; all tokens have idf 0.
"""
TEXT_FLAGS = np.dtype([(name, bool) for name in FLAGS])
TOKEN_FLAGS = FLAGS[:3]
"""Flags that a text's tokens determine."""


class TextFacts(NamedTuple):
    """Facts about distinct texts, set when they are read."""

    flags: np.ndarray  # `TEXT_FLAGS`; shape (texts,)
    # Out-of-vocabulary strings (unknown tokens, or words without a vector) of the texts that have any, by number
    missing: dict[int, tuple[str, ...]]

    @classmethod
    def of_unread(cls, number: int) -> TextFacts:
        """Return the facts about texts that were not read yet."""
        return cls(np.zeros(number, TEXT_FLAGS), {})

    def add(self, numbers: Sequence[int], tokens: Sequence[TextTokens]) -> None:
        """Add the facts that the texts' tokens determine."""
        for name in TOKEN_FLAGS:
            self.flags[name][numbers] |= [getattr(text, name) for text in tokens]
        self.missing.update({i: text.missing for i, text in zip(numbers, tokens, strict=True) if text.missing})


class EncodedTexts(NamedTuple):
    """Token vectors of texts, by hidden state."""

    layers: dict[int, Tensor]  # Hidden state number to vectors of shape (T, D), float32, special tokens included
    lengths: Tensor  # Tokens of each text, special tokens included, 0 for an empty text; shape (I,), int64
    special: Tensor  # As in `TextTokens`; shape (T,), uint8
    ids: Tensor  # Token ids; shape (T,), int64
    codes: Tensor  # Code of an unknown token's surface string, 0 for other tokens; shape (T,), int64


def span_indices(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return the concatenated positions of I spans; shape (sum of lengths,).

    >>> span_indices(torch.tensor([5, 0]), torch.tensor([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = torch.cumsum(lengths, 0)
    shift = torch.repeat_interleave(starts - (ends - lengths), lengths)
    return torch.arange(len(shift), device=shift.device) + shift


def pad(tokens: TokenVectors, items: Tensor) -> PaddedTokens:
    """Return the tokens of some items (B,) with their weights, padded at the end to the largest length."""
    lengths, starts = tokens.lengths[items], (torch.cumsum(tokens.lengths, 0) - tokens.lengths)[items]
    columns = torch.arange(int(lengths.max()), device=lengths.device)
    mask = columns < lengths[:, None]  # (B, N)
    positions = starts[:, None] + columns * mask  # (B, N)
    weights = mask.to(tokens.vectors.dtype)
    if tokens.weights is not None:
        weights = torch.where(mask, tokens.weights[positions], 0.0)
    # index_select is several times faster than indexing.
    vectors = tokens.vectors.index_select(0, positions.flatten()).view(*positions.shape, tokens.vectors.shape[1])
    return PaddedTokens(mask, weights, vectors)


def masked_logsumexp(x: Tensor, present: Tensor, dim: int) -> Tensor:
    """Return ``log sum exp`` of x (B, N, M) along one axis, kept with length 1, over the cells that are present.

    A row of padding only gives 0 with gradient 0.
    """
    any_present = present.any(dim=dim, keepdim=True)
    inside = torch.where(present, x, torch.where(any_present, x.new_tensor(MASKED), 0.0))
    return torch.where(any_present, torch.logsumexp(inside, dim=dim, keepdim=True), 0.0)


def masked_log_softmax(x: Tensor, present: Tensor) -> Tensor:
    """Return ``x - log sum exp x`` of x (B, N, M) along the last axis over the cells that are present, -inf elsewhere.

    Its exponentials sum to one however large x is. ``x - masked_logsumexp(x)`` would inherit the rounding error of S/T.
    """
    any_present = present.any(dim=2, keepdim=True)
    inside = torch.where(any_present, torch.where(present, x, MASKED), 0.0)
    return torch.where(present, torch.log_softmax(inside, dim=2), MASKED)
