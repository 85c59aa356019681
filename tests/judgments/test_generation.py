"""Readers of rated data-to-text and summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import shared
from tests.judgments.test_readers import written
from twmd_registry.errors import FileError
from twmd_registry.judgments.generation import SUMMARY_RATINGS, read_data_to_text, read_summeval


def lines(folder: Path, *rows: dict[str, Any], name: str = "made.jsonl") -> Path:
    return written(folder, "".join(json.dumps(row) + "\n" for row in rows), name)


def utterance(**changed: Any) -> dict[str, Any]:
    fixed = {
        "id": "0",
        "prediction": "It is by the river .",
        "references": ["It is near the river .", "The river is near ."],
    }
    return {**fixed, "informativeness": 5.0, "naturalness": 3.5, "quality": 4.0, **changed}


def summary(*experts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        "id": "one",
        "model_id": "M1",
        "decoded": "Rain came.",
        "references": ["It rained."],
        "expert_annotations": list(experts),
        **changed,
    }


def expert(value: float | None) -> dict[str, Any]:
    return {**dict.fromkeys(SUMMARY_RATINGS, 1), "relevance": value}


def test_chosen_rating_of_data_to_text_is_read(tmp_path: Path) -> None:
    rating = "naturalness"
    path = lines(tmp_path, utterance(), utterance(**{rating: None}), utterance(**{rating: float("nan")}))
    result = read_data_to_text(path, rating)
    assert (result.ratings.tolist(), result.dropped) == ([3.5], 2)
    assert result.predictions == ["It is by the river ."]
    assert result.references == [["It is near the river .", "The river is near ."]]
    assert (result.group, result.item, result.system) == (["made"], None, None)


def test_rating_of_a_summary_is_the_mean_of_its_experts(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        summary(expert(4), expert(5), expert(2)),
        summary(expert(1), model_id="M2"),
        summary(expert(1), expert(None)),
        summary(),
    )
    result = read_summeval(path)
    assert result.ratings.tolist() == [pytest.approx((4 + 5 + 2) / 3), 1.0]
    assert (result.item, result.system, result.dropped) == (["one", "one"], ["M1", "M2"], 2)
    assert (result.predictions, result.references) == (["Rain came."] * 2, [["It rained."]] * 2)
    assert read_summeval(path, "fluency").ratings.tolist() == [1.0, 1.0, 1.0]


def test_reference_of_a_summary_may_be_a_text(tmp_path: Path) -> None:
    row = summary(expert(3), reference="It rained.")
    del row["references"]
    assert read_summeval(lines(tmp_path, row)).references == ["It rained."]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (utterance(quality="good"), "row 1, quality: expected a rating, a finite number, not 'good'"),
        (utterance(references=[]), r"row 1: expected a text or a list of texts as references, not \[\]"),
        ({"id": "0", "quality": 1}, "row 1: no column 'prediction'; Choices: id, quality"),
    ],
)
def test_damaged_data_to_text_is_refused_with_its_row(row: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        read_data_to_text(lines(tmp_path, row))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (summary({"relevance": 3}, {"fluency": 3}), "row 1, expert 2: no column 'relevance'; Choices: fluency"),
        (summary(expert_annotations=3), "row 1: expected a list of ratings by name as expert_annotations, not 3"),
        (summary(expert(3), model_id=None), "row 1: expected a name as model_id, not None"),
    ],
)
def test_damaged_summary_is_refused_with_its_row(row: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        read_summeval(lines(tmp_path, row))


def test_error_of_an_unknown_rating_lists_the_ratings(tmp_path: Path) -> None:
    with pytest.raises(
        FileError,
        match="no rating is called 'qualty'; did you mean 'quality'. Choices: informativeness, naturalness, quality",
    ):
        read_data_to_text(lines(tmp_path, utterance()), "qualty")
    with pytest.raises(
        FileError, match="no rating is called 'quality'; .*Choices: coherence, consistency, fluency, relevance"
    ):
        read_summeval(lines(tmp_path, summary(expert(1))), "quality")


@pytest.mark.parametrize(("name", "rows"), [("bagel", 404), ("sfhotel", 875)])
def test_public_data_have_their_published_sizes(name: str, rows: int) -> None:
    result = read_data_to_text(shared(f"data/d2t/{name}.jsonl"))
    assert (len(result.ratings), result.dropped, set(result.group)) == (rows, 0, {name})
