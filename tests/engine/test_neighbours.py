"""Short texts score the same beside longer rows, and vectors that cancel leave nothing to compare."""

from __future__ import annotations

from typing import Any

import pytest

import twmd_registry
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

ALIGNED = [metric for metric in MetricName if "layer" in CATALOGUE[metric].keys]


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize("metric", ["twmd", "trwmd", "bertscore_centered", "moverscore", "wordset_cka", "sbert"])
def test_ngram_over_the_whole_text_is_nothing_under_sentence_centering(metric: str) -> None:
    """Its tokens' deviations from their own mean add up to rounding errors, which have no direction."""
    keys: dict[str, Any] = {"centering": "sentence", "special": "none", "ngram": 2} | (
        {"vectors": "unit"} if metric == "sbert" else {}
    )
    with twmd_registry.scorer(metric, **keys) as scorer:
        scores = scorer.score(["very well", "very well", "it rains"], ["very well", "quite good", "it rains today"])
    assert scores.scores == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "keys", [{"centering": "sentence"}, {"centering": "batch", "centering_size": 1, "centering_side": "separate"}]
)
def test_mean_of_vectors_that_cancel_is_nothing(keys: dict[str, Any]) -> None:
    with (
        twmd_registry.scorer("sbert", vectors="unit", special="none", **keys) as scorer,
        pytest.warns(match="nothing is left to compare"),
    ):
        assert scorer.score(["very well", "very well"], ["very well", "quite good"]).scores == (1.0, 0.0)


LONGER = [f"the old keeper number {n} walked down to the mill and came back before it rained" for n in range(40)]
SHORT = [("red car", "blue bus"), ("red car", "red bus"), ("cat", "dog"), ("a", "a b"), ("red car", "red car")]
SEPARATE = {"centering": "batch", "centering_size": 1, "centering_side": "separate"}


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize("keys", [{"centering": "sentence"}, {"centering": "sentence", "ngram": 2}, SEPARATE])
def test_short_text_scores_the_same_beside_longer_rows(keys: dict[str, Any]) -> None:
    predictions, references = ([pair[side] for pair in SHORT] for side in (0, 1))
    scorers = [
        twmd_registry.scorer(metric, special="none", **({"vectors": "unit"} if metric == "sbert" else {}), **keys)
        for metric in ALIGNED
    ]
    beside = twmd_registry.score_all(scorers, predictions + LONGER, references + LONGER[::-1])
    alone = [twmd_registry.score_all(scorers, [text], [other]) for text, other in SHORT]
    for k, scores in enumerate(beside):
        assert [own[k].score for own in alone] == pytest.approx(scores.scores[: len(SHORT)], abs=1e-5), ALIGNED[k]


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_text_alone_in_its_batch_scores_as_by_itself() -> None:
    """Pair 33 of 33 with batches of 32: its side's batch holds one text."""
    keys: dict[str, Any] = {"centering": "batch", "centering_size": 32, "centering_side": "separate", "special": "none"}
    scorers = [twmd_registry.scorer(metric, **keys) for metric in ALIGNED]
    for text, other in SHORT:
        beside = twmd_registry.score_all(scorers, [*LONGER[:32], text], [*LONGER[1:33], other])
        alone = twmd_registry.score_all(scorers, [text], [other])
        assert [own.score for own in alone] == pytest.approx([own.scores[-1] for own in beside], abs=1e-5), text
