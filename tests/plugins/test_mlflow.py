"""MLflow: feedback of GenAI evaluations and metrics of classic ones, with the command line's scores and signatures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="scorers for MLflow need the extra mlflow")

import mlflow
import pandas as pd

import twmd_registry
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import ArgumentError, InputError, TwmdWarning
from twmd_registry.plugins.mlflow import classic_metric, genai_scorer

OUTPUTS = ["the dog barked all night", "there was no ferry", "the library opens"]
TARGETS: list[Any] = ["a dog barked", ["the ferry was cancelled", "the ferry did not run"], "a library opens"]
REFERENCES = [[target] if isinstance(target, str) else target for target in TARGETS]


@pytest.fixture(autouse=True)
def tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep runs in a folder, send nothing."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(tmp_path.joinpath("runs").as_uri())
    mlflow.set_experiment("texts")


def test_feedback_has_the_score_the_alignment_and_the_signature(passes: list[int]) -> None:
    rows = [
        {"inputs": {"question": str(number)}, "outputs": output, "expectations": {"expected_response": target}}
        for number, (output, target) in enumerate(zip(OUTPUTS * 4, TARGETS * 4, strict=True))
    ]
    found = mlflow.genai.evaluate(data=rows, scorers=[genai_scorer("twmd", layer=6)])
    assert sum(passes) == len(rows)
    assert len(passes) < len(rows)
    expected = twmd_registry.score(OUTPUTS * 4, REFERENCES * 4, "twmd", layer=6)
    assert found.metrics["twmd_layer_6/mean"] == pytest.approx(expected.score, abs=1e-6)
    table = found.result_df
    assert sorted(table["twmd_layer_6/value"]) == pytest.approx(sorted(expected.scores), abs=1e-6)
    feedback = [row for rows in table["assessments"] for row in rows if row["assessment_name"] == "twmd_layer_6"]
    signatures = {row["metadata"]["signature"] for row in feedback}
    assert signatures == {
        str(twmd_registry.score([output], [target], "twmd", layer=6).signature)
        for output, target in zip(OUTPUTS, REFERENCES, strict=True)
    }
    assert any("dog > dog " in row["rationale"] for row in feedback)
    assert all("\n" not in row["rationale"] for row in feedback)


def test_output_in_another_script_counts_in_the_mean_or_is_refused() -> None:
    trace: dict[str, Any] = {"outputs": "собака лаяла всю ночь", "expectations": {"expected_response": "a dog barked"}}
    with pytest.warns(TwmdWarning, match="of the letters are in scripts that"):
        value = genai_scorer("twmd")(**trace).value
    expected = twmd_registry.score([trace["outputs"]], ["a dog barked"], "twmd", any_language=True)
    assert value == pytest.approx(expected.score, abs=1e-6)
    with pytest.raises(ValueError, match="does not read, mostly Cyrillic"):
        genai_scorer("twmd", any_language=False)(**trace)


def test_missing_expectation_is_named() -> None:
    for expectations, listed in (({"expected_response": "a"}, "expected_response"), (None, "none")):
        with pytest.raises(
            ValueError, match=f"no expectation 'answer' to score against; the expectations are {listed}"
        ):
            genai_scorer("sbert", reference="answer")(outputs="a", expectations=expectations)


@pytest.mark.parametrize(("metric", "keys"), [("ensemble(sbert,wordset_cka)", {}), ("sbert", {"align": "sentences"})])
def test_metric_without_an_alignment_has_no_rationale(metric: str, keys: dict[str, Any]) -> None:
    feedback = genai_scorer(metric, **keys)(outputs="a cat", expectations={"expected_response": "cats"})
    expected = twmd_registry.score(["a cat"], ["cats"], metric, **keys)
    assert (feedback.value, feedback.rationale) == (pytest.approx(expected.score, abs=1e-6), None)


def test_classic_metric_scores_all_rows_in_one_call_and_tags_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    score = Scorer.score

    def counted(self: Scorer, predictions: list[str], *texts: Any, **options: Any) -> Any:
        passes.append(len(predictions))
        return score(self, predictions, *texts, **options)

    monkeypatch.setattr(Scorer, "score", counted)
    table = pd.DataFrame({"output": OUTPUTS, "target": ["a dog barked", "the ferry was cancelled", "a library opens"]})
    with mlflow.start_run() as run:
        found = mlflow.models.evaluate(
            data=table, predictions="output", targets="target", extra_metrics=[classic_metric("twmd", layer=6)]
        )
    assert passes == [1, len(OUTPUTS)]  # MLflow tries a metric on the first row
    expected = twmd_registry.score(OUTPUTS, list(table["target"]), "twmd", layer=6)
    assert found.metrics["twmd_layer_6/mean"] == pytest.approx(expected.score, abs=1e-6)
    assert list(found.tables["eval_results_table"]["twmd_layer_6/score"]) == pytest.approx(expected.scores, abs=1e-6)
    assert mlflow.get_run(run.info.run_id).data.tags["twmd.signature.twmd_layer_6"] == str(expected.signature)


@pytest.mark.parametrize("reference", [5, {"text": "a"}, [["a"]], []])
def test_non_text_expectation_is_refused(reference: Any) -> None:
    with pytest.raises(InputError):
        genai_scorer("sbert")(outputs="a", expectations={"expected_response": reference})


def test_classic_metric_error_names_missing_targets_or_outputs() -> None:
    evaluate = classic_metric("sbert").eval_fn
    for call, argument in ((classic_metric, "name"), (genai_scorer, "name"), (genai_scorer, "reference")):
        wrong: dict[str, Any] = {argument: 3}
        with pytest.raises(ArgumentError, match=argument):
            call(**wrong)
    with pytest.raises(InputError, match="no references"):
        evaluate(["a"], None)
    with pytest.raises(InputError, match="predictions must be a list"):
        evaluate(None, ["a"])
