"""Distillation: a student learns the scores of a teacher; runs that end go on with the same ratings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests.conftest import Patch, Run
from tests.train.rated_words import RUSSIAN, rated_words, write_words
from twmd_registry.cli import main
from twmd_registry.engine.scorer import score_segments
from twmd_registry.errors import FileError, InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.train.data import TrainingData, check_held_out, make_examples
from twmd_registry.train.distillation import EDITED, Distillation, add_edits, read_pairs
from twmd_registry.train.edits import EDITS, edit_pairs

KEYS: dict[str, Any] = {"layer": 2, "centering": "none", "temperature": 0.1}


@pytest.fixture(scope="module")
def models(tiny_encoder: Any) -> tuple[str, str]:
    """Return the encoders of a teacher and of a student."""
    return str(tiny_encoder("bert")), str(tiny_encoder("roberta"))


def write_pairs(path: Path, number: int, seed: int) -> RatedSegments:
    """Write pairs of texts as a table, and return them."""
    data = rated_words(number, seed)
    rows = zip(data.group, data.predictions, data.references, strict=True)
    lines = [json.dumps({"group": g, "prediction": p, "reference": r}) for g, p, r in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return data


def command(models: tuple[str, str], pairs: Path, output: Path, more: str = "") -> list[str]:
    """Return the words of a command that distills a teacher into a student."""
    keys = [f"{key}={value}" for key, value in KEYS.items()]
    metric = ";".join(["twmd", f"model={models[0]}", *keys])
    recipe = f"-o {output} --epochs 4 --learning-rate 2e-2 --rank 4 --name student --device cpu --set"
    return ["distill", metric, "twmd", "--pairs", str(pairs), *f"{more} {recipe}".split(), f"model={models[1]}", *keys]


def test_student_agrees_better_with_its_teacher(models: tuple[str, str], tmp_path: Path, run: Run) -> None:
    pairs, output = tmp_path / "pairs.jsonl", tmp_path / "student"
    write_pairs(pairs, 96, 1)
    rated = write_words(tmp_path / "rated.jsonl", 20, 4)
    held_out = write_words(tmp_path / "held_out.jsonl", 20, 9)
    more = f"--train {rated} --holdout {held_out} --edits numbers negations"
    assert run("", *command(models, pairs, output, more))[0] == 0
    other = rated_words(48, 2)
    teacher, student = models
    asked: list[dict[str, Any]] = [{"model": teacher}, {"model": student}, {"model": student, "adapter": str(output)}]
    wanted, before, after = (
        twmd_registry.score(other.predictions, other.references, "twmd", **keys, **KEYS).scores for keys in asked
    )
    agreement = [correlate("pearson", np.array(scores), np.array(wanted)) for scores in (before, after)]
    assert agreement[1] > agreement[0] + 0.1
    card = (output / "README.md").read_text(encoding="utf-8")
    signature = twmd_registry.scorer("twmd", model=teacher, **KEYS).signature
    assert f"pairs.jsonl with edits (numbers, negations; margin 1) are scores of {signature}. They took 0." in card
    assert "distilled from another metric" in card
    assert "a reference in common with the held-out data: held_out.jsonl@" in card
    assert "None of the pairs that a teacher rated has any text in common with them, prediction or reference." in card
    assert '= "Distilled by twmd-registry ' in (output / "preset.toml").read_text(encoding="utf-8")
    assert not (output / "checkpoints").exists()


def interrupt(*_given: Any, **_settings: Any) -> None:
    raise KeyboardInterrupt


def test_ratings_are_made_again_if_damaged_and_at_once_with_batch_centering(
    tmp_path: Path, models: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, teacher = TrainingData("pairs", rated_words(8, 1)), twmd_registry.scorer("twmd", model=models[0], **KEYS)
    distillation = Distillation(teacher, (data,))
    (first,) = distillation.rate(tmp_path, seed=1)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    for size in (0, 5, len(whole) - 4):
        kept.write_bytes(whole[:size])
        (again,) = distillation.rate(tmp_path, seed=1)
        assert again.rated.ratings == pytest.approx(first.rated.ratings)
        assert len(kept.read_bytes()) == len(whole)
    monkeypatch.setattr("twmd_registry.train.distillation.CHUNK", 10)
    data = TrainingData("pairs", rated_words(24, 1))
    teacher = twmd_registry.scorer("twmd", model=models[0], **KEYS | {"centering": "batch"})
    (rated,) = Distillation(teacher, (data,)).rate(tmp_path, seed=1)
    assert rated.rated.ratings == pytest.approx(teacher.score(data.rated.predictions, data.rated.references).scores)


def test_interrupted_rating_goes_on(models: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, learned = tmp_path / "pairs.jsonl", []
    data, rows = write_pairs(path, 24, 1), list[range]()

    def score_ten(scorers: Any, segments: Any, **given: Any) -> Any:
        rows.append(given["rows"])
        return interrupt() if rows[2:] == [range(20, 24)] else score_segments(scorers, segments, **given)

    monkeypatch.setattr("twmd_registry.train.distillation.CHUNK", 10)
    monkeypatch.setattr("twmd_registry.train.distillation.score_segments", score_ten)

    def keep(own: list[TrainingData]) -> Any:
        if own[0].teacher is None:
            return make_examples(own)  # the check before the teacher rates
        learned.extend(own)
        return interrupt()

    monkeypatch.setattr("twmd_registry.train.data.make_examples", keep)
    for more in ("", "--resume"):
        main(command(models, path, tmp_path / "student", more))
    assert rows == [range(10), range(10, 20), range(20, 24), range(20, 24)]
    whole = twmd_registry.score(data.predictions, data.references, "twmd", model=models[0], **KEYS).scores
    assert learned[0].rated.ratings == pytest.approx(whole, abs=1e-5)


def test_file_without_a_pair_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").touch()
    with pytest.raises(FileError, match="holds no pair"):
        read_pairs(tmp_path / "pairs.jsonl")


@pytest.mark.parametrize("role", ["predictions", "references"])
def test_pairs_with_a_held_out_text_are_refused(role: str) -> None:
    pairs, held_out = TrainingData("pairs", rated_words(6, 1)), TrainingData("test", rated_words(6, 2))
    check_held_out([pairs], [held_out], predictions=True)
    held_out.rated.predictions[4] = getattr(pairs.rated, role)[2].upper().replace(" ", "  ")
    with pytest.raises(InputError, match=r"a text that is held out \(test\): pairs 1 of 6 \(the first: 3\); take them"):
        check_held_out([pairs], [held_out], predictions=True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--resume", "no interrupted run"),
        ("--train {rated} --holdout {rated}", "segments whose reference is held out"),
        ("--set against=source", "pairs.jsonl has no sources, and twmd compares with them (against=source)"),
        ("teacher against=source", "a teacher rates predictions against references, and this twmd compares them with"),
        ("teacher against=both", "sources (against=source): give another teacher."),
        ("student embedded", "pairs.jsonl: 100% of the letters are in scripts that sentence-transformers/"),
    ],
)
def test_run_that_would_fail_is_refused_before_the_teacher_rates(
    more: str, message: str, models: tuple[str, str], tmp_path: Path, run: Run
) -> None:
    pairs, output, (role, _, given) = tmp_path / "pairs.jsonl", tmp_path / "student", more.partition(" ")
    write_pairs(pairs, 24, 1)
    teacher, student = models
    if role in {"teacher", "student"}:
        teacher, student, more = (f"{teacher};{given}", student, "") if role == "teacher" else (teacher, given, "")
    if role == "student":
        pairs.write_text(f'{{"prediction": "{RUSSIAN}", "reference": "{RUSSIAN}"}}', encoding="utf-8")
    more = more.format(rated=write_words(tmp_path / "rated.jsonl", 20, 4))
    status, _, err = run("", *command((teacher, student), pairs, output, more))
    assert (status in {1, 2}, message in err) == (True, True)
    assert not output.exists()


@pytest.mark.parametrize(
    ("role", "groups", "message"),
    [
        ("pairs", ["de"], "pairs.jsonl holds a single pair, whose rating teaches nothing: add pairs."),
        ("pairs", ["de", "de", "de", "cs"], "leave out pairs.jsonl with edits (numbers; margin 1), group cs (1)"),
        ("--train", ["de", "de", "de", "cs"], "and ratings that vary: leave out rated.jsonl, group cs (1)"),
        ("--dev", ["de", "de", "de", "cs"], "rated.jsonl, group cs: pearson is undefined: 3 or more values are needed"),
    ],
)
def test_group_without_a_correlation_is_refused_before_the_teacher_rates(
    role: str, groups: list[str], message: str, models: tuple[str, str], *, tmp_path: Path, run: Run
) -> None:
    pairs, rated = tmp_path / "pairs.jsonl", tmp_path / "rated.jsonl"
    write_pairs(pairs, 24, 1)
    own = [{"group": group, "prediction": f"a cat {k}", "reference": "2"} for k, group in enumerate(groups)]
    people = [{"lang": one, "candidate": "a cat", "reference": "it ran", "score": k} for k, one in enumerate(groups)]
    path, rows, more = (pairs, own, "") if role == "pairs" else (rated, people, f"{role} wmt:{rated}")
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = command(models, pairs, tmp_path / "student", f"--loss pearson --edits numbers {more}")
    status, _, err = run("", *words)
    assert (status, message in err) == (1, True)
    assert not (tmp_path / "student").exists()


def test_run_of_another_teacher_is_not_resumed(
    models: tuple[str, str], tmp_path: Path, monkeypatch: Patch, run: Run
) -> None:
    pairs, output = tmp_path / "pairs.jsonl", tmp_path / "student"
    write_pairs(pairs, 24, 1)
    monkeypatch.setattr("twmd_registry.train.finetune._train", interrupt)
    run("", *command(models, pairs, output))
    kept = sorted(output.rglob("*"))
    status, _, err = run("", *command((models[1], models[1]), pairs, output, "--resume"))
    was, now = (twmd_registry.scorer("twmd", model=model, **KEYS).signature for model in models)
    assert (status, f"run of another plan: teacher was '{was}' and is '{now}'." in err) == (2, True)
    assert sorted(output.rglob("*")) == kept


@pytest.mark.parametrize(
    ("kind", "prediction", "reference", "expected"),
    [
        ("numbers", "12 Menschen", "es waren 12", r"[1-9]\d Menschen"),
        ("numbers", "१२ लोग", "वहाँ १२ लोग", r"[१-९]\d लोग"),
        ("numbers", "12 people", "twelve people", None),  # what is not in the reference may be an error already
        ("units", "costs 5€", "it is 5€", "costs 5[$£¥]"),
        ("units", "in 5 t Stahl", "5 t Stahl", "in 5 (kg|g) Stahl"),
        ("units", "the t shirt", "a t shirt", None),
        ("names", "wir sahen Prag", "sie sahen Prag", "wir sahen (Wien|Rom)"),
        ("names", "Prag ist nah", "Prag ist nah", None),
        ("names", "我们看到了", "我们看到了", None),
        ("negations", "er kam nicht", "er ist nicht da", "er kam"),
        ("negations", "他不在", "他不在家", "他在"),
        ("negations", "he is late", "he is very late", "he is not late"),
        ("negations", "he can't go home", "they can't go", "he can go home"),
        ("negations", "they cannot see it", "they cannot see this", "they can see it"),
        ("negations", "he isn\u2019t here", "he isn\u2019t there", "he is here"),
        ("negations", "she doesn't know that", "she doesn't know it", "she does know that"),
        ("negations", "it was never that late", "it was never late", "it was that late"),
        ("negations", "he has no doubt of that", "she has no doubt of it", "he has doubt of that"),
        ("negations", "hoy no es tarde", "hoy no es tarde", "hoy es tarde"),
        ("negations", "он не спит", "он не спит", "он спит"),
        # A right edit is not known, or the words mean something else in these languages.
        ("negations", "he won't go to the house", "he won't go to that house", None),
        ("negations", "is it that late?", "is it late?", None),
        ("negations", "they had no longer seen the sea", "they had no longer seen it", None),
        ("negations", "this is his will and that is", "his will and this", None),
        ("negations", "er will gehen", "er will gehen", None),
        ("negations", "er war in Not", "er war in Not", None),
        ("negations", "er hat nie nichts gesagt", "er hat nie nichts gesagt", None),
        ("negations", "ele mora no Brasil", "ele mora no Brasil", None),
        ("negations", "он никогда не спит", "он не спит", None),
        ("negations", "екі не үш жылға", "екі не үш жылға", None),
        ("negations", "此处不動産", "此处不動産", None),
        ("names", "мы видели Прагу", "они видели Прагу", None),
        ("units", "5 км", "5 км", None),
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
    data = TrainingData("pairs", RatedSegments(["x"] * 40, texts, [[text] for text in texts], ratings, 0), "teacher")
    both = add_edits(data, list(EDITS), 2.0, seed=3).rated
    edits = list(zip(both.predictions, both.references, both.ratings, strict=True))[40:]
    assert len(edits) == 40 / EDITED
    for text, (reference,), rating in edits:
        assert text != reference
        assert rating == pytest.approx(ratings[texts.index(reference)] - 2 * ratings.std())
    assert both.predictions[:40] == texts
