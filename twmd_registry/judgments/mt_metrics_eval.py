"""Data in the layout of mt-metrics-eval: a folder per test set. Most files have a line per segment.

Texts are lines of ``.txt`` or fields of ``.jsonl``. There are ratings, and published scores of other metrics.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import NoReturn

from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.compressed import read_content
from twmd_registry.files.lines import check_lines, read_lines, visible_files
from twmd_registry.files.tables import read_rating, read_rows
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather
from twmd_registry.messages import menu, warn
from twmd_registry.registry.references import is_blank, present_references

UNRATED = "None"
RATING, REFERENCE, ALL = "mqm", "refA", "all"
"""Default rating and reference, and the name for all references together."""
SOURCE = "src"
"""Replaces a missing reference in the file names of metrics."""
MISSING_TEXT = "[No translation supplied]"
"""Line that marks a missing text."""
FIELDS = {"sources": "source", "references": "target"}
"""Field with the text in JSON lines, by folder; ``hypothesis`` for outputs."""
SHOWN = 10
GROUPINGS = {"pair": "sys", "domain": "domain", "document": "doc"}
"""Groupings within each language pair, and the infix of the files that score systems in each group."""
OUTLIERS = resources.files("twmd_registry").joinpath("data/outliers.toml")
"""Systems that the shared task left out of its rankings, by year and language pair."""


class LanguagePair:
    """A language pair of a test set. Its files are read on demand and may raise FileError."""

    def __init__(self, folder: Path, name: str) -> None:
        """List its files."""
        self.folder, self.name = folder, name
        found = _list_texts(folder / "references", f"{name}.*")
        self.references = {stem.removeprefix(f"{name}."): path for stem, path in found.items()}
        self.outputs = _list_texts(folder / "system-outputs" / name, "*")
        self.sources = _list_texts(folder / "sources", name).get(name, folder / "sources" / f"{name}.txt")
        self.docs = folder / "documents" / f"{name}.docs"
        self._read = dict[Path, list[str | None]]()

    @cached_property
    def segments(self) -> int:
        """The number of segments: the most common number of lines in references, outputs and sources."""
        files = [*self.references.values(), *self.outputs.values(), *[self.sources] * self.sources.is_file()]
        counts = Counter(len(self._read_file(path)) for path in files)
        return max(counts, key=counts.__getitem__, default=0)  # ties go to the first

    @cached_property
    def documents(self) -> list[tuple[str, str]]:
        """Every segment's domain and document, from ``documents/PAIR.docs``."""
        return read_docs(self.docs, self.segments)

    def _read_file(self, path: Path) -> list[str | None]:
        """Read a file of texts once; None for a missing text."""
        if path not in self._read:
            if path.suffix == ".txt":
                lines: Iterable[str | None] = read_lines(path)
                check_lines(path, [line or "" for line in lines])
            else:
                field = FIELDS.get(path.parent.name, "hypothesis")
                rows = read_rows(path, read_content(path), ".jsonl")
                lines = (None if row.take(field) is None else row.text(field) for row in rows)
            self._read[path] = [None if line is None or line.strip() == MISSING_TEXT else line for line in lines]
        return self._read[path]

    def read_texts(self, path: Path) -> list[str | None]:
        """Read one text per segment, None if missing; raise FileError if the number of lines is wrong."""
        texts = self._read_file(path)
        if len(texts) != self.segments:
            raise FileError(f"{path} has {len(texts)} lines; expected {self.segments}, one per segment of the pair.")
        return texts

    def read_reference(self, name: str) -> list[str | None]:
        """Read a reference; the error for a missing one lists the choices."""
        if name not in self.references:
            _refuse(self.folder / "references" / f"{self.name}.{name}.txt", name, list(self.references))
        return self.read_texts(self.references[name])

    def reference_names(self, reference: str) -> list[str]:
        """Return the names of the references for ``refA``, ``refA.refB`` or ``all``."""
        return list(self.references) if reference == ALL else reference.split(".")

    def read_system_scores(self, path: Path) -> dict[tuple[str, str], float]:
        """Read scores of systems by group and system.

        A group is the pair, ``PAIR DOMAIN`` or ``PAIR DOCUMENT``. A ``.doc.score`` lists a system's documents in order.
        """
        level = path.name.split(".")[-2]
        if level == "domain":
            rows = read_scores(path, 1, unit="domain")
            by_name = {(f"{self.name} {name.split()[0]}", name.split()[1]): score for name, (score,) in rows.items()}
        else:
            documents = dict.fromkeys(name for _, name in self.documents) if level == "doc" else {}
            groups = [f"{self.name} {document}" for document in documents] or [self.name]
            rows = read_scores(path, len(groups), unit="document" if documents else "system")
            by_name = {(group, system): values[k] for system, values in rows.items() for k, group in enumerate(groups)}
        return {place: score for place, score in by_name.items() if score is not None}


def _list_texts(folder: Path, pattern: str) -> dict[str, Path]:
    """List text files by name without suffix; raise FileError for two files with the same name."""
    files: dict[str, Path] = {}
    for path in sorted([*visible_files(folder, f"{pattern}.txt"), *visible_files(folder, f"{pattern}.jsonl")]):
        if (other := files.setdefault(path.stem, path)) != path:
            raise FileError(f"{folder} contains both {other.name} and {path.name}: keep one of them.")
    return files


def read_docs(path: Path, segments: int) -> list[tuple[str, str]]:
    """Read every segment's domain and document from lines of ``DOMAIN<TAB>DOCUMENT``."""
    rows = [line.split() for line in read_lines(path)]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise FileError(f"{path}, row {number}: expected a domain and a document, not {' '.join(row)!r}.")
    if len(rows) != segments:
        raise FileError(f"{path} has {len(rows)} lines; expected {segments}, one per segment.")
    return [(domain, document) for domain, document in rows]


def read_scores(path: Path, segments: int, *, unit: str = "segment") -> dict[str, list[float | None]]:
    """Read every system's scores, one per segment or other unit, in the order of the file.

    With ``unit=domain``, rows start with a domain and scores are keyed by ``DOMAIN SYSTEM``.
    """
    scores: dict[str, list[float | None]] = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split()  # any white space, as in mt-metrics-eval
        if len(fields) != 2 + (unit == "domain"):
            expected = "DOMAIN<TAB>SYSTEM<TAB>SCORE" if unit == "domain" else "SYSTEM<TAB>SCORE"
            raise FileError(f"{path}, row {number}: expected {expected}, not {line!r}.")
        value = None if fields[-1] == UNRATED else read_rating(fields[-1], f"{path}, row {number}")
        scores.setdefault(" ".join(fields[:-1]), []).append(value)
    for system, values in scores.items():
        if len(values) != segments:
            raise FileError(f"{path} has {len(values)} scores of {system}; expected {segments}, one per {unit}.")
    return scores


def places_of(items: Iterable[str]) -> list[tuple[str, int]]:
    """Return every item's language pair and its number there, from 0."""
    return [(pair, int(number) - 1) for pair, _, number in (item.rpartition(":") for item in items)]


def read_mt_metrics_eval(
    folder: Path,
    *,
    pair: str | None = None,
    rating: str = RATING,
    reference: str = REFERENCE,
    humans: str = "no",
    without: str | None = None,
    group: str = "pair",
) -> RatedSegments:
    """Read the rated segments of every system, grouped by language pair. Items are called ``PAIR:NUMBER``.

    Warns about everything that is left out. If there are system scores in addition to segment ratings, they become
    the systems' ratings.

    Args:
        folder: The test set.
        pair: A language pair; all rated ones by default.
        rating: The ratings.
        reference: ``refA``, several as ``refA.refB``, or ``all``.
        humans: ``yes`` also reads other references that were rated like systems.
        without: Systems to leave out, as ``A+B``, or ``none``; by default the year's `OUTLIERS`.
        group: One of `GROUPINGS`.

    Returns:
        The rated segments.
    """
    if humans not in {"yes", "no"}:
        raise SpecError(f"humans={humans}: expected yes or no.")
    if group not in GROUPINGS:
        raise SpecError(f"group={group}: unknown grouping; {menu(group, GROUPINGS)}.")
    pairs = [LanguagePair(folder, name) for name in ([pair] if pair else _pairs_with(folder, rating))]
    outliers, read = _name_outliers(folder, pairs, without), list[RatedRow]()
    for languages in pairs:
        read += _read_pair(languages, rating, reference, with_humans=humans == "yes", outliers=outliers[languages.name])
    if group != "pair":
        column, documents = list(GROUPINGS).index(group) - 1, {pair.name: pair.documents for pair in pairs}
        for k, (name, number) in enumerate(places_of(str(row.item) for row in read)):
            read[k] = read[k]._replace(group=f"{name} {documents[name][number][column]}")
    where = f"{folder.resolve()}, {rating} of {', '.join(languages.name for languages in pairs)}"
    rated = gather(read, where, "segments without a rating, a reference or a translation")
    places = set(zip(rated.group, rated.system or [], strict=True))
    ratings = read_system_ratings(pairs, f"{rating}.{GROUPINGS[group]}.score", places)
    if all(languages.sources.is_file() for languages in pairs):
        texts = {languages.name: languages.read_texts(languages.sources) for languages in pairs}
        rated = rated._replace(source=[texts[name][i] or "" for name, i in places_of(rated.item or [])])
    return rated._replace(system_ratings=ratings or None)


def _name_outliers(folder: Path, pairs: Collection[LanguagePair], without: str | None) -> dict[str, set[str]]:
    """Return the systems to leave out, by language pair."""
    years = tomllib.loads(OUTLIERS.read_text(encoding="utf-8")) if without is None else {}
    by_year = years.get(folder.resolve().name, {})
    names = set() if without in {None, "none"} else set(str(without).split("+"))
    known = {system for pair in pairs for system in pair.outputs}
    if unknown := sorted(names - known):
        raise SpecError(f"without={unknown[0]}: unknown system; {menu(unknown[0], sorted(known))}.")
    return {pair.name: names | set(by_year.get(pair.name, "").split("+")) - {""} for pair in pairs}


def read_system_ratings(
    pairs: Iterable[LanguagePair], ending: str, places: Collection[tuple[str, str]]
) -> dict[tuple[str, str], float]:
    """Read human scores of systems by group and name; warn about systems without one."""
    ratings = dict[tuple[str, str], float]()
    for pair in pairs:
        path = pair.folder / "human-scores" / f"{pair.name}.{ending}"
        ratings |= pair.read_system_scores(path) if path.is_file() else {}
    rest = [f"{system} of {group}" for group, system in sorted(places) if (group, system) not in ratings]
    if ratings and rest:
        warn(f"systems without a human score; the mean of their segments' ratings is used: {', '.join(rest)}.")
    return {place: ratings[place] for place in places if place in ratings}


def _score_names(folder: Path) -> list[str]:
    """List ``PAIR.RATING`` for every file of segment ratings; only the rating may contain dots."""
    ending = ".seg.score"
    return [path.name.removesuffix(ending) for path in visible_files(folder / "human-scores", f"*{ending}")]


def _pairs_with(folder: Path, rating: str) -> list[str]:
    names = [name.partition(".") for name in _score_names(folder)]
    result = [pair for pair, _, name in names if name == rating]
    if not result:
        choices = dict.fromkeys(name for _, _, name in names)
        _refuse(folder / "human-scores" / f"PAIR.{rating}.seg.score", rating, list(choices))
    return result


def _refuse(path: Path, word: str, choices: list[str]) -> NoReturn:
    """Raise FileError for a missing file, with the alternatives."""
    raise FileError(f"{path}: No such file or directory; {menu(word, choices) if choices else 'there are no others'}.")


def _read_pair(
    pair: LanguagePair, rating: str, reference: str, *, with_humans: bool, outliers: set[str]
) -> list[RatedRow]:
    names = pair.reference_names(reference)
    sides = [pair.read_reference(name) for name in names]
    references = [present_references(texts) for texts in zip(*sides, strict=True)]
    path = pair.folder / "human-scores" / f"{pair.name}.{rating}.seg.score"
    if not path.is_file():
        _refuse(path, f"{pair.name}.{rating}", _score_names(pair.folder))
    scores = read_scores(path, pair.segments)
    people = set() if with_humans else scores.keys() & pair.references.keys() - {*names, *outliers}
    left = {*names, *people, *outliers}
    for what, group, remedy in (
        ("the reference, rated like a system", set(names), ""),
        ("outliers", outliers - set(names), " (without=none reads them)"),
        ("human translations", people, " (humans=yes reads them)"),
    ):
        if systems := ", ".join(sorted(scores.keys() & group)):
            warn(f"{path}: {what}, left out: {systems}{remedy}.")
    scores = {system: values for system, values in scores.items() if system not in left}
    folder = pair.folder / "system-outputs" / pair.name
    if not pair.outputs:
        raise FileError(f"{folder} contains no SYSTEM.txt or SYSTEM.jsonl: expected a file per rated system.")
    if without := ", ".join(system for system in scores if system not in pair.outputs):
        warn(f"{folder}: no output of systems that {path.name} rates; left out: {without}.")
    if unrated := ", ".join(system for system in pair.outputs if system not in {*left, *scores}):
        warn(f"{path}: systems with output but without ratings, left out: {unrated}.")
    rows: list[RatedRow] = []
    for system in (system for system in scores if system in pair.outputs):
        texts = pair.read_texts(pair.outputs[system])
        for number, (score, text, refs) in enumerate(zip(scores[system], texts, references, strict=True), 1):
            item, place = f"{pair.name}:{number}", f"segment {number} of {system}"
            known = score if text is not None and not is_blank(refs[0]) else None
            rows.append(RatedRow(pair.name, text or "", refs, known, item, system, place))
    return rows
