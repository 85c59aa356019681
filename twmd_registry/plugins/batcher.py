"""One pass of the model for all pairs that a framework scores one by one, in several threads at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from twmd_registry.engine.batching import PassQueue, score_together
from twmd_registry.engine.pairs import check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import SpecError, warn

WAIT = 0.02
"""Seconds for which the first pair of a pass waits for others."""


class Batcher(PassQueue):
    """Scores pairs that threads ask for by a scorer: those that wait share a pass of the model."""

    def __init__(self, own: Scorer) -> None:
        """Make it.

        Raises:
            SpecError: A pair's score would depend on the pairs that happen to wait with it.
        """
        super().__init__(own, ThreadPoolExecutor(1, "scorer"), score_together, WAIT)
        if not self.shared:
            raise SpecError(
                "centering=batch and corpus, and idf=corpus and references, need all texts at once, and this framework "
                "gives them one by one: fit a mean vector or an idf table first, or choose another preset."
            )

    def score(self, prediction: str, references: str | Sequence[str]) -> ScoreSet:
        """Score a pair, as it is scored alone.

        Raises:
            TwmdError: As for `Scorer.score`.
        """
        scores: ScoreSet
        scores, notices = self.submit(check_segments([prediction], [references]), lambda scores: scores).result()
        for notice in notices:
            warn(notice)
        return scores
