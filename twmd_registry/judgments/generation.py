"""Texts written by systems other than translators, rated by people: data-to-text and summaries, as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twmd_registry.errors import FileError, menu
from twmd_registry.judgments.fields import Fields, read_jsonl
from twmd_registry.judgments.rows import RatedRow, RatedSegments, SkippedRow, gather

DATA_TO_TEXT_RATINGS = ("informativeness", "naturalness", "quality")
SUMMARY_RATINGS = ("coherence", "consistency", "fluency", "relevance")


def read_data_to_text(path: Path, rating: str = "quality") -> RatedSegments:
    """Read BAGEL or SFHOTEL (Novikova et al. 2017): lines with ``id, prediction, references`` and three ratings.

    An ``id`` numbers rows, not inputs: the data do not say which rows are of one input, so they have no items.

    Args:
        path: The file; its name without the suffix is the group of all rows.
        rating: One of `DATA_TO_TEXT_RATINGS`.

    Returns:
        The rated rows; rows without the rating (null, NaN) are dropped, and counted.

    Raises:
        FileError: No such rating, the file is missing or without a rated row, or a line has another form; names the line.
    """
    _check_name(rating, DATA_TO_TEXT_RATINGS, path)

    def read(line: Fields) -> RatedRow | SkippedRow:
        value = line.rating(rating)
        return SkippedRow(line.place) if value is None else RatedRow(path.stem, line.text("prediction"), line.texts("references"), value)

    return gather(map(read, read_jsonl(path)), path)


def read_summeval(path: Path, rating: str = "relevance") -> RatedSegments:
    """Read SummEval (Fabbri et al. 2021): lines with ``id, model_id, decoded, references`` and ``expert_annotations``, a list of ratings.

    Args:
        path: The file; ``reference``, a text or a list, may stand for ``references``.
        rating: One of `SUMMARY_RATINGS`; the mean over the experts is taken.

    Returns:
        The rated rows; the item is the ``id``, the system the ``model_id``. Rows that not every expert has rated are dropped, and counted.

    Raises:
        FileError: No such rating, the file is missing or without a rated row, or a line has another form; names the line.
    """
    _check_name(rating, SUMMARY_RATINGS, path)

    def read(line: Fields) -> RatedRow | SkippedRow:
        value = _mean_of_experts(line, rating)
        if value is None:
            return SkippedRow(line.place)
        references = line.texts("reference" if "reference" in line.values else "references")
        return RatedRow("summeval", line.text("decoded"), references, value, line.label("id"), line.label("model_id"))

    return gather(map(read, read_jsonl(path)), path)


def _check_name(rating: str, names: Sequence[str], path: Path) -> None:
    if rating not in names:
        raise FileError(f"{path}: no rating is called {rating!r}; {menu(rating, names)}.")


def _mean_of_experts(line: Fields, rating: str) -> float | None:
    """The mean over the experts; None unless all of them, and one at least, have given a rating."""
    experts = line.take("expert_annotations")
    if not isinstance(experts, list) or not all(isinstance(one, dict) for one in experts):
        raise FileError(f"{line.where}: expected a list of ratings by name as expert_annotations, not {experts!r}.")
    values = [Fields(f"{line.where}, expert {number}", one).rating(rating) for number, one in enumerate(experts, 1)]
    given = [value for value in values if value is not None]
    return sum(given) / len(given) if given and len(given) == len(values) else None
