"""Recipes of docs/recipes.md, with the real frameworks, whose pins conflict with ours: ``make recipes`` runs them."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.conftest import Texts

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = {
    name: block
    for name in ("deepeval", "lighteval", "mbrs")
    for block in re.findall(rf"^## {name}$.*?^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
}

Expected = Callable[[list[str], list[str]], dict[str, Any]]


def needs(package: str) -> pytest.MarkDecorator:
    """Skip if a package is not installed; fail if it is installed but cannot be imported."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"its pins conflict with others: make recipes installs {package}")


@needs("deepeval")
def test_deepeval_returns_the_command_lines_scores_and_signature(
    texts: Texts, command_line: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    monkeypatch.chdir(tmp_path)  # it keeps results in the folder it is run in
    import deepeval
    from deepeval.evaluate.configs import AsyncConfig, DisplayConfig
    from deepeval.test_case import LLMTestCase

    names: dict[str, Any] = {}
    exec(RECIPES["deepeval"], names)
    expected = command_line(*texts)
    cases = [
        LLMTestCase(input="?", actual_output=prediction, expected_output=reference)
        for prediction, reference in zip(*texts, strict=True)
    ]
    for at_once in (True, False):
        results = deepeval.evaluate(
            cases,
            [names["twmd"]],
            async_config=AsyncConfig(run_async=at_once),
            display_config=DisplayConfig(show_indicator=False, print_results=False),
        ).test_results
        (metrics,) = zip(
            *(result.metrics_data for result in sorted(results, key=lambda result: result.index)), strict=True
        )
        assert [data.score for data in metrics] == pytest.approx(expected["scores"], abs=1e-6)
        assert {(data.name, data.evaluation_model) for data in metrics} == {("twmd", expected["signature"])}
        assert [data.success for data in metrics] == [score >= 0.8 for score in expected["scores"]]


@needs("lighteval")
def test_lighteval_returns_the_command_lines_score_and_signature(
    texts: Texts, command_line: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets
    from lighteval.logging.evaluation_tracker import EvaluationTracker
    from lighteval.models.dummy.dummy_model import DummyModel, DummyModelConfig
    from lighteval.models.model_output import ModelResponse
    from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters
    from lighteval.tasks.registry import Registry

    for name in ("_load_from_files", "_load_from_subdirs"):  # tasks of its own, which download as they are imported
        monkeypatch.setattr(Registry, name, lambda *_: {})
    task = """
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

def make_doc(row, task_name):
    return Doc(query=row["source"], choices=[row["reference"]], gold_index=0, task_name=task_name)

TASKS_TABLE = [LightevalTaskConfig(name="news", prompt_function=make_doc, hf_repo=REPO, hf_subset="default",
    metrics=[twmd], evaluation_splits=["test"], hf_avail_splits=["test"], generation_size=10)]
"""
    (tmp_path / "data").mkdir()
    rows = [json.dumps({"source": f"question {i}", "reference": text}) for i, text in enumerate(texts.references)]
    (tmp_path / "data" / "test.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "news.py").write_text(
        RECIPES["lighteval"] + task.replace("REPO", repr(str(tmp_path / "data"))), encoding="utf-8"
    )
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    outputs = dict(zip((f"question {i}" for i in range(len(rows))), texts.predictions, strict=True))

    class Echo(DummyModel):  # type: ignore[misc]
        def greedy_until(self, docs: list[Any]) -> list[Any]:
            return [ModelResponse(text=[outputs[doc.query]]) for doc in docs]

    tracker = EvaluationTracker(output_dir=str(tmp_path / "out"), save_details=True)
    pipeline = Pipeline(
        tasks="news|0",
        pipeline_parameters=PipelineParameters(
            ParallelismManager.NONE, custom_tasks_directory=str(tmp_path / "news.py")
        ),
        evaluation_tracker=tracker,
        model=Echo(DummyModelConfig(cache_dir=str(tmp_path / "cache"))),
    )
    pipeline.evaluate()
    pipeline.save_and_push_results()
    expected = command_line(*texts)
    results = pipeline.get_results()["results"]["all"]
    assert results["twmd"] == pytest.approx(expected["score"], abs=1e-6)
    assert results["twmd_stderr"] > 0
    (details,) = (tmp_path / "out").rglob("details_news*.parquet")
    kept = datasets.Dataset.from_parquet(str(details), cache_dir=str(tmp_path / "cache"))
    values = {row["doc"]["query"]: row["metric"]["twmd"] for row in kept}
    assert [values[query] for query in outputs] == pytest.approx(expected["scores"], abs=1e-6)
    assert {row["doc"]["specific"]["signature"] for row in kept} == {expected["signature"]}


@needs("mbrs")
def test_mbrs_chooses_with_the_command_lines_scores(texts: Texts, command_line: Expected) -> None:
    from mbrs.decoders import get_decoder
    from mbrs.metrics import get_metric

    names: dict[str, Any] = {}
    exec(RECIPES["mbrs"], names)
    kind = get_metric("twmd")
    metric = kind(kind.Config())
    candidates = texts.predictions[:6]
    rows = [command_line([one] * len(candidates), candidates) for one in candidates]
    for matrix_row, row in zip(metric.pairwise_scores(candidates, candidates).tolist(), rows, strict=True):
        assert matrix_row == pytest.approx(row["scores"], abs=1e-6)
    means = [row["score"] for row in rows]
    decoder = get_decoder("mbr")
    chosen = decoder(decoder.Config(), metric).decode(candidates, candidates, nbest=2)
    best = sorted(range(len(means)), key=means.__getitem__, reverse=True)[:2]
    assert list(chosen.idx) == best
    assert chosen.score == pytest.approx([means[i] for i in best], abs=1e-6)
    assert metric.signature == rows[0]["signature"]
    assert metric.corpus_score(texts.predictions, [texts.references]) == pytest.approx(
        twmd_registry.score(*texts).score, abs=1e-6
    )
