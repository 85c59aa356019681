"""Scores of other metrics that a metrics shared task has published, in the layout of mt-metrics-eval."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError, SpecError, warn
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import DIGITS, FORMATS, parse_name
from twmd_registry.judgments.translations import (
    ALL,
    GROUPINGS,
    RATING,
    REFERENCE,
    count_segments,
    names_of_references,
    read_documents,
    read_mt_metrics_eval,
    read_scores,
    read_system_scores,
    reference_names,
)

SOURCE = "src"
"""What files of metrics without a reference have in its place."""
SHOWN = 10
"""Systems that a warning names."""


class OfficialScores(NamedTuple):
    """A metric's published scores of rated segments, and the hash of their files.

    `systems` has a score per group (a language pair, or a domain or document of it) and system, where it is published;
    these need not be means.
    """

    name: str
    content: str
    scores: tuple[float, ...]
    systems: frozenset[tuple[str, str, float]]


class Divisions(NamedTuple):
    """How a test set divides rated segments: the domain of each, empty where there are no documents; whether a person
    wrote it, a reference that was rated like a system; and ratings by ``PAIR DOMAIN`` and system, where published.
    """

    domains: list[str]
    people: list[bool]
    ratings: dict[tuple[str, str], float]


def read_divisions(text: str, rated: RatedSegments) -> Divisions:
    """Read the divisions of rated data in the layout of mt-metrics-eval; arguments and errors as `read_official`."""
    folder, keys = _parse_layout(text)
    domains, people, ratings = dict[str, list[str]](), dict[str, list[str]](), dict[tuple[str, str], float]()
    for pair in sorted({item.rpartition(":")[0] for item in rated.item or []}):
        people[pair] = reference_names(folder, pair)
        if (folder / "documents" / f"{pair}.docs").is_file():
            domains[pair] = [domain for domain, _ in read_documents(folder, pair)]
            path = folder / "human-scores" / f"{pair}.{keys.get('rating', RATING)}.domain.score"
            ratings |= read_system_scores(path, folder, pair) if path.is_file() else {}
    places = [(pair, int(number) - 1) for pair, _, number in (item.rpartition(":") for item in rated.item or [])]
    by_segment = [domains[pair][i] if pair in domains else "" for pair, i in places]
    written = [system in people[pair] for (pair, _), system in zip(places, rated.system or [], strict=True)]
    return Divisions(by_segment, written, ratings)


def _parse_layout(text: str) -> tuple[Path, dict[str, str]]:
    """Return the folder and the keys of data in the layout of mt-metrics-eval."""
    read, folder, keys = parse_name(text)
    if read is not read_mt_metrics_eval:
        forms = ", ".join(f"{name}:FOLDER" for name, reader in FORMATS.items() if reader is read_mt_metrics_eval)
        raise SpecError(f"{text}: published scores are read beside data in the layout of mt-metrics-eval, {forms}.")
    return folder, keys


def read_official(text: str, rated: RatedSegments) -> list[OfficialScores]:
    """Read ``metric-scores/PAIR/NAME-REFERENCE.{seg,sys,domain,doc}.score`` of every metric.

    Metrics of the reference that `text` names, ``mte:FOLDER,...``, are read, and those without one. Returns those that
    have a score of every rated segment, by ascending name; warnings name the others, and files of another form of name.
    Raises SpecError for data in another layout, and FileError where there is no such file, or one is damaged.
    """
    folder, keys = _parse_layout(text)
    reference = keys.get("reference", REFERENCE)
    segments = {pair: count_segments(folder, pair) for pair in {item.rpartition(":")[0] for item in rated.item or []}}
    files: dict[str, dict[str, Path]] = {}
    unread, others = list[str](), dict[str, set[str]]()
    for pair in sorted(segments):
        known = {*reference_names(folder, pair), SOURCE, ALL}
        sides = {reference, SOURCE, ".".join(names_of_references(folder, pair, reference))}
        for path in sorted((folder / "metric-scores" / pair).glob("*.score")):
            name, _, side = path.name.removesuffix(".seg.score").rpartition("-")
            if not _has_form(path, known):
                unread.append(f"{pair}/{path.name}")
            elif side in sides:  # no side has the ending of another level
                files.setdefault(name, {})[pair] = path
            elif path.name.endswith(".seg.score"):
                others.setdefault(name, set()).add(side)
    if unread:
        form = "expected files NAME-REFERENCE.LEVEL.score of references that are there, with a .seg.score each"
        warn(f"{folder}/metric-scores: {form}; passed over: {', '.join(unread)}.")
    pairs = ", ".join(sorted(segments))
    if not files:
        raise FileError(f"{folder}/metric-scores holds no NAME-{reference}.seg.score of {pairs}.")
    if unused := [f"{name} ({', '.join(sorted(own))})" for name, own in sorted(others.items()) if name not in files]:
        warn(f"{folder}: metrics without published scores by reference={reference}, left out: {', '.join(unused)}.")
    result, lacking = list[OfficialScores](), list[str]()
    for name, by_pair in sorted(files.items()):
        scores = _scores_of(by_pair, segments, rated)
        rows = zip(rated.item or [], scores, strict=True)
        missing = Counter(item.rpartition(":")[0] for item, score in rows if math.isnan(score))
        if missing:
            lacking.append(f"{name} ({', '.join(f'{number} of {pair}' for pair, number in missing.items())})")
            continue
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in by_pair.values())).hexdigest()[:DIGITS]
        result.append(OfficialScores(name, digest, scores, _systems_of(folder, by_pair)))
    if lacking:
        remedy = "; pair=PAIR after the folder compares the metrics of one language pair" if len(segments) > 1 else ""
        left_out = f"metrics left out, with the number of rated segments that they lack: {', '.join(lacking)}"
        warn(f"{folder}: {left_out}{remedy}.")
    return result


def _has_form(path: Path, known: set[str]) -> bool:
    """Return whether a file is ``NAME-REFERENCE.LEVEL.score`` of known references, beside scores of segments."""
    stem, _, level = path.name.removesuffix(".score").rpartition(".")
    name, _, side = stem.rpartition("-")
    named = bool(name) and set(side.split(".")) <= known and level in ("seg", *GROUPINGS.values())
    return named and path.is_file() and path.with_name(f"{stem}.seg.score").is_file()


def _scores_of(files: dict[str, Path], segments: dict[str, int], rated: RatedSegments) -> tuple[float, ...]:
    """Return the score of every rated segment; NaN where there is none."""
    by_pair = {pair: read_scores(path, segments[pair]) for pair, path in files.items()}
    scores = []
    for item, system in zip(rated.item or [], rated.system or [], strict=True):
        pair, _, number = item.rpartition(":")
        own = by_pair.get(pair, {}).get(system)
        score = own[int(number) - 1] if own else None
        scores.append(math.nan if score is None else score)
    return tuple(scores)


def _systems_of(folder: Path, files: dict[str, Path]) -> frozenset[tuple[str, str, float]]:
    systems = dict[tuple[str, str], float]()
    for pair, path in files.items():
        for level in GROUPINGS.values():
            file = path.with_name(f"{path.name.removesuffix('.seg.score')}.{level}.score")
            systems |= read_system_scores(file, folder, pair) if file.is_file() else {}
    return frozenset((*place, score) for place, score in systems.items())


def published_systems(metrics: Sequence[object], rated: RatedSegments) -> list[dict[tuple[str, str], float]]:
    """Return the published scores of every metric's systems by group and system; none for a metric of ours.

    A warning names systems without a published score, for which means of their segments stand.
    """
    derived, result = defaultdict[tuple[tuple[str, str], ...], list[str]](list), list[dict[tuple[str, str], float]]()
    for metric in metrics:
        scores = dict[tuple[str, str], float]()
        if isinstance(metric, OfficialScores):
            scores = {(group, system): score for group, system, score in metric.systems}
            places = set(zip(rated.group, rated.system or [], strict=True))
            derived[tuple(sorted(places - scores.keys()))].append(f"{metric.name}*")
        result.append(scores)
    derived.pop((), None)
    for missing, names in derived.items():
        shown = ", ".join(f"{system} of {group}" for group, system in missing[:SHOWN])
        shown += f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        what = f"no published score of some systems ({shown}); the mean of segments stands for it"
        warn(f"{', '.join(names)}: {what}.")
    return result
