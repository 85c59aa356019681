"""Verifying whole records: our scores, and with them SacreBLEU's metrics, tests and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError
from twmd_registry.plugins.sacrebleu.compare import ComparisonRequest, ScoredMetricColumn, compare_systems
from twmd_registry.progress import Progress
from twmd_registry.record import verify
from twmd_registry.record.comparison import SignificanceTest, SystemComparison
from twmd_registry.record.content import InputFile, Record
from twmd_registry.record.file import read_record
from twmd_registry.record.verify import Systems, SystemTexts, Verification
from twmd_registry.registry.artifacts import Parts
from twmd_registry.registry.options import RunOptions


def verify_record(
    record: Record | str | Path,
    systems: Systems,
    *,
    inputs: Sequence[InputFile] = (),
    options: RunOptions | None = None,
    parts: Parts | None = None,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Score again what a record says was scored, and compare every segment, every test and every interval.

    Args:
        record: The record, or its file.
        systems: The texts of its systems, in its order: predictions and references, as `Scorer.score` takes them.
        inputs: The files they came from, to tell which of them changed.
        options: Where and how fast.
        parts: Where model, adapter and mean vector are here, when not under the names in the signatures.
        tolerance: Largest difference of a score, from 0; None for that of the number format (1e-5 in float32).
        progress: As for `score_all`, over all systems.

    Returns:
        A check of every score set of every system, in the record's order, and what has changed since.

    Raises:
        FileError: As for `read_record`.
        InputError: Another number of systems or segments than in the record, or texts that cannot be scored.
        SpecError: A part that no signature of the record has, or no such device here.
        MissingExtraError: As for `Scorer.score`.
    """
    record = record if isinstance(record, Record) else read_record(record)
    return verify.verify_record(
        record,
        systems,
        inputs=inputs,
        options=options,
        parts=parts,
        tolerance=tolerance,
        progress=progress,
        compare=compare_again,
    )


def compare_again(
    record: Record, texts: Sequence[SystemTexts], metrics: Sequence[tuple[Scorer, tuple[ScoreSet, ...]] | str]
) -> SystemComparison:
    """Compare the systems of a record as they were compared when it was written.

    Args:
        record: Says which test and which intervals.
        texts: Of every system.
        metrics: In the record's order: ours with their scores of every system, and names of SacreBLEU's, of
            `LEXICAL_NAMES`.

    Raises:
        InputError: The systems hold different references, or SacreBLEU cannot score the texts.
        SpecError: A test of a single system.
    """
    references = texts[0].references
    if any(own.references != references for own in texts):
        raise InputError("the systems hold different references")
    how = record.resampling
    test = SignificanceTest(how.test, how.samples, how.seed) if how and how.test else None
    segments = any(result.is_lexical and result.scores for system in record.systems for result in system.results)
    request = (
        ComparisonRequest(test, how.resamples, how.seed, segments=segments)
        if how
        else ComparisonRequest(segments=segments)
    )
    systems = [(system.name, own.predictions) for system, own in zip(record.systems, texts, strict=True)]
    return compare_systems(
        systems,
        references,
        [one if isinstance(one, str) else ScoredMetricColumn(*one) for one in metrics],
        request=request,
    )
