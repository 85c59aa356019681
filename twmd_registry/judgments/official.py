"""Published scores of other metrics on a shared task's data, in the layout of mt-metrics-eval."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from twmd_registry.comparison.cells import EXTERNAL
from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.lines import digest_of_file, visible_files
from twmd_registry.files.score_files import read_score_file
from twmd_registry.judgments.mt_metrics_eval import (
    GROUPINGS,
    REFERENCE,
    SHOWN,
    SOURCE,
    LanguagePair,
    places_of,
    read_mt_metrics_eval,
    read_scores,
)
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import parse_name
from twmd_registry.messages import listed, warn


class LabelledScores(NamedTuple):
    """A metric's scores of rated segments, under a unique label; a published metric may also have scores of systems.

    Attributes:
        label: The label.
        signature: The signature.
        scores: One per segment.
        systems: Published scores of systems, with group and system.
    """

    label: str
    signature: str
    scores: tuple[float, ...]
    systems: frozenset[tuple[str, str, float]] = frozenset()


def domain_places(rated: RatedSegments) -> set[tuple[str, str]]:
    """Return every domain, as the group ``PAIR DOMAIN``, with each of its systems; nothing without domains."""
    rows = zip(rated.group, rated.domain or [], rated.system or [], strict=False)
    return {(f"{group} {domain}", system) for group, domain, system in rows if domain}


class Layout(NamedTuple):
    """A folder in the layout of mt-metrics-eval, its language pairs by name, and the keys of the data's name."""

    folder: Path
    pairs: dict[str, LanguagePair]
    keys: dict[str, str]


def parse_layout(text: str, rated: RatedSegments) -> Layout:
    """Return the layout of rated data; raise SpecError for data of another format."""
    read, folder, keys = parse_name(text)
    if read is not read_mt_metrics_eval:
        raise SpecError(f"{text}: published scores need data in the layout of mt-metrics-eval, mte:FOLDER.")
    names = sorted({name for name, _ in places_of(rated.item or [])})
    return Layout(folder, {name: LanguagePair(folder, name) for name in names}, keys)


def read_official(text: str, rated: RatedSegments) -> list[LabelledScores]:
    """Read the published scores of every metric that has scored all rated segments.

    Files are ``metric-scores/PAIR/NAME-REFERENCE.{seg,sys,domain,doc}.score``, for the reference that `text`
    (``mte:FOLDER,...``) names or for none. Warns about all other files.
    """
    folder, pairs, keys = parse_layout(text, rated)
    reference = keys.get("reference", REFERENCE)
    files: dict[str, dict[str, Path]] = {}
    unread = list[str]()
    for pair in pairs.values():
        sides, paths = {reference, SOURCE, ".".join(pair.reference_names(reference))}, set[Path]()
        score_files = visible_files(folder / "metric-scores" / pair.name, "*.score")
        for path in score_files:
            name, _, side = path.name.removesuffix(".seg.score").rpartition("-")
            if side in sides:  # no side ends like another level's files
                files.setdefault(name, {})[pair.name] = path
                paths |= {path, *_levels_of(path)}
        unread += [f"{pair.name}/{path.name}" for path in score_files if path not in paths]
    if unread:
        form = f"NAME-{reference}.LEVEL.score or NAME-{SOURCE}.LEVEL.score, with a .seg.score each"
        warn(f"{folder}/metric-scores: expected {form}; skipped: {', '.join(unread)}.")
    if not files:
        raise FileError(f"{folder}/metric-scores contains no NAME-{reference}.seg.score for {', '.join(pairs)}.")
    result, lacking = list[LabelledScores](), list[str]()
    rows = list(zip(places_of(rated.item or []), rated.system or [], strict=True))
    for name, by_pair in sorted(files.items()):
        read = {pair: read_scores(path, pairs[pair].segments) for pair, path in by_pair.items()}
        scores = [read[pair][system][k] if system in read.get(pair, ()) else None for (pair, k), system in rows]
        if missing := Counter(pair for ((pair, _), _), score in zip(rows, scores, strict=True) if score is None):
            lacking.append(f"{name} ({', '.join(f'{number} of {pair}' for pair, number in missing.items())})")
            continue
        levels = [(pair, file) for pair, path in by_pair.items() for file in _levels_of(path)]
        systems = dict[tuple[str, str], float]()
        for name_of_pair, file in levels:
            systems |= pairs[name_of_pair].read_system_scores(file)
        contents = (file.read_bytes() for path in by_pair.values() for file in (path, *_levels_of(path)))
        digest = digest_of_file(b"".join(contents))[:12]
        known = tuple(score for score in scores if score is not None)
        of_systems = frozenset((*place, score) for place, score in systems.items())
        result.append(LabelledScores(f"{name}*", f"official:{name}@{digest}", known, of_systems))
    if lacking:
        left_out = f"metrics left out, with the number of rated segments without a score: {', '.join(lacking)}"
        warn(f"{folder}: {left_out}; pair=PAIR after the folder compares one language pair.")
    return result


def rate_external(name: str, paths: Sequence[Path], rated: RatedSegments) -> LabelledScores:
    """Read another program's scores of rated segments from one file.

    The file has a score for every row of the data, in order, or for every system by name, in the order of its segments.
    Raises FileError, which names the row, if they do not fit the data.
    """
    if len(paths) != 1:
        raise SpecError(f"--scores {name}: expected one file for the rated data, not {len(paths)}.")
    file, number = read_score_file(paths[0], name), len(rated.ratings)
    if list(file.scores) == [None]:
        scores = file.scores[None]
        if len(scores) != number:
            raise FileError(f"{file.name} has {len(scores)} scores; expected {number}, one per rated segment.")
    else:
        scores = _pick_rated(file.name, file.by_system([*dict.fromkeys(rated.system or [])]), rated)
    signature = f"{EXTERNAL}{name}|from:{file.short_name}|sha256:{file.sha256}|verifiable:no"
    return LabelledScores(name, signature, tuple(scores))


def _pick_rated(file: str, by_system: dict[str, list[float]], rated: RatedSegments) -> list[float]:
    """Return the scores of rated rows, given scores by system, either of all its segments or of the rated ones."""
    systems, known = rated.system or [], Counter(rated.system or [])
    numbered = re.compile(r".+:[1-9][0-9]*")
    has_places = rated.item is not None and all(map(numbered.fullmatch, rated.item))
    places, seen, scores = places_of(rated.item or []) if has_places else [], Counter[str](), list[float]()
    if len({pair for pair, _ in places}) > 1:  # a number does not locate the segment of a later pair
        places = []
    for row, system in enumerate(systems):
        values = by_system.get(system)
        if values is None:
            raise FileError(f"{file} has no scores of system {system!r} (rated segment {row + 1}).")
        place = seen[system] if len(values) == known[system] or not places else places[row][1]
        seen[system] += 1
        if len(values) < known[system] or place >= len(values) or (not places and len(values) != known[system]):
            raise FileError(f"{file} has {len(values)} scores of {system}, but {known[system]} segments are rated.")
        scores.append(values[place])
    return scores


def _levels_of(path: Path) -> list[Path]:
    """Return the files of system scores next to a file of segment scores."""
    stem = path.name.removesuffix(".seg.score")
    files = (path.with_name(f"{stem}.{level}.score") for level in GROUPINGS.values())
    return [file for file in files if file.is_file()]


def published_systems(metrics: Sequence[object], rated: RatedSegments) -> list[dict[tuple[str, str], float]]:
    """Return every metric's published scores of systems by group and system; warn about missing ones."""
    derived, result = defaultdict[tuple[tuple[str, str], ...], list[str]](list), list[dict[tuple[str, str], float]]()
    for metric in metrics:
        scores = dict[tuple[str, str], float]()
        if isinstance(metric, LabelledScores):
            scores = {(group, system): score for group, system, score in metric.systems}
            places = domain_places(rated).union(zip(rated.group, rated.system or [], strict=True))
            derived[tuple(sorted(places - scores.keys()))].append(metric.label)
        result.append(scores)
    derived.pop((), None)
    for missing, names in derived.items():
        shown = listed((f"{system} of {group}" for group, system in missing), SHOWN)
        what = f"systems without a published score ({shown}); the mean over segments is used"
        warn(f"{', '.join(names)}: {what}.")
    return result
