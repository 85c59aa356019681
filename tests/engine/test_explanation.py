"""`ScoreSet.explain` shows the alignment that was scored."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import twmd_registry
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.models.inference import LOADED
from twmd_registry.registry.names import Output

PREDICTIONS = ["the cats sat quietly on the mat", "it rained", "a dog barked at night", "nobody answered"]
REFERENCES = [
    ["a cat was sitting on the mat", "the dog ran"],
    ["it is raining"],
    ["at night a dog was barking", "dogs bark", "silence"],
    ["no answer came"],
]
CONTEXTS: list[dict[str, Any]] = [
    {"centering": "none"},
    {"centering": "none", "ngram": 2, "idf": "corpus"},
    {"centering": "batch", "centering_size": 3},
    {"centering": "batch", "centering_size": 2, "centering_side": "joint", "ngram": "sentence"},
    {"centering": "corpus", "idf": "references", "punctuation": "drop", "subwords": "drop"},
    {"centering": "background", "layer": "2-4", "aggregation": "mean"},
]


@pytest.mark.parametrize(
    ("keys", "output"), list(zip(CONTEXTS, ["precision", "recall"] * 3, strict=True)), ids=range(len(CONTEXTS))
)
def test_plan_has_the_greedy_score_of_every_context(keys: dict[str, Any], output: Output) -> None:
    found = twmd_registry.load("bertscore_centered", output=output, **keys).score(PREDICTIONS, REFERENCES)
    for i in range(len(PREDICTIONS)):
        shown = found.explain(i)
        assert shown.sides == (output,)
        assert shown.score == found.scores[i]
        assert float((shown.plans[output] * shown.similarities).sum()) == pytest.approx(shown.score, abs=1e-5)


@pytest.mark.parametrize("keys", CONTEXTS[1::2])
def test_plan_has_the_exact_score_and_the_shares_as_its_sums(keys: dict[str, Any]) -> None:
    found = twmd_registry.load("moverscore", "wmd", **({"layer": 4} | keys)).score(PREDICTIONS, REFERENCES)
    for i in range(len(PREDICTIONS)):
        shown = found.explain(i)
        plan = shown.plans["score"]
        assert float((plan * shown.similarities).sum()) == pytest.approx(shown.score, abs=1e-5)
        np.testing.assert_allclose(plan.sum(1), shown.hypothesis_shares, atol=1e-6)
        np.testing.assert_allclose(plan.sum(0), shown.reference_shares, atol=1e-6)


def test_best_reference_is_shown_unless_another_is_requested() -> None:
    found = twmd_registry.load("twmd").score(PREDICTIONS, REFERENCES)
    each = [found.explain(2, reference=k).score for k in range(3)]
    assert found.explain(2).score == max(each) == found.scores[2]
    assert len(set(each)) == 3
    assert found.explain(2, reference=2).reference == ("[CLS]", "silence", "[SEP]")


def test_f1_shows_both_sides_and_links_come_strongest_first() -> None:
    shown = twmd_registry.load("trwmd").score(PREDICTIONS, REFERENCES).explain(0)
    assert shown.sides == ("precision", "recall")
    for side in shown.sides:
        amounts = [link.amount for link in shown.links(side)]
        assert amounts == sorted(amounts, reverse=True)
        assert sum(amounts) == pytest.approx(1, abs=1e-5)
        for most in (1, 2, len(amounts) + 1):
            assert shown.links(side, most) == shown.links(side)[:most]
    first = shown.links()[0]
    assert first.similarity == shown.similarities[first.hypothesis, first.reference]


def test_n_grams_are_shown_as_their_tokens_and_pieces_unchanged() -> None:
    shown = twmd_registry.load("moverscore", "wmd", ngram=3).score(["it unhooked"], ["it rained all day"]).explain(0)
    assert shown.hypothesis == ("it un ##ho", "un ##ho ##oked")
    assert shown.reference == ("it rained all", "rained all day")


def test_text_without_tokens_has_nothing_to_show() -> None:
    with pytest.warns(TwmdWarning, match="without a token"):
        found = twmd_registry.load("twmd").score(["", "a cat"], ["the cat", "the cat"])
    shown = found.explain(0)
    assert (shown.hypothesis, shown.score, shown.links()) == ((), 0.0, [])
    assert shown.similarities.shape == (0, 4)


def test_explaining_keeps_no_model_and_survives_pickling() -> None:
    with twmd_registry.load("twmd", layer=2) as made:
        found = made.score(PREDICTIONS, REFERENCES)
    before = tuple(LOADED)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.explain(1).score == found.scores[1]
    assert tuple(LOADED) == before


@pytest.mark.parametrize(
    ("segment", "reference", "words"),
    [
        (4, None, "segment 4 is out of range: there are 4, counted from 0"),
        (-1, None, "segment -1"),
        (2, 3, "reference 3 of segment 2 is out of range: it has 3"),
    ],
)
def test_missing_segment_or_reference_is_refused(segment: Any, reference: Any, words: str) -> None:
    found = twmd_registry.load("sbert").score(PREDICTIONS, REFERENCES)
    with pytest.raises(InputError, match=words):
        found.explain(segment, reference)


@pytest.mark.parametrize(
    ("metric", "keys", "words"),
    [
        ("stsscore", {}, "stsscore has no alignment to show"),
        ("ensemble(sbert,twmd)", {}, "explain a member's scores"),
        ("twmd", {"against": "both"}, "against=both"),
        ("twmd", {"align": "sentences"}, "align=sentences has no alignment of whole documents to show"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*no text has two lines")
def test_score_without_an_alignment_is_not_explained(metric: str, keys: dict[str, Any], words: str) -> None:
    found = twmd_registry.score(PREDICTIONS, REFERENCES, metric, sources=PREDICTIONS[::-1], **keys)
    with pytest.raises(SpecError, match=words):
        found.explain(0)
    with pytest.raises(SpecError if "against" in keys or "(" in metric else InputError):
        found.explain(4)
