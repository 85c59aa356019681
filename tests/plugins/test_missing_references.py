"""A None or blank reference next to another is ignored in every input format."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import evaluate
import pytest

import twmd_registry
from tests.conftest import Run
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedRow, gather, read_table
from twmd_registry.plugins.panel import make_panel, score_evaluation
from twmd_registry.plugins.sacrebleu import TWMD
from twmd_registry.plugins.trl import reward_function
from twmd_registry.registry.references import is_blank
from twmd_registry.serve.service import Service

PREDICTIONS = ["a cat", "it rains", "a shop"]
PRESENT = [["a dog"], ["it pours", "rain"], [""]]
GAPS = (None, "", " \t", "\u200b", "\u2060\ufeff\u2800\x00")
References = Any

pytestmark = pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")


def in_evaluate(references: References) -> Any:
    module = evaluate.load("twmd")
    module.add_batch(predictions=PREDICTIONS[:2], references=references[:2])
    absent = all(is_blank(text or "") for text in references[2])
    module.add(prediction=PREDICTIONS[2], reference=None if absent else references[2])
    return module.compute()["scores"]


def in_sacrebleu(references: References) -> Any:
    metric = TWMD(references=[list(stream) for stream in zip(*references, strict=True)])
    assert metric.corpus_score(PREDICTIONS, None).score / 100 == pytest.approx(twmd_registry.score(*EXPECTED).score)
    assert "nrefs:var" in metric.get_signature().format()
    return [metric.sentence_score(*pair).score / 100 for pair in zip(PREDICTIONS, references, strict=True)]


def in_torchmetrics(references: References) -> Any:
    metric = pytest.importorskip("twmd_registry.plugins.torchmetrics").TWMD(as_dict=True)
    metric.update(PREDICTIONS, references)
    return metric.compute()["scores"].tolist()


def by_mlflow(prediction: str, reference: Any) -> Any:
    scorer = pytest.importorskip("twmd_registry.plugins.mlflow").genai_scorer()
    return scorer(outputs=prediction, expectations={"expected_response": reference}).value


def by_lm_eval(prediction: str, reference: Any) -> Any:
    module = pytest.importorskip("twmd_registry.plugins.lm_eval")
    return module.corpus_score([module.references_in("refs")({"refs": reference}, [prediction])["twmd"]])


def in_mlflow(references: References) -> Any:
    return [by_mlflow(*pair) for pair in zip(PREDICTIONS, references, strict=True)]


def in_inspect(references: References) -> Any:
    scorer = pytest.importorskip("twmd_registry.plugins.inspect").metric_scorer()

    async def score(text: str, target: Any) -> float:
        state = SimpleNamespace(output=SimpleNamespace(completion=text), sample_id=0)
        value: float = (await scorer(state, target)).value
        return value

    return [asyncio.run(score(*pair)) for pair in zip(PREDICTIONS, references, strict=True)]


def in_service(references: References) -> Any:
    service = Service({"twmd": twmd_registry.load("twmd")})
    return asyncio.run(service.score(PREDICTIONS, references))["scores"]


EXPECTED = PREDICTIONS, PRESENT
FORMS: list[Callable[[References], Any]] = [
    lambda references: twmd_registry.score(PREDICTIONS, references).scores,
    in_evaluate,
    in_sacrebleu,
    in_torchmetrics,
    # A reward abstains for a single None, as TRL allows.
    lambda references: [score or 0.0 for score in reward_function()(PREDICTIONS, reference=references)],
    in_mlflow,
    in_inspect,
    in_service,
    lambda references: score_evaluation(make_panel(["twmd"]), PREDICTIONS, references).score_sets[0].scores,
]


@pytest.mark.parametrize("gap", GAPS, ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_lists_with_gaps_score_like_lists_without(
    form: Callable[[References], Sequence[float]], gap: str | None
) -> None:
    references = [["a dog", gap], ["it pours", "rain"], [gap, gap]]
    assert form(references) == pytest.approx(twmd_registry.score(*EXPECTED).scores, abs=1e-6)


@pytest.mark.parametrize("absent", [None, math.nan])
@pytest.mark.parametrize(
    "score", [lambda text, reference: twmd_registry.score([text], [reference]).score, by_mlflow, by_lm_eval]
)
def test_single_missing_reference_is_an_empty_text_with_a_warning(score: Callable[..., float], absent: Any) -> None:
    with pytest.warns(TwmdWarning, match="empty"):
        assert score(PREDICTIONS[0], absent) == 0


@pytest.mark.parametrize("gap", GAPS, ids=repr)
def test_rated_rows_have_the_references_that_are_present(gap: Any, tmp_path: Path) -> None:
    rows: Any = [RatedRow("g", text, [gap, *texts, gap], 1.0) for text, texts in zip(*EXPECTED, strict=True)]
    of_rows = gather(rows, "rows").references
    columns = [{"prediction": row.prediction, "references": row.reference, "rating": 1} for row in rows]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in columns))
    of_table = read_table(tmp_path / "t.jsonl").references
    for found in (of_rows, of_table):
        assert [["" if is_blank(text) else text.strip() for text in texts] for texts in found] == PRESENT


@pytest.mark.parametrize("settings", ["", " --docs a.docs --set align=sentences"])
def test_streams_columns_and_lists_with_gaps_score_the_same(settings: str, folder: Path, run: Run) -> None:
    columns = ["a cat", "a cow", "it rains"], ["a dog", "an ox", "it pours"], ["\u200b", " ", "rain"]
    for name, texts in zip(("hyp.txt", "one.txt", "two.txt"), columns, strict=True):
        (folder / name).write_text("\n".join(texts) + "\n")
    rows = list(zip(*columns, strict=True))
    (folder / "t.csv").write_text("prediction,one,two\n" + "".join(",".join(row) + "\n" for row in rows))
    lists = [{"prediction": text, "references": [one, None if is_blank(two) else two]} for text, one, two in rows]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists))
    (folder / "two.json").write_text(json.dumps([None if is_blank(text) else text for text in columns[2]]))
    (folder / "a.docs").write_text("news one\nnews one\nnews two\n")
    found = [
        json.loads(run(f"score {files} -m twmd bleu ter --format json{settings}")[1])
        for files in (
            "one.txt two.txt -i hyp.txt",
            "one.txt two.json -i hyp.txt",
            "-i t.csv --reference-column one two",
            "-i t.jsonl",
        )
    ]
    tables = [[{**row, "system": ""} for row in rows] for rows in found]
    assert all(table == tables[0] for table in tables)
    assert "item 1" in run("score one.txt -i two.json -m bleu")[2]
    assert all("nrefs:var" in row["signature"] for row in tables[0])


@pytest.mark.parametrize(
    ("module", "name", "first"),
    [
        ("torchmetrics", "TWMD", ()),
        ("sacrebleu", "TWMD", ()),
        ("trl", "reward_function", ()),
        ("mlflow", "genai_scorer", ()),
        ("mlflow", "classic_metric", ()),
        ("inspect", "metric_scorer", ()),
        ("lm_eval", "references_in", ("refs",)),
        ("sentence_transformers", "MetricEvaluator", (["a", "b", "c"], ["b", "c", "d"], [1.0, 2.0, 3.0])),
    ],
)
def test_a_framework_that_needs_every_row_refuses_to_leave_rows_out(
    module: str, name: str, first: tuple[Any, ...]
) -> None:
    make = getattr(pytest.importorskip(f"twmd_registry.plugins.{module}"), name)
    make(*first, device="cpu")
    with pytest.raises(SpecError, match="drop_missing"):
        make(*first, drop_missing=True)


def test_a_panel_refuses_to_leave_rows_out() -> None:
    with pytest.raises(SpecError, match="drop_missing"):
        make_panel([twmd_registry.load("twmd", drop_missing=True)])
