"""`Alignment`: how a score came about, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twmd_registry.registry.signature import Signature


class Link(NamedTuple):
    """What one token has to do with another.

    Attributes:
        hypothesis: Number of the hypothesis token (or n-gram), from 0.
        reference: Number of the reference token.
        amount: What the plan carries between them.
        similarity: Their cosine (their inner product, with raw vectors).
    """

    hypothesis: int
    reference: int
    amount: float
    similarity: float


@dataclass(frozen=True, eq=False)
class Alignment:
    """The alignment of one hypothesis with one reference: N hypothesis tokens (or n-grams), M reference tokens.

    Attributes:
        signature: What was applied.
        score: *The* score of the pair.
        hypothesis: The hypothesis's tokens, as they read.
        reference: The reference's tokens.
        hypothesis_shares: How much each counts; shape (N,), sum 1; zeros where a text has nothing to compare.
        reference_shares: How much each counts; shape (M,), likewise.
        similarities: S, cosines (inner products, with ``vectors=raw``); shape (N, M).
        plans: By side (``precision`` and ``recall`` for a two-sided metric, else ``score``), how much of which token goes where;
            each of shape (N, M). The sum of plan times S is the side's C before Eq. 1 and any baseline (for moverscore, of
            plan times cost the EMD; ``objective=entropic`` adds T times the mean entropy of the rows). Transport plans have the shares as row sums
            (precision) or column sums (recall), exact transport as both; a greedy token gives all it has to one partner;
            sbert spreads evenly; wordset_cka weighs each similarity by itself.
    """

    signature: Signature
    score: float
    hypothesis: tuple[str, ...]
    reference: tuple[str, ...]
    hypothesis_shares: np.ndarray
    reference_shares: np.ndarray
    similarities: np.ndarray
    plans: dict[str, np.ndarray]

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that *the* score is made of: both for F1."""
        output = str(self.signature.spec.output)
        return (output,) if output in self.plans else tuple(self.plans)

    def links(self, side: str | None = None) -> list[Link]:
        """Everything that a plan carries, most first.

        Args:
            side: One of `plans`; the first of `sides` if not given.

        Raises:
            KeyError: There is no such side.
        """
        plan = self.plans[side or self.sides[0]]
        found = [Link(int(i), int(j), float(plan[i, j]), float(self.similarities[i, j])) for i, j in zip(*np.nonzero(plan), strict=True)]
        return sorted(found, key=lambda link: (-link.amount, link.hypothesis, link.reference))
