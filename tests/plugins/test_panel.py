"""All types of metrics in one evaluation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
import sacrebleu

import twmd_registry
from tests import tiny
from twmd_registry.engine.result import NOTED
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.plugins.panel import make_panel, score_evaluation
from twmd_registry.registry.names import OUTPUTS

PREDICTIONS = ["the cat sat on a mat", "we saw rain", "a dog"]
REFERENCES = [["the cat sat on the mat"], ["we saw it rain", "it was rain"], ["the dog ran"]]
SCRIPT = """\
import datasets
import evaluate


class Lengths(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        features = [
            datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
            datasets.Features({"predictions": text, "references": text}),
        ]
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        each = [len(text) for text in predictions]
        return {"lengths": sum(each), "plain": float(isinstance(references[0], str)), "each": each}
"""


class Module:
    """A fake `evaluate` module."""

    name = "own"

    def __init__(self, result: Any) -> None:
        self.result = result

    def compute(self, predictions: list[str], references: Any) -> Any:
        return self.result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_encoder("bert", tmp_path_factory.mktemp("encoder"))


def test_references_are_encoded_for_the_first_evaluation_only() -> None:
    keeping, forgetful = make_panel(["twmd", "trwmd"], "1MB"), make_panel(["twmd", "trwmd"])
    before: list[int] = []
    for panel in (keeping, keeping, forgetful):
        encoder = panel["twmd"].backend.model
        before.append(encoder.texts_encoded)
        # References that no other test has cached with this model.
        references = [[f"{text}, kept" for text in texts] for texts in REFERENCES]
        score_evaluation(panel, [f"{text} {len(before)}" for text in PREDICTIONS], references)
        before[-1] = encoder.texts_encoded - before[-1]
    assert before == [3 + 4, 3, 3 + 4]


def test_our_scores_equal_the_scorers_with_sides_and_counts(folder: Path) -> None:
    scorers = {name: twmd_registry.load(name, model=str(folder), layer=2) for name in ("twmd", "moverscore")}
    scored = score_evaluation(make_panel(scorers.values()), PREDICTIONS, REFERENCES)
    expected = {name: one.score(PREDICTIONS, REFERENCES) for name, one in scorers.items()}
    sides = {f"twmd_{side}": expected["twmd"].as_dict()[side] for side in ("precision", "recall", "f1")}
    counts = {
        f"{name}_{key}": one.as_dict()[key] for name, one in expected.items() for key in NOTED if one.as_dict()[key]
    }
    assert scored.values == pytest.approx(
        {name: one.score for name, one in expected.items()} | sides | counts, abs=1e-6
    )
    assert scored.signatures == {name: str(one.signature) for name, one in expected.items()}
    assert scored.score_sets[0].texts == expected["twmd"].texts
    assert all(type(value) is float for value in scored.values.values())


def test_sacrebleu_metrics_have_sacrebleus_scores() -> None:
    scored = score_evaluation(make_panel(["bleu", "chrf", "ter"]), PREDICTIONS, REFERENCES)
    streams: list[Any] = [[references[k] if k < len(references) else None for references in REFERENCES] for k in (0, 1)]
    for name in ("bleu", "chrf", "ter"):
        expected = getattr(sacrebleu, f"corpus_{name}")(PREDICTIONS, streams)
        assert scored.values[name] == pytest.approx(expected.score)
    assert scored.signatures["bleu"].startswith("BLEU|nrefs:var|")


def test_modules_of_evaluate_loaded_or_by_name(tmp_path: Path) -> None:
    script = tmp_path / "lengths" / "lengths.py"
    script.parent.mkdir()
    script.write_text(SCRIPT, encoding="utf-8")
    for metric in (str(script), evaluate.load(str(script))):
        several = score_evaluation(make_panel([metric]), PREDICTIONS, REFERENCES)
        assert several.values == {"lengths": float(sum(map(len, PREDICTIONS))), "lengths_plain": 0.0}
        single = score_evaluation(
            make_panel({"mine": metric}), PREDICTIONS, [references[:1] for references in REFERENCES]
        )
        assert single.values == {"mine_lengths": float(sum(map(len, PREDICTIONS))), "mine_plain": 1.0}
        assert several.signatures == {}


def test_our_own_modules_are_scorers_too() -> None:
    panel = make_panel([evaluate.load("twmd", temperature=0.5), "sbert"])
    assert set(panel) == {"twmd", "sbert"}
    assert panel["twmd"].requested.temperature == 0.5


def test_signature_and_an_ensemble_are_metrics(folder: Path) -> None:
    spec, signed = f"sbert;model={folder};layer=1", twmd_registry.load("sbert")
    panel = make_panel({"signed": signed.signature, "mean": f"ensemble({spec},{spec};special=none)"})
    assert [str(scorer.requested.metric) for scorer in panel.values()] == ["sbert", "ensemble"]
    scored = score_evaluation(panel, PREDICTIONS, REFERENCES)
    assert scored.values["signed"] == pytest.approx(signed.score(PREDICTIONS, REFERENCES).score, abs=1e-6)


@pytest.mark.parametrize("predictions", [["", "", ""], ["  ", "", "."]])
def test_numbers_are_finite_for_any_prediction(folder: Path, predictions: list[str]) -> None:
    panel = make_panel([twmd_registry.load("twmd", model=str(folder), layer=1), "bleu", "chrf", "ter"])
    scored = score_evaluation(panel, predictions, REFERENCES)
    always = {"twmd", *(f"twmd_{key}" for key in OUTPUTS), "bleu", "chrf", "ter"}
    assert {"twmd_empty"} <= set(scored.values) - always <= {f"twmd_{key}" for key in NOTED}
    assert all(scored.values[key] for key in set(scored.values) - always)  # counts that are not zero
    assert all(map(math.isfinite, scored.values.values()))


def test_non_finite_number_is_omitted_with_a_warning() -> None:
    with pytest.warns(TwmdWarning, match="own_bad is nan and is left out"):
        module = Module({"own": np.float32(0.5), "bad": math.nan, "yes": True, "text": "x", "array": np.array(2.0)})
        scored = score_evaluation(make_panel([module]), ["a cat"], ["the cat"])
    assert scored.values == {"own": 0.5, "own_array": 2.0}


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("twmd", "metrics must be a list"),
        (["twmd", "twmd"], "two metrics would be called 'twmd'"),
        ([3], "3 is not a metric"),
        (["bleu;tok=xx"], "tok=xx"),
        ([type("Nameless", (), {"compute": lambda self: {}})()], "has no name"),
    ],
)
def test_non_metric_is_refused(metrics: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        make_panel(metrics)


def test_keys_of_metrics_are_in_their_names() -> None:
    panel = make_panel(["bleu", "bleu;tok=char", "sbert", "sbert;layer=3"])
    scored = score_evaluation(panel, ["a cat sat here"], ["a cat sat there"])
    assert {*scored.values} == {"bleu", "bleu_tok_char", "sbert", "sbert_layer_3"}
    assert "tok:char" in scored.signatures["bleu_tok_char"]
    assert "|layer:3|" in scored.signatures["sbert_layer_3"]


def test_keys_that_collide_are_refused() -> None:
    panel = make_panel({"own": Module({"x": 1.0}), "own_x": Module({"own_x": 2.0})})
    with pytest.raises(SpecError, match="two scores would be called 'own_x'"):
        score_evaluation(panel, ["a cat"], ["the cat"])
