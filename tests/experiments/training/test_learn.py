"""Learning from rated sets: splits, z-scores, errors, batches, losses, and resuming."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import twmd_registry
from experiments.training import defaults, sets
from experiments.training.edits import ERRORS, make_errors
from experiments.training.learn import Batches, Plan, Weighted, learn, make_judge, ranking_loss
from experiments.training.sets import RatedSet, add_rows, halves, read_learned, read_part, standardise, tenth
from experiments.training.small_adapter import shrink
from tests.conftest import Run
from tests.train.rated_words import rated_words, write_words
from twmd_registry.engine.pairs import check_segments
from twmd_registry.errors import SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

KEYS: dict[str, Any] = {"layer": 2, "centering": "none", "temperature": 0.1}


@pytest.fixture(scope="module")
def student(tiny_encoder: Any) -> str:
    return str(tiny_encoder("bert"))


def words_of(number: int, seed: int) -> RatedSegments:
    """Return rated words; every two consecutive ones are outputs of a segment."""
    return standardise(rated_words(number, seed)._replace(item=[f"doc {k // 2}" for k in range(number)]))


def run_to(plan: Plan, output: Path, stop: int) -> None:
    rated = [Weighted("a", words_of(96, 1), 1.0), Weighted("b", words_of(48, 2), 0.5)]
    for step, _ in enumerate(learn(rated, plan, output, name="words", options=RunOptions(device="cpu")), 1):
        if step == stop:
            break


def test_run_learns_and_resumes(student: str, tmp_path: Path) -> None:
    spec = make_spec("twmd", model=student, **KEYS)
    plan = Plan(spec, steps=40, batch=12, rank=4, rate=2e-2, dropout=0.1, every=15)
    run_to(plan, tmp_path / "whole", 999)
    run_to(plan, tmp_path / "parts", 20)  # five steps after a checkpoint
    with pytest.raises(SpecError, match="other settings"):
        run_to(plan._replace(rate=1e-3), tmp_path / "parts", 1)
    run_to(plan, tmp_path / "parts", 999)
    whole, parts = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("whole", "parts"))
    assert all(torch.allclose(whole[name], parts[name], atol=1e-6) for name in whole)
    other = rated_words(60, 3)
    before, after = (scores_of(other, student, adapter) for adapter in (None, tmp_path / "whole"))
    assert correlate("pearson", after, other.ratings) > correlate("pearson", before, other.ratings) + 0.1
    # Training can start from an 8-bit copy.
    shrink(tmp_path / "whole", tmp_path / "small")
    run_to(plan._replace(steps=1, rate=0.0, dropout=0.0, start=str(tmp_path / "small")), tmp_path / "begun", 999)
    assert scores_of(other, student, tmp_path / "begun") == pytest.approx(after, abs=2e-3)


def test_trained_similarity_is_the_score_against_reference_and_source(student: str) -> None:
    keys: dict[str, Any] = {**KEYS, "model": student, "against": "both", "source_weight": 0.3}
    rated = rated_words(6, 1)
    sources = [" ".join(reversed(text.split())) + " end" for text in rated.predictions]
    segments = check_segments(rated.predictions, rated.references, sources)
    _, _, judge = make_judge(Plan(make_spec("twmd", **keys), steps=1, rank=4), 1, RunOptions(device="cpu"))
    scores = twmd_registry.score(rated.predictions, rated.references, sources=sources, **keys).scores
    assert judge.similarities(segments).tolist() == pytest.approx(scores, abs=1e-5)
    references = judge.similarities(segments._replace(sources=None)).tolist()
    assert references != pytest.approx(scores, abs=1e-3)


def scores_of(rated: RatedSegments, model: str, adapter: Path | None) -> np.ndarray:
    keys: dict[str, Any] = {**KEYS, "model": model, "adapter": str(adapter) if adapter else None}
    return np.array(twmd_registry.score(rated.predictions, rated.references, "twmd", **keys).scores)


def test_batch_has_whole_segments_of_one_group() -> None:
    rated = words_of(200, 1)
    batches = Batches([Weighted("a", rated, 1.0), Weighted("b", rated, 0.0)], 12, seed=1)
    drawn = [batches.draw(step) for step in range(20)]
    assert {batch.group for batch in drawn} == {0, 1}
    group = dict(zip(rated.predictions, rated.group, strict=True))
    for batch in drawn:
        assert len(batch.ratings) == 12
        assert len({group[text] for text in batch.segments.predictions}) == 1
    assert batches.draw(3).segments == drawn[3].segments


@pytest.mark.parametrize("kind", ["ranknet", "margin"])
def test_ranking_compares_differently_rated_outputs_of_a_segment(kind: Any) -> None:
    ratings, items = torch.tensor([1.0, -1.0, 0.9, 3.0]), torch.tensor([0, 0, 0, 1])
    right, wrong = torch.tensor([1.0, -1.0, 0.9, 0.0]), torch.tensor([-1.0, 1.0, -0.9, 0.0])
    assert ranking_loss(right, ratings, items, kind) < ranking_loss(wrong, ratings, items, kind)
    tied = torch.tensor([9.0, 0.0])
    assert ranking_loss(tied, torch.tensor([0.1, 0.0]), torch.tensor([0, 0]), kind) == 0
    assert ranking_loss(tied, torch.tensor([1.0, -1.0]), torch.tensor([0, 1]), kind) == 0


def test_every_error_changes_the_text_and_lowers_the_rating() -> None:
    text = "On Monday, 12 people saw Berlin, which is not far; they stayed for 5 km, said Anna."
    rated = RatedSegments(["x"] * 40, [text] * 40, [text + "!"] * 20 + ["We met Carl in Rome."] * 20, np.ones(40), 0)
    rated = rated._replace(source=["quelle"] * 40, item=["1"] * 40, system=["s"] * 40)
    errors = make_errors(rated, 1.0, -3.0, seed=1)
    assert set(errors.ratings) == {1 - margin for _, margin in ERRORS.values() if margin} | {-3.0}
    assert text not in errors.predictions
    assert "quelle" in errors.predictions
    assert len(add_rows(rated, errors).system or []) == 40 + len(errors.predictions)


def test_splits_have_no_document_in_common_and_exclude_held_out_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '{{"lang": "de-en", "system": "{s}", "document": "d{d}", "segment": 1, "candidate": "text {d} {s}", '
    line += '"reference": "whole {d}", "score": {d}.5}}\n'
    (tmp_path / "a.jsonl").write_text("".join(line.format(d=d, s=s) for d in range(40) for s in "xy"))
    (tmp_path / "test.jsonl").write_text(line.format(d=99, s="x").replace("whole 99", "WHOLE, 7"))
    monkeypatch.setattr(sets, "TESTS", ("wmt:test.jsonl",))
    for part, counts in ((tenth, (72, 8, 0)), (halves, (24, 16, 40))):
        rated_set = RatedSet("a", "wmt:a.jsonl", part)
        monkeypatch.setattr(sets, "SETS", (rated_set,))
        parts = [read_part(rated_set, tmp_path, name) for name in ("learn", "dev", "test")]
        assert tuple(len(rated.predictions) for rated in parts) == counts
        documents = [set(map(str, rated.references)) for rated in parts]
        assert len(set().union(*documents)) == sum(map(len, documents))
        learned = read_learned(["a"], tmp_path, "en")["a"]
        assert "whole 7" not in learned.references
        assert abs(learned.ratings.mean()) < 0.2
    assert not read_part(rated_set, tmp_path, "learn", "de").predictions
    with pytest.raises(SpecError, match="no set"):
        read_learned(["b"], tmp_path, None)


def test_ratings_are_standardised_within_language() -> None:
    rated = rated_words(40, 1)
    shifted = rated.ratings + 10 * np.array([name == "cs-en" for name in rated.group])
    z = standardise(rated._replace(ratings=shifted)).ratings
    for name in ("cs-en", "de-en"):
        group_z = z[np.array(rated.group) == name]
        assert (group_z.mean(), group_z.std()) == pytest.approx((0, 1))
    wild: Iterable[float] = standardise(rated._replace(ratings=np.r_[1e6, np.arange(39)])).ratings
    assert max(wild) == sets.CLIPPED


@pytest.mark.parametrize("command", ["dev", "defaults"])
def test_metrics_are_measured_side_by_side(
    command: str, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_words(Path("a.jsonl"), 20, 1)
    monkeypatch.setattr(sets, "SETS", (RatedSet("a", "wmt:a.jsonl", lambda _: "dev"),))
    monkeypatch.setattr(sets, "KINDS", {"words": ("a",)})
    monkeypatch.setattr(defaults, "KINDS", (defaults.Kind("words", ("wmt:a.jsonl",)),))
    status, printed, _ = run(f"{command} --data-dir . -m twmd bertscore_centered")
    assert (status, "words" in printed) == (0, True)
    assert {"twmd", "bertscore_centered"} <= set(printed.split())
