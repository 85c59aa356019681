"""What travels between the stages: named, immutable bundles of tensors and numbers.

The alphabet, used in every file from here on: B pairs of a block, I items (texts, each once per mean it is
centered with), T tokens of all items in a row, N hypothesis tokens, M reference tokens, D dimensions,
G centering groups.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class TokenVectors(NamedTuple):
    """The token vectors of many texts in one row, without padding.

    Attributes:
        vectors: Shape (T, D).
        lengths: Tokens of each item; shape (I,), int64, on the vectors' device.
        counted: Which tokens count in averages; shape (T,), bool; None for all. The others can be matched only.
    """

    vectors: Tensor
    lengths: Tensor
    counted: Tensor | None = None

    @property
    def counted_lengths(self) -> Tensor:
        """Tokens of each item that count; shape (I,)."""
        if self.counted is None:
            return self.lengths
        return torch.zeros_like(self.lengths).index_add(0, self.owners, self.counted.to(torch.int64))

    @property
    def starts(self) -> Tensor:
        """Where each item's tokens begin; shape (I,)."""
        return torch.cumsum(self.lengths, 0) - self.lengths

    @property
    def owners(self) -> Tensor:
        """The item every token belongs to; shape (T,)."""
        return torch.repeat_interleave(torch.arange(len(self.lengths), device=self.lengths.device), self.lengths)


class Padded(NamedTuple):
    """Token vectors of some items side by side.

    Attributes:
        vectors: Shape (B, N, D); rows beyond an item's length hold numbers that mean nothing.
        mask: Which rows are tokens; shape (B, N), bool.
        counted: Which of them count in averages; shape (B, N), bool.
    """

    vectors: Tensor
    mask: Tensor
    counted: Tensor


class Encoded(NamedTuple):
    """What an encoder says about some texts.

    Attributes:
        layers: Hidden state number to vectors of shape (T, D), float32, special tokens included.
        lengths: Tokens of each text, special tokens included; shape (I,), int64.
        special: 0 for a token of the text, 1 for the special token that opens it, 2 for any other special
            token; shape (T,), uint8.
    """

    layers: dict[int, Tensor]
    lengths: Tensor
    special: Tensor


class Sides(NamedTuple):
    """C(X, Y) seen from the hypothesis and from the reference; both of shape (B,)."""

    hypothesis: Tensor
    reference: Tensor


class PRF(NamedTuple):
    """Precision (hypothesis side), recall (reference side) and F1; each of shape (B,)."""

    precision: Tensor
    recall: Tensor
    f1: Tensor


def span_indices(starts: Tensor, lengths: Tensor) -> Tensor:
    """The token positions of several spans, one after the other.

    Args:
        starts: First position of every span; shape (I,).
        lengths: Positions in every span; shape (I,).

    Returns:
        Shape (sum of lengths,).

    >>> span_indices(torch.tensor([5, 0]), torch.tensor([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = torch.cumsum(lengths, 0)
    shift = torch.repeat_interleave(starts - (ends - lengths), lengths)
    return torch.arange(len(shift), device=shift.device) + shift


def pad(tokens: TokenVectors, items: Tensor) -> Padded:
    """Put the tokens of some items side by side.

    Args:
        tokens: All items.
        items: Which of them; shape (B,).

    Returns:
        Vectors (B, N, D) and mask (B, N), N the longest of them. An item's own tokens fill its first rows.
    """
    lengths = tokens.lengths[items]
    columns = torch.arange(int(lengths.max()), device=lengths.device)
    mask = columns < lengths[:, None]  # (B, N)
    positions = tokens.starts[items][:, None] + columns * mask  # (B, N)
    counted = mask if tokens.counted is None else mask & tokens.counted[positions]
    return Padded(tokens.vectors[positions], mask, counted)
