"""Texts written by systems other than translators, rated by people: data-to-text and summaries, as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from twmd_registry.errors import FileError, menu
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, skipped
from twmd_registry.judgments.reader import TableRow, decode, read_content, read_rating, read_rows

DATA_TO_TEXT_RATINGS = ("informativeness", "naturalness", "quality")
SUMMARY_RATINGS = ("coherence", "consistency", "fluency", "relevance")
TAC_RATINGS = ("pyr_score", "responsiveness")
SHORTEST_SUMMARY = 2
"""Sentences of a summary of TAC that is read."""


def read_data_to_text(path: Path, rating: str = "quality") -> RatedSegments:
    """Read BAGEL or SFHOTEL (Novikova et al. 2017): lines with ``id, prediction, references`` and three ratings.

    An ``id`` numbers rows, not inputs: the data do not say which rows share an input, so `item` is None.

    Args:
        path: The file; its name without the suffix is the group of all rows.
        rating: One of `DATA_TO_TEXT_RATINGS`.

    Returns:
        The rated rows; rows without the rating (null, NaN) are dropped, and counted.

    Raises:
        FileError: No such rating, the file is missing or without a rated row, or a row has another form; names the row.
    """
    _check_name(rating, DATA_TO_TEXT_RATINGS, path)

    def read(row: TableRow) -> RatedRow:
        value = row.rating(rating)
        if value is None:
            return skipped(row.place)
        return RatedRow(path.stem, row.text("prediction"), row.texts("references"), value)

    return gather(map(read, read_rows(path, read_content(path), ".jsonl")), path)


def read_summeval(path: Path, rating: str = "relevance") -> RatedSegments:
    """Read SummEval (Fabbri et al. 2021).

    Lines have ``id, model_id, decoded, references`` and ``expert_annotations``, a list of ratings.

    Args:
        path: The file; ``reference``, a text or a list, may stand for ``references``.
        rating: One of `SUMMARY_RATINGS`; the mean over the experts is taken.

    Returns:
        The rated rows; the item is the ``id``, the system the ``model_id``. Rows that not every expert has rated are
        dropped, and counted.

    Raises:
        FileError: No such rating, the file is missing or without a rated row, or a row has another form; names the row.
    """
    _check_name(rating, SUMMARY_RATINGS, path)

    def read(row: TableRow) -> RatedRow:
        value = _mean_of_experts(row, rating)
        if value is None:
            return skipped(row.place)
        references = row.texts("reference" if "reference" in row.values else "references")
        item, system = row.label("id"), row.label("model_id")
        return RatedRow("summeval", row.text("decoded"), references, value, item, system, row.place)

    return gather(map(read, read_rows(path, read_content(path), ".jsonl")), path)


def read_summaries(path: Path, rating: str | None = None) -> RatedSegments:
    """Read rated summaries of several systems, such as REALSumm's (Bhandari et al. 2020).

    Args:
        path: JSON lines with ``doc, system, prediction, references`` and ``ratings``, numbers by name.
        rating: Which of the ratings; None where there is only one.

    Returns:
        The rated rows; the group is the file's name, the item the ``doc``. Rows without the rating are dropped, and
        counted.

    Raises:
        FileError: No such rating, or several and none is named, the file is missing or without a rated row, or a row
            has another form; names the row.
    """

    def read(row: TableRow) -> RatedRow:
        ratings = row.take("ratings")
        if not isinstance(ratings, dict) or not ratings:
            raise FileError(f"{row.where}: expected numbers by name as ratings, not {ratings!r}.")
        if rating is None and len(ratings) > 1:
            raise FileError(f"{row.where}: which rating? Add ,rating=NAME; {menu('', ratings)}.")
        name = rating or next(iter(ratings))
        _check_name(name, [*ratings], path)
        value = TableRow(f"{row.where}, ratings", ratings).rating(name)
        if value is None:
            return skipped(row.place, path.stem)
        texts = row.text("prediction"), row.texts("references")
        return RatedRow(path.name.partition(".")[0], *texts, value, row.label("doc"), row.label("system"), row.place)

    return gather(map(read, read_rows(path, read_content(path), ".jsonl")), path)


def read_tac(path: Path, rating: str = TAC_RATINGS[0]) -> RatedSegments:
    """Read summaries of the Text Analysis Conference, ``tac.09.mds.gen.resp-pyr`` (Peyrard et al. 2017).

    The file is a JSON object: by topic, ``references``, each with a list of sentences as ``text``, and
    ``annotations``, each with ``summ_id``, ``text``, and the ratings. As in MoverScore's code, summaries of a single
    sentence are dropped, and counted.

    Args:
        path: The file.
        rating: One of `TAC_RATINGS`.

    Returns:
        The summaries, grouped by topic; the topic is the item, the ``summ_id`` the system.

    Raises:
        FileError: No such rating, or the file is missing, no JSON, or of another form; names the topic.
    """
    _check_name(rating, TAC_RATINGS, path)
    try:
        topics = json.loads(decode(path, read_content(path)))
        rows = list[RatedRow]()
        for topic, own in topics.items():
            references = [_join(reference["text"]) for reference in own["references"]]
            if not references:
                raise FileError(f"{path}, {topic}: expected references; there is none.")
            for number, summary in enumerate(own["annotations"], 1):
                place = f"{topic}, annotation {number}"
                if len(summary["text"]) < SHORTEST_SUMMARY:
                    rows.append(skipped(place, topic))
                    continue
                value, system = read_rating(summary[rating], f"{path}, {place}"), str(summary["summ_id"])
                rows.append(RatedRow(topic, _join(summary["text"]), references, value, topic, system, place))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        expected = "expected a JSON object of topics with references and annotations, as TAC's .gen.resp-pyr"
        raise FileError(f"{path}: {expected}; {type(error).__name__}: {error}.") from error
    return gather(rows, path)


def _join(sentences: object) -> str:
    """Join a list of sentences; raises TypeError where it is none."""
    if not isinstance(sentences, list):
        raise TypeError(f"expected a list of sentences as text, not {sentences!r}")
    return " ".join(sentences)


def _check_name(rating: str, names: Sequence[str], path: Path) -> None:
    if rating not in names:
        raise FileError(f"{path}: no rating is called {rating!r}; {menu(rating, names)}.")


def _mean_of_experts(row: TableRow, rating: str) -> float | None:
    """Return the mean over the experts; None if there is no expert or a rating is missing."""
    experts = row.take("expert_annotations")
    if not isinstance(experts, list) or not all(isinstance(expert, dict) for expert in experts):
        raise FileError(f"{row.where}: expected a list of ratings by name as expert_annotations, not {experts!r}.")
    rows = [TableRow(f"{row.where}, expert {number}", expert) for number, expert in enumerate(experts, 1)]
    values = [expert.rating(rating) for expert in rows]
    given = [value for value in values if value is not None]
    return sum(given) / len(given) if given and len(given) == len(values) else None
