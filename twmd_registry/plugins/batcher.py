"""One pass of the model for all pairs that a framework scores one by one, in several threads at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from twmd_registry.engine.pairs import check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import SpecError
from twmd_registry.registry.names import Centering, Idf
from twmd_registry.registry.signature import Signature

WAIT = 0.02
"""Seconds for which the first pair of a pass waits for others."""

_Waiting = tuple[str, list[str], "Future[tuple[ScoreSet, int]]"]


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
        for member in own.members:
            spec = member.requested
            if spec.centering in (Centering.BATCH, Centering.CORPUS) or spec.idf in (Idf.CORPUS, Idf.REFERENCES):
                raise SpecError(
                    f"centering={spec.centering} with idf={spec.idf} needs all texts at once, and this framework gives "
                    "them one by one: fit a mean vector or an idf table first, or choose another preset."
                )
        self.scorer = own
        self._waiting: list[_Waiting] = []
        self._pass = threading.Lock()

    def score(self, prediction: str, references: str | Sequence[str]) -> tuple[ScoreSet, int]:
        """Score a pair; return the scores of its pass and its place among them.

        Raises:
            TwmdError: As for `Scorer.score`.
        """
        pair = check_segments([prediction], [references])
        own: Future[tuple[ScoreSet, int]] = Future()
        self._waiting.append((pair.predictions[0], pair.references[0], own))
        with self._pass:
            if not own.done():
                time.sleep(WAIT)
                self._score_waiting()
        return own.result()

    def signature(self, scores: ScoreSet, references: str | Sequence[str]) -> str:
        """Return the signature of a pair alone: its pass may hold pairs with other numbers of references."""
        return str(Signature(scores.signature.spec, "1" if isinstance(references, str) else str(len(references))))

    def _score_waiting(self) -> None:
        taken = self._waiting[:]
        del self._waiting[: len(taken)]  # other threads append to this list
        try:
            scores = self.scorer.score([text for text, *_ in taken], [references for _, references, _ in taken])
        except BaseException as error:  # noqa: BLE001 (every thread that waits raises it)
            for *_, future in taken:
                future.set_exception(error)
            return
        for place, (*_, future) in enumerate(taken):
            future.set_result((scores, place))
