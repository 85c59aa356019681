"""Appended rows move no score of a setting that does not depend on its neighbours, for all settings drawn at random."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import twmd_registry
from twmd_registry.registry.keys import layers_text
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

SETTINGS = int(os.environ.get("TWMD_TEST_SETTINGS", "40"))
"""How many settings are drawn; more for a long run."""
ALIGNED = [metric for metric in MetricName if "layer" in CATALOGUE[metric].keys]
PREDICTIONS = [
    "yes",
    "it rains",
    "very well",
    "5 / 7",
    "the cat sat on the mat .",
    "no no no no",
    "he said : wait !",
    "a dog ran",
]
REFERENCES = [
    "no",
    "rain it",
    "very well",
    "seven",
    "a cat was sitting on the mat",
    "no",
    "wait",
    "the dogs were running over the hill",
]
APPENDED = ["we saw it again today , and it was over", "x", "the mat", "is it so ?"]


def draw(seed: int) -> tuple[MetricName, dict[str, Any]]:
    """Return a metric and a value for every key that it uses and that makes no segment depend on another."""
    rng = np.random.default_rng(seed)

    def one_of(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    metric = MetricName(one_of(*ALIGNED))
    layers = sorted(set(rng.integers(0, 7, size=one_of(1, 1, 2, 4)).tolist()))
    ngram = one_of(1, 1, 2, 2, 3, "sentence")
    special = one_of(
        "none", "none", "cls", "all", *(["partners"] if metric is MetricName.BERTSCORE_CENTERED and ngram == 1 else [])
    )
    keys: dict[str, Any] = {
        "output": one_of("precision", "recall", "f1"),
        "layer": layers_text(layers),
        "aggregation": "single"
        if len(layers) == 1
        else one_of("mean", "concat", "pmeans:-inf,1,inf", "pmeans:1,3", "routing:gaussian"),
        "special": special,
        "subwords": one_of("keep", "keep", "drop"),
        "punctuation": one_of("keep", "keep", "drop"),
        "ngram": ngram,
        "vectors": one_of("unit", "raw"),
        "centering": one_of("none", "dimension", "sentence", "sentence", "background", "alone"),
        "temperature": float(f"{10 ** rng.uniform(-2.5, 1):.2g}"),
        "iterations": one_of(1, 2, 5, "converged"),
        "objective": one_of("expected", "entropic"),
        "distance": one_of("similarity", "sqeuclidean", "euclidean"),
        "transform": one_of("linear", "inverse"),
        "normalize": one_of("yes", "no"),
        "multiref": "mean",
    }
    if keys["centering"] == "alone":  # a batch of one segment, each side by itself: no neighbours either
        keys |= {"centering": "batch", "centering_size": 1, "centering_side": one_of("separate", "joint")}
    keys = {name: value for name, value in keys.items() if name in CATALOGUE[metric].keys}
    if keys.get("vectors") == "raw" and keys["centering"] == "sentence":
        keys["vectors"] = "unit"
    if keys.get("iterations") == "converged":
        keys["temperature"] = max(keys["temperature"], 0.02)
    return metric, keys


def tolerance(keys: dict[str, Any]) -> float:
    """Return what float32 allows: similarities are off by about 1e-6, and plans see them divided by T."""
    return 1e-5 + 1e-6 / float(keys.get("temperature", 1.0))


def assert_close(scores: Any, expected: Any, keys: dict[str, Any], *where: Any) -> None:
    """Check scores; those of raw vectors without normalisation are far above 1, and 1e-5 is a share of them."""
    assert scores == pytest.approx(expected, abs=tolerance(keys), rel=1e-5), (keys, *where)


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize("seed", range(SETTINGS))
def test_appended_rows_move_no_score(seed: int) -> None:
    metric, keys = draw(seed)
    with twmd_registry.scorer(metric, **keys) as scorer:
        alone = scorer.score(PREDICTIONS, REFERENCES).scores
        more = scorer.score(PREDICTIONS + APPENDED, REFERENCES + APPENDED[::-1]).scores[: len(alone)]
        assert_close(more, alone, keys, metric)
        for i in (seed % len(alone), (seed + 3) % len(alone)):
            single = scorer.score(PREDICTIONS[i : i + 1], REFERENCES[i : i + 1]).score
            assert_close(single, alone[i], keys, metric, i)


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
