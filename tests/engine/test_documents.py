"""Scores of documents: means over their segments, with bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest

import twmd_registry
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import InputError

TEXTS = ["the cat sat", "it rains", "we saw a dog", "the shop is open", "it rains again"]
REFERENCES = ["a cat sat", "it pours", "we saw the dog", "the shop opens", "rain again"]
DOCUMENTS = ["b", "a", "b", "a", "alone"]


@pytest.fixture(scope="module")
def scores() -> ScoreSet:
    return twmd_registry.score(TEXTS, REFERENCES)


def test_score_of_a_document_is_the_mean_of_its_segments_wherever_they_stand(scores: ScoreSet) -> None:
    found = scores.by_document(DOCUMENTS)
    assert list(found) == ["b", "a", "alone"]
    for name, own in found.items():
        rows = [i for i, document in enumerate(DOCUMENTS) if document == name]
        assert own.segments == len(rows)
        assert own.score == pytest.approx(np.mean([scores.scores[i] for i in rows]), abs=1e-12)


def test_interval_is_that_of_resampled_segments(scores: ScoreSet) -> None:
    (own,) = scores.by_document(["one"] * 5, resamples=20_000, seed=7).values()
    values = np.array(scores.scores)
    means = values[np.random.default_rng(1).integers(5, size=(20_000, 5))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    assert own.mean == pytest.approx(values.mean(), abs=0.003)
    assert own.ci == pytest.approx((high - low) / 2, rel=0.05)
    assert scores.by_document(["one"] * 5, seed=7) == scores.by_document(["one"] * 5, seed=7)


def test_document_of_one_segment_has_no_interval(scores: ScoreSet) -> None:
    alone = scores.by_document(DOCUMENTS)["alone"]
    assert (alone.segments, alone.score, alone.mean, alone.ci) == (1, scores.scores[4], None, None)
    assert all(own.ci is None for own in scores.by_document(DOCUMENTS, resamples=0).values())


def test_other_number_of_documents_is_refused(scores: ScoreSet) -> None:
    with pytest.raises(InputError, match="4 names of documents for 5 segments: give one per segment"):
        scores.by_document(DOCUMENTS[:4])
