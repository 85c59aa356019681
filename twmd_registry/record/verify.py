"""Verifying: score again, and say whether a published number holds, or what differs."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.pairs import check_segments, digest_of_texts
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, make_scorer, score_all
from twmd_registry.errors import InputError, ModelError, SignatureError, SpecError, TwmdWarning
from twmd_registry.progress import Progress
from twmd_registry.record.comparison import MetricColumn, SystemComparison, SystemScore
from twmd_registry.record.content import InputFile, Record, RecordedScores, RecordedSystem, recorded, spec_keys
from twmd_registry.record.environment import environment
from twmd_registry.registry.artifacts import Parts, check_parts
from twmd_registry.registry.fingerprint import reread
from twmd_registry.registry.names import LEXICAL_NAMES, Dtype
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import MetricSpec, dtypes, is_pinned
from twmd_registry.registry.versions import describe_changes
from twmd_registry.version import __version__

TOLERANCES = {Dtype.FLOAT32: 1e-5, Dtype.FLOAT16: 2e-3, Dtype.BFLOAT16: 1e-2}
"""What compute batch, device and library versions may move a segment's score by, for each number format of the
encoder.
"""
WORST = 5
"""How many segments are named."""


class SystemTexts(NamedTuple):
    """One system's texts, to be scored again.

    Attributes:
        predictions: One text per segment.
        references: As for `Scorer.score`.
    """

    predictions: list[str]
    references: list[list[str]]


class DifferingSegment(NamedTuple):
    """A segment whose score is not what was recorded; `number` counts from 1."""

    number: int
    recorded: float
    found: float
    prediction: str


class VerifiedEntry(NamedTuple):
    """What became of one entry of a record.

    Attributes:
        system: The system.
        signature: As recorded.
        tolerance: Largest difference that counts as agreement.
        score: The recorded corpus score.
        found: The corpus score now, None when it could not be computed.
        off: Number of segments beyond the tolerance.
        worst: The worst of them.
        problems: Whatever contradicts the record, in words; empty when it holds.
        resampled: What was recorded of tests and intervals, by name.
    """

    system: str
    signature: str
    tolerance: float
    score: float
    found: float | None
    off: int
    worst: tuple[DifferingSegment, ...]
    problems: tuple[str, ...]
    resampled: Mapping[str, float] = MappingProxyType({})

    @property
    def agrees(self) -> bool:
        """Whether every segment agrees and nothing contradicts."""
        return self.found is not None and not self.off and not self.problems


class Verification(NamedTuple):
    """What became of a record.

    Attributes:
        checks: One per entry.
        edited: Whether the file was changed after it had been written.
        differences: What is different and may be why: inputs, versions, device. Agreement does not depend on it.
    """

    checks: tuple[VerifiedEntry, ...]
    edited: bool
    differences: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether every entry holds, and the record is as it was written."""
        return not self.edited and all(check.agrees for check in self.checks)


Systems = Sequence[tuple[Sequence[str], Sequence[str] | Sequence[Sequence[str]]]]
"""Predictions and references of every system, as `Scorer.score` takes them."""
Compare = Callable[
    [Record, Sequence[SystemTexts], Sequence[tuple[Scorer, tuple[ScoreSet, ...]] | str]], SystemComparison
]
"""Computes tests, intervals and SacreBLEU's metrics of a record.

Takes the record, the texts, our scorers with the scores of every system, and the names of SacreBLEU's metrics.
"""


def verify_record(
    record: Record,
    systems: Systems,
    *,
    inputs: Sequence[InputFile] = (),
    options: RunOptions | None = None,
    parts: Parts | None = None,
    tolerance: float | None = None,
    progress: Progress | None = None,
    compare: Compare | None = None,
) -> Verification:
    """Score again what a record says was scored, and compare every segment, every test and every interval.

    `twmd_registry.verify_record` is this with its `compare`.

    Args:
        record: The record.
        systems: The texts of its systems, in its order: predictions and references of each.
        inputs: The files they came from, to tell which of them changed.
        options: Where and how fast.
        parts: Where model, adapter and mean vector are here, when not under the names in the signatures.
        tolerance: Largest difference of a score; None for `TOLERANCES`.
        progress: As for `score_all`, over all systems.
        compare: Computes metrics of SacreBLEU, tests and intervals; without it, a record that has some does not hold.

    Returns:
        A check of every score set of every system, in the record's order, and what has changed since.

    Raises:
        InputError: Another number of systems or segments than in the record, or texts that cannot be scored.
        SpecError: A part that no signature of the record has, or no such device here.
        MissingExtraError: As for `Scorer.score`.
    """
    names = [system.name for system in record.systems]
    if len(systems) != len(names):
        raise InputError(
            f"the record holds {len(names)} systems ({', '.join(names)}), but texts of {len(systems)} were given."
        )
    options = options or RunOptions()
    parts = check_parts(parts or Parts(), _readable(record))
    texts = [SystemTexts(*check_segments(*own)) for own in systems]
    with reread():
        entries = [_score_system(*pair, options, parts, progress) for pair in zip(record.systems, texts, strict=True)]
    again = _compare_again(record, texts, entries, compare)
    checks = [
        check
        for i, system in enumerate(record.systems)
        for check in _check_system(i, system, texts[i], entries[i], again=again, tolerance=tolerance)
    ]
    differences = (
        _version_differences(record)
        + _input_differences(record.inputs, inputs)
        + _environment_differences(record.environment, environment(options.device))
    )
    return Verification(tuple(checks), record.edited, tuple(differences))


def _tolerance(signature: Signature) -> float:
    """What the coarsest of a signature's number formats allows."""
    return max(TOLERANCES[dtype] for dtype in dtypes(signature.spec))


def _readable(record: Record) -> list[MetricSpec]:
    """What the signatures of a record say, as far as they are signatures."""
    found = []
    for result in (result for system in record.systems for result in system.results):
        with contextlib.suppress(SignatureError), warnings.catch_warnings():
            warnings.simplefilter("ignore", TwmdWarning)
            found.append(parse_signature(result.signature).spec)
    return found


class _RescoredEntry(NamedTuple):
    """An entry of a record whose signature could be read, its scorer, and its scores now."""

    result: RecordedScores
    signature: Signature
    scorer: Scorer
    scores: ScoreSet


_Entries = dict[int, _RescoredEntry | str]
"""Our metrics of one system, by place among its results: scored again, or why that is not possible."""


class _RecomputedTests(NamedTuple):
    """Tests, intervals and SacreBLEU's metrics, computed again.

    Attributes:
        columns: By place among every system's results.
        samples: Samples of the test.
        trouble: Why they could not be computed.
    """

    columns: dict[int, MetricColumn]
    samples: int = 0
    trouble: str = "not all systems could be scored again by it"


def _score_system(
    system: RecordedSystem, texts: SystemTexts, options: RunOptions, parts: Parts, progress: Progress | None
) -> _Entries:
    """Score one system by all of our metrics at once.

    Raises:
        InputError: Another number of segments than in the record.
    """
    ready: dict[int, tuple[Signature, Scorer]] = {}
    entries: _Entries = {}
    for place, result in enumerate(system.results):
        recorded_segments, here = len(result.scores), len(texts.predictions)
        if recorded_segments != here and not (result.is_lexical and recorded_segments == 0):
            raise InputError(
                f"{system.name}: the record holds {recorded_segments} segments, but there are {here} to score."
            )
        if result.is_lexical:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TwmdWarning)
                signature = parse_signature(result.signature)
                scorer = make_scorer(signature.spec, options, parts)
                _ = scorer.spec  # finds the model and checks its content
            ready[place] = (signature, scorer)
        except (SpecError, ModelError) as error:
            kind = "signature" if isinstance(error, SignatureError) else "model content"
            entries[place] = f"{kind}: {error}"
    found = score_all([scorer for _, scorer in ready.values()], *texts, progress=progress) if ready else []
    for (place, known), scores in zip(ready.items(), found, strict=True):
        entries[place] = _RescoredEntry(system.results[place], *known, scores)
    return entries


def _compare_again(
    record: Record, texts: Sequence[SystemTexts], entries: Sequence[_Entries], compare: Compare | None
) -> _RecomputedTests:
    """Compute tests, intervals and SacreBLEU's metrics again, where there are some.

    For our metrics they are computed from the recorded scores of segments. Scores of another machine differ in their
    last
    digits, and p-values would differ by some resamples.
    """
    first = record.systems[0].results
    if not any(result.is_lexical or result.resampled for system in record.systems for result in system.results):
        return _RecomputedTests({})
    if compare is None:
        return _RecomputedTests({}, trouble="twmd_registry.verify_record computes it again")
    metrics = dict[int, tuple[Scorer, tuple[ScoreSet, ...]] | str]()
    for place, result in enumerate(first):
        own = [one for entry in entries if isinstance(one := entry.get(place), _RescoredEntry)]
        if len(own) == len(entries):
            metrics[place] = (own[0].scorer, tuple(replace(one.scores, scores=one.result.scores) for one in own))
        elif all(result.head == other.head for system in record.systems for other in system.results[place : place + 1]):
            metrics.update((place, name) for name, head in LEXICAL_NAMES.items() if head == result.head)
    try:
        again = compare(record, texts, list(metrics.values()))
    except (InputError, SpecError) as error:
        return _RecomputedTests({}, trouble=str(error))
    samples = record.resampling.samples if record.resampling else 0
    return _RecomputedTests(dict(zip(metrics, again.columns, strict=True)), samples)


def _check_system(
    i: int,
    system: RecordedSystem,
    texts: SystemTexts,
    entries: _Entries,
    *,
    again: _RecomputedTests,
    tolerance: float | None,
) -> list[VerifiedEntry]:
    """Compare what was recorded of a system with what was computed again."""
    same_texts = digest_of_texts(check_segments(*texts)) == system.texts
    checks = []
    for place, result in enumerate(system.results):
        entry, column = entries.get(place), again.columns.get(place)
        cell = column.cells[i] if column else None
        limit = TOLERANCES[Dtype.FLOAT32] if tolerance is None else tolerance
        problems = [] if same_texts else ["texts: they are not the ones that were scored"]
        off, worst = 0, tuple[DifferingSegment, ...]()
        if isinstance(entry, _RescoredEntry):
            limit = _tolerance(entry.signature) if tolerance is None else tolerance
            problems += _contradictions(result, entry.signature, limit) + _score_problems(
                entry, limit, same_texts=same_texts
            )
            off, worst = _compare(result, entry.scores.scores, texts.predictions, limit)
            found: float | None = entry.scores.score
        elif cell is not None and result.is_lexical:
            if abs(cell.score - result.score) > limit:
                problems.append(f"scores: the corpus score is {cell.score:.6f}, recorded as {result.score:.6f}")
            if result.scores:
                off, worst = _compare(result, cell.segments, texts.predictions, limit)
            found = cell.score
        else:
            problems, found = [entry] if isinstance(entry, str) else [], None
        problems += _published_problems(result, column, cell, again, limit)
        checks.append(
            VerifiedEntry(
                system.name, result.signature, limit, result.score, found, off, worst, tuple(problems), result.resampled
            )
        )
    return checks


def _published_problems(
    result: RecordedScores, column: MetricColumn | None, cell: SystemScore | None, again: _RecomputedTests, limit: float
) -> list[str]:
    """Name differences in tests and intervals, and in how they were signed."""
    if column is None or cell is None:
        return (
            [f"{result.head}, its tests and intervals: {again.trouble}"]
            if result.is_lexical or result.resampled
            else []
        )
    problems = []
    # A p-value counts resamples, and one of them may lie on the edge.
    for name, margin in (("mean", limit), ("ci", limit), ("p_value", 1.5 / (again.samples + 1))):
        before, now = getattr(result, name), getattr(cell, name)
        if (before is None) != (now is None) or (before is not None and abs(before - now) > margin):
            was, there = ("nothing" if value is None else f"{value:.6f}" for value in (before, now))
            problems.append(f"{name}: the recorded scores, samples and seed give {there}, recorded as {was}")
    signed, applied = (
        _published_fields(text, lexical=result.is_lexical) for text in (result.signature, column.signature)
    )
    if signed != applied:
        problems.append(f"signature: signed as {signed or 'nothing'}, applied {applied or 'nothing'}")
    return problems


def _published_fields(signature: str, *, lexical: bool) -> str:
    """Return what a signature says of resampling; of SacreBLEU's metrics, all but the version, which may change."""
    fields = signature.split("|")[1:]
    return "|".join(
        one
        for one in fields
        if (not one.startswith("version:") if lexical else one.startswith(("bs:", "ar:", "seed:")))
    )


def contradictions(record: Record) -> list[str]:
    """Name what a record says against itself, without scoring.

    Args:
        record: The record.

    Returns:
        An edit after it was written, scores that are not the mean of their segments' scores, and keys other than
        signed.
        Signatures that cannot be read are skipped.
    """
    found = ["it was edited: its content does not have the sha256 that it was written with"] if record.edited else []
    for result in (result for system in record.systems for result in system.results if not result.is_lexical):
        with contextlib.suppress(SignatureError), warnings.catch_warnings():
            warnings.simplefilter("ignore", TwmdWarning)
            signature = parse_signature(result.signature)
            found += _contradictions(result, signature, _tolerance(signature))
    return found


def _contradictions(result: RecordedScores, signature: Signature, tolerance: float) -> list[str]:
    """What a record says against itself."""
    problems = []
    keys = spec_keys(signature)
    for name in sorted(keys.keys() | result.keys.keys()):
        signed, listed = keys.get(name), result.keys.get(name)
        if signed != listed:
            problems.append(
                f"edited: the signature says {name}={signed or 'nothing'}, the record's keys say "
                f"{name}={listed or 'nothing'}"
            )
    mean = float(np.mean(result.scores))
    if not signature.nrefs:
        problems.append("edited: the signature has no nrefs, which every record's has")
    if abs(mean - result.score) > tolerance:
        problems.append(
            f"edited: the recorded score {result.score:.6f} is not the mean of the recorded segments' scores, "
            f"{mean:.6f}"
        )
    return problems


def _score_problems(entry: _RescoredEntry, tolerance: float, *, same_texts: bool) -> list[str]:
    """What differs beside the segments' scores."""
    then, now, problems = entry.result, recorded(entry.scores), []
    for side, value in {"score": now.score, **now.sides}.items():
        before = {"score": then.score, **then.sides}.get(side)
        if before is None or abs(before - value) > tolerance:
            problems.append(
                f"scores: the corpus {side} is {value:.6f}, recorded as "
                f"{'nothing' if before is None else f'{before:.6f}'}"
            )
    if same_texts and any(now.counts.get(name, 0) != count for name, count in then.counts.items()):
        problems.append(f"counts: {now.counts}, recorded as {then.counts}")
    asked = spec_keys(entry.signature) | {"version": __version__}
    problems += [
        f"applied: {name} is {value}, signed as {asked[name]}"
        for name, value in now.keys.items()
        if asked.get(name, value) != value
    ]
    return problems


def _compare(
    result: RecordedScores, found: Sequence[float], predictions: Sequence[str], tolerance: float
) -> tuple[int, tuple[DifferingSegment, ...]]:
    """How many segments are off, and the worst of them."""
    distance = np.abs(np.array(result.scores) - np.array(found))
    off = int((distance > tolerance).sum())
    order = np.argsort(-distance, kind="stable")[: min(WORST, off)].tolist()
    return off, tuple(DifferingSegment(i + 1, result.scores[i], found[i], predictions[i]) for i in order)


def _version_differences(record: Record) -> list[str]:
    """What has changed since a version that signatures were written by."""
    found = []
    for result in (result for system in record.systems for result in system.results):
        with contextlib.suppress(SignatureError), warnings.catch_warnings():
            warnings.simplefilter("ignore", TwmdWarning)
            signature = parse_signature(result.signature)
            if signature.version != __version__:
                found.append(f"versions: {signature.version}; {describe_changes(signature.spec, signature.version)}")
    return list(dict.fromkeys(found))


def _input_differences(then: Sequence[InputFile], now: Sequence[InputFile]) -> list[str]:
    found = []
    for role in dict.fromkeys(one.role for one in then):
        old, new = ([one for one in files if one.role == role] for files in (then, now))
        for before, after in zip(old, new, strict=False):
            if before.sha256 != after.sha256:
                found.append(
                    f"inputs: {after.name} has the sha256 {after.sha256[:12]}, {before.name} had "
                    f"{before.sha256[:12]} ({role})"
                )
        if now and len(old) != len(new):
            found.append(f"inputs: {len(new)} files of {role}, {len(old)} were recorded")
    return found


def _environment_differences(then: dict[str, str], now: dict[str, str]) -> list[str]:
    found = []
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            kind = "device" if name in {"device", "threads", "platform"} else "versions"
            found.append(f"{kind}: {name} is {now.get(name, 'not here')}, was {then.get(name, 'not recorded')}")
    return found


class VerifiedNumber(NamedTuple):
    """A number out of a paper, compared with the score now.

    Attributes:
        found: The score now.
        signature: As applied now.
        margin: What rounding to the printed digits allows, and the tolerance of the number format.
        per_cent: Whether the number was read as 100 times the score.
        agrees: Whether it is the same.
        pinned: Whether the printed signature says which content of the model was used.
    """

    found: float
    signature: Signature
    margin: float
    per_cent: bool
    agrees: bool
    pinned: bool


def verify_number(
    signature: str,
    value: str,
    texts: SystemTexts,
    *,
    options: RunOptions | None = None,
    parts: Parts | None = None,
    tolerance: float | None = None,
) -> VerifiedNumber:
    """Score texts by a signature and compare the corpus score with a printed number.

    A number agrees when it is the score, or 100 times the score, rounded to as many digits as were printed.

    Args:
        signature: The signature printed with it.
        value: The number as printed; a per-cent sign says that it is 100 times the score.
        texts: The texts.
        options: Where and how fast.
        parts: Where model, adapter and mean vector are here.
        tolerance: What the score may be off by beside its rounding; None for `TOLERANCES`.

    Raises:
        SpecError: `value` is not a number, or not a signature.
        ModelError: The model is not here, or has another content.
        InputError: The texts cannot be scored, or have another number of references than the signature says.
    """
    match = re.fullmatch(r"(-?[0-9]*\.?([0-9]*))( ?%)?", value.strip())
    if not match or not any(c.isdigit() for c in match[1]):
        raise SpecError(f"{value!r} is not a number as a paper prints it, such as 0.8614 or 86.1.")
    printed, rounding = float(match[1]), 0.5 * 10.0 ** -len(match[2])
    asked = parse_signature(signature)
    parts = check_parts(parts or Parts(), [asked.spec])
    with reread():
        found = make_scorer(asked.spec, options, parts).score(*texts)
    if asked.nrefs not in {None, found.signature.nrefs}:
        raise InputError(
            f"the signature was written for nrefs:{asked.nrefs}; these texts have nrefs:{found.signature.nrefs}."
        )
    noise = _tolerance(asked) if tolerance is None else tolerance
    plain = not match[3] and abs(found.score - printed) <= rounding + noise
    hundred = abs(100 * found.score - printed) <= rounding + 100 * noise
    per_cent = bool(match[3]) or (hundred and not plain)
    margin = rounding + noise * (100 if per_cent else 1)
    return VerifiedNumber(found.score, found.signature, margin, per_cent, plain or hundred, is_pinned(asked.spec))
