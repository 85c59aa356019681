"""A teacher's table: rating, resuming, edits and errors; a student learns from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from experiments.training import teacher as teacher_module
from experiments.training.edits import EDITS, edit_pairs
from experiments.training.teacher import EDITED, add_edits, rate
from tests.conftest import Run
from tests.train.rated_words import RUSSIAN, rated_words, write_words
from twmd_registry.cli import main
from twmd_registry.engine.scorer import score_segments
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.train.data import TrainingData, check_held_out

KEYS: dict[str, Any] = {"layer": 2, "centering": "none", "temperature": 0.1}
SET = " ".join(f"{key}={value}" for key, value in KEYS.items())


@pytest.fixture(scope="module")
def models(tiny_encoder: Any) -> tuple[str, str]:
    """Return a teacher's and a student's encoder."""
    return str(tiny_encoder("bert")), str(tiny_encoder("roberta"))


def write_pairs(path: Path, number: int, seed: int) -> RatedSegments:
    """Write pairs of texts as a table, and return them."""
    data = rated_words(number, seed)
    rows = zip(data.group, data.predictions, data.references, strict=True)
    lines = [json.dumps({"group": g, "prediction": p, "reference": r}) for g, p, r in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return data


def test_trained_student_agrees_better_with_its_teacher(models: tuple[str, str], folder: Path, run: Run) -> None:
    teacher, student = models
    write_pairs(Path("pairs.jsonl"), 96, 1)
    held_out = write_words(Path("held_out.jsonl"), 20, 9)
    words = f"--edits numbers negations --holdout {held_out} -o rated.jsonl --set model={teacher} {SET}"
    status, printed, _ = run(f"rate pairs.jsonl -m twmd {words}")
    assert (status, Path("rated.jsonl.part").exists()) == (0, False)
    signature = twmd_registry.load("twmd", model=teacher, **KEYS).signature
    assert f"signature {signature}" in printed
    line = "train metric table:rated.jsonl,group=group -m twmd -o student --epochs 4 --learning-rate 2e-2 --rank 4"
    assert main([*f"{line} --device cpu -q --set model={student} {SET}".split()]) == 0
    other = rated_words(48, 2)
    models_keys: list[dict[str, Any]] = [
        {"model": teacher},
        {"model": student},
        {"model": student, "adapter": "student"},
    ]
    taught, before, after = (
        twmd_registry.score(other.predictions, other.references, "twmd", **keys, **KEYS).scores for keys in models_keys
    )
    agreement = [correlate("pearson", np.array(scores), np.array(taught)) for scores in (before, after)]
    assert agreement[1] > agreement[0] + 0.1


@pytest.mark.parametrize("centering", ["none", "batch"])
def test_interrupted_rating_resumes_and_batches_are_rated_together(
    centering: str, models: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, rows, part = rated_words(24, 1), list[range](), tmp_path / "rated.jsonl.part"
    scorer = twmd_registry.load("twmd", model=models[0], **KEYS | {"centering": centering})

    def score_ten(scorers: Any, segments: Any, **options: Any) -> Any:
        rows.append(options["rows"])
        if rows[2:] == [range(20, 24)]:
            raise KeyboardInterrupt
        return score_segments(scorers, segments, **options)

    monkeypatch.setattr(teacher_module, "CHUNK", 10)
    monkeypatch.setattr(teacher_module, "score_segments", score_ten)
    if centering == "none":
        with pytest.raises(KeyboardInterrupt):
            rate(scorer, pairs, part)
    rated = rate(scorer, pairs, part)
    once = [range(10), range(10, 20), range(20, 24), range(20, 24)] if centering == "none" else [range(24)]
    assert (rows, part.exists()) == (once, False)
    assert rated.ratings == pytest.approx(scorer.score(pairs.predictions, pairs.references).scores, abs=1e-5)


def test_ratings_of_another_teacher_or_other_pairs_are_not_reused(models: tuple[str, str], tmp_path: Path) -> None:
    pairs, part = rated_words(8, 1), tmp_path / "part"
    scorer = twmd_registry.load("twmd", model=models[0], **KEYS)
    part.write_text(json.dumps("0" * 64) + "\n" + json.dumps([9.0] * 8) + "\n", encoding="utf-8")
    assert rate(scorer, pairs, part).ratings.max() < 2


@pytest.mark.parametrize("role", ["predictions", "references"])
def test_pairs_with_a_held_out_text_are_refused(role: str) -> None:
    pairs, held_out = TrainingData("pairs", rated_words(6, 1)), TrainingData("test", rated_words(6, 2))
    check_held_out([pairs], [held_out], predictions=True)
    held_out.rated.predictions[4] = getattr(pairs.rated, role)[2].upper().replace(" ", "  ")
    with pytest.raises(
        InputError, match=r"a text that is held out \(test\): pairs 1 of 6 \(the first: 3\); remove them"
    ):
        check_held_out([pairs], [held_out], predictions=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--holdout {held_out}", "is held out"),
        ("--set against=source", "give another teacher"),
        ("--set model=embedded", "scripts"),
    ],
)
def test_wrong_rating_is_refused_before_it_begins(
    words: str, message: str, models: tuple[str, str], folder: Path, run: Run
) -> None:
    held_out = write_words(Path("held_out.jsonl"), 20, 1)
    write_pairs(Path("pairs.jsonl"), 24, 1)
    if "embedded" in words:
        Path("pairs.jsonl").write_text(f'{{"prediction": "{RUSSIAN}", "reference": "{RUSSIAN}"}}', encoding="utf-8")
    model = "" if "embedded" in words else f"--set model={models[0]} {SET}"
    line = f"rate pairs.jsonl -m twmd -o rated.jsonl {model} {words.format(held_out=held_out)}".replace(
        f"{SET} --set", SET
    )
    status, printed, err = run(line)
    assert (status in {1, 2}, printed, message in err) == (True, "", True), err
    assert not Path("rated.jsonl").exists()


@pytest.mark.parametrize(
    ("kind", "prediction", "reference", "expected"),
    [
        ("numbers", "12 Menschen", "es waren 12", r"[1-9]\d Menschen"),
        ("numbers", "12 people", "twelve people", None),  # a word missing from the reference may be an error already
        ("units", "costs 5€", "it is 5€", "costs 5[$£¥]"),
        ("units", "in 5 t Stahl", "5 t Stahl", "in 5 (kg|g) Stahl"),
        ("names", "wir sahen Prag", "sie sahen Prag", "wir sahen (Wien|Rom)"),
        ("names", "Prag ist nah", "Prag ist nah", None),
        ("negations", "er kam nicht", "er ist nicht da", "er kam"),
        ("negations", "he is late", "he is very late", "he is not late"),
        ("negations", "he can't go home", "they can't go", "he can go home"),
        ("negations", "he isn\u2019t here", "he isn\u2019t there", "he is here"),
        ("negations", "she doesn't know that", "she doesn't know it", "she does know that"),
        ("negations", "he has no doubt of that", "she has no doubt of it", "he has doubt of that"),
        ("negations", "он не спит", "он не спит", "он спит"),
        # A right edit is not known, or the words mean something else in these languages.
        ("negations", "he won't go to the house", "he won't go to that house", None),
        ("negations", "they had no longer seen the sea", "they had no longer seen it", None),
        ("negations", "er will gehen", "er will gehen", None),
        ("negations", "er hat nie nichts gesagt", "er hat nie nichts gesagt", None),
        ("negations", "он никогда не спит", "он не спит", None),
        ("negations", "此处不動産", "此处不動産", None),
    ],
)
def test_edit_changes_what_the_reference_has(kind: str, prediction: str, reference: str, expected: str | None) -> None:
    predictions, references = [prediction, "sie sahen Wien", "in Rom"], [reference, "sie sahen Wien", "sie in Rom"]
    edited = dict(edit_pairs(predictions, references, [kind], seed=1))
    if expected is None:
        assert 0 not in edited
    else:
        assert re.fullmatch(expected, edited[0])
        assert edited[0] != prediction


def test_edits_are_rated_a_margin_below_their_pairs() -> None:
    texts = [f"there are {k} cats" for k in range(40)]
    ratings = np.linspace(0, 1, 40)
    pairs = RatedSegments(["x"] * 40, texts, [[text] for text in texts], ratings, 0)
    both = add_edits(pairs, list(EDITS), 2.0, seed=3)
    edits = list(zip(both.predictions, both.references, both.ratings, strict=True))[40:]
    assert len(edits) == 40 / EDITED
    for text, (reference,), rating in edits:
        assert text != reference
        assert rating == pytest.approx(ratings[texts.index(reference)] - 2 * ratings.std())
    assert both.predictions[:40] == texts
