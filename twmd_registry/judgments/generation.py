"""Texts written by systems other than translators, rated by people: data-to-text and summaries, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from twmd_registry.errors import FileError, menu
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, read_json_lines
from twmd_registry.judgments.reader import TableRow, decode, read_content, read_rating

DATA_TO_TEXT_RATINGS = ("informativeness", "naturalness", "quality")
SUMMARY_RATINGS = ("coherence", "consistency", "fluency", "relevance")
TAC_RATINGS = ("pyr_score", "responsiveness")
SHORTEST_SUMMARY = 2
"""Sentences of a summary of TAC that is read."""


def read_data_to_text(path: Path, rating: str = "quality") -> RatedSegments:
    """Read BAGEL or SFHOTEL (Novikova et al. 2017): lines with ``id, prediction, references`` and three ratings.

    An ``id`` numbers rows, not inputs: the data do not say which rows share an input, so `item` is None.
    """
    _check_name(rating, DATA_TO_TEXT_RATINGS, path)

    def read(row: TableRow) -> RatedRow:
        value = row.rating(rating)
        if value is None:
            return RatedRow(place=row.place)
        return RatedRow(path.stem, row.text("prediction"), row.texts("references"), value)

    return read_json_lines(path, read)


def read_summeval(path: Path, rating: str = "relevance") -> RatedSegments:
    """Read SummEval (Fabbri et al. 2021): ``id, model_id, decoded, references`` and the experts' ratings.

    ``reference``, a text or a list, may stand for ``references``; ``expert_annotations`` is a list of ratings by name,
    whose mean is taken. Summaries that not every expert has rated are dropped.
    """
    _check_name(rating, SUMMARY_RATINGS, path)

    def read(row: TableRow) -> RatedRow:
        experts = row.take("expert_annotations")
        if not isinstance(experts, list) or not all(isinstance(expert, dict) for expert in experts):
            raise FileError(f"{row.where}: expected a list of ratings by name as expert_annotations, not {experts!r}.")
        rows = [TableRow(f"{row.where}, expert {number}", expert) for number, expert in enumerate(experts, 1)]
        given = [value for expert in rows if (value := expert.rating(rating)) is not None]
        if not given or len(given) < len(rows):
            return RatedRow(place=row.place)
        references = row.texts("reference" if "reference" in row.values else "references")
        texts, labels = (row.text("decoded"), references), (row.label("id"), row.label("model_id"), row.place)
        return RatedRow("summeval", *texts, sum(given) / len(given), *labels)

    return read_json_lines(path, read)


def read_summaries(path: Path, rating: str | None = None) -> RatedSegments:
    """Read rated summaries of several systems, such as REALSumm's (Bhandari et al. 2020).

    Lines have ``doc, system, prediction, references`` and ``ratings``, numbers by name, of which `rating` is taken; it
    may be left out where there is only one.
    """

    def read(row: TableRow) -> RatedRow:
        ratings = row.take("ratings")
        if not isinstance(ratings, dict) or not ratings:
            raise FileError(f"{row.where}: expected numbers by name as ratings, not {ratings!r}.")
        if rating is None and len(ratings) > 1:
            raise FileError(f"{row.where}: which rating? Add ,rating=NAME; {menu('', ratings)}.")
        name = rating or next(iter(ratings))
        _check_name(name, ratings, path)
        value = TableRow(f"{row.where}, ratings", ratings).rating(name)
        if value is None:
            return RatedRow(place=row.place)
        texts, labels = (row.text("prediction"), row.texts("references")), (row.label("doc"), row.label("system"))
        return RatedRow(path.name.partition(".")[0], *texts, value, *labels, row.place)

    return read_json_lines(path, read)


def read_tac(path: Path, rating: str = TAC_RATINGS[0]) -> RatedSegments:
    """Read summaries of the Text Analysis Conference, ``tac.09.mds.gen.resp-pyr`` (Peyrard et al. 2017).

    The file is a JSON object: by topic, ``references``, each with a list of sentences as ``text``, and
    ``annotations``, each with ``summ_id``, ``text``, and the ratings. The topic is group and item, the ``summ_id`` the
    system. As in MoverScore's code, summaries of a single sentence are dropped.
    """
    _check_name(rating, TAC_RATINGS, path)
    try:
        topics = json.loads(decode(path, read_content(path)))
    except json.JSONDecodeError as error:
        raise FileError(f"{path}: expected a JSON object of topics ({error}): was it cut off?") from error
    try:
        rows = list[RatedRow]()
        for topic, own in topics.items():
            references = [_join(reference["text"]) for reference in own["references"]]
            if not references:
                raise FileError(f"{path}, {topic}: expected references; there is none.")
            for number, summary in enumerate(own["annotations"], 1):
                place, texts = f"{topic}, annotation {number}", (_join(summary["text"]), references)
                is_read = len(summary["text"]) >= SHORTEST_SUMMARY
                value = read_rating(summary[rating], f"{path}, {place}") if is_read else None
                rows.append(RatedRow(topic, *texts, value, topic, str(summary["summ_id"]), place))
    except (AttributeError, KeyError, TypeError) as error:
        expected = "expected a JSON object of topics with references and annotations, as TAC's .gen.resp-pyr"
        missing = f"there is no {error}" if isinstance(error, KeyError) else error
        raise FileError(f"{path}: {expected}; {missing}.") from error
    return gather(rows, path, "summaries of a single sentence")


def _join(sentences: object) -> str:
    if not isinstance(sentences, list):
        raise TypeError(f"expected a list of sentences as text, not {sentences!r}")
    return " ".join(sentences)


def _check_name(rating: str, names: Iterable[str], path: Path) -> None:
    if rating not in names:
        raise FileError(f"{path}: no rating is called {rating!r}; {menu(rating, names)}.")
