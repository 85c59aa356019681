"""Texts written by systems other than translators, rated by people: data-to-text and summaries, as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twmd_registry.errors import FileError, menu
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, skipped
from twmd_registry.judgments.reader import TableRow, read_content, read_rows

DATA_TO_TEXT_RATINGS = ("informativeness", "naturalness", "quality")
SUMMARY_RATINGS = ("coherence", "consistency", "fluency", "relevance")


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
        return RatedRow("summeval", row.text("decoded"), references, value, item, system)

    return gather(map(read, read_rows(path, read_content(path), ".jsonl")), path)


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
