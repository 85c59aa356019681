"""Readers of rated translations, data-to-text and summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.judgments.test_readers import written
from twmd_registry.errors import FileError, TwmdWarning
from twmd_registry.judgments.corpora import (
    SUMMARY_RATINGS,
    read_data_to_text,
    read_summaries,
    read_summeval,
    read_tac,
    read_wmt,
)


def lines(folder: Path, *rows: dict[str, Any], name: str = "made.jsonl") -> Path:
    return written(folder, "".join(json.dumps(row) + "\n" for row in rows), name)


def utterance(**changed: Any) -> dict[str, Any]:
    fixed = {"id": "0", "prediction": "It is by the river .", "references": ["It is near .", "The river is near ."]}
    return {**fixed, "informativeness": 5.0, "naturalness": 3.5, "quality": 4.0, **changed}


def summary(*experts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    fixed = {"id": "one", "model_id": "M1", "decoded": "Rain came.", "references": ["It rained."]}
    return {**fixed, "expert_annotations": list(experts), **changed}


def expert(value: float | None) -> dict[str, Any]:
    return {**dict.fromkeys(SUMMARY_RATINGS, 1), "relevance": value}


def test_labels_of_translations_are_read_and_raters_of_the_same_texts_averaged(tmp_path: Path) -> None:
    fixed = {"lang": "de-en", "document": "d", "source": "Regen", "candidate": "Rain", "reference": "It rains"}
    rows = [
        {**fixed, "system": system, "segment": segment, "domain": "news", "score": score, **changed}
        for system, segment, score, changed in [
            ("A", 1, -5.0, {}),
            ("B", 1, -1.0, {}),
            ("A", 1, 0.0, {}),
            ("A", 2, -2.0, {"lang": "en-de"}),
            ("A", 1, -9.0, {"candidate": "Another text"}),
            ("A", 3, -1.0, {"candidate": ""}),
        ]
    ]
    with pytest.warns(TwmdWarning, match="left out: 2"):
        rated = read_wmt(lines(tmp_path, *rows))
    assert rated.ratings.tolist() == [-2.5, -1.0, -2.0]
    assert (rated.group, rated.system) == (["de-en", "de-en", "en-de"], ["A", "B", "A"])
    assert (rated.item, rated.source, rated.domain) == (["d 1", "d 1", "d 2"], ["Regen"] * 3, ["news"] * 3)
    plain = [{name: row[name] for name in ("lang", "candidate", "reference", "score")} for row in rows[:3]]
    assert read_wmt(lines(tmp_path, *plain)).ratings.tolist() == [-5.0, -1.0, 0.0]


def test_ratings_of_data_to_text_and_of_summaries_are_read(tmp_path: Path) -> None:
    path = lines(tmp_path, utterance(), *(utterance(naturalness=value) for value in (None, float("nan"))))
    result = read_data_to_text(path, "naturalness")
    assert (result.ratings.tolist(), result.dropped) == ([3.5], 2)
    assert result.predictions == ["It is by the river ."]
    assert result.references == [["It is near .", "The river is near ."]]
    assert (result.group, result.item, result.system) == (["made"], None, None)
    path = lines(
        tmp_path,
        summary(expert(4), expert(5), expert(2)),
        summary(expert(1), model_id="M2"),
        summary(expert(1), expert(None), model_id="M3"),
        summary(model_id="M4"),
    )
    result = read_summeval(path)
    assert result.ratings.tolist() == [pytest.approx((4 + 5 + 2) / 3), 1.0]
    assert (result.item, result.system, result.dropped) == (["one", "one"], ["M1", "M2"], 2)
    assert (result.predictions, result.references) == (["Rain came."] * 2, ["It rained."] * 2)
    assert read_summeval(path, "fluency").ratings.tolist() == [1.0, 1.0, 1.0]
    rated = read_tac(write_tac(tmp_path))
    assert (rated.group, rated.system, rated.dropped) == (["D1"] * 3 + ["D2"] * 3, ["0", "1", "2"] * 2, 2)
    assert rated.predictions[1] == "Cats sit. Dogs run. It is late."
    assert rated.references[0] == ["Cats sit. Dogs run fast.", "It is late."]
    assert rated.ratings.tolist() == [0, 0.25, 0.5] * 2
    assert read_tac(tmp_path / "tac.09.mds.gen.resp-pyr", "responsiveness").ratings.tolist() == [3, 2, 1] * 2


@pytest.mark.parametrize(
    ("read", "row", "words"),
    [
        (read_data_to_text, utterance(quality="good"), "row 1, quality: expected a rating, .*, not 'good'"),
        (read_data_to_text, {"id": "0", "quality": 1}, "row 1: no column 'prediction'; choices: id, quality"),
        (read_summeval, summary({"relevance": 3}, {"fluency": 3}), "row 1, expert 2: no column 'relevance'; choices"),
        (read_summeval, summary(expert_annotations=3), "row 1: expected a list of .* as expert_annotations, not 3"),
    ],
)
def test_damaged_row_is_refused_with_its_number(read: Any, row: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        read(lines(tmp_path, row))
    with pytest.raises(FileError, match="did you mean 'quality'.* Choices: informativeness"):
        read_data_to_text(lines(tmp_path, utterance()), "qualty")


RATED_SUMMARY = {"doc": "d1", "system": "s1", "prediction": "Cats sit.", "references": ["A cat sits.", "It sits."]}


def test_summaries_have_the_requested_rating(tmp_path: Path) -> None:
    both = RATED_SUMMARY | {"ratings": {"fluency": 4, "relevance": 2.5}}
    rated = read_summaries(lines(tmp_path, both), "relevance")
    assert (rated.item, rated.system, rated.ratings.tolist()) == (["d1"], ["s1"], [2.5])
    assert rated.references == [["A cat sits.", "It sits."]]
    assert read_summaries(lines(tmp_path, RATED_SUMMARY | {"ratings": {"recall": 1}})).ratings.tolist() == [1.0]
    with pytest.raises(FileError, match=r"row 1: .*,rating=NAME; choices: fluency, relevance"):
        read_summaries(lines(tmp_path, both))
    with pytest.raises(FileError, match="'recal'"):
        read_summaries(lines(tmp_path, RATED_SUMMARY | {"ratings": {"recall": 1}}), "recal")
    with pytest.raises(FileError, match="row 1: expected numbers by name as ratings, not 3"):
        read_summaries(lines(tmp_path, RATED_SUMMARY | {"ratings": 3}))


def write_tac(folder: Path, **changes: Any) -> Path:
    """Write two topics, each with two references and four summaries; the last has a single sentence."""
    summaries: list[dict[str, Any]] = [
        {"summ_id": i, "text": ["Cats sit.", "Dogs run."][: 2 - i // 3] + ["It is late."] * i, "pyr_score": i / 4}
        for i in range(3)
    ]
    summaries.append({"summ_id": 3, "text": ["Alone."], "pyr_score": 0})
    topics = {
        topic: {
            "references": [{"text": ["Cats sit.", "Dogs run fast."]}, {"text": ["It is late."]}],
            "annotations": [{"responsiveness": 3 - row["summ_id"], **row, **changes} for row in summaries],
        }
        for topic in ("D1", "D2")
    }
    path = folder / "tac.09.mds.gen.resp-pyr"
    path.write_text(json.dumps(topics), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "expected a JSON object of topics"),
        ('{"D1": {"references": [{"text": ["One."]}]}}', "D1: no column 'annotations'; choices: references"),
        ('{"D1": {"references": [{"text": ["One.", 2]}]}}', "D1, reference 1: expected a list of sentences as text"),
    ],
)
def test_damaged_tac_file_is_refused(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "tac").write_text(content, encoding="utf-8")
    with pytest.raises(FileError, match=words):
        read_tac(tmp_path / "tac")
    with pytest.raises(FileError, match="D1, annotation 1: expected a rating, a finite number, not 'high'"):
        read_tac(write_tac(tmp_path, pyr_score="high"))
    with pytest.raises(FileError, match="D1, annotation 1: expected a name as summ_id, not None"):
        read_tac(write_tac(tmp_path, summ_id=None))
