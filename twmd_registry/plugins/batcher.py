"""One pass of the model for all pairs that a framework scores one by one, in several threads at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from twmd_registry.engine.batching import depends_on_neighbours, score_together
from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import SpecError, warn

WAIT = 0.02
"""Seconds for which the first pair of a pass waits for others."""


class Batcher:
    """Scores pairs that threads ask for: while one pass of the model runs, others wait, and the next takes all of them.

    Attributes:
        scorer: Scores the pairs.
    """

    def __init__(self, own: Scorer) -> None:
        """Make it.

        Raises:
            SpecError: A pair's score would depend on the pairs that happen to wait with it.
        """
        if depends_on_neighbours(own):
            raise SpecError(
                "centering=batch and corpus, and idf=corpus and references, need all texts at once, and this framework "
                "gives them one by one: fit a mean vector or an idf table first, or choose another preset."
            )
        self.scorer = own
        self._waiting: list[tuple[Segments, Future[tuple[ScoreSet, list[str]]]]] = []
        self._pass = threading.Lock()

    def score(self, prediction: str, references: str | Sequence[str]) -> ScoreSet:
        """Score a pair, as it is scored alone.

        Raises:
            TwmdError: As for `Scorer.score`.
        """
        own: Future[tuple[ScoreSet, list[str]]] = Future()
        self._waiting.append((check_segments([prediction], [references]), own))
        with self._pass:
            if not own.done():
                time.sleep(WAIT)
                self._score_waiting()
        scores, notices = own.result()
        for notice in notices:
            warn(notice)
        return scores

    def _score_waiting(self) -> None:
        taken = self._waiting[:]
        del self._waiting[: len(taken)]  # other threads append to this list
        outcomes: Sequence[tuple[ScoreSet | BaseException, list[str]]]
        try:
            outcomes = score_together(self.scorer, [segments for segments, _ in taken])
        except BaseException as error:  # noqa: BLE001 (every thread that waits raises it)
            outcomes = [(error, [])] * len(taken)
        for (_, future), (result, notices) in zip(taken, outcomes, strict=True):
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result((result, notices))
