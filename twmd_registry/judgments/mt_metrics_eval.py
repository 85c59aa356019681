"""The layout of mt-metrics-eval: a folder per test set with references, outputs, ratings and documents.

Files are of a language pair, and most have a line per segment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from twmd_registry.errors import FileError, SpecError, menu, warn
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather
from twmd_registry.judgments.reader import read_content, read_lines, read_rating

UNRATED = "None"
RATING, REFERENCE, ALL = "mqm", "refA", "all"
"""The ratings that are read, and the reference that systems are compared with, unless others are asked for; the name of
all references together."""
GROUPINGS = {"pair": "sys", "domain": "domain", "document": "doc"}
"""What may group segments, within each language pair, and the level of the files with scores of systems in each."""
OUTLIERS = {
    "wmt20": {
        "cs-en": "zlabs-nlp.1149+CUNI-DocTransformer.1457",
        "de-en": "yolo.1052+zlabs-nlp.1153+WMTBiomedBaseline.387",
        "en-cs": "zlabs-nlp.1151+Online-G.1555",
        "en-de": "zlabs-nlp.179+WMTBiomedBaseline.388+Online-G.1556",
        "en-iu": "UEDIN.1281+OPPO.722+UQAM_TanLe.521",
        "en-ja": "Online-G.1557+SJTU-NICT.370",
        "en-pl": "Online-Z.1634+zlabs-nlp.180+Online-A.1576",
        "en-ta": "TALP_UPC.1049+SJTU-NICT.386+Online-G.1561",
        "iu-en": "NiuTrans.1206+Facebook_AI.729",
        "ja-en": "Online-G.1564+zlabs-nlp.66+Online-Z.1640",
        "pl-en": "zlabs-nlp.1162",
        "ru-en": "zlabs-nlp.1164",
        "ta-en": "Online-G.1568+TALP_UPC.192",
        "zh-en": "WMTBiomedBaseline.183",
    },
    "wmt22": {"en-de": "M2M100_1.2B-B4"},
    "wmt23": {"en-de": "synthetic_ref", "zh-en": "synthetic_ref"},
}
"""Systems that the shared task has left out of its rankings, by the folder of the year and language pair: the list of
mt-metrics-eval."""


class LanguagePair:
    """A language pair of a test set; its files are read when they are asked for, and raise FileError.

    `references` has ``references/PAIR.NAME.txt`` by name, `outputs` has ``system-outputs/PAIR/SYSTEM.txt`` by system.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """List its files."""
        self.folder, self.name = folder, name
        files = ((path.stem.removeprefix(f"{name}."), path) for path in (folder / "references").glob(f"{name}.*.txt"))
        self.references = dict(sorted(files))
        self.outputs = {path.stem: path for path in sorted((folder / "system-outputs" / name).glob("*.txt"))}
        self.sources = folder / "sources" / f"{name}.txt"
        self.docs = folder / "documents" / f"{name}.docs"

    @cached_property
    def segments(self) -> int:
        """The number of segments: the lines of most of its references, outputs and sources."""
        files = [*self.references.values(), *self.outputs.values(), *[self.sources] * self.sources.is_file()]
        counts = Counter(read_content(path).removesuffix(b"\n").count(b"\n") + 1 for path in files)
        return max(counts, key=counts.__getitem__, default=0)  # the first of several

    @cached_property
    def documents(self) -> list[tuple[str, str]]:
        """The domain and the document of every segment, from ``documents/PAIR.docs``."""
        return read_docs(self.docs, self.segments)

    def read_texts(self, path: Path) -> list[str]:
        """Read a text per segment; refuse another number of lines."""
        texts = read_lines(path)
        if len(texts) != self.segments:
            wanted = f"expected {self.segments}, one per segment, as its language pair has"
            raise FileError(f"{path} has {len(texts)} lines; {wanted}.")
        return texts

    def read_reference(self, name: str) -> list[str]:
        """Read a reference, a text per segment; an error for a missing one has the choices."""
        if name not in self.references:
            path = self.folder / "references" / f"{self.name}.{name}.txt"
            if self.references:
                _refuse(path, name, list(self.references))
            _refuse(path, self.name, sorted({file.name.partition(".")[0] for file in path.parent.glob("*.*.txt")}))
        return self.read_texts(self.references[name])

    def reference_names(self, reference: str) -> list[str]:
        """Return the names of the references that ``refA``, ``refA.refB`` or ``all`` stands for."""
        return list(self.references) if reference == ALL else reference.split(".")

    def read_system_scores(self, path: Path) -> dict[tuple[str, str], float]:
        """Read scores of systems by group and system: of the pair (``.sys.score``), a domain or a document.

        A document's group is ``PAIR DOCUMENT``, a domain's ``PAIR DOMAIN``; a ``.doc.score`` has a system's documents
        in their order.
        """
        level = path.name.split(".")[-2]
        if level == "domain":
            domains = dict.fromkeys(domain for domain, _ in self.documents) if self.docs.is_file() else {}
            rows = read_scores(path, 1, unit="domain", domains=domains)
            by_name = {(f"{self.name} {name.split()[0]}", name.split()[1]): score for name, (score,) in rows.items()}
        else:
            documents = dict.fromkeys(name for _, name in self.documents) if level == "doc" else {}
            groups = [f"{self.name} {document}" for document in documents] or [self.name]
            rows = read_scores(path, len(groups), unit="document" if documents else "system")
            by_name = {(group, system): own[k] for system, own in rows.items() for k, group in enumerate(groups)}
        return {place: score for place, score in by_name.items() if score is not None}


def read_docs(path: Path, segments: int) -> list[tuple[str, str]]:
    """Read the domain and the document of every segment: a line ``DOMAIN<TAB>DOCUMENT`` for each."""
    rows = [line.split() for line in read_lines(path)]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise FileError(f"{path}, row {number}: expected a domain and a document, got {' '.join(row)!r}.")
    if len(rows) != segments:
        raise FileError(f"{path}: expected {segments} lines, one per segment; got {len(rows)}.")
    return [(domain, document) for domain, document in rows]


def read_scores(
    path: Path, segments: int, *, unit: str = "segment", domains: Collection[str] | None = None
) -> dict[str, list[float | None]]:
    """Read every system's scores, one per segment (or other unit), in the order of the file; ``None`` where it says so.

    With `domains`, rows begin with one of them (or any, if there is none), and scores are by ``DOMAIN SYSTEM``.
    """
    scores: dict[str, list[float | None]] = {}
    numbers: dict[str, list[int]] = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split()  # of mt-metrics-eval: any white space
        if len(fields) != 2 + (domains is not None):
            expected = "DOMAIN<TAB>SYSTEM<TAB>SCORE" if domains is not None else "SYSTEM<TAB>SCORE"
            raise FileError(f"{path}, row {number}: expected {expected}, got {line!r}.")
        if domains and fields[0] not in domains:
            raise FileError(f"{path}, row {number}: no segment is of domain {fields[0]}; {menu(fields[0], domains)}.")
        name, score = " ".join(fields[:-1]), fields[-1]
        value = None if score == UNRATED else read_rating(score, f"{path}, row {number}", what="None or a score")
        scores.setdefault(name, []).append(value)
        numbers.setdefault(name, []).append(number)
    if not scores:
        raise FileError(f"{path} is empty: expected lines with a system and a score.")
    for system, rows in numbers.items():
        if len(rows) != segments:
            which = f"score {len(rows)} of {system} is the last"
            if len(rows) > segments:
                which = f"this is score {segments + 1} of {len(rows)} of {system}"
            raise FileError(f"{path}, row {rows[: segments + 1][-1]}: {which}; expected {segments}, one per {unit}.")
    return scores


def places_of(rated: RatedSegments) -> list[tuple[str, int]]:
    """Return the language pair of every segment, and its number there, from 0."""
    return [(pair, int(number) - 1) for pair, _, number in (item.rpartition(":") for item in rated.item or [])]


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
    """Read the rated segments of every system, grouped by language pair; items are called ``PAIR:NUMBER``.

    Higher ratings are better (MQM counts errors below 0). What is left out is counted or named in a warning.
    ``.sys.score``, ``.domain.score`` or ``.doc.score`` beside the ratings of segments are those of systems.

    Args:
        folder: A year's, see `LanguagePair`; ratings are ``human-scores/PAIR.RATING.seg.score``.
        pair: A language pair; None for all that have the rating.
        rating: The kind of rating, such as mqm, wmt-z, wmt-raw or da-sqm.
        reference: Which reference the systems are compared with, several as ``refA.refB``, or ``all``.
        humans: ``yes`` reads other references that were rated like systems; the shared task ranks none.
        without: Systems to leave out, as ``A+B``, or ``none``; by default the year's of `OUTLIERS`.
        group: ``domain`` or ``document`` groups segments by it within each pair, as ``en-de news``.
    """
    if humans not in {"yes", "no"}:
        raise SpecError(f"humans={humans}: expected yes or no.")
    if group not in GROUPINGS:
        raise SpecError(f"group={group}: there is no such grouping; {menu(group, GROUPINGS)}.")
    pairs = [LanguagePair(folder, name) for name in ([pair] if pair else _pairs_with(folder, rating))]
    outliers, read = _name_outliers(folder, pairs, without), list[RatedRow]()
    for each in pairs:
        read += _read_pair(each, rating, reference, with_humans=humans == "yes", outliers=outliers[each.name])
    if group != "pair":
        column = list(GROUPINGS).index(group) - 1
        labels = {
            f"{each.name}:{number}": f"{each.name} {places[column]}"
            for each in pairs
            for number, places in enumerate(each.documents, 1)
        }
        read = [row._replace(group=labels[str(row.item)]) for row in read]
    where = f"{folder.resolve()}, {rating} of {', '.join(each.name for each in pairs)}"
    rated = gather(read, where, "segments without a rating or a reference")
    places = set(zip(rated.group, rated.system or [], strict=True))
    ratings = read_system_ratings(pairs, f"{rating}.{GROUPINGS[group]}.score", places)
    return rated._replace(source=_read_sources(pairs, rated), system_ratings=ratings or None)


def _name_outliers(folder: Path, pairs: Collection[LanguagePair], without: str | None) -> dict[str, set[str]]:
    """Return the systems to leave out, by language pair."""
    by_year = OUTLIERS.get(folder.resolve().name, {}) if without is None else {}
    given = set() if without in {None, "none"} else set(str(without).split("+"))
    known = {system for pair in pairs for system in pair.outputs}
    if unknown := sorted(given - known):
        raise SpecError(f"without={unknown[0]}: there is no such system; {menu(unknown[0], sorted(known))}.")
    return {pair.name: given | set(by_year.get(pair.name, "").split("+")) - {""} for pair in pairs}


def read_system_ratings(
    pairs: Iterable[LanguagePair], ending: str, places: Collection[tuple[str, str]]
) -> dict[tuple[str, str], float]:
    """Read people's scores of systems, given by group and name; warn of systems without output or without a score."""
    ratings = dict[tuple[str, str], float]()
    for pair in pairs:
        path = pair.folder / "human-scores" / f"{pair.name}.{ending}"
        own = pair.read_system_scores(path) if path.is_file() else {}
        if unknown := {system for _, system in own} - pair.outputs.keys() - pair.references.keys():
            warn(f"{path}: systems without output, left out: {', '.join(sorted(unknown))}.")
        ratings |= own
    rest = [f"{system} of {group}" for group, system in sorted(places) if (group, system) not in ratings]
    if ratings and rest:
        warn(f"no human score of some systems; the mean of their segments' ratings stands for it: {', '.join(rest)}.")
    return {place: ratings[place] for place in places if place in ratings}


def _read_sources(pairs: Iterable[LanguagePair], rated: RatedSegments) -> list[str] | None:
    """Return the source of every segment; None where a language pair has no file."""
    places = places_of(rated)
    used = {pair.name: pair for pair in pairs if pair.name in {name for name, _ in places}}
    if not all(pair.sources.is_file() for pair in used.values()):
        return None
    texts = {name: pair.read_texts(pair.sources) for name, pair in used.items()}
    return [texts[name][i] for name, i in places]


def _score_names(folder: Path, level: str) -> list[str]:
    """List ``PAIR.RATING`` of every file of ratings at a level; a rating may have dots, a pair has none."""
    ending = f".{level}.score"
    return sorted(path.name.removesuffix(ending) for path in (folder / "human-scores").glob(f"*{ending}"))


def _pairs_with(folder: Path, rating: str) -> list[str]:
    every = {name for level in ("seg", "sys") for name in _score_names(folder, level)}
    names = [name.partition(".") for name in sorted(every)]
    result = [pair for pair, _, kind in names if kind == rating]
    if not result:
        choices = dict.fromkeys(kind for _, _, kind in names)
        _refuse(folder / "human-scores" / f"PAIR.{rating}.seg.score", rating, list(choices))
    return result


def _read_ratings(pair: LanguagePair, rating: str) -> tuple[Path, dict[str, list[float | None]]]:
    """Read the ratings of every system's segments, and name their file; where only systems are rated, theirs."""
    folder, kind = pair.folder / "human-scores", f"{pair.name}.{rating}"
    path, systems = (folder / f"{kind}.{level}.score" for level in ("seg", "sys"))
    if path.is_file():
        return path, read_scores(path, pair.segments)
    if systems.is_file():
        warn(f"{systems}: only systems are rated, and their segments get these ratings: measure by --level system.")
        return systems, {system: own * pair.segments for system, own in read_scores(systems, 1).items()}
    names = _score_names(pair.folder, "seg")
    return _refuse(path, kind, [name for name in names if name.partition(".")[0] == pair.name] or names)


def _refuse(path: Path, word: str, choices: list[str]) -> NoReturn:
    """Refuse a file that is missing, with the choices of its kind."""
    raise FileError(
        f"{path}: No such file or directory; {menu(word, choices) if choices else 'nor any other of its kind'}."
    )


def _read_pair(
    pair: LanguagePair, rating: str, reference: str, *, with_humans: bool, outliers: set[str]
) -> list[RatedRow]:
    """Read all segments of a language pair."""
    names = pair.reference_names(reference)
    if len(set(names)) < len(names):
        raise SpecError(f"reference={reference}: a reference is named twice; expected each once.")
    sides = [pair.read_reference(name) for name in names]
    references = [[text for text in texts if text.strip()] for texts in zip(*sides, strict=True)]
    path, scores = _read_ratings(pair, rating)
    humans = scores.keys() & pair.references.keys() - {*names, *outliers}
    people = set() if with_humans else humans
    if with_humans and not humans:
        warn(f"{path}: humans=yes reads nothing more: no translation by people is rated beside {', '.join(names)}.")
    left = {*names, *people, *outliers}
    for what, rule, remedy in (
        ("the reference, rated like a system", set(names), ""),
        ("outliers", outliers - set(names), " (without=none reads them)"),
        ("translations by people", people, " (humans=yes reads them)"),
    ):
        if systems := ", ".join(sorted(scores.keys() & rule)):
            warn(f"{path}: {what}, left out: {systems}{remedy}.")
    scores = {system: own for system, own in scores.items() if system not in left}
    folder = pair.folder / "system-outputs" / pair.name
    if not pair.outputs:
        raise FileError(f"{folder} holds no SYSTEM.txt: expected a file per rated system.")
    rows: list[RatedRow] = []
    for system, own in scores.items():
        if system not in pair.outputs:
            own, texts = [None] * len(own), [""] * len(references)  # noqa: PLW2901
        else:
            texts = pair.read_texts(pair.outputs[system])
        for i, score in enumerate(own):
            item = f"{pair.name}:{i + 1}"
            if score is None or not references[i]:
                rows.append(RatedRow(pair.name, item=item, place=f"segment {i + 1} of {system}"))
            else:
                own_references = references[i] if len(names) > 1 else references[i][0]
                rows.append(RatedRow(pair.name, texts[i], own_references, score, item, system))
    _name_the_missing(path, folder, scores, [name for name in pair.outputs if name not in left])
    return rows


def _name_the_missing(path: Path, folder: Path, scores: dict[str, list[float | None]], outputs: list[str]) -> None:
    """Warn of systems that lack output, ratings, or the ratings of some segments."""
    without = [f"{system} ({len(own)} ratings)" for system, own in scores.items() if system not in outputs]
    if without:
        warn(f"{folder}: no output of systems that {path.name} rates, left out: {', '.join(without)}.")
    unrated = [system for system in outputs if system not in scores]
    if unrated:
        warn(f"{path}: systems with output and without ratings, left out: {', '.join(unrated)}.")
    present = {system: own for system, own in scores.items() if system in outputs}
    rated = {i for own in present.values() for i, score in enumerate(own) if score is not None}
    lacking = {system: sum(own[i] is None for i in rated) for system, own in present.items()}
    missing = [f"{system} ({number} of {len(rated)})" for system, number in lacking.items() if number]
    if missing:
        warn(f"{path}: systems without a rating of segments that others have one of: {', '.join(missing)}.")
