"""Scoring by the processes of one training run (``torchrun``): every rank scores its share, and every rank gets all
scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from twmd_registry.engine.backends import Backend, Scored
from twmd_registry.engine.pairs import Pairs, centering_step, check_segments, digest_of_texts, take_share
from twmd_registry.engine.result import PairScores, ScoreSet
from twmd_registry.engine.scorer import Scorer, check_scorers, score_all, score_segments
from twmd_registry.errors import InputError, SpecError, TwmdError, collect_warnings, warn
from twmd_registry.progress import Progress
from twmd_registry.tensors import TextFlags

T = TypeVar("T")


def world_size() -> int:
    """Processes that work together; one where there is no process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class _Failure(NamedTuple):
    """An error that travels: its class and its text; one that is not this package's as the root of those that are."""

    kind: type[TwmdError]
    text: str


class _Message(NamedTuple):
    """What a rank tells all others: something, or that it failed."""

    payload: Any
    failure: _Failure | None = None


class _Task(NamedTuple):
    """What a rank was asked to do: all are asked the same."""

    texts: str
    segments: int
    signatures: tuple[str, ...]


class _Part(NamedTuple):
    """What a rank found in its share, with the numbers of its texts among all."""

    texts: np.ndarray
    scores: list[PairScores]
    flags: TextFlags


class Ranks:
    """The processes of `torch.distributed`'s default group, as one of them sees it.

    They speak in rounds. In every round each rank tells all others something or that it failed, so that nobody waits
    for a rank that
    is gone. What is summed up is added in the order of ranks, and so is the same number on all of them. It travels as
    an object:
    torch then finds the right device for any backend.
    """

    def __init__(self) -> None:
        """Find out which of them this process is."""
        self.rank, self.number = dist.get_rank(), dist.get_world_size()
        self._told = False

    def together(self, work: Callable[[], T]) -> T:
        """Do something on every rank, and fail on every rank when one does.

        Raises:
            TwmdError: Of the class of the first error, with the rank named; the error itself where all ranks have the
                same.
        """
        try:
            found = work()
            self.exchange(None)
        except Exception as error:
            if self._told:
                raise
            told = self._tell(_Message(None, _failure_of(error)))
            if all(message.failure == told[0].failure for message in told):
                raise
            raise _error_of(told) from error
        return found

    def exchange(self, mine: T) -> list[T]:
        """Give something to every rank, and get what each of them gave, in the order of ranks.

        Raises:
            TwmdError: A rank failed.
        """
        told = self._tell(_Message(mine))
        if any(message.failure for message in told):
            self._told = True
            raise _error_of(told)
        return [message.payload for message in told]

    def _tell(self, message: _Message) -> list[_Message]:
        told: list[Any] = [None] * self.number
        dist.all_gather_object(told, message)
        return told

    def agree(self, task: _Task) -> None:
        """Make sure that all ranks were asked the same.

        Raises:
            InputError: A rank has other texts than the first.
            SpecError: A rank has other metrics than the first.
        """
        first, *others = self.exchange(task)
        for rank, other in enumerate(others, 1):
            if other.texts != first.texts:
                raise InputError(
                    f"rank {rank} was given other texts ({other.segments} segments) than rank 0 "
                    f"({first.segments}): give every rank all "
                    "predictions and references in one order; each scores its share by itself."
                )
            if other.signatures != first.signatures:
                raise SpecError(
                    f"rank {rank} scores by {', '.join(other.signatures)}, and rank 0 by {', '.join(first.signatures)}."
                )

    def total(self, mine: Callable[[], Tensor]) -> Tensor:
        """The sum of a tensor over all ranks."""
        return torch.from_numpy(np.sum(self.exchange(mine().cpu().numpy()), axis=0))

    def score_group(self, group: Sequence[Backend], pairs: Pairs, progress: Progress | None) -> Scored:
        """Score this rank's share of some pairs, and get the scores of all."""
        share = take_share(pairs, self.rank, self.number, centering_step(backend.spec for backend in group))
        parts = self.exchange(_Part(share.texts, *group[0].score_group(group, share.pairs, progress, self.total)))
        return [_join(of_ranks) for of_ranks in zip(*(part.scores for part in parts), strict=True)], _flags(
            parts, len(pairs.texts)
        )


def _failure_of(error: Exception) -> _Failure:
    if isinstance(error, TwmdError):
        return _Failure(type(error), str(error))
    return _Failure(TwmdError, f"{type(error).__name__}: {error}")


def _error_of(told: Sequence[_Message]) -> TwmdError:
    """The first failure as an error that names its rank."""
    rank, failure = next((rank, message.failure) for rank, message in enumerate(told) if message.failure)
    return failure.kind(f"rank {rank} of {len(told)} failed: {failure.text}")


def _join(parts: Sequence[PairScores]) -> PairScores:
    """Shares in the order of ranks are in the order of the data."""
    return PairScores(*(np.concatenate(sides) for sides in zip(*parts, strict=True) if sides[0] is not None))


def _flags(parts: Sequence[_Part], texts: int) -> TextFlags:
    """What to know of all texts; one that is in several shares says so in each."""
    whole = TextFlags.none(texts)
    for part in parts:
        for flag, of_share in zip(whole[:-1], part.flags[:-1], strict=True):
            flag[part.texts[of_share]] = True
        whole.missing.update({int(part.texts[i]): words for i, words in part.flags.missing.items()})
    return whole


def score_over_ranks(
    scorers: Sequence[Scorer],
    predictions: Iterable[str],
    references: Iterable[str] | Iterable[Iterable[str]],
    *,
    progress: Progress | None = None,
) -> list[ScoreSet]:
    """Score the same texts by several scorers, each process of a distributed run its share of them.

    Every rank calls it with the same full lists, and gets all scores, those of a single process (within 1e-5 in
    float32).
    Shares end where centering batches do, and what depends on the whole corpus (``centering=corpus``, ``idf=corpus``,
    ``idf=references``) is summed up over all ranks. Warnings are given once, by rank 0. Without a process group, or
    with one
    process in it, this is `score_all`.

    Args:
        scorers: As for `score_all`; the same on every rank.
        predictions: As for `score_all`; all of them on every rank.
        references: Likewise.
        progress: As for `score_all`, on every rank.

    Returns:
        One `ScoreSet` per scorer, on every rank.

    Raises:
        InputError: As for `score_all`, or a rank has other texts.
        SpecError: As for `score_all`, or a rank has other metrics.
        ModelError: As for `score_all`.
        MissingExtraError: As for `score_all`.
        TwmdError: Something else went wrong on a rank. Every error is raised on every rank and names the one it comes
            from.
    """
    if world_size() == 1:
        return score_all(scorers, predictions, references, progress=progress)
    ranks = Ranks()

    def work() -> tuple[list[ScoreSet], list[list[str]]]:
        check_scorers(scorers)
        segments = check_segments(predictions, references)
        ranks.agree(
            _Task(digest_of_texts(segments), len(segments.predictions), tuple(one.signature for one in scorers))
        )
        found = score_segments(scorers, segments, progress=progress, score_group=ranks.score_group)
        return found, ranks.exchange(held)

    with collect_warnings() as held:
        found, (first, *others) = ranks.together(work)
    if ranks.rank == 0:
        for message in [*first, *dict.fromkeys(one for other in others for one in other if one not in first)]:
            warn(message)
    return found
