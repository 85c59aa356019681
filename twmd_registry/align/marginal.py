"""`Marginal`: the tokens of one side of a problem, and how much each counts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from twmd_registry.align.masks import mean_of_present


class Marginal(NamedTuple):
    """One side's tokens.

    A weight is a multiplicity: a token of weight 2 counts as two tokens of weight 1 do, and one of weight 0 carries
    nothing (though a greedy partner may be one, which is how bert_score treats special tokens). Every pair has a token
    with a positive weight.

    Attributes:
        mask: Which places hold tokens; shape (B, N), bool.
        weights: How much each counts, at least 0; shape (B, N); None where all count the same.
    """

    mask: Tensor
    weights: Tensor | None = None

    @property
    def carrying(self) -> Tensor:
        """Tokens that carry something; shape (B, N), bool."""
        return self.mask if self.weights is None else self.mask & (self.weights > 0)

    @property
    def log_weights(self) -> Tensor | None:
        """Logarithms of the weights, 0 where nothing is carried (such places are masked); None where all count the
        same.
        """
        return None if self.weights is None else torch.where(self.carrying, self.weights, 1.0).log()

    @property
    def total(self) -> Tensor:
        """Sum of the weights, the number of tokens where all count the same; shape (B,)."""
        return self.mask.sum(1) if self.weights is None else torch.where(self.mask, self.weights, 0.0).sum(1)

    @property
    def shares(self) -> Tensor:
        """The weights scaled to a sum of one; shape (B, N)."""
        weights = self.mask.to(torch.float32) if self.weights is None else torch.where(self.mask, self.weights, 0.0)
        return weights / self.total[:, None]

    def select(self, pairs: Tensor) -> Marginal:
        """Some of the pairs."""
        return Marginal(self.mask[pairs], None if self.weights is None else self.weights[pairs])

    def mean(self, x: Tensor) -> Tensor:
        """Weighted mean over the tokens; (B, N) to (B,)."""
        if self.weights is None:
            return mean_of_present(x, self.mask)
        return torch.where(self.carrying, x * self.weights, 0.0).sum(1) / self.total
