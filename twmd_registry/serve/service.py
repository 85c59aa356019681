"""`Service`: one thread scores all waiting requests of a metric in a single pass."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.engine.shared_passes import Batcher, Outcome, score_together, scoring_thread
from twmd_registry.errors import InputError, SpecError, TwmdError
from twmd_registry.messages import collect_warnings, menu, replace_advice
from twmd_registry.registry.metrics import entry

Answer: TypeAlias = dict[str, Any]
MAX_LINKS = 1_000
"""Maximum number of links per side of an alignment; the largest are sent."""
logger = logging.getLogger(__name__)
ABOUT = (
    "Scores generated texts against references with embedding metrics; higher is closer. Publish the signature with a "
    "score: it names exactly what was computed."
)

Text = Annotated[str, Field(description="A text.")]
Texts = Annotated[list[str], Field(description="A list of texts.", min_length=1)]
References = Annotated[
    list[str | list[str | None] | None] | None, Field(description="A text, or a list of texts, per prediction.")
]
Sources = Annotated[list[str] | None, Field(description="The source text of every prediction.")]
Metric = Annotated[str | None, Field(description="One of the served metrics (default: the first).")]


class ServiceError(TwmdError):
    """A request that is refused or cannot be answered; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        """Store the status and the message."""
        super().__init__(message)
        self.status = status


def _count_pairs(segments: Segments) -> int:
    return sum(map(len, segments.references)) + len(segments.sources or ())


def _align_answer(scores: ScoreSet) -> Answer:
    with collect_warnings():  # scoring has already raised them
        return scores.explain(0).as_dict(MAX_LINKS)


@dataclass(eq=False)
class Service:
    """Answers requests while `running`, with the scorer that a request names or else the first.

    Attributes:
        scorers: Scorers by the name that requests use.
        max_bytes: Maximum bytes of a request's body.
        max_pairs: Maximum pairs per request.
        max_characters: Maximum characters of a text.
        max_waiting: Maximum requests in the queues.
        timeout: Seconds after which an unanswered request fails.
    """

    scorers: Mapping[str, Scorer]
    max_bytes: int = 1_000_000
    max_pairs: int = 1_000
    max_characters: int = 20_000
    max_waiting: int = 256
    timeout: int = 60

    def __post_init__(self) -> None:
        """Make queues and counters; no model is loaded yet."""
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._pool = scoring_thread()
        self._queues = {
            name: Batcher(scorer, self._pool, partial(self._score, name)) for name, scorer in self.scorers.items()
        }
        self.registry = registry = CollectorRegistry()
        self._pairs = Counter("twmd_pairs", "Pairs scored", ["metric"], registry=registry)
        self._seconds = Histogram("twmd_pass_seconds", "Passes of an encoder", ["metric"], registry=registry)
        waiting = Gauge("twmd_waiting_requests", "Requests in the queue", registry=registry)
        waiting.set_function(lambda: self.waiting)

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def load(self) -> None:
        """Load all models in the scoring thread; raise errors as `Scorer.spec`."""
        for scorer in self.scorers.values():
            self._pool.get().submit(getattr, scorer, "spec").result()

    def list_metrics(self) -> list[Answer]:
        """List the served metrics with their signatures; batched says whether requests share passes."""
        facts = {name: entry(scorer.requested.metric) for name, scorer in self.scorers.items()}
        return [
            {"title": fact.title, "range": fact.span, "identical": fact.identical, "batched": self._queues[name].shared}
            | {"metric": name, "signature": self.scorers[name].signature}
            for name, fact in facts.items()
        ]

    async def score(
        self, predictions: Texts, references: References = None, metric: Metric = None, sources: Sources = None
    ) -> Answer:
        """Score predictions against references, one or several per prediction, or against sources."""
        if references is None and sources is None:
            raise InputError("references is missing: send references, or sources for a metric with against=source.")
        name, segments = self._name(metric), check_segments(predictions, references, sources)
        return await self._answer(name, segments, lambda scores: {"score": scores.score} | scores.as_dict())

    async def align(self, prediction: Text, reference: Text, metric: Metric = None) -> Answer:
        """Show how the score of two texts arises: how much weight each token carries to every other token.

        For a metric with against=source, the reference is the source.
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
        if pairs > self.max_pairs:
            raise ServiceError(413, f"the request has {pairs:,} pairs: send at most {self.max_pairs:,}.")
        sources = segments.sources or [""] * len(segments.predictions)
        for row, texts in enumerate(zip(*segments[:2], sources, strict=True)):
            longest = max(map(len, (texts[0], *texts[1], texts[2])))
            if longest > self.max_characters:
                limit = f"send texts of at most {self.max_characters:,}"
                raise ServiceError(413, f"row {row} has a text of {longest:,} characters: {limit}.")

    async def _answer(self, metric: str, segments: Segments, make: Callable[[ScoreSet], Answer]) -> Answer:
        """Wait in the queue for the answer; an abandoned request leaves the queue."""
        self._check_size(segments)
        if (waiting := self.waiting) >= self.max_waiting:
            raise ServiceError(429, f"{waiting} requests are waiting: try again later.")
        try:
            async with asyncio.timeout(self.timeout):
                answer, notices = await asyncio.wrap_future(self._queues[metric].submit(segments, make))
        except TimeoutError as error:
            raise ServiceError(
                504, f"no answer within {self.timeout} seconds: send fewer pairs, or try again later."
            ) from error
        except TwmdError:
            raise
        except Exception as error:  # a bug must not end the service
            logger.exception("a request failed")
            raise ServiceError(500, "internal error: see the log of the service.") from error
        return {"metric": metric, **answer, "notices": notices}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests inside the block; at its end, wait for the current pass."""
        with self._pool.get():
            yield

    def _score(self, metric: str, scorer: Scorer, tasks: Sequence[Segments]) -> Sequence[Outcome]:
        """Score requests that share a pass, in the scoring thread."""
        started = time.perf_counter()
        outcomes = score_together(scorer, tasks)
        self._pairs.labels(metric).inc(sum(map(_count_pairs, tasks)))
        self._seconds.labels(metric).observe(time.perf_counter() - started)
        return outcomes


_ADVICE = {
    "score anyway with any_language=True (--any-language)": "start the service with --any-language",
}
"""Advice for Python and the command line, and its replacement for a client."""


def explain(error: object, fields: Iterable[str] = ()) -> str:
    """Describe an error in one line for a client; one of pydantic's names the field, and lists all."""
    if not hasattr(error, "errors"):
        return replace_advice(str(error), _ADVICE)
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    where = ".".join(place[:2])[:80] or "the body"  # field and row; pydantic names the type that it tried, too
    what = {"missing": " is missing", "extra_forbidden": " is unknown"}.get(first["type"], f": {first['msg']}")
    return f"{where}{what}; the fields are {', '.join(fields) or 'none'}."
