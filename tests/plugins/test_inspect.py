"""Scorers of inspect_ai: the command line's scores, encoded together, with mean, stderr and signature in the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="scorers for inspect_ai need the extra inspect")

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model

import twmd_registry
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.plugins.inspect import metric_scorer

OUTPUT = "the dog barked all night"
TARGETS: list[str | list[str]] = [
    "a dog was barking the whole night",
    ["the ferry was cancelled", "there was no ferry"],
    *(f"the dog of house {number} barked" for number in range(10)),
]
REFERENCES = [[target] if isinstance(target, str) else target for target in TARGETS]


def run(scorer: Any, folder: Path, targets: Sequence[str | list[str]] = TARGETS, text: str = OUTPUT) -> EvalLog:
    outputs = [ModelOutput.from_content("mockllm/model", text) for _ in targets]
    for output in outputs:
        output.usage = ModelUsage()  # without it the model downloads a file to count tokens
    samples = [Sample(input=f"question {number}", target=target) for number, target in enumerate(targets)]
    task = Task(dataset=samples, scorer=scorer)
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none", max_samples=len(samples))
    return log


def test_scores_mean_stderr_and_signatures_are_in_the_log(tmp_path: Path, passes: list[int]) -> None:
    log = run(metric_scorer("twmd", layer=6), tmp_path)
    assert sum(passes) == len(TARGETS)
    assert len(passes) <= len(TARGETS) // 2
    expected = twmd_registry.score([OUTPUT] * len(TARGETS), REFERENCES, "twmd", layer=6)
    assert log.status == "success"
    assert log.results is not None
    assert log.samples is not None
    (result,) = log.results.scores
    spread = sum((value - expected.score) ** 2 for value in expected.scores)
    count = len(TARGETS)
    assert (result.name, result.params) == ("twmd_layer_6", {"metric": "twmd", "preset": None, "layer": 6})
    assert result.metrics["mean"].value == pytest.approx(expected.score, abs=1e-6)
    assert result.metrics["stderr"].value == pytest.approx((spread / (count - 1) / count) ** 0.5, abs=1e-6)
    scores = [sample.scores["twmd_layer_6"] for sample in log.samples if sample.scores]
    assert [score.value for score in scores] == pytest.approx(expected.scores, abs=1e-6)
    signatures = [str((score.metadata or {})["signature"]) for score in scores]
    assert signatures[0] == str(twmd_registry.score([OUTPUT], [TARGETS[0]], "twmd", layer=6).signature)
    assert "nrefs:2|" in signatures[1]


def test_sample_without_target_is_named(tmp_path: Path) -> None:
    log = run(metric_scorer("twmd"), tmp_path, [OUTPUT, []])
    assert log.error is not None
    assert "sample 2 has no target" in log.error.message


def test_warning_names_its_sample(tmp_path: Path) -> None:
    with pytest.warns(TwmdWarning, match=r"^sample 2: .*without a token") as warned:
        log = run(metric_scorer("sbert", name="mine"), tmp_path, [OUTPUT, ""])
    assert not any("sample 1" in str(one.message) for one in warned)
    assert log.samples is not None
    assert [sample.scores["mine"].value for sample in log.samples if sample.scores] == [pytest.approx(1), 0]


def test_output_in_another_script_warns_or_is_refused(tmp_path: Path) -> None:
    with pytest.warns(TwmdWarning, match="mostly Cyrillic"):
        log = run(metric_scorer("twmd"), tmp_path, [OUTPUT], "собака лаяла всю ночь")
    assert log.status == "success"
    assert log.samples is not None
    log = run(metric_scorer("twmd", any_language=False), tmp_path, [OUTPUT], "собака лаяла всю ночь")
    assert log.error is not None
    assert "mostly Cyrillic" in log.error.message


def test_metric_that_needs_all_texts_is_refused() -> None:
    with pytest.raises(SpecError, match="need all texts together"):
        metric_scorer("twmd", idf="corpus")
