"""Invariants that every metric satisfies, whatever its model computes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests.conftest import Texts
from twmd_registry.engine.result import ScoreSet
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import CENTERINGS, MetricName

TOLERANCE = 1e-5
METRICS = list(MetricName)
ALIGNED = [metric for metric in METRICS if metric not in {MetricName.STSSCORE, MetricName.ENSEMBLE}]
TWO_SIDED = [metric for metric in METRICS if CATALOGUE[metric].two_sided]

Key = tuple[MetricName, str | None]
"""A metric and its centering; None means the default centering, if the metric has any."""
DEFAULTS: list[Key] = [(metric, None) for metric in METRICS]
CENTERED: list[Key] = [(metric, centering) for metric in ALIGNED for centering in CENTERINGS if centering != "batch"]
INDEPENDENT_OF_OTHER_PAIRS = [
    *DEFAULTS,
    *((metric, centering) for metric, centering in CENTERED if centering != "corpus"),
]
WITH_REFERENCES = [metric for metric in METRICS if "multiref" in CATALOGUE[metric].keys]
ALONE = (0, 7, 15)

Scored = dict[Key, ScoreSet]
ScoreAs = Callable[[object], Scored]


def scored(predictions: Sequence[str], references: Sequence[str]) -> Scored:
    """Return the scores of every metric under every centering except ``batch``; each text is encoded once."""
    # After centering by sentence, the mean of raw vectors is zero.
    unit: dict[str, Any] = {MetricName.SBERT: {"vectors": "unit"}}
    keys = [*DEFAULTS, *CENTERED]
    scorers = [
        twmd_registry.load(metric, **({"centering": of, **unit.get(metric, {})} if of else {})) for metric, of in keys
    ]
    return dict(zip(keys, twmd_registry.score_all(scorers, predictions, references), strict=True))


@pytest.fixture(scope="module")
def order(texts: Texts) -> list[int]:
    return [int(i) for i in np.random.default_rng(5).permutation(len(texts.predictions))]


@pytest.fixture(scope="module")
def score_as(texts: Texts, order: list[int]) -> ScoreAs:
    """Return the scores of the shared texts as they are, in another order or other pairs, or of a segment alone."""
    predictions, references = texts
    given: dict[object, tuple[list[str], list[str]]] = {
        "original": texts,
        "shuffled": ([predictions[i] for i in order], [references[i] for i in order]),
        "with itself": (references, references),
        "swapped": (references, predictions),
        "unrelated": (predictions, references[7:] + references[:7]),
        **{i: (predictions[i : i + 1], references[i : i + 1]) for i in ALONE},
    }
    return cache(lambda name: scored(*given[name]))


@pytest.fixture(scope="module", params=[1, 100_000])
def batched(texts: Texts, request: pytest.FixtureRequest) -> dict[MetricName, ScoreSet]:
    scorers = [twmd_registry.load(metric, batch_tokens=request.param) for metric in METRICS]
    return dict(zip(METRICS, twmd_registry.score_all(scorers, *texts), strict=True))


@pytest.fixture(scope="module")
def of_two_references(texts: Texts) -> dict[MetricName, list[ScoreSet]]:
    others = texts.references[1:] + texts.references[:1]
    both = [[a, b] if i % 2 else [a] for i, (a, b) in enumerate(zip(texts.references, others, strict=True))]
    given: list[tuple[Any, dict[str, Any]]] = [
        (texts.references, {}),
        (others, {}),
        (both, {"multiref": "max"}),
        (both, {"multiref": "mean"}),
    ]
    found = [
        twmd_registry.score_all([twmd_registry.load(metric, **keys) for metric in WITH_REFERENCES], texts[0], own)
        for own, keys in given
    ]
    return {metric: list(of_metric) for metric, *of_metric in zip(WITH_REFERENCES, *found, strict=True)}


def differences(a: ScoreSet, b: ScoreSet, order: Any = None) -> float:
    first, second = np.array(a.scores), np.array(b.scores)
    return float(np.abs(first - (second if order is None else second[order])).max())


@pytest.mark.parametrize("metric", METRICS)
def test_scores_with_any_batch_tokens_are_equal(
    score_as: ScoreAs, batched: dict[MetricName, ScoreSet], metric: MetricName
) -> None:
    assert differences(score_as("original")[metric, None], batched[metric]) <= TOLERANCE


@pytest.mark.parametrize("key", [*DEFAULTS, *CENTERED])
def test_scores_of_shuffled_pairs_are_unchanged(score_as: ScoreAs, order: list[int], key: Key) -> None:
    assert differences(score_as("shuffled")[key], score_as("original")[key], order) <= TOLERANCE


@pytest.mark.parametrize("key", INDEPENDENT_OF_OTHER_PAIRS)
def test_pair_scored_alone_has_its_score_in_the_corpus(score_as: ScoreAs, key: Key) -> None:
    for i in ALONE:
        assert abs(score_as(i)[key].score - score_as("original")[key].scores[i]) <= TOLERANCE


@pytest.mark.parametrize("key", CENTERED)
def test_text_scores_one_against_itself(score_as: ScoreAs, key: Key) -> None:
    assert np.abs(np.array(score_as("with itself")[key].scores) - 1).max() <= TOLERANCE


@pytest.mark.parametrize("metric", ALIGNED)
def test_swapping_exchanges_precision_and_recall_or_changes_nothing(score_as: ScoreAs, metric: MetricName) -> None:
    there, back = score_as("original")[metric, None], score_as("swapped")[metric, None]
    if metric in TWO_SIDED:
        assert np.abs(np.array(there.precision) - np.array(back.recall)).max() <= TOLERANCE
        assert np.abs(np.array(there.recall) - np.array(back.precision)).max() <= TOLERANCE
        assert np.abs(np.array(there.precision) - np.array(there.recall)).max() > 100 * TOLERANCE
    else:
        assert differences(there, back) <= TOLERANCE


@pytest.mark.parametrize("metric", METRICS)
def test_scores_stay_in_the_declared_range(score_as: ScoreAs, metric: MetricName) -> None:
    lowest, highest = CATALOGUE[metric].lowest, CATALOGUE[metric].highest
    strange, related = (np.array(score_as(name)[metric, None].scores) for name in ("unrelated", "original"))
    assert np.isfinite(strange).all()
    assert lowest is None or min(strange.min(), related.min()) >= lowest - TOLERANCE
    assert highest is None or max(strange.max(), related.max()) <= highest + TOLERANCE
    assert related.mean() > strange.mean() + 0.1


@pytest.mark.parametrize("metric", METRICS)
def test_scoring_twice_with_a_scorer_or_its_copy_repeats_every_digit(texts: Texts, metric: str) -> None:
    few = [side[:4] for side in texts]
    scorer = twmd_registry.load(metric)
    first = scorer.score(*few)
    assert scorer.score(*few) == first
    assert pickle.loads(pickle.dumps(scorer)).score(*few) == first


@pytest.mark.parametrize("metric", WITH_REFERENCES)
def test_several_references_score_their_maximum_or_mean(
    of_two_references: dict[MetricName, list[ScoreSet]], metric: MetricName
) -> None:
    one, two, best, mean = (np.array(found.scores) for found in of_two_references[metric])
    odd = np.arange(len(one)) % 2 == 1
    assert np.abs(best - np.where(odd, np.maximum(one, two), one)).max() <= TOLERANCE
    assert np.abs(mean - np.where(odd, (one + two) / 2, one)).max() <= TOLERANCE


def test_bfloat16_stays_near_float32_and_keeps_scores_apart(texts: Texts) -> None:
    exact, coarse = (twmd_registry.score(*texts, dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert 0 < differences(exact, coarse) < 0.05
    assert len(set(coarse.scores)) >= len(set(exact.scores)) - 1
    assert "dtype:bfloat16" in str(coarse.signature)


LAYERED = [metric for metric in MetricName if "layer" in CATALOGUE[metric].keys]


@pytest.mark.parametrize(
    "keys", [{"centering": "sentence"}, {"centering": "batch", "centering_size": 1, "centering_side": "separate"}]
)
def test_mean_of_vectors_that_cancel_is_nothing(keys: dict[str, Any]) -> None:
    with (
        twmd_registry.load("sbert", vectors="unit", special="none", **keys) as scorer,
        pytest.warns(match="nothing left to compare"),
    ):
        assert scorer.score(["very well", "very well"], ["very well", "quite good"]).scores == [1.0, 0.0]


LONGER = [f"the old keeper number {n} walked down to the mill and came back before it rained" for n in range(40)]
SHORT = [("red car", "blue bus"), ("red car", "red bus"), ("cat", "dog"), ("a", "a b"), ("red car", "red car")]
SEPARATE = {"centering": "batch", "centering_size": 1, "centering_side": "separate"}


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize("keys", [{"centering": "sentence"}, {"centering": "sentence", "ngram": 2}, SEPARATE])
def test_short_text_scores_the_same_next_to_longer_rows(keys: dict[str, Any]) -> None:
    predictions, references = ([pair[side] for pair in SHORT] for side in (0, 1))
    scorers = [
        twmd_registry.load(metric, special="none", vectors="unit" if metric == "sbert" else None, **keys)
        for metric in LAYERED
    ]
    beside = twmd_registry.score_all(scorers, predictions + LONGER, references + LONGER[::-1])
    alone = [twmd_registry.score_all(scorers, [text], [other]) for text, other in SHORT]
    for k, scores in enumerate(beside):
        assert [own[k].score for own in alone] == pytest.approx(scores.scores[: len(SHORT)], abs=1e-5), LAYERED[k]
