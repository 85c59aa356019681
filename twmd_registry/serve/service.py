"""`Service`: a bounded queue of requests, and one thread that scores whatever waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from twmd_registry.engine.batching import depends_on_neighbours, score_together
from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import SpecError, TwmdError, collect_warnings, menu
from twmd_registry.registry.metrics import entry

Answer: TypeAlias = dict[str, Any]
PASS_LETTERS = 250_000
"""Letters of the requests that share a pass: 1,000 pairs of news sentences, and some seconds on two cores."""
MOST_LINKS = 1_000
"""Links of a side of an alignment that are sent, those that carry most."""
logger = logging.getLogger(__name__)


class Limits(NamedTuple):
    """What a service takes.

    Attributes:
        body: Most bytes of a request's body.
        pairs: Most pairs of a prediction and a reference in a request.
        letters: Most letters of a text.
        waiting: Most requests that wait.
        seconds: Until a request that has no answer is given up.
        transfer: Seconds in which a request must have arrived, and its answer must have been taken.
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


@dataclass(eq=False)
class Job:
    """A request that waits or is computed; `make` makes its answer of the scores, in a pass that it may have alone."""

    metric: str
    segments: Segments
    make: Callable[[ScoreSet], Answer]
    alone: bool
    answer: asyncio.Future[Answer]

    @property
    def letters(self) -> int:
        """The letters of all its texts."""
        return sum(map(len, chain(self.segments.predictions, *self.segments.references)))


def _score_answer(scores: ScoreSet) -> Answer:
    return {"score": scores.score} | scores.as_dict()


def _align_answer(scores: ScoreSet) -> Answer:
    with collect_warnings():  # those of the scores are known already
        return scores.explain(0).as_dict(MOST_LINKS)


class Service:
    """Answers requests while `running`, by scorers that have the names of requests; the first where none is named."""

    def __init__(self, scorers: Mapping[str, Scorer], limits: Limits | None = None) -> None:
        """Make it; nothing is loaded yet."""
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.scorers, self.limits, self.stopping = dict(scorers), limits or Limits(), False
        self._queue, self._taken, self._arrived = deque[Job](), list[Job](), asyncio.Event()
        self._alone = {name for name, scorer in self.scorers.items() if depends_on_neighbours(scorer)}
        self.registry = registry = CollectorRegistry()
        self._pairs = Counter("twmd_pairs", "Pairs scored", ["metric"], registry=registry)
        self._seconds = Histogram("twmd_pass_seconds", "Passes of an encoder", ["metric"], registry=registry)
        waiting = Gauge("twmd_waiting_requests", "Requests in the queue", registry=registry)
        waiting.set_function(lambda: len(self._queue))

    @property
    def idle(self) -> bool:
        """Whether no request waits or is computed."""
        return not self._queue and not self._taken

    def load(self) -> None:
        """Load all models, with the errors of `Scorer.spec`."""
        for scorer in self.scorers.values():
            _ = scorer.spec

    def list_metrics(self) -> list[Answer]:
        """Return facts about the metrics that are served; ``batched`` is whether requests share passes."""
        facts = {name: entry(scorer.requested.metric) for name, scorer in self.scorers.items()}
        return [
            {"title": fact.title, "range": fact.span, "identical": fact.identical, "batched": name not in self._alone}
            | self.signature(name)
            for name, fact in facts.items()
        ]

    def signature(self, metric: str | None) -> Answer:
        """Return the signature of a metric without the number of references; raises SpecError if it is not served."""
        name = self._name(metric)
        return {"metric": name, "signature": self.scorers[name].signature}

    async def score(self, predictions: Any, references: Any, metric: str | None = None) -> Answer:
        """Score texts: ``metric``, ``score``, everything of `ScoreSet.as_dict`, and ``notices``, the warnings."""
        name, segments = self._name(metric), check_segments(predictions, references)
        return await self._submit(name, segments, _score_answer, alone=name in self._alone)

    async def align(self, prediction: Any, reference: Any, metric: str | None = None) -> Answer:
        """Show how the score of two texts comes about: as `Alignment.as_dict`, the rest as for `score`."""
        segments = check_segments([prediction], [reference])
        return await self._submit(self._name(metric), segments, _align_answer, alone=True)

    def _name(self, metric: str | None) -> str:
        name = next(iter(self.scorers)) if metric is None else metric
        if name not in self.scorers:
            raise SpecError(f"metric {name[:80]!r} is not served here; {menu(name[:80], self.scorers)}.")
        return name

    def _check_size(self, segments: Segments) -> None:
        pairs = sum(map(len, segments.references))
        if pairs > self.limits.pairs:
            raise ServiceError(413, f"the request has {pairs:,} pairs: send at most {self.limits.pairs:,} at once.")
        for row, texts in enumerate(zip(segments.predictions, segments.references, strict=True)):
            longest = max(map(len, (texts[0], *texts[1])))
            if longest > self.limits.letters:
                limit = f"send texts of at most {self.limits.letters:,}"
                raise ServiceError(413, f"row {row} has a text of {longest:,} letters: {limit}.")

    async def _submit(
        self, metric: str, segments: Segments, make: Callable[[ScoreSet], Answer], *, alone: bool
    ) -> Answer:
        """Wait in the queue for the answer; a request that is given up leaves the queue."""
        self._check_size(segments)
        if self.stopping:
            raise ServiceError(503, "the service is stopping: send the request elsewhere, or later.")
        if len(self._queue) >= self.limits.waiting:
            raise ServiceError(429, f"{len(self._queue)} requests wait already: send this one again, later.")
        job = Job(metric, segments, make, alone, asyncio.get_running_loop().create_future())
        self._queue.append(job)
        self._arrived.set()
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await job.answer
        except TimeoutError as error:
            raise ServiceError(504, f"there was no answer within {self.limits.seconds} seconds.") from error
        finally:
            if job in self._queue:
                self._queue.remove(job)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests within the block; at its end, refuse new ones and wait for the pass that runs."""
        with ThreadPoolExecutor(1, "scorer") as pool:
            worker = asyncio.create_task(self._work(pool))
            try:
                yield
            finally:
                self.stopping = True
                worker.cancel()

    async def _work(self, pool: ThreadPoolExecutor) -> None:
        """Score what waits, pass by pass."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._queue:
                self._taken = jobs = self._take()
                try:
                    answers = await asyncio.get_running_loop().run_in_executor(pool, self._compute, jobs)
                except Exception:  # an error of this program must not end the service
                    logger.exception("a pass failed")
                    answers = [ServiceError(500, "internal error: the log of the service has more.")] * len(jobs)
                for job, answer in zip(jobs, answers, strict=True):
                    if job.answer.done():  # given up
                        continue
                    if isinstance(answer, TwmdError):
                        job.answer.set_exception(answer)
                    else:
                        job.answer.set_result(answer)
                self._taken = []

    def _take(self) -> list[Job]:
        """Take the first request from the queue, and those that can share its pass."""
        first = self._queue.popleft()
        taken, letters = [first], first.letters
        if not first.alone:
            for job in [job for job in self._queue if job.metric == first.metric and not job.alone]:
                letters += job.letters
                if letters > PASS_LETTERS:
                    break
                taken.append(job)
                self._queue.remove(job)
        return taken

    def _compute(self, jobs: list[Job]) -> list[Answer | TwmdError]:
        """Return the answers, or errors, of requests that share a pass, in the worker's thread."""
        metric, started = jobs[0].metric, time.perf_counter()
        answers: list[Answer | TwmdError] = []
        for job, (result, notices) in zip(
            jobs, score_together(self.scorers[metric], [job.segments for job in jobs]), strict=True
        ):
            try:
                answers.append(
                    result
                    if isinstance(result, TwmdError)
                    else {"metric": metric} | job.make(result) | {"notices": notices}
                )
            except TwmdError as error:  # a metric that aligns nothing
                answers.append(error)
        self._pairs.labels(metric).inc(sum(len(own) for job in jobs for own in job.segments.references))
        self._seconds.labels(metric).observe(time.perf_counter() - started)
        return answers
