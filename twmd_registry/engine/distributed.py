"""Score in a distributed training run (``torchrun``): every rank scores its share and returns all scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from twmd_registry.engine.backend import Backend, PairScores, Scores
from twmd_registry.engine.pairs import Pairs, Segments, check_segments, digest_of_texts, take_share
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Hooks, Scorer, check_scorers, score_segments, score_with
from twmd_registry.errors import InputError, SpecError, TwmdError
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.progress import Progress
from twmd_registry.tensors import FLAGS, TextFacts

T = TypeVar("T")


def world_size() -> int:
    """Return the number of processes; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


Failure = tuple[type[TwmdError], str]
"""An error as a message: its class (`TwmdError` for errors of other libraries) and its text."""


class Ranks(Hooks):
    """The processes of `torch.distributed`'s default group, seen from one rank.

    The ranks exchange messages in rounds. In every round each rank sends a value or its error, so no rank waits for one
    that has failed. Messages are objects, which torch moves to the right device for any backend.
    """

    def __init__(self) -> None:
        """Read this process's rank and the number of ranks."""
        self.rank, self.number = dist.get_rank(), dist.get_world_size()
        self._failed = False

    def together(self, work: Callable[[], T]) -> T:
        """Call a function on every rank; if it fails on any, raise the first error on all, with its class and rank
        (without the rank if all ranks have the same error).
        """
        try:
            result = work()
            self.exchange(None)
        except Exception as error:
            if self._failed:
                raise
            message = (TwmdError, f"{type(error).__name__}: {error}")
            if isinstance(error, TwmdError):
                message = (type(error), str(error))
            failures = [failure for _, failure in self._gather(None, message)]
            if all(failure == failures[0] for failure in failures):
                raise
            raise _error_of(failures) from error
        return result

    def exchange(self, value: T) -> list[T]:
        """Send a value to every rank, and return all values in rank order; raise another rank's error."""
        messages = self._gather(value, None)
        if any(failure for _, failure in messages):
            self._failed = True
            raise _error_of([failure for _, failure in messages])
        return [value for value, _ in messages]

    def _gather(self, value: Any, failure: Failure | None) -> list[tuple[Any, Failure | None]]:
        messages: list[Any] = [None] * self.number
        with torch.inference_mode(mode=False):  # torch 2.5 updates what it gathers in place
            dist.all_gather_object(messages, (value, failure))
        return messages

    def agree(self, scorers: Sequence[Scorer], segments: Segments) -> None:
        """Raise InputError or SpecError if a rank's texts or metrics differ from the first rank's."""
        signatures = ", ".join(scorer.signature for scorer in scorers)
        tasks = self.exchange((digest_of_texts(segments, sources=True), len(segments.predictions), signatures))
        texts, number, metrics = tasks[0]
        for rank, (own_texts, own_number, own_metrics) in enumerate(tasks):
            if own_texts != texts:
                found = f"different texts ({own_number} segments) from rank 0 ({number})"
                raise InputError(f"rank {rank} has {found}: pass all texts, in the same order, on every rank.")
            if own_metrics != metrics:
                raise SpecError(f"rank {rank} scores with {own_metrics}, rank 0 with {metrics}: pass the same to all.")

    def take(self, group: Sequence[Backend], pairs: Pairs) -> Pairs:
        """Return this rank's share of the pairs, or all pairs if a score depends on the whole call."""
        return self._share(group, pairs, self.rank)[0]

    def _share(self, group: Sequence[Backend], pairs: Pairs, rank: int) -> tuple[Pairs, np.ndarray]:
        if any(backend.spec.needs_whole_call for backend in group):
            return pairs, np.arange(len(pairs.texts))
        step = math.lcm(*(backend.spec.centering.size or 1 for backend in group))
        return take_share(pairs, rank, self.number, step)

    def gather(self, group: Sequence[Backend], pairs: Pairs, scores: PairScores) -> PairScores:
        """Return the scores of all shares, the same on every rank."""
        shares = self.exchange(scores)
        if any(backend.spec.needs_whole_call for backend in group):
            return shares[0]
        # In rank order, shares are in the order of the data.
        by_backend = [Scores.join(parts) for parts in zip(*(share.by_backend for share in shares), strict=True)]
        # Each share has facts about its texts; shares may have texts in common.
        facts = TextFacts.of_unread(len(pairs.texts))
        for rank, share in enumerate(shares):
            _, texts = self._share(group, pairs, rank)
            for name in FLAGS:
                facts.flags[name][texts] |= share.facts.flags[name]
            facts.missing.update({int(texts[i]): words for i, words in share.facts.missing.items()})
        return PairScores(by_backend, facts)


def _error_of(failures: Sequence[Failure | None]) -> TwmdError:
    """Return the first failure as an error that names its rank."""
    rank, (kind, text) = next((rank, failure) for rank, failure in enumerate(failures) if failure)
    return kind(f"rank {rank} of {len(failures)} failed: {text}")


def score_over_ranks(
    scorers: Sequence[Scorer],
    predictions: Iterable[str],
    references: Iterable[str | None] | Iterable[Iterable[str | None]] | None = None,
    sources: Iterable[str] | None = None,
    *,
    progress: Progress | None = None,
) -> list[ScoreSet]:
    """Score texts in a distributed run; each process scores its share.

    Each rank passes the same full lists and gets all scores, equal to a single process's (within 1e-5 in float32).
    Shares end at centering batches. Where a score depends on the whole call (``centering=corpus``, ``idf=corpus``,
    ``idf=references``, ``padding``), each rank scores all texts. Only rank 0 warns. Without a process group, or with
    one process, this is `score_all`.

    Raises:
        InputError: As for `score_all`, or a rank's texts differ.
        SpecError: As for `score_all`, or a rank's metrics differ.
        TwmdError: As for `score_all`, or any other failure on a rank. Every error is raised on every rank and names
            the rank that failed.
    """
    if world_size() == 1:
        return score_with(check_scorers(scorers), predictions, references, sources, progress=progress)
    ranks = Ranks()

    def work() -> tuple[list[ScoreSet], list[list[str]]]:
        check_scorers(scorers)
        drop_missing = any(scorer.options.drop_missing for scorer in scorers)
        segments = check_segments(predictions, references, sources, drop_missing=drop_missing)
        ranks.agree(scorers, segments)
        sets = score_segments(scorers, segments, progress=progress, hooks=ranks)
        return sets, ranks.exchange(held)

    with collect_warnings() as held:
        sets, messages = ranks.together(work)
    for message in dict.fromkeys(chain.from_iterable(messages)) if ranks.rank == 0 else ():
        warn(message)
    return sets
