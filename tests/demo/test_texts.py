"""Two texts: scores, plan, notices."""

from __future__ import annotations

from typing import Any

import gradio as gr
import pytest

import twmd_registry
from twmd_registry.demo import page
from twmd_registry.demo.answers import HEADERS, LONGEST, METRICS, MOST_TOKENS, NOTHING, score_texts
from twmd_registry.errors import InputError, SpecError
from twmd_registry.registry.spec import make_spec

HYPOTHESIS = "A small boat drifts past the lighthouse."
LINES = ["The boat passes a lighthouse.", "A cow sleeps."]
REFERENCES = "\n\n ".join(LINES) + "\n"


def test_every_metrics_scores_are_those_of_its_scorer() -> None:
    rows, _, signature, notices = score_texts(HYPOTHESIS, REFERENCES, "twmd")
    assert [row[0] for row in rows] == list(METRICS)
    for row in rows:
        whole = twmd_registry.scorer(row[0]).score([HYPOTHESIS], [LINES]).as_dict()
        expected = [whole.get(name) for name in (row[0], "precision", "recall", "f1")]
        assert len(row) == len(HEADERS)
        for text, number in zip(row[1:], expected, strict=True):
            assert text == NOTHING if number is None else abs(float(text) - number) <= 0.5e-4 + 1e-6
    assert signature == str(twmd_registry.scorer("twmd").score([HYPOTHESIS], [LINES]).signature)
    assert notices == []


def test_setting_moves_its_metrics_and_no_others() -> None:
    before, after = (score_texts(HYPOTHESIS, REFERENCES, "twmd", temperature=T) for T in (0.0, 0.02))
    moved = {row[0] for row, other in zip(before[0], after[0], strict=True) if row != other}
    assert moved == {"twmd", "trwmd"}
    assert before[1] != after[1]
    assert "temperature:0.02" in after[2]


@pytest.mark.parametrize(
    ("metric", "words"), [("stsscore", "no alignment to show"), ("ensemble", "no alignment of its own")]
)
def test_metric_without_plan_explains_why(metric: str, words: str) -> None:
    _, picture, signature, _ = score_texts(HYPOTHESIS, REFERENCES, metric)
    assert words in picture
    assert signature.startswith(metric)


def test_plan_shows_the_reference_with_the_highest_score_as_text() -> None:
    _, picture, _, _ = score_texts("<b> A small boat", "The boat <img src=x>.\nA cow sleeps.", "twmd")
    assert "boat" in picture
    assert "cow" not in picture
    assert "<img" not in picture
    assert "&lt;" in picture


def test_long_texts_are_cut_with_a_notice() -> None:
    long = "word " * LONGEST
    *result, notices = score_texts(long, long, "twmd")
    assert notices[:2] == [
        f"hypothesis cut to the first 2,000 of {5 * LONGEST:,} characters: score longer texts in a file.",
        f"references cut to the first 2,000 of {5 * LONGEST:,} characters: score longer texts in a file.",
    ]
    assert result == list(score_texts(long[:LONGEST], long[:LONGEST], "twmd")[:3])
    assert f"at most {MOST_TOKENS} tokens a side can be drawn" in result[1]


@pytest.mark.parametrize(("hypothesis", "references"), [(" \n", "a"), ("a", " \n \n")])
def test_blank_side_is_refused(hypothesis: str, references: str) -> None:
    with pytest.raises(InputError, match="write a hypothesis and at least one reference"):
        score_texts(hypothesis, references, "twmd")


def test_impossible_setting_is_an_error_for_the_chosen_metric_and_a_notice_for_others() -> None:
    rows, _, _, notices = score_texts(HYPOTHESIS, REFERENCES, "twmd", centering="sentence")
    assert {row[0]: row[1] for row in rows}["sbert"] == NOTHING
    assert any(notice.startswith("sbert: centering=sentence") for notice in notices)
    with pytest.raises(SpecError, match="centering=sentence"):
        score_texts(HYPOTHESIS, REFERENCES, "sbert", centering="sentence")


def test_warnings_and_missing_presets_are_notices() -> None:
    *_, notices = score_texts(HYPOTHESIS, REFERENCES, "twmd", preset="paper")
    assert any(notice.startswith("centering=batch: a segment is alone") for notice in notices)
    assert "no preset 'paper' of stsscore, ensemble: scored with 'embedded'." in notices


@pytest.mark.parametrize(("hypothesis", "references"), [("a", "the cat"), (None, ["a"]), ("a", None)])
def test_call_with_texts_of_another_type_is_refused(hypothesis: Any, references: Any) -> None:
    with pytest.raises(gr.Error, match="expected a text as hypothesis and a list of texts as references"):
        page.score_texts(hypothesis, references)


def test_preset_that_compares_with_the_source_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    against = twmd_registry.scorer("twmd", against="source").requested
    monkeypatch.setattr(
        "twmd_registry.demo.answers.spec_of", lambda name, _preset: against if name == "twmd" else make_spec(name)
    )
    with pytest.raises(InputError, match="write the source, too"):
        score_texts(HYPOTHESIS, REFERENCES, "twmd")
    rows, _, _, notices = score_texts(HYPOTHESIS, REFERENCES, "sbert")
    assert {row[0]: row[1] for row in rows}["twmd"] == NOTHING
    assert "twmd: it compares the hypothesis with its source, which is not given." in notices
    rows, _, signature, _ = score_texts(HYPOTHESIS, REFERENCES, "twmd", "A ship at sea")
    wanted = twmd_registry.score([HYPOTHESIS], sources=["A ship at sea"], against="source")
    assert rows[0][1] == f"{wanted.score:.4f}"
    assert "|against:source|" in signature
    rows, picture, again, notices = score_texts(HYPOTHESIS, "", "twmd", "A ship at sea")
    assert (rows[0][1], again) == (f"{wanted.score:.4f}", signature)
    assert "given to the source" in picture
    assert "sbert: it compares the hypothesis with its reference, which is not given." in notices
    with pytest.raises(InputError, match="sbert compares the hypothesis with its reference here"):
        score_texts(HYPOTHESIS, " ", "sbert", "A ship at sea")
