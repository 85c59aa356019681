"""`Service`: requests that wait, up to a bound, until one thread scores all of a metric in one pass."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from twmd_registry.engine.batching import Outcome, PassQueue, score_together
from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, SpecError, TwmdError, collect_warnings, menu
from twmd_registry.registry.metrics import entry

Answer: TypeAlias = dict[str, Any]
MOST_LINKS = 1_000
"""Links of a side of an alignment that are sent, those that carry most."""
logger = logging.getLogger(__name__)


class Limits(NamedTuple):
    """What a service takes: most bytes of a body, pairs of a request, letters of a text and requests that wait; seconds
    until a request is given up, and those of its transfer, in which it must arrive and its answer must be taken.
    """

    body: int = 1_000_000
    pairs: int = 1_000
    letters: int = 20_000
    waiting: int = 256
    seconds: int = 60
    transfer: int = 10


class ServiceError(TwmdError):
    """A request that is refused, or has no answer; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        """Make it."""
        super().__init__(message)
        self.status = status


def _count_pairs(segments: Segments) -> int:
    return sum(map(len, segments.references)) + len(segments.sources or ())


def _score_answer(scores: ScoreSet) -> Answer:
    return {"score": scores.score} | scores.as_dict()


def _align_answer(scores: ScoreSet) -> Answer:
    with collect_warnings():  # those of the scores are known already
        return scores.explain(0).as_dict(MOST_LINKS)


class Service:
    """Answers requests while `running`, by scorers that have the names of requests; the first where none is named.

    `open` is how many requests have no answer yet.
    """

    def __init__(self, scorers: Mapping[str, Scorer], limits: Limits | None = None) -> None:
        """Make it; nothing is loaded yet."""
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.scorers, self.limits, self.stopping = dict(scorers), limits or Limits(), False
        self._pool, self.open = ThreadPoolExecutor(1, "scorer"), 0
        self._queues = {
            name: PassQueue(scorer, self._pool, partial(self._score, name)) for name, scorer in self.scorers.items()
        }
        self.registry = registry = CollectorRegistry()
        self._pairs = Counter("twmd_pairs", "Pairs scored", ["metric"], registry=registry)
        self._seconds = Histogram("twmd_pass_seconds", "Passes of an encoder", ["metric"], registry=registry)
        waiting = Gauge("twmd_waiting_requests", "Requests in the queue", registry=registry)
        waiting.set_function(lambda: self.waiting)

    @property
    def waiting(self) -> int:
        """How many requests wait for a pass."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def load(self) -> None:
        """Load all models, with the errors of `Scorer.spec`."""
        for scorer in self.scorers.values():
            _ = scorer.spec

    def list_metrics(self) -> list[Answer]:
        """Return facts about the metrics that are served; ``batched`` is whether requests share passes."""
        facts = {name: entry(scorer.requested.metric) for name, scorer in self.scorers.items()}
        return [
            {"title": fact.title, "range": fact.span, "identical": fact.identical, "batched": self._queues[name].shared}
            | self.signature(name)
            for name, fact in facts.items()
        ]

    def signature(self, metric: str | None) -> Answer:
        """Return the signature of a metric without the number of references; raises SpecError if it is not served."""
        name = self._name(metric)
        return {"metric": name, "signature": self.scorers[name].signature}

    async def score(
        self, predictions: Any, references: Any = None, metric: str | None = None, sources: Any = None
    ) -> Answer:
        """Score texts: ``metric``, ``score``, everything of `ScoreSet.as_dict`, and ``notices``, the warnings."""
        if references is None and sources is None:
            raise InputError("references is missing: give them, or sources to a metric that compares with those.")
        return await self._answer(self._name(metric), check_segments(predictions, references, sources), _score_answer)

    async def align(self, prediction: Any, reference: Any, metric: str | None = None) -> Answer:
        """Show how the score of two texts comes about: as `Alignment.as_dict`, the rest as for `score`; of a metric
        that compares with the source, `reference` is the source.
        """
        name = self._name(metric)
        sources = [reference] if self.scorers[name].requested.against == "source" else None
        segments = check_segments([prediction], None if sources else [reference], sources)
        return await self._answer(name, segments, _align_answer)

    def _name(self, metric: str | None) -> str:
        name = next(iter(self.scorers)) if metric is None else metric
        if name not in self.scorers:
            raise SpecError(f"metric {name[:80]!r} is not served here; {menu(name[:80], self.scorers)}.")
        return name

    def _check_size(self, segments: Segments) -> None:
        pairs = _count_pairs(segments)
        if pairs > self.limits.pairs:
            raise ServiceError(413, f"the request has {pairs:,} pairs: send at most {self.limits.pairs:,} at once.")
        originals = segments.sources or [""] * len(segments.predictions)
        for row, texts in enumerate(zip(*segments[:2], originals, strict=True)):
            longest = max(map(len, (texts[0], *texts[1], texts[2])))
            if longest > self.limits.letters:
                limit = f"send texts of at most {self.limits.letters:,}"
                raise ServiceError(413, f"row {row} has a text of {longest:,} letters: {limit}.")

    async def _answer(self, metric: str, segments: Segments, make: Callable[[ScoreSet], Answer]) -> Answer:
        """Wait in the queue for the answer; a request that is given up leaves the queue."""
        self._check_size(segments)
        if self.stopping:
            raise ServiceError(503, "the service is stopping: send the request elsewhere, or later.")
        if (waiting := self.waiting) >= self.limits.waiting:
            raise ServiceError(429, f"{waiting} requests wait already: send this one again, later.")
        answering = asyncio.wrap_future(self._queues[metric].submit(segments, make))
        self.open += 1
        try:
            async with asyncio.timeout(self.limits.seconds):
                answer, notices = await answering
        except TimeoutError as error:
            raise ServiceError(504, f"there was no answer within {self.limits.seconds} seconds.") from error
        except TwmdError:
            raise
        except Exception as error:  # an error of this program must not end the service
            logger.exception("a request failed")
            raise ServiceError(500, "internal error: the log of the service has more.") from error
        finally:
            self.open -= 1
        return {"metric": metric, **answer, "notices": notices}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests within the block; at its end, refuse new ones and wait for the pass that runs."""
        try:
            yield
        finally:
            self.stopping = True
            self._pool.shutdown(cancel_futures=True)

    def _score(self, metric: str, scorer: Scorer, tasks: Sequence[Segments]) -> Sequence[Outcome]:
        """Score requests that share a pass, in the thread of the pool."""
        started = time.perf_counter()
        outcomes = score_together(scorer, tasks)
        self._pairs.labels(metric).inc(sum(map(_count_pairs, tasks)))
        self._seconds.labels(metric).observe(time.perf_counter() - started)
        return outcomes
