"""Score again and report whether a published number reproduces, or what differs."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.comparison.cells import MetricColumn, SystemScore, cell_of
from twmd_registry.comparison.lexical import lexical_of_signature
from twmd_registry.comparison.systems import ScoredMetric, compare_systems
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.engine.pairs import Segments, check_segments, digest_of_texts
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_segments
from twmd_registry.errors import InputError, ModelError, SignatureError, SpecError, check_types
from twmd_registry.messages import collect_warnings
from twmd_registry.progress import Progress
from twmd_registry.record.content import InputFile, Record, RecordedSystem, environment, read_record, spec_keys
from twmd_registry.registry.hashes import LENGTH, forget_hashes
from twmd_registry.registry.options import PART_NAMES, LocalFiles, RunOptions, resolve_local_files, signed_hashes
from twmd_registry.registry.signature import Signature, describe_changes, parse_signature
from twmd_registry.version import __version__

TOLERANCES = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
"""Largest change of a segment's score with batch size, device and library versions, by number format."""
CORPUS_SHARE = 0.1
"""Minimum tolerance of a corpus score, relative to a segment's: noise averages out, a format's bias does not."""
P_VALUE_TOLERANCES = 0.01, 0.05
"""Largest change of a p-value by recomputed scores, in float32 and in shorter formats."""
WORST = 5

Systems = Sequence[Sequence[Any]]
"""Per system: predictions, references and optional sources, as for `Scorer.score`."""


class Rescored(NamedTuple):
    """A recorded result scored again by one of our metrics."""

    signature: Signature
    scorer: Scorer
    scores: ScoreSet


class VerifiedEntry(NamedTuple):
    """The check of one entry of a record.

    Attributes:
        system: The system.
        signature: The recorded signature.
        tolerance: Largest allowed difference of a segment's score.
        score: The recorded corpus score.
        found: The corpus score now; None if it could not be computed.
        off: How many segments are beyond the tolerance.
        worst: The worst of them: ``number`` from 1, ``recorded`` and ``found`` score, and ``prediction``.
        problems: Descriptions of everything that contradicts the record.
        resampled: Recorded tests and intervals.
    """

    system: str
    signature: str
    tolerance: float
    score: float
    found: float | None
    off: int
    worst: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]
    resampled: dict[str, float]

    @property
    def agrees(self) -> bool:
        """Whether every segment agrees and there are no problems."""
        return self.found is not None and not self.off and not self.problems


class Verification(NamedTuple):
    """The check of a record.

    Attributes:
        checks: The check of every entry.
        edited: Whether the file was edited after it was written.
        differences: Differences of inputs, versions and device that may explain a disagreement.
    """

    checks: tuple[VerifiedEntry, ...]
    edited: bool
    differences: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether every entry reproduces and the record was not edited."""
        return not self.edited and all(check.agrees for check in self.checks)


@check_types(
    record=Record | str | PathLike,
    systems=Iterable,
    inputs=Iterable,
    options=RunOptions | None,
    local_files=LocalFiles | None,
    tolerance=Real | None,
)
def verify_record(
    record: Record | str | Path,
    systems: Systems,
    *,
    inputs: Sequence[InputFile] = (),
    options: RunOptions | None = None,
    local_files: LocalFiles | None = None,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Score a record's texts again and compare every segment, test and interval.

    Args:
        record: The record or its file.
        systems: The texts of its systems, in the record's order: predictions, references (or None) and optional
            sources, as for `Scorer.score`.
        inputs: The text files, to report which of them changed.
        options: Device, batch size and caches.
        local_files: Local paths of model, adapter and mean vector, if they differ from the signatures' names.
        tolerance: Largest difference of a score; None for the number format's (1e-5 in float32).
        progress: As for `Scorer.score`; over the segments of all systems.

    Returns:
        A check of every result of every system, in the record's order, and what has changed since.

    Raises:
        FileError: As for `read_record`.
        InputError: The number of systems or segments differs from the record's, or texts cannot be scored.
        SpecError: A local file that no signature names, or an unknown device.
        MissingExtraError: As for `Scorer.score`.
    """
    record = record if isinstance(record, Record) else read_record(record)
    names, systems = [system.name for system in record.systems], list(systems)
    if len(systems) != len(names):
        held = f"{len(names)} systems ({', '.join(names)})"
        raise InputError(f"the record has {held}, but got texts of {len(systems)}.")
    options = replace(options or RunOptions(), any_language=True)  # the texts were scored before
    signatures = [signature for _, signature in _readable(record)]
    local_files = resolve_local_files(local_files or LocalFiles(), [signature.spec for signature in signatures])
    if tolerance is not None and not tolerance >= 0:  # not a number, either
        raise InputError(f"tolerance must be at least 0; got {tolerance}.")
    if any(not isinstance(texts, tuple | list) or len(texts) not in {2, 3} for texts in systems):
        raise InputError("systems must be pairs of predictions and references, or triples with sources.")
    texts = [check_segments(*arguments) for arguments in systems]
    forget_hashes()
    pairs = zip(record.systems, texts, strict=True)
    rescored = [_rescore(*pair, options, local_files, progress) for pair in pairs]
    columns, reason = _compare_again(record, texts, rescored, recorded=True)
    differ = any(
        isinstance(result, Rescored) and tuple(result.scores.scores) != system.results[place].scores
        for system, results in zip(record.systems, rescored, strict=True)
        for place, result in results.items()
    )
    fresh = _compare_again(record, texts, rescored, recorded=False)[0] if differ else {}
    samples = record.resampling.samples if record.resampling else 0
    checks = []
    compared = any(member.against for _, signature in _readable(record) for member in signature.spec.members_or_self)
    for i, (system, segments) in enumerate(zip(record.systems, texts, strict=True)):
        references = digest_of_texts(Segments([], segments.references)) if record.references else ""
        same_texts = (digest_of_texts(segments, sources=compared), references) == (system.texts, record.references)
        for place, result in enumerate(system.results):
            if result.is_external:
                continue
            column = columns.get(place)
            again = rescored[i].get(place) or (column.cells[i] if column else None)
            entry = _check_entry(system.name, result, again, segments, same_texts=same_texts, tolerance=tolerance)
            problems = _order_problems(record, [by_place.get(place) for by_place in rescored], i, place)
            if column is not None:
                cells = column.cells[i], fresh.get(place, column).cells[i]
                problems += _published_problems(result, cells, column.signature, entry.tolerance, samples)
            elif result.is_lexical or result.tested or result.documents:
                problems += [f"{result.head}, its tests and intervals: {reason}"]
            checks.append(entry._replace(problems=(*entry.problems, *problems)))
    differences = _differences(record, signatures, inputs, options.device)
    return Verification(tuple(checks), record.edited, tuple(dict.fromkeys(differences)))


def _differences(
    record: Record, signatures: Sequence[Signature], inputs: Sequence[InputFile], device: str
) -> Iterator[str]:
    """Describe differences of versions, files and machine, and results that were not verified."""
    for signature in signatures:
        if signature.version != __version__:
            yield f"versions: {signature.version}; {describe_changes(signature.spec, signature.version)}"
    for name in dict.fromkeys(
        result.head for system in record.systems for result in system.results if result.is_external
    ):
        yield f"not verified: {name} was scored by another program, and its tests are of those scores"
    for role in dict.fromkeys(file.role for file in record.inputs if file.role != "scores"):
        old, new = ([file for file in files if file.role == role] for files in (record.inputs, inputs))
        for before, after in zip(old, new, strict=False):
            if before.sha256 != after.sha256:
                was = f"{before.name} had {before.sha256[:12]}"
                yield f"inputs: {after.name} has sha256 {after.sha256[:12]}, {was} ({role})"
        if inputs and len(old) != len(new):
            yield f"inputs: {len(new)} files of {role}, but {len(old)} were recorded"
    recorded, current = record.environment, environment(device)
    for name in sorted(name for name in recorded.keys() | current.keys() if recorded.get(name) != current.get(name)):
        kind = "device" if name in {"device", "threads", "platform"} else "versions"
        yield f"{kind}: {name} is {current.get(name, 'missing')}, was {recorded.get(name, 'not recorded')}"


def _readable(record: Record) -> list[tuple[SystemScore, Signature]]:
    """Return our results with a readable signature. Warnings about its version are reported elsewhere."""
    readable = []
    for result in (result for system in record.systems for result in system.results if result.is_ours):
        with collect_warnings(), contextlib.suppress(SignatureError):
            readable.append((result, parse_signature(result.signature)))
    return readable


def _tolerance(signature: Signature, scores: Sequence[float]) -> float:
    """Return the tolerance of the coarsest number format, in proportion to scores beyond 1 (`normalize=no`)."""
    largest = float(np.abs(scores).max(initial=1.0))
    return largest * max(TOLERANCES[member.dtype or "float32"] for member in signature.spec.members_or_self)


def _corpus_tolerance(limit: float, segments: int) -> float:
    """Return the tolerance of a mean over segments, given the tolerance of each; at least float32's."""
    return min(limit, max(TOLERANCES["float32"], limit * max(CORPUS_SHARE, 1 / math.sqrt(segments))))


def _rescore(
    system: RecordedSystem, texts: Segments, options: RunOptions, local_files: LocalFiles, progress: Progress | None
) -> dict[int, Rescored | str]:
    """Score a system with all our metrics together; return results by their index in the record."""
    scorers: dict[int, tuple[Signature, Scorer]] = {}
    rescored: dict[int, Rescored | str] = {}
    for place, result in enumerate(system.results):
        recorded, found = len(result.scores), len(texts.predictions)
        if recorded != found and not (result.is_lexical and recorded == 0):
            raise InputError(f"{system.name}: the record has {recorded} segments, but there are {found} to score.")
        if not result.is_ours:
            continue
        try:
            with collect_warnings():
                signature = parse_signature(result.signature)
                scorer = Scorer(signature.spec, options, local_files)
                _ = scorer.spec  # finds the model and checks its fingerprint
            scorers[place] = signature, scorer
        except (SpecError, ModelError) as error:
            kind = "signature" if isinstance(error, SignatureError) else "model content"
            rescored[place] = f"{kind}: {error}"
    loaded = [scorer for _, scorer in scorers.values()]
    sets = score_segments(loaded, texts, progress=progress) if loaded else []
    return rescored | {
        place: Rescored(*signed, scores) for (place, signed), scores in zip(scorers.items(), sets, strict=True)
    }


def _compare_again(
    record: Record, texts: Sequence[Segments], rescored: Sequence[dict[int, Rescored | str]], *, recorded: bool
) -> tuple[dict[int, MetricColumn], str]:
    """Recompute tests, intervals and SacreBLEU's metrics, if there are any.

    With `recorded`, our metrics use the recorded per-segment scores, which must reproduce exactly. Otherwise only our
    metrics are compared, by the scores found now. On another machine, those differ in their last digits, and p-values
    differ by a few resamples.

    Returns:
        The columns by their index among a system's results, and the reason why others are missing.
    """
    results = [result for system in record.systems for result in system.results]
    if not any(result.is_lexical or result.tested or result.documents for result in results):
        return {}, ""
    metrics = dict[int, ScoredMetric]()
    for place, result in enumerate(record.systems[0].results):
        ours = [again for by_place in rescored if isinstance(again := by_place.get(place), Rescored)]
        if len(ours) == len(rescored):
            entries = [system.results[place] for system in record.systems]
            sets = [result.scores for result in ours]
            if recorded:
                both = zip(sets, entries, strict=True)
                sets = [replace(scores, by_side=np.array([entry.scores])) for scores, entry in both]
            metrics[place] = ours[0].scorer, sets
        elif not recorded:
            continue
        elif all(result.head == other.head for system in record.systems for other in system.results[place : place + 1]):
            metrics |= {} if (name := lexical_of_signature(result.signature)) is None else {place: name}
    try:
        comparison = _compare(record, texts, list(metrics.values()))
    except (InputError, SpecError) as error:
        return {}, str(error)
    return dict(zip(metrics, comparison.columns, strict=True)), "not all systems could be scored again by it"


def _compare(record: Record, texts: Sequence[Segments], metrics: Sequence[ScoredMetric]) -> SystemComparison:
    references = texts[0].references
    if any(segments.references != references for segments in texts):
        raise InputError("the systems have different references")
    return compare_systems(
        [(system.name, segments.predictions) for system, segments in zip(record.systems, texts, strict=True)],
        references,
        metrics,
        resampling=record.resampling,
        documents=record.documents,
        segments=any(result.is_lexical and result.scores for system in record.systems for result in system.results),
    )


def _check_entry(
    system: str,
    result: SystemScore,
    again: Rescored | str | SystemScore | None,
    texts: Segments,
    *,
    same_texts: bool,
    tolerance: float | None,
) -> VerifiedEntry:
    """Compare recorded scores with those computed again, by our metric or in a cell from SacreBLEU."""
    limit = TOLERANCES["float32"] if tolerance is None else tolerance
    problems = [] if same_texts else ["texts: they are not the texts that were scored"]
    now = again if isinstance(again, SystemScore) else None
    if isinstance(again, Rescored):
        signature, _, scores = again
        limit = _tolerance(signature, result.scores) if tolerance is None else tolerance
        problems += _contradictions(result, signature)
        now = cell_of(scores)
    if now is None:
        problems = [again] if isinstance(again, str) else []
    else:
        mean_limit = _corpus_tolerance(limit, len(texts.predictions)) if tolerance is None else tolerance
        problems += _score_problems(result, now, len(texts.predictions) if same_texts else None, mean_limit)
    if isinstance(again, Rescored):
        problems += [
            f"{kind} content: sha256 is {', '.join(scores.hashes.get(kind, ()))}, "
            f"recorded as {', '.join(result.hashes.get(kind, ())) or 'nothing'}"
            for kind in PART_NAMES
            if scores.hashes.get(kind) != result.hashes.get(kind)
        ]
        signed, applied = spec_keys(signature) | {"version": __version__}, spec_keys(scores.signature)
        changed = [name for name, value in applied.items() if signed.get(name, value) != value]
        problems += [f"applied: {name} is {applied[name]}, signed as {signed[name]}" for name in changed]
    segments = now.scores if now and result.scores else ()
    distances = np.abs(np.array(result.scores) - np.array(segments)) if segments else np.zeros(0)
    off = int((distances > limit).sum())
    worst = [
        {"number": i + 1, "recorded": result.scores[i], "found": segments[i], "prediction": texts.predictions[i]}
        for i in np.argsort(-distances, kind="stable")[: min(WORST, off)].tolist()
    ]
    score = None if now is None else now.score
    found = score, off, tuple(worst), tuple(problems)
    return VerifiedEntry(system, result.signature, limit, result.score, *found, result.tested)


def _order_problems(record: Record, rescored: Sequence[Rescored | str | None], i: int, place: int) -> list[str]:
    """Name the systems whose order with system `i` has reversed, by the metric at an index."""
    result, others = rescored[i], []
    for system, other in zip(record.systems, rescored, strict=True):
        if isinstance(result, Rescored) and isinstance(other, Rescored):
            before = record.systems[i].results[place].score - system.results[place].score
            others += [system.name] if before * (result.scores.score - other.scores.score) < 0 else []
    return [f"order: the scores found here reverse its order with {', '.join(others)}"] if others else []


def _published_problems(
    result: SystemScore, cells: tuple[SystemScore, SystemScore], signature: str, limit: float, samples: int
) -> list[str]:
    """Describe differences in tests, intervals and signature; `cells` come from recorded scores and from those now."""
    problems, (cell, fresh) = [], cells
    # A p-value counts resamples, and one may lie on the edge.
    for name, margin in (("mean", limit), ("ci", limit), ("p_value", 1.5 / (samples + 1))):
        before, now = getattr(result, name), getattr(cell, name)
        if (before is None) != (now is None) or (before is not None and abs(before - now) > margin):
            shown_before, shown_now = ("nothing" if value is None else f"{value:.6f}" for value in (before, now))
            problems.append(f"{name}: the recorded scores and seed give {shown_now}, recorded as {shown_before}")
    if result.p_value is not None and fresh.p_value is not None:
        allowed = P_VALUE_TOLERANCES[limit > TOLERANCES["float32"]] + 1.5 / (samples + 1)
        if result.p_value <= 0 or abs(result.p_value - fresh.p_value) > allowed:
            problems.append(f"p_value: scores found here give {fresh.p_value:.6f}, recorded as {result.p_value:.6f}")
    names = result.documents.keys() | cell.documents.keys()
    numbers = [tuple(np.array(side.documents.get(name, ()), dtype=float) for side in (result, cell)) for name in names]
    off = sum(len(then) != len(now) or not np.allclose(then, now, 0, limit, equal_nan=True) for then, now in numbers)
    if off:
        problems.append(f"documents: the recorded scores and seed give other numbers for {off} of {len(names)}")
    compared = "(?!version:)" if result.is_lexical else "bs:|ar:|seed:"  # SacreBLEU's version may change
    lines = (line.split("|")[1:] for line in (result.signature, signature))
    signed, applied = ("|".join(part for part in parts if re.match(compared, part)) for parts in lines)
    if signed != applied:
        problems.append(f"signature: signed as {signed or 'nothing'}, applied {applied or 'nothing'}")
    return problems


def contradictions(record: Record) -> list[str]:
    """Describe contradictions inside a record, without scoring; skip unreadable signatures."""
    problems = ["it was edited: its content does not match its sha256"] if record.edited else []
    for result, signature in _readable(record):
        problems += _contradictions(result, signature)
    return problems


def _contradictions(result: SystemScore, signature: Signature) -> list[str]:
    keys = spec_keys(signature)
    problems = [
        f"edited: the signature says {name}={keys.get(name) or 'nothing'}, the record's keys say "
        f"{name}={result.keys.get(name) or 'nothing'}"
        for name in sorted(keys.keys() | result.keys.keys())
        if keys.get(name) != result.keys.get(name)
    ]
    signed = signed_hashes([signature.spec])
    problems += [
        f"edited: the signature says {kind} {', '.join(sorted(signed[kind])) or 'nothing'}, the record's sha256 "
        f"begins with {', '.join(sorted(recorded)) or 'nothing'}"
        for kind in PART_NAMES
        if signed[kind] != (recorded := {whole[:LENGTH] for whole in result.hashes.get(kind, ())})
    ]
    mean = float(np.mean(result.scores))
    if not np.isclose(mean, result.score, rtol=1e-6, atol=1e-6):
        is_not = f"is not the mean of the recorded segments' scores, {mean:.6f}"
        problems.append(f"edited: the recorded score {result.score:.6f} {is_not}")
    return problems


def _score_problems(recorded: SystemScore, current: SystemScore, segments: int | None, tolerance: float) -> list[str]:
    """Describe differences other than per-segment scores; `segments` is None for other texts."""
    problems, counts = [], current.counts or {"segments": segments or 0}
    sides_before, sides = ({"score": cell.score} | cell.sides for cell in (recorded, current))
    for side in sides | sides_before:
        before, value = sides_before.get(side), sides.get(side)
        if before is None or value is None or abs(before - value) > tolerance:
            shown_before, shown = ("nothing" if number is None else f"{number:.6f}" for number in (before, value))
            problems.append(f"scores: the corpus {side} is {shown}, recorded as {shown_before}")
    if segments and any(counts.get(name, 0) != recorded.counts.get(name, 0) for name in counts | recorded.counts):
        problems.append(f"counts: {counts}, recorded as {recorded.counts}")
    return problems


def match_number(value: str) -> re.Match[str]:
    """Match a printed number, the digits after its point and a per-cent sign; raise SpecError for anything else."""
    match = re.fullmatch(r"(-?(?=\.?[0-9])[0-9]*\.?([0-9]*))( ?%)?", value.strip())
    if not match:
        raise SpecError(f"expected a number as printed in a paper, such as 0.8614 or 86.1, not {value!r}.")
    return match


class NumberCheck(NamedTuple):
    """The scores now, whether a printed number agrees within a margin, and whether it was read as per cent."""

    scores: ScoreSet
    agrees: bool
    margin: float
    per_cent: bool


def verify_number(
    signature: str,
    value: str,
    texts: Segments,
    *,
    options: RunOptions | None = None,
    local_files: LocalFiles | None = None,
    tolerance: float | None = None,
) -> NumberCheck:
    """Score texts with a signature and compare the corpus score with a printed number.

    The number may be the score or 100 times the score; a per-cent sign means the latter. It agrees if it equals the
    score rounded to the printed digits, within `tolerance`. By default, that is the tolerance of the number format for
    a mean over this many segments.
    """
    match = match_number(value)
    printed, rounding = float(match[1]), 0.5 * 10.0 ** -len(match[2])
    signed = parse_signature(signature)
    local_files = resolve_local_files(local_files or LocalFiles(), [signed.spec])
    options = replace(options or RunOptions(), any_language=True)
    forget_hashes()
    (scores,) = score_segments([Scorer(signed.spec, options, local_files)], texts)
    if signed.nrefs not in {None, nrefs := scores.signature.nrefs}:
        raise InputError(f"the signature has nrefs:{signed.nrefs}, but these texts have nrefs:{nrefs}.")
    noise = tolerance
    if noise is None:
        noise = _corpus_tolerance(_tolerance(signed, scores.scores), len(scores.scores))
    plain = not match[3] and abs(scores.score - printed) <= rounding + noise
    hundred = abs(100 * scores.score - printed) <= rounding + 100 * noise
    per_cent = bool(match[3]) or (hundred and not plain)
    return NumberCheck(scores, plain or hundred, rounding + noise * (100 if per_cent else 1), per_cent)
