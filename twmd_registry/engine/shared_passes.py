"""Score several requests in one pass of the encoder, with the scores, counts and warnings of separate passes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from itertools import accumulate, chain
from typing import Any, Generic, NamedTuple, TypeVar

from twmd_registry.engine.backend import Backend, PairScores
from twmd_registry.engine.pairs import Pairs, Segments, check_segments, make_pairs
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Hooks, Scorer, score_pairs, score_segments
from twmd_registry.errors import SpecError, TwmdError, is_out_of_memory
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.progress import split_progress
from twmd_registry.tensors import TextFacts

PASS_LETTERS = 250_000
"""Maximum characters of the requests in a pass: 1,000 pairs of news sentences, a few seconds on two cores."""
WAIT = 0.02
"""Seconds that the first pair of a pass waits for others."""
T = TypeVar("T")


class Outcome(NamedTuple):
    """A request's scores, or the error about its texts, and the warnings."""

    result: ScoreSet | TwmdError
    warnings: list[str]


class Request(NamedTuple):
    """A request's texts, and the function that turns their scores into the answer."""

    segments: Segments
    answer: Callable[[ScoreSet], Any]


class PerProcess(Generic[T]):
    """A value that every process creates for itself: a fork has no thread of its parent's pool, and must not answer its
    parent's requests. Pickles and deep copies create their own value, too.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Store the function that creates the value on first use."""
        self._make, self._values = make, dict[int, T]()

    def get(self) -> T:
        """Return this process's value; concurrent threads share one."""
        process = os.getpid()
        try:
            return self._values[process]
        except KeyError:
            return self._values.setdefault(process, self._make())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function that creates the value, not the value."""
        return type(self), (self._make,)


def scoring_thread() -> PerProcess[ThreadPoolExecutor]:
    """Return a pool of one thread, which starts at the first request."""
    return PerProcess(partial(ThreadPoolExecutor, 1, "scorer"))


def depends_on_neighbours(scorer: Scorer) -> bool:
    """Return whether the score of a pair depends on the other pairs of a call: by a batch or corpus mean, by idf, or by
    the padding of a batch.
    """
    specs = [member.requested for member in scorer.members]
    return any(spec.needs_whole_call or spec.centering.kind == "batch" for spec in specs)


class SharedPass:
    """A pass over the pairs of several requests, made once per group of backends."""

    def __init__(self, requests: Sequence[Segments]) -> None:
        """Join the pairs of all requests."""
        predictions = [text for request in requests for text in request.predictions]
        self.pairs = make_pairs(Segments(predictions, [texts for own in requests for texts in own.references]))
        self.rows = {text: row for row, text in enumerate(self.pairs.texts)}
        self.ends = [0, *accumulate(sum(map(len, request.references)) for request in requests)]
        self.scores = cache(self._score)

    def _score(self, *group: Backend) -> PairScores | None:
        """Score the pairs of all requests; None if that fails or warns, because only one request may be the cause."""
        with collect_warnings() as held:
            try:
                scores = score_pairs(group, self.pairs, split_progress(None, 0, stages=1))
            except (TwmdError, MemoryError, RuntimeError) as error:
                if not isinstance(error, TwmdError) and not is_out_of_memory(error):
                    raise
                return None
        return None if held else scores


class _PartOfPass(Hooks):
    """Hooks of one request, which take its scores from the pass, unless the pass failed or warned."""

    def __init__(self, shared: SharedPass, number: int) -> None:
        """Store the pass and the request's index in it."""
        self.shared, self.number = shared, number

    def known(self, group: Sequence[Backend], pairs: Pairs) -> PairScores | None:
        """Return the scores of the request's pairs in the pass."""
        if (scores := self.shared.scores(*group)) is None:
            return None
        here = slice(self.shared.ends[self.number], self.shared.ends[self.number + 1])
        rows, (flags, missing) = [self.shared.rows[text] for text in pairs.texts], scores.facts
        facts = TextFacts(flags[rows], {i: missing[row] for i, row in enumerate(rows) if row in missing})
        return PairScores([own.select(here) for own in scores.by_backend], facts)


def score_together(scorer: Scorer, tasks: Sequence[Segments]) -> list[Outcome]:
    """Score several requests in one pass of the encoder; no score may depend on other pairs. Each request gets the
    scores of a separate pass, up to rounding (1e-6).
    """
    shared = SharedPass(tasks) if len(tasks) > 1 else None
    outcomes: list[Outcome] = []
    for number, task in enumerate(tasks):
        with collect_warnings() as notices:
            result: Any
            try:
                (result,) = score_segments([scorer], task, hooks=_PartOfPass(shared, number) if shared else None)
            except TwmdError as error:
                result = error
        outcomes.append(Outcome(result, list(dict.fromkeys(notices))))
    return outcomes


def check_keeps_rows(scorer: Scorer) -> None:
    """Raise SpecError if a scorer leaves out rows: the framework needs a score of each."""
    if scorer.options.drop_missing:
        raise SpecError("drop_missing leaves out rows, and this framework scores each: fill in what is missing.")


def check_needs_no_sources(scorer: Scorer) -> None:
    """Raise SpecError if a scorer compares with sources, which the framework does not pass, or leaves out rows."""
    check_keeps_rows(scorer)
    against = next((member.requested.against for member in scorer.members if member.requested.against), None)
    if against:
        needs = f"against={scorer.requested.against or against} needs sources"
        raise SpecError(f"{needs}, and this framework passes predictions and references only: leave it out.")


class Batcher:
    """Scores pairs that a framework or a service passes one by one. While one pass of the model runs, new pairs are
    `waiting`. The next pass takes all of them if passes are `shared`, that is, if no score depends on other pairs or on
    sources. A batcher can be forked, pickled and copied: each copy has its own queue.
    """

    def __init__(
        self,
        scorer: Scorer,
        pool: PerProcess[ThreadPoolExecutor] | None = None,
        score: Callable[[Scorer, Sequence[Segments]], Sequence[Outcome]] | None = None,
    ) -> None:
        """Store the scorer and its pool. Batchers that share a pool of one thread take turns in the order of arrival.
        `score` replaces `score_together`. Without a pool, requests come from a framework's threads, and a pass waits
        briefly for them; this raises `SpecError` if passes cannot be shared.
        """
        check_keeps_rows(scorer)
        against = any(member.requested.against for member in scorer.members)
        self.scorer, self.shared = scorer, not (depends_on_neighbours(scorer) or against)
        if pool is None:
            check_needs_no_sources(scorer)
        if pool is None and not self.shared:
            needs = "centering=batch and corpus, and idf=corpus and references, need all texts together"
            remedy = "fit a mean vector or an idf table first, or choose another preset"
            raise SpecError(f"{needs}, and this framework passes them one by one: {remedy}.")
        self._waiting = PerProcess[dict[Future[Any], Request]](dict)
        self._pool, self._score, self._wait = pool or scoring_thread(), score, 0.0 if pool else WAIT

    @property
    def waiting(self) -> dict[Future[Any], Request]:
        """The requests of this process that no pass has taken yet, by future."""
        return self._waiting.get()

    def submit(self, segments: Segments, make: Callable[[ScoreSet], Any]) -> Future[Any]:
        """Return the future of the answer, which `make` builds from the scores in the pool's thread, and of the
        warnings.

        A request whose future is cancelled leaves the queue.
        """
        answer = Future[Any]()
        self.waiting[answer] = Request(segments, make)
        answer.add_done_callback(lambda _: self.waiting.pop(answer, None))
        self._pool.get().submit(self._score_waiting)
        return answer

    def _score_waiting(self) -> None:
        if not self.waiting:  # an earlier pass took all
            return
        time.sleep(self._wait)
        taken, letters = dict[Future[Any], Request](), 0
        for answer, request in self.waiting.copy().items():  # a copy: other threads add and remove requests
            letters += sum(map(len, chain(request.segments.predictions, *request.segments.references)))
            if taken and (letters > PASS_LETTERS or not self.shared):
                break
            self.waiting.pop(answer, None)
            if answer.set_running_or_notify_cancel():
                taken[answer] = request
        outcomes: Sequence[tuple[ScoreSet | BaseException, list[str]]]
        try:
            score = self._score or score_together
            outcomes = score(self.scorer, [request.segments for request in taken.values()]) if taken else []
        except BaseException as error:  # noqa: BLE001 (it is the answer to all)
            outcomes = [(error, [])] * len(taken)
        for (answer, request), (result, notices) in zip(taken.items(), outcomes, strict=True):
            if isinstance(result, BaseException):
                answer.set_exception(result)
                continue
            try:
                answer.set_result((request.answer(result), notices))
            except BaseException as error:  # noqa: BLE001 (it is the answer)
                answer.set_exception(error)

    def score(self, prediction: str, references: str | Sequence[str]) -> ScoreSet:
        """Score a pair as `Scorer.score` does, with the same errors and warnings."""
        scores: ScoreSet
        scores, notices = self.submit(check_segments([prediction], [references]), lambda scores: scores).result()
        for notice in notices:
            warn(notice)
        return scores
