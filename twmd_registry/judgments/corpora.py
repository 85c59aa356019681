"""Readers of rated research corpora, each in the format in which it is distributed."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from twmd_registry.errors import FileError, SpecError, missing_extra
from twmd_registry.files.compressed import read_content
from twmd_registry.files.lines import decode, read_lines
from twmd_registry.files.tables import TableRow, read_csv, read_rating, read_rows, read_tsv
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, read_json_lines
from twmd_registry.messages import menu, warn

TOO_SHORT = "rows without a rating or with a text too short"
SHORTEST = 2
"""Minimum characters of a text. Shorter rows are dropped, as in the TWMD authors' protocol for WMT."""


def read_wmt(path: Path) -> RatedSegments:
    """Read JSON lines with ``lang, candidate, reference`` and ``score`` or ``rating``, by language pair, and, where all
    have them, ``system``, ``segment`` (in a ``document`` or not), ``source`` and ``domain``.

    Ratings of the same texts of a system's segment are averaged; a second text of such a segment is left out.
    """
    return gather(_average_raters(read_rows(path, read_content(path), ".jsonl")), path, TOO_SHORT)


def _read_segment(row: TableRow) -> RatedRow:
    name = "rating" if "score" not in row.values and "rating" in row.values else "score"
    group, prediction, reference = row.label("lang"), row.text("candidate"), row.text("reference")
    rating, place, values = row.rating(name), f"row {row.number}", row.values
    if rating is None or len(prediction) < SHORTEST or len(reference) < SHORTEST:
        return RatedRow(group, place=place)
    item = " ".join(row.label(part) for part in ("document", "segment") if part in values) or None
    system, domain = (row.label(role) if role in values else None for role in ("system", "domain"))
    source = values.get("source")
    source = source if isinstance(source, str) else None
    return RatedRow(group, prediction, reference, rating, item, system, place, source, domain)


def _average_raters(rows: Iterable[TableRow]) -> Iterator[RatedRow]:
    """Yield rated rows; several raters' rows become one with their mean."""
    rows_by_text: dict[tuple[str | None, ...], list[RatedRow]] = {}
    for row in map(_read_segment, rows):
        if row.rating is None or row.item is None or row.system is None:
            yield row
        else:
            rows_by_text.setdefault((row.group, row.item, row.system), []).append(row)
    for first, *others in rows_by_text.values():
        same = [row for row in others if row[1:3] == first[1:3]]
        ratings = [row.rating for row in (first, *same) if row.rating is not None]
        yield first._replace(rating=sum(ratings) / len(ratings))
        yield from (row._replace(rating=None) for row in others if row[1:3] != first[1:3])


def read_mlqe(path: Path) -> RatedSegments:
    """Read MLQE-PE: JSON lines as for `read_wmt`, with ``source``.

    The reference is the post-edited translation. It is tokenised, and Moses' rules for the language detokenise it.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise missing_extra("MLQE-PE's references are tokenised", "train") from error
    detokenizer = functools.cache(MosesDetokenizer)

    def read(row: TableRow) -> RatedRow:
        segment = _read_segment(row)
        language = str(segment.group).rpartition("-")[2]
        return segment._replace(reference=detokenizer(language).detokenize(str(segment.reference).split()))

    return read_json_lines(path, read, TOO_SHORT)


def read_demetr(path: Path, first: str | None = None, by: str = "edit") -> RatedSegments:
    """Read DEMETR (Karpinska et al. 2022): JSON lines with ``pert_name, id, mt_sent, pert_sent, eng_sent``.

    A row is an item of two segments, rated 1 (``mt_sent``) and 0 (``pert_sent``). They are grouped by the type of edit,
    or with ``by=position`` by the third of the sentence that was edited. `first` limits the rows per type.
    """
    if not re.fullmatch("[0-9]+", first or "1") or by not in EDIT_GROUPS:
        raise SpecError(f"expected first=N, a whole number, and by={' or '.join(EDIT_GROUPS)}.")

    def pairs() -> Iterator[RatedRow]:
        counts = Counter[str]()
        for row in read_rows(path, read_content(path), ".jsonl"):
            edit, item = row.label("pert_name"), row.label("id")
            counts[edit] += 1
            if first is None or counts[edit] <= int(first):
                reference, text, edited = (row.text(name) for name in ("eng_sent", "mt_sent", "pert_sent"))
                place = f"row {row.number}"
                if text.split() == edited.split():
                    yield RatedRow(edit if by == "edit" else None, place=place)
                    continue
                group = edit
                if by == "position":  # an id is unique within a type of edit
                    group, item = place_edit(text, edited), f"{edit} {item}"
                yield RatedRow(group, text, reference, 1.0, item, "unedited", place)
                yield RatedRow(group, edited, reference, 0.0, item, "edited", place)

    return gather(pairs(), path, "rows whose edit changed nothing")


EDIT_GROUPS = ("edit", "position")


def place_edit(text: str, edited: str) -> str:
    """Return the third of a text that contains an edit; ``whole`` if it spans two thirds of the text or more.

    An edit lies between the unchanged words at both ends. Its middle decides.
    >>> place_edit("it rained all day in town", "it rained all night in town")
    '2nd third'
    """
    words, edited_words = text.split(), edited.split()
    start, kept = (
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        for before, after in ((words, edited_words), (words[::-1], edited_words[::-1]))
    )
    end = len(words) - min(kept, len(words) - start, len(edited_words) - start)
    if 3 * (end - start) >= 2 * len(words):
        return "whole"
    return ("1st third", "2nd third", "3rd third")[min(2, int(3 * (start + end) / 2 / len(words)))]


HIGHEST = 5.0
SENTENCES, RATINGS = "STS.input.", "STS.gs."


def read_sts(folder: Path) -> RatedSegments:
    """Read a year of STS, grouped by subset.

    ``STS.input.SUBSET.txt`` has two tab-separated sentences per line, ``STS.gs.SUBSET.txt`` a rating per line (empty if
    unrated). Warns about and leaves out a subset with only one of the files; STS13's SMT has no sentences.
    """
    files = ((prefix, folder.glob(f"{prefix}*.txt")) for prefix in (SENTENCES, RATINGS))
    sentences, ratings = ({path.stem.removeprefix(prefix): path for path in paths} for prefix, paths in files)
    if not (sentences and ratings):
        raise FileError(f"{folder}: expected {SENTENCES}SUBSET.txt and {RATINGS}SUBSET.txt of a year of STS in it.")
    rows: list[RatedRow] = []
    for subset in sorted(sentences.keys() | ratings.keys()):
        if subset in sentences and subset in ratings:
            rows += _read_subset(subset, sentences[subset], ratings[subset])
            continue
        lines = len(read_lines(sentences.get(subset) or ratings[subset]))
        missing = f"{RATINGS if subset in sentences else SENTENCES}{subset}.txt"
        warn(f"{folder}: {subset} has no {missing}; its {lines} lines are left out.")
        rows += [RatedRow(subset, place=f"{subset}, row {number}") for number in range(1, lines + 1)]
    return gather(rows, folder)


def _read_subset(subset: str, sentences: Path, ratings: Path) -> list[RatedRow]:
    pairs, rated = read_lines(sentences), read_lines(ratings)
    if len(pairs) != len(rated):
        raise FileError(f"{ratings} has {len(rated)} lines, but {sentences.name} has {len(pairs)}.")
    rows: list[RatedRow] = []
    for number, (pair, rating) in enumerate(zip(pairs, rated, strict=True), 1):
        first, tab, second = pair.partition("\t")
        if not tab or "\t" in second:
            raise FileError(f"{sentences}, row {number}: expected two sentences separated by a tab, not {pair!r}.")
        _check_sentences((first, second), f"{sentences}, row {number}")
        value = read_rating(rating, f"{ratings}, row {number}", 0, HIGHEST) if rating.strip() else None
        rows.append(RatedRow(subset, first, second, value, place=f"{subset}, row {number}"))
    return rows


def _check_sentences(pair: Sequence[str], where: str) -> None:
    if not all(sentence.strip() for sentence in pair):
        raise FileError(f"{where}: expected two sentences, and one is empty: fill it in, or leave the row out.")


def read_stsb(path: Path) -> RatedSegments:
    """Read the STS benchmark: ``sentence1,sentence2,rating`` without a header."""
    rows = []
    for number, fields in enumerate(read_csv(path), 1):
        where = f"{path}, row {number}"
        if len(fields) != 3:
            raise FileError(
                f"{where}: expected sentence1,sentence2,rating, without a header, not {len(fields)} fields."
            )
        _check_sentences(fields[:2], where)
        rows.append(RatedRow("stsb", fields[0], fields[1], read_rating(fields[2], where, 0, HIGHEST)))
    return gather(rows, path)


MRPC_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
QQP_HEADER = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
CLASSES = {"0": 0.0, "1": 1.0}


def read_mrpc(path: Path) -> RatedSegments:
    """Read the Microsoft Research Paraphrase Corpus: tab-separated, quotes are ordinary characters."""
    return _read_classes(path, "mrpc", MRPC_HEADER, 0, read_tsv(path))


def read_qqp(path: Path) -> RatedSegments:
    """Read the Quora Question Pairs, with quoted fields (Quora's file) or without (GLUE's)."""
    lines = read_tsv(path)
    # In Quora's file a quoted question may span several lines. In GLUE's a quote is an ordinary character.
    if len(lines) > 1 and lines[1][0].startswith('"'):
        lines = read_csv(path, delimiter="\t")
    return _read_classes(path, "qqp", QQP_HEADER, 5, lines)


def _read_classes(path: Path, name: str, header: list[str], column: int, lines: list[list[str]]) -> RatedSegments:
    """Read pairs (the fourth and fifth field) with a class in a column; incomplete rows are left out."""
    if not lines or lines[0] != header:
        raise FileError(f"{path}, row 1: expected the tab-separated header {', '.join(header)}.")
    rows = []
    for number, fields in enumerate(lines[1:], 2):
        is_whole = len(fields) == len(header) and fields[3].strip() and fields[4].strip()
        if is_whole and fields[column] not in CLASSES:
            raise FileError(f"{path}, row {number}: expected 0 or 1 as {header[column]}, not {fields[column]!r}.")
        rated = RatedRow(name, fields[3], fields[4], CLASSES[fields[column]]) if is_whole else RatedRow()
        rows.append(rated._replace(place=f"row {number}"))
    return gather(rows, path)


DATA_TO_TEXT_RATINGS = ("informativeness", "naturalness", "quality")
SUMMARY_RATINGS = ("coherence", "consistency", "fluency", "relevance")
TAC_RATINGS = ("pyr_score", "responsiveness")
SHORTEST_SUMMARY = 2


def read_data_to_text(path: Path, rating: str = "quality") -> RatedSegments:
    """Read BAGEL or SFHOTEL (Novikova et al. 2017): JSON lines with ``prediction, references`` and three ratings."""
    _check_name(rating, DATA_TO_TEXT_RATINGS, path)

    def read(row: TableRow) -> RatedRow:
        return RatedRow(path.stem, row.text("prediction"), row.references(("references",)), row.rating(rating))

    return read_json_lines(path, read)


def read_summeval(path: Path, rating: str = "relevance") -> RatedSegments:
    """Read SummEval (Fabbri et al. 2021): JSON lines with ``id, model_id, decoded, references`` and experts' ratings.

    The rating is the experts' mean. Summaries that some expert has not rated are dropped.
    """
    _check_name(rating, SUMMARY_RATINGS, path)

    def read(row: TableRow) -> RatedRow:
        experts = row.objects("expert_annotations", "expert")
        ratings = [value for expert in experts if (value := expert.rating(rating)) is not None]
        if not ratings or len(ratings) < len(experts):
            return RatedRow()
        value, labels = sum(ratings) / len(ratings), (row.label("id"), row.label("model_id"))
        return RatedRow("summeval", row.text("decoded"), row.references(), value, *labels)

    return read_json_lines(path, read)


def read_summaries(path: Path, rating: str | None = None) -> RatedSegments:
    """Read rated summaries of several systems, such as REALSumm's (Bhandari et al. 2020).

    The file has JSON lines with ``doc, system, prediction, references`` and ``ratings``, numbers by name. `rating`
    selects one of several.
    """

    def read(row: TableRow) -> RatedRow:
        ratings = row.take("ratings")
        if not isinstance(ratings, dict) or not ratings:
            raise FileError(f"{row.where}: expected numbers by name as ratings, not {ratings!r}.")
        if rating is None and len(ratings) > 1:
            raise FileError(f"{row.where}: several ratings: add ,rating=NAME; {menu('', ratings)}.")
        name = rating or next(iter(ratings))
        _check_name(name, ratings, path)
        value, texts = TableRow(row.where, ratings).rating(name), (row.text("prediction"), row.references())
        return RatedRow(path.name.partition(".")[0], *texts, value, row.label("doc"), row.label("system"))

    return read_json_lines(path, read)


def read_tac(path: Path, rating: str = TAC_RATINGS[0]) -> RatedSegments:
    """Read summaries of the Text Analysis Conference, ``tac.09.mds.gen.resp-pyr`` (Peyrard et al. 2017).

    The file is a JSON object with a value per topic. ``references`` are objects with ``text``, a list of sentences;
    ``annotations`` are objects with ``summ_id``, ``text`` and the ratings. The topic is the group and the item, the
    ``summ_id`` the system. Summaries of a single sentence are dropped, as in MoverScore's code.
    """
    _check_name(rating, TAC_RATINGS, path)
    try:
        topics = json.loads(decode(path, read_content(path)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileError(f"{path}: expected a JSON object of topics ({error}): was it cut off?") from error
    if not isinstance(topics, dict) or not all(isinstance(topic, dict) for topic in topics.values()):
        raise FileError(f"{path}: expected a JSON object of topics, each with references and annotations.")
    rows = list[RatedRow]()
    for name, content in topics.items():
        topic = TableRow(f"{path}, {name}", content)
        references = [" ".join(_read_sentences(row)) for row in topic.objects("references", "reference")]
        for row in topic.objects("annotations", "annotation"):
            sentences, place = _read_sentences(row), row.where.removeprefix(f"{path}, ")
            is_read = len(sentences) >= SHORTEST_SUMMARY
            value = read_rating(row.take(rating), row.where) if is_read else None
            rows.append(RatedRow(name, " ".join(sentences), references, value, name, row.label("summ_id"), place))
    return gather(rows, path, "summaries of a single sentence")


def _read_sentences(row: TableRow) -> list[str]:
    sentences = row.take("text")
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise FileError(f"{row.where}: expected a list of sentences as text.")
    return sentences


def _check_name(rating: str, names: Iterable[str], path: Path) -> None:
    if rating not in names:
        raise FileError(f"{path}: unknown rating {rating!r}; {menu(rating, names)}.")
