"""Scores of other metrics that a metrics shared task has published, and the scores of ours that it asks for."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError, SpecError, warn
from twmd_registry.judgments.mt_metrics_eval import (
    ALL,
    GROUPINGS,
    RATING,
    REFERENCE,
    LanguagePair,
    places_of,
    read_mt_metrics_eval,
    read_scores,
    read_system_ratings,
)
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import DIGITS, FORMATS, parse_name

SOURCE = "src"
"""What files of metrics without a reference have in its place."""
SHOWN = 10
"""Systems that a warning names."""
Output = tuple[LanguagePair, str, str, list[str], list[str] | None, list[str] | None]
"""An output to be scored: its language pair, the names of reference and system, predictions, references, sources."""


class OfficialScores(NamedTuple):
    """A metric's published scores of rated segments, the hash of their files, and its published scores of systems.

    Those are by group (a language pair, or a domain or document of it) and system, and need not be means.
    """

    name: str
    content: str
    scores: tuple[float, ...]
    systems: frozenset[tuple[str, str, float]]


def read_divisions(text: str, rated: RatedSegments) -> RatedSegments:
    """Add to rated data the domains of segments, whether persons wrote them, and ratings of systems by domain."""
    pairs, keys = _parse_layout(text, rated)
    with_docs = {name: pair for name, pair in pairs.items() if pair.docs.is_file()}
    segments, systems = places_of(rated), rated.system or []
    people = [system in pairs[name].references for (name, _), system in zip(segments, systems, strict=True)]
    domains = [with_docs[name].documents[number][0] if name in with_docs else "" for name, number in segments]
    divided = rated._replace(domain=domains, by_person=people)
    ending = f"{keys.get('rating', RATING)}.domain.score"
    ratings = (rated.system_ratings or {}) | read_system_ratings(with_docs.values(), ending, _domain_places(divided))
    return divided._replace(system_ratings=ratings or None)


def _domain_places(rated: RatedSegments) -> set[tuple[str, str]]:
    """Return every domain, as a group ``PAIR DOMAIN``, and system of it; nothing where domains are not read."""
    rows = zip(rated.group, rated.domain or [], rated.system or [], strict=False)
    return {(f"{group} {domain}", system) for group, domain, system in rows if domain}


def _parse_layout(text: str, rated: RatedSegments) -> tuple[dict[str, LanguagePair], dict[str, str]]:
    """Return the language pairs of rated data in the layout of mt-metrics-eval by name, and the keys of the data."""
    read, folder, keys = parse_name(text)
    if read is not read_mt_metrics_eval:
        forms = ", ".join(f"{name}:FOLDER" for name, reader in FORMATS.items() if reader is read_mt_metrics_eval)
        raise SpecError(f"{text}: published scores are read beside data in the layout of mt-metrics-eval, {forms}.")
    return {name: LanguagePair(folder, name) for name in sorted({name for name, _ in places_of(rated)})}, keys


def read_official(text: str, rated: RatedSegments) -> list[OfficialScores]:
    """Read ``metric-scores/PAIR/NAME-REFERENCE.{seg,sys,domain,doc}.score`` of every metric.

    Metrics of the reference that `text` names, ``mte:FOLDER,...``, are read, and those without one. Returns those that
    have a score of every rated segment, by ascending name; warnings name the others, and files of another form of name.
    """
    pairs, keys = _parse_layout(text, rated)
    folder, reference = parse_name(text)[1], keys.get("reference", REFERENCE)
    files: dict[str, dict[str, Path]] = {}
    unread, others = list[str](), dict[str, set[str]]()
    for pair in pairs.values():
        sides = {reference, SOURCE, ".".join(pair.reference_names(reference))}
        for path in sorted((folder / "metric-scores" / pair.name).glob("*.score")):
            name, _, side = path.name.removesuffix(".seg.score").rpartition("-")
            if not _has_form(path, {*pair.references, SOURCE, ALL}):
                unread.append(f"{pair.name}/{path.name}")
            elif side in sides:  # no side has the ending of another level
                files.setdefault(name, {})[pair.name] = path
            elif path.name.endswith(".seg.score"):
                others.setdefault(name, set()).add(side)
    if unread:
        form = "expected files NAME-REFERENCE.LEVEL.score of references that are there, with a .seg.score each"
        warn(f"{folder}/metric-scores: {form}; passed over: {', '.join(unread)}.")
    if not files:
        raise FileError(f"{folder}/metric-scores holds no NAME-{reference}.seg.score of {', '.join(pairs)}.")
    if unused := [f"{name} ({', '.join(sorted(own))})" for name, own in sorted(others.items()) if name not in files]:
        warn(f"{folder}: metrics without published scores by reference={reference}, left out: {', '.join(unused)}.")
    result, lacking = list[OfficialScores](), list[str]()
    for name, by_pair in sorted(files.items()):
        scores = _scores_of(by_pair, pairs, rated)
        missing = Counter(pair for (pair, _), score in zip(places_of(rated), scores, strict=True) if math.isnan(score))
        if missing:
            lacking.append(f"{name} ({', '.join(f'{number} of {pair}' for pair, number in missing.items())})")
            continue
        contents = (file.read_bytes() for path in by_pair.values() for file in (path, *_levels_of(path)))
        digest = hashlib.sha256(b"".join(contents)).hexdigest()[:DIGITS]
        result.append(OfficialScores(name, digest, scores, _systems_of(by_pair, pairs)))
    if lacking:
        remedy = "; pair=PAIR after the folder compares the metrics of one language pair" if len(pairs) > 1 else ""
        left_out = f"metrics left out, with the number of rated segments that they lack: {', '.join(lacking)}"
        warn(f"{folder}: {left_out}{remedy}.")
    return result


def _has_form(path: Path, known: set[str]) -> bool:
    """Return whether a file is ``NAME-REFERENCE.LEVEL.score`` of known references, beside scores of segments."""
    stem, _, level = path.name.removesuffix(".score").rpartition(".")
    name, _, side = stem.rpartition("-")
    named = bool(name) and set(side.split(".")) <= known and level in ("seg", *GROUPINGS.values())
    return named and path.is_file() and path.with_name(f"{stem}.seg.score").is_file()


def _scores_of(files: dict[str, Path], pairs: dict[str, LanguagePair], rated: RatedSegments) -> tuple[float, ...]:
    """Return the score of every rated segment; NaN where there is none."""
    by_pair = {name: read_scores(path, pairs[name].segments) for name, path in files.items()}
    scores = []
    for (name, number), system in zip(places_of(rated), rated.system or [], strict=True):
        own = by_pair.get(name, {}).get(system)
        score = own[number] if own else None
        scores.append(math.nan if score is None else score)
    return tuple(scores)


def _levels_of(path: Path) -> list[Path]:
    """Return the files of scores of systems beside one of scores of segments."""
    stem = path.name.removesuffix(".seg.score")
    files = (path.with_name(f"{stem}.{level}.score") for level in GROUPINGS.values())
    return [file for file in files if file.is_file()]


def _systems_of(files: dict[str, Path], pairs: dict[str, LanguagePair]) -> frozenset[tuple[str, str, float]]:
    systems = dict[tuple[str, str], float]()
    for name, path in files.items():
        for file in _levels_of(path):
            systems |= pairs[name].read_system_scores(file)
    return frozenset((*place, score) for place, score in systems.items())


def published_systems(metrics: Sequence[object], rated: RatedSegments) -> list[dict[tuple[str, str], float]]:
    """Return every metric's published scores of systems by group and system; warn of those that only have means."""
    derived, result = defaultdict[tuple[tuple[str, str], ...], list[str]](list), list[dict[tuple[str, str], float]]()
    for metric in metrics:
        scores = dict[tuple[str, str], float]()
        if isinstance(metric, OfficialScores):
            scores = {(group, system): score for group, system, score in metric.systems}
            places = _domain_places(rated).union(zip(rated.group, rated.system or [], strict=True))
            derived[tuple(sorted(places - scores.keys()))].append(f"{metric.name}*")
        result.append(scores)
    derived.pop((), None)
    for missing, names in derived.items():
        shown = ", ".join(f"{system} of {group}" for group, system in missing[:SHOWN])
        shown += f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        what = f"no published score of some systems ({shown}); the mean of segments stands for it"
        warn(f"{', '.join(names)}: {what}.")
    return result


def read_outputs(folder: Path, compared: Collection[str | None] = (None,)) -> list[Output]:
    """Read every output of a test set, with every reference but itself; a reference may be an output, too.

    `compared` has the values of the key ``against``: sources are read for ``source``, and references for None; without
    references an output is read once, and its reference is called `SOURCE`.
    """
    names = sorted(path.name for path in (folder / "system-outputs").glob("*") if path.is_dir())
    if not names:
        raise FileError(f"{folder}/system-outputs holds no folder of a language pair.")
    result = list[Output]()
    for pair in (LanguagePair(folder, name) for name in names):
        sources = pair.read_texts(pair.sources) if "source" in compared else None
        references: dict[str, list[str] | None] = {SOURCE: None}
        if None in compared:
            references = {name: pair.read_reference(name) for name in pair.references}
        if not references:
            raise FileError(f"{folder}/references holds no {pair.name}.NAME.txt.")
        outputs = {system: pair.read_texts(path) for system, path in pair.outputs.items()}
        if pair.docs.is_file() and any(domain == ALL for domain, _ in pair.documents):
            raise FileError(f"{pair.docs}: {ALL!r} is no domain: the shared task means all segments by it.")
        for name in (pair.name, *references, *outputs):
            if not name.isprintable() or len(name.split()) != 1:
                raise FileError(f"{folder}: {name!r} of {pair.name}: names in score files have no white space.")
        own = [(name, system) for name in references for system in outputs if system != name]
        if not own:
            raise FileError(f"system-outputs/{pair.name} holds no SYSTEM.txt to be scored.")
        result += [(pair, name, system, outputs[system], references[name], sources) for name, system in own]
    return result


def submission_files(
    name: str, year: str, outputs: Sequence[Output], scores: Sequence[tuple[float, Sequence[float]]]
) -> dict[str, str]:
    """Return the files of a submission, by path; `scores` has, by output, the score of all segments and of each.

    ``NAME.sys.score`` and ``NAME.seg.score`` are tables of the shared task: metric, language pair, test set, domain,
    (document,) reference, system, (segment number,) score; a domain's score of a system is the mean of its segments.
    ``metric-scores/PAIR/NAME-REFERENCE.{sys,domain,seg}.score`` are what mt-metrics-eval reads.
    """
    files: dict[str, list[tuple[object, ...]]] = {f"{name}.sys.score": [], f"{name}.seg.score": []}
    for (pair, reference, system, *_), (score, segments) in zip(outputs, scores, strict=True):
        documents = pair.documents if pair.docs.is_file() else [(ALL, pair.name)] * pair.segments
        folder, by_domain = f"metric-scores/{pair.name}/{name}-{reference}", dict[str, list[float]]()
        for (domain, _), segment in zip(documents, segments, strict=True):
            by_domain.setdefault(domain, []).append(segment)
        means = {domain: sum(own) / len(own) for domain, own in by_domain.items()}
        start = name, pair.name, year
        files[f"{name}.sys.score"] += [
            (*start, domain, reference, system, mean) for domain, mean in (means | {ALL: score}).items()
        ]
        files.setdefault(f"{folder}.sys.score", []).append((system, score))
        files.setdefault(f"{folder}.domain.score", []).extend((domain, system, mean) for domain, mean in means.items())
        files[f"{name}.seg.score"] += [
            (*start, *place, reference, system, number, segment)
            for number, (place, segment) in enumerate(zip(documents, segments, strict=True), 1)
        ]
        files.setdefault(f"{folder}.seg.score", []).extend((system, segment) for segment in segments)
    return {path: "".join("\t".join(map(str, row)) + "\n" for row in rows) for path, rows in files.items()}
