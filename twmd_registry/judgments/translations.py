"""Rated translations: the WMT metrics task as JSON lines or in the layout of mt-metrics-eval, and DEMETR."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from twmd_registry.errors import FileError, MissingExtraError, SpecError, menu, warn
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, read_json_lines
from twmd_registry.judgments.reader import TableRow, read_content, read_lines, read_rating, read_rows

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
TOO_SHORT = "rows without a rating, or with a text too short"
SHORTEST = 2
"""Rows with fewer characters in either text are dropped: the TWMD authors' protocol for WMT."""


def read_wmt(path: Path) -> RatedSegments:
    """Read JSON lines with ``lang, candidate, reference`` and ``score`` or ``rating``; grouped by language pair.

    Rows that are not rated (null, NaN or empty) are dropped, and those with a text of fewer than `SHORTEST` characters.
    """
    return read_json_lines(path, _read_segment, TOO_SHORT)


def _read_segment(row: TableRow) -> RatedRow:
    name = "rating" if "score" not in row.values and "rating" in row.values else "score"
    group, prediction, reference = row.label("lang"), row.text("candidate"), row.text("reference")
    rating = row.rating(name)
    if rating is None or len(prediction) < SHORTEST or len(reference) < SHORTEST:
        return RatedRow(group, place=row.place)
    return RatedRow(group, prediction, reference, rating)


def read_mlqe(path: Path) -> RatedSegments:
    """Read MLQE-PE as JSON lines with ``lang, candidate, reference, score`` and ``source``; grouped by language pair.

    The reference is the translation as a person corrected it. It is tokenised in these data; Moses' rules of the target
    language put it together again. Rows are dropped as by `read_wmt`. Raises MissingExtraError without `sacremoses`.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise MissingExtraError("MLQE-PE's references are tokenised: pip install 'twmd-registry[train]'") from error
    detokenizer = functools.cache(MosesDetokenizer)

    def read(row: TableRow) -> RatedRow:
        read = _read_segment(row)
        language, source = str(read.group).rpartition("-")[2], row.values.get("source")
        source = source if isinstance(source, str) else None
        return read._replace(source=source, reference=detokenizer(language).detokenize(str(read.reference).split()))

    return read_json_lines(path, read, TOO_SHORT)


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
    """Read the rated segments of every system, grouped by language pair.

    Higher ratings are better (MQM counts errors below 0). Unrated segments, and segments without a reference, are
    dropped and counted. Warnings name systems that are rated and have no output, systems with output and no rating,
    systems without ratings of segments that others have, outliers and translations by people that are left out.

    Args:
        folder: A year's: ``references/PAIR.REFERENCE.txt`` and ``system-outputs/PAIR/SYSTEM.txt`` (a line per segment),
            and ``human-scores/PAIR.RATING.seg.score`` (lines ``SYSTEM<TAB>SCORE``, a system's in the order of segments;
            ``None`` is unrated). ``RATING.sys.score``, ``.domain.score`` (lines begin with the domain) or
            ``.doc.score`` are the ratings of systems in a pair, domain or document; where there is no other file, a
            system's rating is that of all its segments. ``sources/PAIR.txt`` are the texts that were translated.
        pair: A language pair; None for all that have the rating.
        rating: The kind of rating, such as mqm, wmt-z, wmt-raw or da-sqm.
        reference: Which reference the systems are compared with, several as ``refA.refB``, or ``all``; itself, where
            it was rated like a system, is left out.
        humans: ``yes`` reads other references that were rated like systems; by the shared task's rule, ``no``, outputs
            of people are not ranked with those of systems.
        without: Systems to leave out, as ``A+B``, or ``none``; by default those of `OUTLIERS`, if the folder is named
            after a year of it.
        group: ``domain`` or ``document`` groups segments by it within each pair, as ``en-de news``, from
            ``documents/PAIR.docs``.

    Returns:
        Its rated segments; the items are called ``PAIR:NUMBER``, segments numbered from 1.
    """
    if humans not in {"yes", "no"}:
        raise SpecError(f"humans={humans}: expected yes or no.")
    if group not in GROUPINGS:
        raise SpecError(f"group={group}: there is no such grouping; {menu(group, GROUPINGS)}.")
    pairs = [pair] if pair else _pairs_with(folder, rating)
    outliers, read, ratings = _name_outliers(folder, pairs, without), list[RatedRow](), dict[tuple[str, str], float]()
    for each in pairs:
        read += _read_pair(folder, each, rating, reference, with_humans=humans == "yes", outliers=outliers[each])
        path = folder / "human-scores" / f"{each}.{rating}.{GROUPINGS[group]}.score"
        ratings |= _read_known_systems(path, folder, each) if path.is_file() else {}
    if group != "pair":
        by_pair = {each: read_documents(folder, each) for each in pairs}
        read = [_regroup(row, by_pair, list(GROUPINGS).index(group) - 1) for row in read]
    where = f"{folder.resolve()}, {rating} of {', '.join(pairs)}"
    rated = gather(read, where, "segments without a rating or a reference")
    return rated._replace(source=_read_sources(folder, rated), system_ratings=_select_ratings(ratings, rated) or None)


def _name_outliers(folder: Path, pairs: list[str], without: str | None) -> dict[str, set[str]]:
    """Return the systems to leave out, by language pair."""
    by_year = OUTLIERS.get(folder.resolve().name, {}) if without is None else {}
    given = set() if without in {None, "none"} else set(str(without).split("+"))
    known = {system for pair in pairs for system in outputs_of(folder, pair)}
    if unknown := sorted(given - known):
        raise SpecError(f"without={unknown[0]}: there is no such system; {menu(unknown[0], sorted(known))}.")
    return {pair: given | set(by_year[pair].split("+") if pair in by_year else []) for pair in pairs}


def _read_known_systems(path: Path, folder: Path, pair: str) -> dict[tuple[str, str], float]:
    """Read people's scores of systems; warn of systems that have no output."""
    scores = read_system_scores(path, folder, pair)
    unknown = {system for _, system in scores} - outputs_of(folder, pair).keys() - set(reference_names(folder, pair))
    if unknown:
        warn(f"{path}: systems without output, left out: {', '.join(sorted(unknown))}.")
    return scores


def _select_ratings(ratings: dict[tuple[str, str], float], rated: RatedSegments) -> dict[tuple[str, str], float]:
    """Return the ratings of the systems that have rated segments; warn of those that have no other rating."""
    places = sorted(set(zip(rated.group, rated.system or [], strict=True)))
    rest = [f"{system} of {group}" for group, system in places if (group, system) not in ratings]
    if ratings and rest:
        warn(f"no human score of some systems; the mean of their segments' ratings stands for it: {', '.join(rest)}.")
    return {place: ratings[place] for place in places if place in ratings}


def _read_sources(folder: Path, rated: RatedSegments) -> list[str] | None:
    """Read the source of every segment; None where a language pair has no file."""
    places = [(pair, int(number) - 1) for pair, _, number in (item.rpartition(":") for item in rated.item or [])]
    files = {pair: folder / "sources" / f"{pair}.txt" for pair, _ in places}
    if not all(path.is_file() for path in files.values()):
        return None
    texts = {pair: read_segments(path, count_segments(folder, pair)) for pair, path in files.items()}
    return [texts[pair][i] for pair, i in places]


def read_segments(path: Path, segments: int) -> list[str]:
    """Read a text per segment; raises FileError for another number of lines."""
    texts = read_lines(path)
    if len(texts) != segments:
        raise FileError(
            f"{path} has {len(texts)} lines; expected {segments}, one per segment, as its language pair has."
        )
    return texts


def count_segments(folder: Path, pair: str) -> int:
    """Count the segments of a language pair: the lines of most of its references, outputs and sources."""
    references = [folder / "references" / f"{pair}.{name}.txt" for name in reference_names(folder, pair)]
    sources = folder / "sources" / f"{pair}.txt"
    files = [*references, *outputs_of(folder, pair).values(), *([sources] if sources.is_file() else [])]
    counts = Counter(read_content(path).removesuffix(b"\n").count(b"\n") + 1 for path in files)
    return max(counts, key=counts.__getitem__, default=0)  # the first of several


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


def _read_ratings(folder: Path, pair: str, rating: str, segments: int) -> tuple[Path, dict[str, list[float | None]]]:
    """Read the ratings of every system's segments, and name their file; where only systems are rated, theirs."""
    path, systems = (folder / "human-scores" / f"{pair}.{rating}.{level}.score" for level in ("seg", "sys"))
    if path.is_file():
        return path, read_scores(path, segments)
    if systems.is_file():
        warn(f"{systems}: only systems are rated, and their segments get these ratings: measure by --level system.")
        return systems, {system: own * segments for system, own in read_scores(systems, 1).items()}
    names = _score_names(folder, "seg")
    return _refuse(path, f"{pair}.{rating}", [name for name in names if name.partition(".")[0] == pair] or names)


def _refuse(path: Path, word: str, choices: list[str]) -> NoReturn:
    """Refuse a file that is missing, with the choices of its kind."""
    raise FileError(
        f"{path}: No such file or directory; {menu(word, choices) if choices else 'nor any other of its kind'}."
    )


def reference_names(folder: Path, pair: str) -> list[str]:
    """List the references of a language pair."""
    files = (folder / "references").glob(f"{pair}.*.txt")
    return sorted(file.name.removeprefix(f"{pair}.").removesuffix(".txt") for file in files)


def outputs_of(folder: Path, pair: str) -> dict[str, Path]:
    """Return the output of every system of a language pair."""
    files = sorted((folder / "system-outputs" / pair).glob("*.txt"))
    return {file.name.removesuffix(".txt"): file for file in files}


def read_references(folder: Path, pair: str, reference: str) -> list[str]:
    """Read a reference, a text per segment."""
    path = folder / "references" / f"{pair}.{reference}.txt"
    if not path.is_file():
        if names := reference_names(folder, pair):
            _refuse(path, reference, names)
        _refuse(path, pair, sorted({file.name.partition(".")[0] for file in path.parent.glob("*.*.txt")}))
    return read_segments(path, count_segments(folder, pair))


def names_of_references(folder: Path, pair: str, reference: str) -> list[str]:
    """Return the names of the references that ``refA``, ``refA.refB`` or ``all`` stands for."""
    return reference_names(folder, pair) if reference == ALL else reference.split(".")


def read_scores(
    path: Path, segments: int, *, unit: str = "segment", domains: Collection[str] | None = None
) -> dict[str, list[float | None]]:
    """Read every system's scores, one per segment (or other unit), in the order of the file; ``None`` where it says so.

    With `domains`, rows begin with one of them (or any, if there is none), and scores are by ``DOMAIN SYSTEM``. Raises
    FileError, which names the row.
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


def read_system_scores(path: Path, folder: Path, pair: str) -> dict[tuple[str, str], float]:
    """Read scores of systems by group and system: of a pair (``.sys.score``), a domain or a document (``.doc.score``).

    A document's group is ``PAIR DOCUMENT``, a domain's ``PAIR DOMAIN``; a ``.doc.score`` has a system's documents in
    their order. Raises FileError, as `read_scores`.
    """
    level = path.name.split(".")[-2]
    if level == "domain":
        known = (folder / "documents" / f"{pair}.docs").is_file()
        domains = dict.fromkeys(domain for domain, _ in read_documents(folder, pair)) if known else {}
        rows = read_scores(path, 1, unit="domain", domains=domains)
        by_name = {(f"{pair} {name.split()[0]}", name.split()[1]): score for name, (score,) in rows.items()}
    else:
        documents = dict.fromkeys(name for _, name in read_documents(folder, pair)) if level == "doc" else {}
        groups = [f"{pair} {document}" for document in documents] or [pair]
        rows = read_scores(path, len(groups), unit="document" if documents else "system")
        by_name = {(group, system): own[k] for system, own in rows.items() for k, group in enumerate(groups)}
    return {place: score for place, score in by_name.items() if score is not None}


def _read_pair(
    folder: Path, pair: str, rating: str, reference: str, *, with_humans: bool, outliers: set[str]
) -> list[RatedRow]:
    """Read all segments of a language pair."""
    names = names_of_references(folder, pair, reference)
    if len(set(names)) < len(names):
        raise SpecError(f"reference={reference}: a reference is named twice; expected each once.")
    sides = [read_references(folder, pair, name) for name in names]
    references = [[text for text in texts if text.strip()] for texts in zip(*sides, strict=True)]
    path, scores = _read_ratings(folder, pair, rating, len(references))
    humans = scores.keys() & set(reference_names(folder, pair)) - {*names, *outliers}
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
    outputs = outputs_of(folder, pair)
    if not outputs:
        raise FileError(f"{folder}/system-outputs/{pair} holds no SYSTEM.txt: expected a file per rated system.")
    rows: list[RatedRow] = []
    for system, own in scores.items():
        if system not in outputs:
            own, texts = [None] * len(own), [""] * len(references)  # noqa: PLW2901
        else:
            texts = read_segments(outputs[system], len(references))
        for i, score in enumerate(own):
            item = f"{pair}:{i + 1}"
            if score is None or not references[i]:
                rows.append(RatedRow(pair, item=item, place=f"segment {i + 1} of {system}"))
            else:
                own_references = references[i] if len(names) > 1 else references[i][0]
                rows.append(RatedRow(pair, texts[i], own_references, score, item, system))
    _name_the_missing(path, folder / "system-outputs" / pair, scores, [name for name in outputs if name not in left])
    return rows


def _regroup(row: RatedRow, documents: dict[str, list[tuple[str, str]]], column: int) -> RatedRow:
    """Return a row whose group has the domain (column 0) or the document (1) of its segment."""
    pair, _, number = str(row.item).rpartition(":")
    return row._replace(group=f"{pair} {documents[pair][int(number) - 1][column]}")


def read_documents(folder: Path, pair: str) -> list[tuple[str, str]]:
    """Read the domain and the document of every segment from ``documents/PAIR.docs``."""
    return read_docs(folder / "documents" / f"{pair}.docs", count_segments(folder, pair))


def read_docs(path: Path, segments: int) -> list[tuple[str, str]]:
    """Read the domain and the document of every segment: a line ``DOMAIN<TAB>DOCUMENT`` for each."""
    rows = [line.split() for line in read_lines(path)]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise FileError(f"{path}, row {number}: expected a domain and a document, got {' '.join(row)!r}.")
    if len(rows) != segments:
        raise FileError(f"{path}: expected {segments} lines, one per segment; got {len(rows)}.")
    return [(domain, document) for domain, document in rows]


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


def read_demetr(path: Path, first: str | None = None, by: str = "edit") -> RatedSegments:
    """Read DEMETR (Karpinska et al. 2022): JSON lines with ``pert_name, id, mt_sent, pert_sent, eng_sent``.

    A row is an item of two segments, rated 1 (``mt_sent``) and 0 (``pert_sent``), grouped by the kind of edit, or
    ``by=position`` by the third of the sentence that the edit is in. Of every kind, the first `first` rows are read;
    rows whose edit has changed nothing are dropped.
    """
    if first is not None and (not first.isdecimal() or int(first) < 1):
        raise SpecError(f"first={first}: expected a whole number from 1.")
    if by not in EDIT_GROUPS:
        raise SpecError(f"by={by}: {menu(by, EDIT_GROUPS)}.")
    most = int(first) if first else None

    def pairs() -> Iterator[RatedRow]:
        read = Counter[str]()
        for row in read_rows(path, read_content(path), ".jsonl"):
            kind, item = row.label("pert_name"), row.label("id")
            read[kind] += 1
            if most is None or read[kind] <= most:
                reference, text, edited = (row.text(name) for name in ("eng_sent", "mt_sent", "pert_sent"))
                if text.split() == edited.split():
                    yield RatedRow(kind if by == "edit" else None, place=row.place)
                    continue
                group, place = kind, item
                if by == "position":  # an id is one of a kind
                    group, place = place_edit(text, edited), f"{kind} {item}"
                yield RatedRow(group, text, reference, 1.0, place, "unedited", row.place)
                yield RatedRow(group, edited, reference, 0.0, place, "edited", row.place)

    return gather(pairs(), path, "rows whose edit has changed nothing")


EDIT_GROUPS = ("edit", "position")
"""What the rows of DEMETR are grouped by."""


def place_edit(text: str, edited: str) -> str:
    """Return the third of a text that an edit is in: of the words between those at both ends that have stayed, the
    middle; ``whole`` for an edit that spans two thirds of the text or more. Tables sort the names.

    >>> place_edit("it rained all day in town", "it rained all night in town")
    '2nd third'
    """
    words, others = text.split(), edited.split()
    start, kept = (
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, theirs, strict=False)))
        for own, theirs in ((words, others), (words[::-1], others[::-1]))
    )
    end = len(words) - min(kept, len(words) - start, len(others) - start)
    if 3 * (end - start) >= 2 * len(words):
        return "whole"
    return ("1st third", "2nd third", "3rd third")[min(2, int(3 * (start + end) / 2 / len(words)))]
