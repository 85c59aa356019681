"""How a score came about: the alignment of a pair that was scored, found again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twmd_registry.engine.backends import TokenAlignmentBackend, make_backend
from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.pipeline import PairPlan
from twmd_registry.engine.result import Alignment
from twmd_registry.errors import InputError, ModelError, SpecError
from twmd_registry.registry.artifacts import Parts
from twmd_registry.registry.names import Output
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.spec import MetricSpec


@dataclass(frozen=True, eq=False)
class Explainer:
    """Finds the alignment of a pair again.

    Attributes:
        requested: With `options` and `parts`, what makes the scorer: a scorer itself would keep its model in memory.
        options: Where and how fast.
        parts: Where its parts are.
        signature: What was applied.
        pairs: All pairs that were scored.
        scores: *The* score of each.
    """

    requested: MetricSpec
    options: RunOptions
    parts: Parts | None
    signature: Signature
    pairs: Pairs
    scores: np.ndarray

    def __call__(self, segment: int, reference: int | None) -> Alignment:
        """Do what `ScoreSet.explain` does."""
        pair = self._find(segment, reference)
        found = self._align(pair)
        sides = {"score": found.plans.hypothesis}
        if self.signature.spec.output:
            sides = {str(Output.PRECISION): found.plans.hypothesis, str(Output.RECALL): found.plans.reference}
        return Alignment(
            signature=self.signature,
            score=float(self.scores[pair]),
            hypothesis=tuple(found.hypothesis),
            reference=tuple(found.reference),
            hypothesis_shares=found.hypothesis_shares,
            reference_shares=found.reference_shares,
            similarities=found.similarities,
            plans={side: plan.numpy() for side, plan in sides.items()},
        )

    def _align(self, pair: int) -> PairPlan:
        backend = make_backend(self.requested, self.options, self.parts)
        if not isinstance(backend, TokenAlignmentBackend):
            raise SpecError(
                f"{self.requested.metric} has no alignment to show: it predicts a number from both texts at once."
            )
        try:
            if backend.spec != self.signature.spec:
                raise ModelError(
                    "the model, or another part of these scores, has changed since: score the texts again to "
                    "have them explained."
                )
            return backend.explain(self.pairs, pair)
        finally:
            backend.close()

    def _find(self, segment: int, reference: int | None) -> int:
        """Return the pair of a segment and one of its references."""
        for number in (segment, *(() if reference is None else (reference,))):
            if not isinstance(number, int | np.integer) or isinstance(number, bool):
                raise InputError(f"expected the number of a segment or reference, from 0, not {number!r}.")
        if not 0 <= segment < len(self.pairs.counts):
            raise InputError(f"segment {segment} is out of range: there are {len(self.pairs.counts)}, counted from 0.")
        first, number = int(self.pairs.starts[segment]), int(self.pairs.counts[segment])
        if reference is None:
            return first + int(self.scores[first : first + number].argmax())
        if not 0 <= reference < number:
            raise InputError(
                f"reference {reference} of segment {segment} is out of range: it has {number}, counted from 0."
            )
        return first + reference
