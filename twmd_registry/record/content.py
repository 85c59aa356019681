"""`Record`: scores with everything that it takes to get them again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import Output
from twmd_registry.registry.signature import Signature

if TYPE_CHECKING:
    from twmd_registry.scores import ScoreSet


class InputFile(NamedTuple):
    """A file that was scored.

    Attributes:
        role: ``predictions`` or ``references``.
        name: Its name without its folder.
        sha256: Of its bytes.
    """

    role: str
    name: str
    sha256: str


@dataclass(frozen=True)
class RecordedScores:
    """The scores of one system by one metric.

    Attributes:
        signature: The long form, number of references included.
        keys: The keys of the signature once more, as text: to be read without a parser, and to notice an edit.
        counts: As in `Counts`.
        score: The corpus score.
        sides: Corpus precision, recall and f1 of a two-sided metric; empty for others.
        scores: One number per segment.
    """

    signature: str
    keys: dict[str, str]
    counts: dict[str, int]
    score: float
    sides: dict[str, float]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class RecordedSystem:
    """One system.

    Attributes:
        name: Its name.
        texts: sha256 of its texts and their references as they were scored (`ScoreSet.texts`).
        results: Its scores by every metric.
    """

    name: str
    texts: str
    results: tuple[RecordedScores, ...]


@dataclass(frozen=True)
class Record:
    """What `twmd score --record` writes.

    Attributes:
        created: When, in UTC, ISO 8601.
        inputs: The files, when texts came from files.
        systems: The systems, the first of them the baseline where systems are compared.
        environment: Versions, device, threads.
        seconds: Wall time of scoring, model loading included.
        edited: Whether it was read from a file that was changed after it had been written.
    """

    created: str
    inputs: tuple[InputFile, ...]
    systems: tuple[RecordedSystem, ...]
    environment: dict[str, str]
    seconds: float
    edited: bool = False


def spec_keys(signature: Signature) -> dict[str, str]:
    """Everything that a signature says, as text."""
    spec = signature.spec
    keys = {name: KEYS[name].format(value) for name, value in spec.values().items()}
    others = {"fingerprint": spec.fingerprint, "nrefs": signature.nrefs, "bs": signature.bs, "ar": signature.ar, "seed": signature.seed}
    known = {name: value for name, value in others.items() if value is not None}
    return {"metric": str(spec.metric), **keys, **known, "version": signature.version}


def recorded(scores: ScoreSet) -> RecordedScores:
    """A score set as a record holds it."""
    whole: dict[str, Any] = scores.as_dict()
    return RecordedScores(
        signature=str(scores.signature),
        keys=spec_keys(scores.signature),
        counts=scores.counts._asdict(),
        score=scores.score,
        sides={str(output): whole[output] for output in Output if output in whole},
        scores=scores.scores,
    )


def make_record(
    results: Sequence[tuple[str, Sequence[ScoreSet]]], *, inputs: Sequence[InputFile] = (), seconds: float, device: str = "auto"
) -> Record:
    """Bundle scores into a record.

    Args:
        results: Systems' names, each with its score sets (at least one).
        inputs: The files that the texts came from.
        seconds: Wall time of scoring.
        device: The device as in `RunOptions`.

    Returns:
        The record, with this machine's versions and device, made now.

    Raises:
        SpecError: No such device here.
    """
    from twmd_registry.record.environment import environment  # the libraries that compute scores, which reading files needs not

    return Record(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        inputs=tuple(inputs),
        systems=tuple(RecordedSystem(name, sets[0].texts, tuple(map(recorded, sets))) for name, sets in results),
        environment=environment(device),
        seconds=round(seconds, 3),
    )
