"""Two texts: scores, plan, notices."""

from __future__ import annotations

import pytest

import twmd_registry
from twmd_registry.demo.choices import METRICS, PageSettings
from twmd_registry.demo.texts import HEADERS, LONGEST, MOST_TOKENS, NOTHING, read_references, score_texts
from twmd_registry.errors import InputError, SpecError

HYPOTHESIS, REFERENCES = "A small boat drifts past the lighthouse.", "The boat passes a lighthouse.\n\nA cow sleeps.\n"


def test_every_metrics_scores_are_those_of_its_scorer() -> None:
    found = score_texts(HYPOTHESIS, REFERENCES, "twmd", PageSettings())
    assert [row[0] for row in found.rows] == list(METRICS)
    for row in found.rows:
        whole = twmd_registry.scorer(row[0]).score([HYPOTHESIS], [read_references(REFERENCES)]).as_dict()
        expected = [whole.get(name) for name in (row[0], "precision", "recall", "f1")]
        assert len(row) == len(HEADERS)
        for text, number in zip(row[1:], expected, strict=True):
            assert text == NOTHING if number is None else abs(float(text) - number) <= 0.5e-4 + 1e-6
    assert found.signature == str(
        twmd_registry.scorer("twmd").score([HYPOTHESIS], [read_references(REFERENCES)]).signature
    )
    assert found.notices == ()


def test_a_setting_moves_its_metrics_and_no_others() -> None:
    before, after = (score_texts(HYPOTHESIS, REFERENCES, "twmd", PageSettings(temperature=T)) for T in (0.0, 0.02))
    moved = {one[0] for one, other in zip(before.rows, after.rows, strict=True) if one != other}
    assert moved == {"twmd", "trwmd"}
    assert before.picture != after.picture
    assert "temperature:0.02" in after.signature


@pytest.mark.parametrize(
    ("metric", "words"), [("stsscore", "no alignment to show"), ("ensemble", "no alignment of its own")]
)
def test_a_metric_without_a_plan_says_so(metric: str, words: str) -> None:
    found = score_texts(HYPOTHESIS, REFERENCES, metric, PageSettings())
    assert words in found.picture
    assert "<table" not in found.picture
    assert found.signature.startswith(metric)


def test_a_plan_shows_the_reference_that_scores_highest() -> None:
    assert "lighthouse" in score_texts(HYPOTHESIS, REFERENCES, "bertscore_centered", PageSettings()).picture
    assert "cow" not in score_texts(HYPOTHESIS, REFERENCES, "bertscore_centered", PageSettings()).picture


def test_long_texts_are_cut_and_said_to_be() -> None:
    long = "word " * LONGEST
    found = score_texts(long, long, "twmd", PageSettings())
    assert found.notices[:2] == (
        f"hypothesis cut to the first 2,000 of {5 * LONGEST:,} characters: score longer texts in a file.",
        f"references cut to the first 2,000 of {5 * LONGEST:,} characters: score longer texts in a file.",
    )
    assert found == score_texts(long[:LONGEST], long[:LONGEST], "twmd", PageSettings())._replace(notices=found.notices)
    assert f"draws up to {MOST_TOKENS} a side" in found.picture


def test_texts_are_shown_as_text() -> None:
    found = score_texts(
        "<script>alert(1)</script> <img src=x onerror=alert(1)>", '<b onclick="x">', "sbert", PageSettings()
    )
    assert "<script" not in found.picture
    assert "<img" not in found.picture
    assert "&lt;" in found.picture


@pytest.mark.parametrize(("hypothesis", "references"), [("", "a"), ("a", ""), (" \n", "a"), ("a", " \n \n")])
def test_a_blank_side_is_asked_for(hypothesis: str, references: str) -> None:
    with pytest.raises(InputError, match="write a hypothesis and at least one reference"):
        score_texts(hypothesis, references, "twmd", PageSettings())


def test_what_does_not_fit_another_metric_is_a_notice_and_what_does_not_fit_the_chosen_one_an_error() -> None:
    found = score_texts(HYPOTHESIS, REFERENCES, "twmd", PageSettings(centering="sentence"))
    assert {row[0]: row[1] for row in found.rows}["sbert"] == NOTHING
    assert any(notice.startswith("sbert: centering=sentence") for notice in found.notices)
    with pytest.raises(SpecError, match="centering=sentence"):
        score_texts(HYPOTHESIS, REFERENCES, "sbert", PageSettings(centering="sentence"))


def test_warnings_and_missing_presets_are_notices() -> None:
    found = score_texts(HYPOTHESIS, REFERENCES, "twmd", PageSettings("paper"))
    assert any(notice.startswith("centering=batch: a segment is alone") for notice in found.notices)
    assert "no preset 'paper' of stsscore, ensemble: they take their defaults." in found.notices
