"""Laws that every metric keeps, whatever its model says."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests.conftest import Texts
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import Centering, MetricName
from twmd_registry.scores import ScoreSet

TOLERANCE = 1e-5
METRICS = list(MetricName)
ALIGNED = [metric for metric in METRICS if metric not in {MetricName.STSSCORE, MetricName.ENSEMBLE}]
TWO_SIDED = [metric for metric in METRICS if CATALOGUE[metric].two_sided]
NEIGHBOURLESS = [centering for centering in Centering if centering not in {Centering.BATCH, Centering.CORPUS}]

Score = Callable[..., ScoreSet]


@pytest.fixture(scope="module")
def score(texts: Texts) -> Score:
    """Scores the shared texts, or others, by a metric and keys."""

    def run(metric: str, predictions: Any = None, references: Any = None, **keys: Any) -> ScoreSet:
        made = twmd_registry.scorer(metric, **keys)
        return made.score(texts.predictions if predictions is None else predictions, texts.references if references is None else references)

    return run


def keys_for(metric: MetricName, centering: str) -> dict[str, str]:
    """Keys that set a centering, where the metric has one (raw vectors have no mean left under ``sentence``)."""
    if metric not in ALIGNED:
        return {}
    return {"centering": centering} | ({"vectors": "unit"} if metric is MetricName.SBERT else {})


def differences(a: ScoreSet, b: ScoreSet, order: Any = None) -> float:
    first, second = np.array(a.scores), np.array(b.scores)
    return float(np.abs(first - (second if order is None else second[order])).max())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("batch_tokens", [1, 64, 100_000])
def test_compute_batch_changes_nothing(score: Score, metric: str, batch_tokens: int) -> None:
    assert differences(score(metric), score(metric, batch_tokens=batch_tokens)) <= TOLERANCE


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("centering", NEIGHBOURLESS)
def test_shuffling_changes_nothing(score: Score, texts: Texts, metric: MetricName, centering: str) -> None:
    keys = keys_for(metric, centering)
    order = np.random.default_rng(5).permutation(len(texts.predictions))
    shuffled = score(metric, [texts.predictions[i] for i in order], [texts.references[i] for i in order], **keys)
    assert differences(shuffled, score(metric, **keys), order) <= TOLERANCE


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("centering", NEIGHBOURLESS)
def test_a_pair_scores_the_same_alone(score: Score, texts: Texts, metric: MetricName, centering: str) -> None:
    keys = keys_for(metric, centering)
    together = score(metric, **keys)
    for i in (0, 17, 39):
        alone = score(metric, [texts.predictions[i]], [texts.references[i]], **keys)
        assert abs(alone.score - together.scores[i]) <= TOLERANCE


@pytest.mark.parametrize("metric", ALIGNED)
def test_corpus_centering_does_not_know_order(score: Score, texts: Texts, metric: str) -> None:
    order = np.arange(len(texts.predictions))[::-1]
    turned = score(metric, [texts.predictions[i] for i in order], [texts.references[i] for i in order], centering="corpus")
    assert differences(turned, score(metric, centering="corpus"), order) <= TOLERANCE


@pytest.mark.parametrize("metric", ALIGNED)
def test_batch_centering_of_everything_is_corpus_centering(score: Score, metric: str) -> None:
    batch = score(metric, centering="batch", centering_size=40, centering_side="joint")
    assert differences(batch, score(metric, centering="corpus", centering_side="joint")) <= TOLERANCE
    separate = score(metric, centering="batch", centering_size=40, centering_side="separate")
    assert differences(separate, score(metric, centering="corpus", centering_side="separate")) <= TOLERANCE
    assert differences(separate, batch) > 10 * TOLERANCE


@pytest.mark.parametrize("metric", ALIGNED)
@pytest.mark.parametrize("centering", [c for c in Centering if c is not Centering.BATCH])
def test_a_text_scores_one_against_itself(score: Score, texts: Texts, metric: MetricName, centering: str) -> None:
    found = score(metric, texts.references, texts.references, **keys_for(metric, centering))
    assert np.abs(np.array(found.scores) - 1).max() <= TOLERANCE


@pytest.mark.parametrize("metric", TWO_SIDED)
def test_swapping_exchanges_precision_and_recall(score: Score, texts: Texts, metric: str) -> None:
    there, back = score(metric), score(metric, texts.references, texts.predictions)
    assert np.abs(np.array(there.precision) - np.array(back.recall)).max() <= TOLERANCE
    assert np.abs(np.array(there.recall) - np.array(back.precision)).max() <= TOLERANCE
    assert np.abs(np.array(there.precision) - np.array(there.recall)).max() > 100 * TOLERANCE


@pytest.mark.parametrize("metric", [metric for metric in ALIGNED if metric not in TWO_SIDED])
def test_one_sided_metrics_of_the_family_are_symmetric(score: Score, texts: Texts, metric: str) -> None:
    assert differences(score(metric), score(metric, texts.references, texts.predictions)) <= TOLERANCE


@pytest.mark.parametrize("metric", METRICS)
def test_scores_stay_in_the_declared_range(score: Score, texts: Texts, metric: MetricName) -> None:
    lowest, highest = CATALOGUE[metric].lowest, CATALOGUE[metric].highest
    unrelated = np.array(score(metric, texts.predictions, texts.references[7:] + texts.references[:7]).scores)
    related = np.array(score(metric).scores)
    assert np.isfinite(unrelated).all()
    assert lowest is None or min(unrelated.min(), related.min()) >= lowest - TOLERANCE
    assert highest is None or max(unrelated.max(), related.max()) <= highest + TOLERANCE
    assert related.mean() > unrelated.mean() + 0.1


@pytest.mark.parametrize("metric", METRICS)
def test_scoring_twice_gives_the_same_digits(score: Score, metric: str) -> None:
    assert score(metric).scores == score(metric).scores


@pytest.mark.parametrize("metric", METRICS)
def test_a_pickled_scorer_scores_the_same(texts: Texts, metric: str) -> None:
    scorer = twmd_registry.scorer(metric)
    before = scorer.score(*texts)
    assert pickle.loads(pickle.dumps(scorer)).score(*texts) == before


def test_several_metrics_and_references_encode_every_different_text_once(texts: Texts) -> None:
    scorers = [twmd_registry.scorer(metric, centering="none", special="none") for metric in ALIGNED]
    encoder = scorers[0].route.model
    before = encoder.sentences_encoded
    references = [[reference, texts.references[0], prediction] for reference, prediction in zip(texts.references, texts.predictions, strict=True)]
    found = twmd_registry.score_all(scorers, texts.predictions, references)
    different = len(set(texts.predictions + texts.references))
    assert encoder.sentences_encoded - before == different
    assert found[0].counts.repeated == 4 * len(texts.predictions) - different


@pytest.mark.parametrize("metric", [metric for metric in METRICS if "multiref" in CATALOGUE[metric].keys])
def test_several_references_best_and_mean(score: Score, texts: Texts, metric: str) -> None:
    others = texts.references[1:] + texts.references[:1]
    one, two = np.array(score(metric).scores), np.array(score(metric, texts.predictions, others).scores)
    both = [[a, b] if i % 2 else [a] for i, (a, b) in enumerate(zip(texts.references, others, strict=True))]
    odd = np.arange(len(one)) % 2 == 1
    best, mean = (np.array(score(metric, references=both, multiref=rule).scores) for rule in ("max", "mean"))
    assert np.abs(best - np.where(odd, np.maximum(one, two), one)).max() <= TOLERANCE
    assert np.abs(mean - np.where(odd, (one + two) / 2, one)).max() <= TOLERANCE


def test_balanced_transport_never_beats_greedy_matching(score: Score) -> None:
    keys = {"layer": 4, "special": "none", "centering": "none"}
    balanced, greedy = score("moverscore", ngram=1, transform="linear", **keys), score("bertscore_centered", **keys)
    for side in (greedy.precision, greedy.recall):
        assert (np.array(balanced.scores) <= np.array(side) + TOLERANCE).all()


def test_temperature_limits_at_the_level_of_texts(score: Score) -> None:
    cold = score("trwmd", temperature=1e-4, normalize="no", centering="none", layer=4, special="none")
    greedy = score("bertscore_centered", centering="none", layer=4, special="none")
    assert differences(cold, greedy) <= 1e-4
    hot = score("trwmd", temperature=1e6, centering="none", layer=4, special="none")
    pooled = score("sbert", centering="none", layer=4, special="none", vectors="unit")
    assert differences(hot, pooled) <= 1e-4


def test_bfloat16_stays_near_float32_and_keeps_scores_apart(score: Score, texts: Texts) -> None:
    exact, coarse = score("twmd"), score("twmd", dtype="bfloat16")
    assert 0 < differences(exact, coarse) < 0.05
    assert len(set(coarse.scores)) >= len(set(exact.scores)) - 1
    assert "dtype:bfloat16" in str(coarse.signature)
    assert len(texts.predictions) == len(coarse.scores)


def test_converged_twmd_at_a_low_temperature_is_exact_transport_on_real_text(score: Score) -> None:
    keys = {"layer": 4, "special": "all", "centering": "none"}
    cold = score("twmd", temperature=1e-3, iterations="converged", normalize="no", **keys)
    balanced = np.array(score("moverscore", ngram=1, transform="linear", **keys).scores)
    for side in (cold.precision, cold.recall):
        assert float(np.abs(np.array(side) - balanced).max()) <= 1e-3
