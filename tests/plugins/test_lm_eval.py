"""Tasks of lm-evaluation-harness: the command line's scores, all pairs in one call, errors instead of nonsense."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytest.importorskip("lm_eval", reason="tasks of lm-evaluation-harness need the extra lm_eval")

import datasets
import evaluate
import yaml
from lm_eval import evaluator_utils, simple_evaluate
from lm_eval.api import registry
from lm_eval.models.dummy import DummyLM
from lm_eval.tasks import TaskManager

import twmd_registry
from tests.conftest import Texts
from twmd_registry import plugins
from twmd_registry.errors import InputError, SpecError
from twmd_registry.plugins import lm_eval as task_metrics
from twmd_registry.plugins.lm_eval import corpus_score, references_in
from twmd_registry.registry.names import MetricName

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
TRANSLATION, SUMMARY = re.findall(r"^```yaml\n(task: .*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
ROWS = [json.loads(line) for line in re.findall(r"^({.*})$", PAGE, flags=re.MULTILINE)]
RunTask: TypeAlias = Callable[..., dict[str, Any]]
OUTPUTS = ["the dog barked all night", "the ferry was cancelled because of fog", "a new library opens"]


class Echo(DummyLM):  # type: ignore[misc]
    """A model that returns the outputs above, in order."""

    def generate_until(self, requests: Sequence[Any], **_: object) -> list[str]:
        return [OUTPUTS[number % len(OUTPUTS)] for number in range(len(requests))]


@pytest.fixture
def run_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunTask:
    """Return a function that runs a task, given as YAML, over rows of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def call(text: str, rows: Sequence[Mapping[str, Any]] = (), **settings: Any) -> dict[str, Any]:
        task = yaml.load(re.sub("!function ", "", text), yaml.SafeLoader)
        file = task["dataset_kwargs"]["data_files"]["test"]
        rows = rows or [row for row in ROWS if ("german" in row) == (file == "translations.jsonl")]
        (tmp_path / file).write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
        (tmp_path / "task.yaml").write_text(text, encoding="utf-8")
        manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
        found = simple_evaluate(Echo(), tasks=[task["task"]], task_manager=manager, bootstrap_iters=1000, **settings)
        results: dict[str, Any] = found["results"][task["task"]]
        return results | {"rows": rows, "samples": found["samples"][task["task"]]}

    return call


def test_documented_task_returns_the_command_lines_score_stderr_and_signature(
    run_task: RunTask, command_line: Callable[[list[str], list[str]], dict[str, Any]]
) -> None:
    found = run_task(TRANSLATION)
    references = [row["english"] for row in found["rows"]]
    predictions = OUTPUTS[: len(references)]
    expected = twmd_registry.score(predictions, references)
    assert found["twmd,none"] == pytest.approx(command_line(predictions, references)["score"], abs=1e-6)
    assert found["twmd_signature,none"] == str(expected.signature)
    spread = sum((value - expected.score) ** 2 for value in expected.scores) ** 0.5 / len(references)
    assert found["twmd_stderr,none"] == pytest.approx(spread, rel=0.15)
    assert found["twmd_signature_stderr,none"] == "N/A"
    assert ", ".join(f'"{key},none": {found[f"{key},none"]:.4f}' for key in ("twmd", "twmd_stderr")) in PAGE
    # lm_eval writes other objects with str
    assert [float(str(sample["twmd"])) for sample in found["samples"]] == pytest.approx(expected.scores)
    assert {str(sample["twmd_signature"]) for sample in found["samples"]} == {str(expected.signature)}


def test_documented_task_scores_against_all_references(run_task: RunTask) -> None:
    found = run_task(SUMMARY)
    references = [row["references"] for row in found["rows"]]
    expected = twmd_registry.score(OUTPUTS[: len(references)], references)
    assert {len(texts) for texts in references} > {1}
    assert found["twmd,none"] == pytest.approx(expected.score, abs=1e-6)
    assert found["twmd_signature,none"] == str(expected.signature)


def test_all_pairs_are_scored_in_one_call_with_the_keys_of_the_task(
    run_task: RunTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*arguments: Any, **keys: Any) -> Any:
        calls.append((len(arguments[0]), keys))
        return twmd_registry.score(*arguments, **keys)

    monkeypatch.setattr(task_metrics, "score", counted)
    found = run_task(TRANSLATION.replace("- metric: twmd\n", "- metric: trwmd\n    temperature: 0.5\n"))
    assert calls == [(len(found["rows"]), {"temperature": 0.5})]
    assert "temperature:0.5" in found["trwmd_signature,none"]


LISTED = "process_results: '- metric: twmd' and 'twmd_signature'"
FROM_COLUMN = "process_results: !function twmd_registry.plugins.lm_eval.references\nmetric_list:"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            re.sub("process_results: .*\n", "", SUMMARY).replace("{{references[0]}}", "{{references}}"),
            "several targets",
        ),
        (SUMMARY.replace("  - metric: twmd_signature\n", ""), LISTED),
        (SUMMARY.replace("  - metric: twmd\n", ""), LISTED),
        (
            TRANSLATION.replace("- metric: twmd\n", "- metric: twmd\n    hf_evaluate: true\n"),
            "import twmd_registry.plugins.lm_eval before",
        ),
        (TRANSLATION + "  - metric: twmd\n    layer: 6\n", "metric_list has twmd twice"),
        (
            TRANSLATION.replace("metric_list:", FROM_COLUMN),
            "no column 'references'.* german, english",
        ),
    ],
    ids=["several targets", "no signature", "no metric", "evaluate's metric", "one metric twice", "no column"],
)
def test_wrong_task_is_refused_with_a_remedy(run_task: RunTask, task: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_task(task)
    assert evaluate.load("twmd").compute(predictions=["a"], references=["a"])["twmd"] == pytest.approx(1)


FIRST = {"german": "None", "english": "None"}


@pytest.mark.parametrize(
    ("target", "second"),
    [
        ("{{english}}", {"english": None}),
        ("english", {"english": None}),
        ("See {{english}}", {"english": None}),
        ("{{english['text']}}", {"english": {"text": None}}),
        ("english", {"english": {"text": "a"}}),
    ],
)
def test_null_or_non_text_target_is_refused(run_task: RunTask, target: str, second: dict[str, Any]) -> None:
    first = FIRST | ({"english": {"text": "None"}} if isinstance(second["english"], dict) else {})
    task = TRANSLATION.replace('"{{english}}"', f'"{target}"')
    with pytest.raises(InputError, match=r"document \{.*target"):
        run_task(task, [first, FIRST | second])


@pytest.mark.parametrize("english", ["None", "[laughs]", "7"])
def test_target_that_resembles_a_null_list_or_number_is_a_text(run_task: RunTask, english: str) -> None:
    rows = [FIRST | {"english": english, "note": None}]
    found = run_task(TRANSLATION, rows)
    assert found["twmd,none"] == pytest.approx(twmd_registry.score(OUTPUTS[:1], [english]).score, abs=1e-6)


@pytest.mark.parametrize("reference", [5, {"text": "a"}, [["a"]], [], ["a", 5]])
def test_non_text_reference_column_is_refused(reference: Any) -> None:
    with pytest.raises(InputError, match="column 'targets' of document {'id': 7, .*references"):
        references_in("targets", "sbert")({"id": 7, "targets": reference}, ["a"])


def test_unregistered_metric_error_names_the_import(run_task: RunTask, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"twmd_registry", *MetricName, *(f"{name}_signature" for name in MetricName)}
    for kind in ("metric", "metric_agg", "aggregation", "higher_is_better"):
        registered = getattr(registry, f"{kind}_registry")
        assert ours & {*registered._objs}
        monkeypatch.setattr(
            registered, "_objs", {name: one for name, one in registered._objs.items() if name not in ours}
        )
    monkeypatch.setattr(evaluator_utils, "stderr_for_metric", evaluator_utils.stderr_for_metric)
    monkeypatch.setattr(plugins, "lm_eval", task_metrics)
    monkeypatch.delitem(sys.modules, task_metrics.__name__)
    with pytest.raises(InputError, match="pair by pair"):
        run_task(re.sub("    aggregation: .*\n    higher_is_better: .*\n", "", TRANSLATION))


def test_keys_of_references_in_are_checked_immediately_and_reach_the_scores(texts: Texts) -> None:
    with pytest.raises(SpecError, match="unknown key 'temprature'"):
        references_in("targets", temprature=0.5)  # type: ignore[call-arg]
    process = references_in("targets", "sbert", layer=3)
    kept = [process({"targets": [r]}, [p]) for p, r in zip(texts.predictions, texts.references, strict=True)]
    expected = twmd_registry.score(texts.predictions, texts.references, "sbert", layer=3)
    assert corpus_score([row["sbert"] for row in kept]) == pytest.approx(expected.score, abs=1e-6)
    assert corpus_score([row["sbert_signature"] for row in kept]) == str(expected.signature)
