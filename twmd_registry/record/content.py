"""`Record`: scores with everything that it takes to get them again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import LEXICAL_NAMES, Output
from twmd_registry.registry.signature import Signature, parse_signature

if TYPE_CHECKING:
    from twmd_registry.engine.result import ScoreSet
    from twmd_registry.record.comparison import SystemComparison


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
    """The scores of one system by one metric, this package's or SacreBLEU's.

    Attributes:
        signature: The long form; number of references, resamples and seed included.
        keys: The keys of the signature once more, as text: to be read without a parser, and to notice an edit.
            Empty for a metric of SacreBLEU.
        counts: As in `Counts`; for a metric of SacreBLEU, the number of segments.
        score: The corpus score; of a metric of SacreBLEU, on its scale of 0 to 100.
        sides: Corpus precision, recall and f1 of a two-sided metric; empty for others.
        scores: One number per segment; of a metric of SacreBLEU, empty unless they were asked for.
        mean: Mean of the bootstrap resamples; None without them.
        ci: Half the width of their central 95%; None without them.
        p_value: Of the difference to the first system; None for that system, and without a test.
    """

    signature: str
    keys: dict[str, str]
    counts: dict[str, int]
    score: float
    sides: dict[str, float]
    scores: tuple[float, ...]
    mean: float | None = None
    ci: float | None = None
    p_value: float | None = None

    @property
    def head(self) -> str:
        """What the signature begins with: the metric's name."""
        return self.signature.partition("|")[0]

    @property
    def is_lexical(self) -> bool:
        """Whether the metric is SacreBLEU's own."""
        return self.head in LEXICAL_NAMES.values()

    @property
    def resampled(self) -> dict[str, float]:
        """What a test or an interval added, by name."""
        found = {"mean": self.mean, "ci": self.ci, "p_value": self.p_value}
        return {name: value for name, value in found.items() if value is not None}


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
class Resampling:
    """The test and the intervals that were published with the scores.

    Attributes:
        test: ``bs`` (paired bootstrap) or ``ar`` (approximate randomisation) of every system against the first;
            None without a test.
        samples: Samples of the test; 0 without a test.
        resamples: Bootstrap resamples of the intervals; 0 without intervals, and where the test gives them.
        seed: Of both.
    """

    test: str | None
    samples: int
    resamples: int
    seed: int


@dataclass(frozen=True)
class Record:
    """What `twmd score --record` writes.

    Attributes:
        created: When, in UTC, ISO 8601.
        inputs: The files, when texts came from files.
        systems: The systems, the first of them the baseline where systems are compared.
        environment: Versions, device, threads.
        seconds: Wall time of scoring, model loading included.
        resampling: The test and the intervals; None where there were none.
        edited: Whether it was read from a file that was changed after it had been written.
    """

    created: str
    inputs: tuple[InputFile, ...]
    systems: tuple[RecordedSystem, ...]
    environment: dict[str, str]
    seconds: float
    resampling: Resampling | None = None
    edited: bool = False


def spec_keys(signature: Signature) -> dict[str, str]:
    """Everything that a signature says, as text."""
    spec = signature.spec
    keys = {name: KEYS[name].format(value) for name, value in spec.values().items()}
    others = {
        "fingerprint": spec.fingerprint,
        "nrefs": signature.nrefs,
        "bs": signature.bs,
        "ar": signature.ar,
        "seed": signature.seed,
    }
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


def _published(i: int, sets: Sequence[ScoreSet], comparison: SystemComparison) -> Iterator[RecordedScores]:
    """A system's scores as a comparison shows them, in its order."""
    own = iter(sets)
    for column in comparison.columns:
        signature, cell = column.long_signature or column.signature, column.cells[i]
        if column.hundred:  # SacreBLEU's own
            found = RecordedScores(signature, {}, {"segments": len(sets[0].scores)}, cell.score, {}, cell.segments)
        else:
            found = replace(recorded(next(own)), signature=signature, keys=spec_keys(parse_signature(signature)))
        yield replace(found, mean=cell.mean, ci=cell.ci, p_value=cell.p_value)


def _resampling(comparison: SystemComparison) -> Resampling | None:
    test = comparison.test
    if comparison.seed is None or not (test or comparison.resamples):
        return None
    return Resampling(test.kind if test else None, test.samples if test else 0, comparison.resamples, comparison.seed)


def make_record(
    results: Sequence[tuple[str, Sequence[ScoreSet]]],
    *,
    inputs: Sequence[InputFile] = (),
    seconds: float,
    device: str = "auto",
    comparison: SystemComparison | None = None,
) -> Record:
    """Bundle scores into a record.

    Args:
        results: Systems' names, each with its score sets (at least one).
        inputs: The files that the texts came from.
        seconds: Wall time of scoring.
        device: The device as in `RunOptions`.
        comparison: What was published of these systems: a column for each of the score sets, in their order, and one
            for
            each metric of SacreBLEU, with p-values and intervals.

    Returns:
        The record, with this machine's versions and device, made now.

    Raises:
        SpecError: No such device here.
    """
    from twmd_registry.record.environment import (
        environment,
    )  # the libraries that compute scores, which reading files needs not

    return Record(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        inputs=tuple(inputs),
        systems=tuple(
            RecordedSystem(
                name, sets[0].texts, tuple(_published(i, sets, comparison) if comparison else map(recorded, sets))
            )
            for i, (name, sets) in enumerate(results)
        ),
        environment=environment(device),
        seconds=round(seconds, 3),
        resampling=_resampling(comparison) if comparison else None,
    )
