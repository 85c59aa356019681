"""Tests of the reference cache: each text is encoded once, memory is bounded, and entries are never mixed up."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests import tiny
from twmd_registry.encode.cache import CachedText, TextCache, TextKey
from twmd_registry.engine import pipeline
from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.registry.options import RunOptions

FIRST = ["the cat sat", "a dog ran over the hill", "it"]
SECOND = ["a cat sat on the mat today", "we ran", "it rains"]
REFERENCES = [["the cat sat on the mat", "a cat sat"], ["a dog ran"], ["it ran again", "the dog", "we saw it"]]
DISTINCT_REFERENCES = 6
"""Number of distinct references."""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tiny.save_encoder("bert", tmp_path / "bert"))


def metric(folder: str, name: str = "twmd", **keys: Any) -> Scorer:
    return twmd_registry.scorer(
        name, **{"model": folder, "layer": 2, "centering": "none", "keep_references": "1MB", **keys}
    )


def score_and_count_encoded(
    scorer: Scorer, predictions: list[str], references: Any = REFERENCES
) -> tuple[tuple[float, ...], int]:
    """Return the scores and the number of texts that were encoded for them."""
    before = scorer.backend.model.texts_encoded
    found = scorer.score(predictions, references)
    return found.scores, scorer.backend.model.texts_encoded - before


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"centering": "corpus"},
        {"centering": "batch", "centering_size": 2},
        {"name": "moverscore", "idf": "corpus", "layer": "1,2,3", "aggregation": "pmeans:-inf,1,inf"},
        {"name": "sbert", "special": "all"},
        {"truncation": "window:6/2"},
        {"truncation": "cut:4"},
    ],
)
@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_second_call_encodes_predictions_only_and_scores_the_same(folder: str, keys: dict[str, Any]) -> None:
    with metric(folder, **keys) as keeping, metric(folder, **keys, keep_references=0) as forgetful:
        assert score_and_count_encoded(keeping, FIRST)[1] == len(FIRST) + DISTINCT_REFERENCES
        for predictions in (SECOND, FIRST):
            scores, number = score_and_count_encoded(keeping, predictions)
            assert number == len(predictions)
            expected, all_texts = score_and_count_encoded(forgetful, predictions)
            assert all_texts == len(predictions) + DISTINCT_REFERENCES
            np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


def test_cached_references_across_chunks_and_metrics_are_encoded_once(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [
        found.scores
        for found in score_all(
            [metric(folder, name, keep_references=0) for name in ("twmd", "sbert")], FIRST, REFERENCES
        )
    ]
    monkeypatch.setattr(pipeline, "CHUNK_TOKENS", 12)
    scorers = [metric(folder, "twmd"), metric(folder, "sbert", keep_references=10)]
    assert all(scorer.spec for scorer in scorers)
    for predictions in (SECOND, FIRST):
        before = scorers[0].backend.model.texts_encoded
        found = [one.scores for one in score_all(scorers, predictions, REFERENCES)]
    assert scorers[0].backend.model.texts_encoded - before == len(FIRST)
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-5)


def test_cached_references_give_the_same_counts_and_warnings_again(folder: str) -> None:
    references = [["cat " * 60], [" "], ["zebra"]]
    with metric(folder) as scorer:
        for _ in range(2):
            with pytest.warns(TwmdWarning) as caught:
                found = scorer.score(FIRST, references)
            assert found.counts[:4] == (3, 1, 1, 1)
            assert len(caught) == 3
        assert score_and_count_encoded(scorer, FIRST, [["dog"]] * 3)[1] == len(FIRST) + 1


def test_words_without_a_vector_stay_counted(tmp_path: Path) -> None:
    table = tmp_path / "table.txt"
    table.write_text("cat 1 0\ndog 0.5 1\nsat 0 1\n", encoding="utf-8")
    with metric(str(table), layer=0) as scorer:
        for predictions in (["cat"], ["dog sat"]):
            with pytest.warns(TwmdWarning, match="words without a vector, left out: 2 .*'heron', 'stork'"):
                assert scorer.score(predictions, [["heron cat stork sat"]]).counts.oov == 2


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize(
    "other", [{"layer": 1}, {"truncation": "cut:5"}, {"truncation": "window:5/2"}, {"dtype": "bfloat16"}]
)
def test_cached_references_under_other_settings_are_encoded_again(folder: str, other: dict[str, Any]) -> None:
    with metric(folder) as one, metric(folder, **other) as another, metric(folder, **other, keep_references=0) as fresh:
        one.score(FIRST, REFERENCES)
        scores, number = score_and_count_encoded(another, FIRST)
        assert number == len(FIRST) + DISTINCT_REFERENCES
        np.testing.assert_allclose(scores, fresh.score(FIRST, REFERENCES).scores, rtol=0, atol=1e-5)
        assert score_and_count_encoded(one, SECOND)[1] == len(SECOND)


def test_reference_cache_is_freed_when_the_last_scorer_closes(folder: str) -> None:
    scorer, sharing = metric(folder), metric(folder)
    score_and_count_encoded(scorer, FIRST)
    assert sharing.backend.model.references is scorer.backend.model.references
    kept = weakref.ref(scorer.backend.model.references)
    scorer.close()
    assert score_and_count_encoded(sharing, FIRST)[1] == len(FIRST)
    sharing.close()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("most", [0, 500, 2000, 4000, 10**6])
def test_reference_cache_with_a_byte_limit_does_not_exceed_it(folder: str, most: int) -> None:
    with metric(folder, keep_references=most) as scorer:
        for predictions in (FIRST, SECOND):
            scores, number = score_and_count_encoded(scorer, predictions)
            cache = scorer.backend.model.references
            assert cache.held_bytes == sum(size for _, size, _ in cache._entries.values()) <= most
        # In the second pass, cached references are found and the others are encoded again.
        assert number == len(SECOND) + DISTINCT_REFERENCES - len(cache)
        assert (len(cache) == DISTINCT_REFERENCES) is (most == 10**6)
        expected = metric(folder, keep_references=0).score(SECOND, REFERENCES).scores
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


def key(text: str) -> TextKey:
    return TextKey("model", (1,), None, None, text)


def some_text(tokens: int) -> CachedText:
    return CachedText(
        np.zeros((1, tokens, 4), np.float32),
        np.zeros(tokens, np.uint8),
        np.zeros(tokens, np.int64),
        np.zeros(tokens, np.int64),
        empty=False,
        truncated=False,
        unknown=False,
    )


def test_full_cache_evicts_the_least_recently_used_entry() -> None:
    cache = TextCache()
    cache.begin(10**6)
    cache.keep({key("a"): some_text(5)})
    size = cache.held_bytes
    assert size >= 5 * (4 * 4 + 1 + 8)
    cache = TextCache()
    cache.begin(3 * size)
    for name in "abc":
        cache.keep({key(name): some_text(5)})
    cache.begin(0)
    assert cache.find([key("a")])
    cache.keep({key("d"): some_text(5)})
    assert [name for name in "abcd" if cache.find([key(name)])] == ["a", "c", "d"]
    assert cache.held_bytes == 3 * size
    # All three entries were used in this call, so no new entry is added; in the next call they can be evicted.
    cache.keep({key("e"): some_text(5)})
    assert not cache.find([key("e")])
    cache.begin(0)
    cache.keep({key("e"): some_text(12)})
    assert [name for name in "acde" if cache.find([key(name)])] == ["d", "e"]
    cache.keep({key("f"): some_text(1000)})
    assert len(cache) == 2


@pytest.mark.parametrize("option", ["keep_references", "disk_cache"])
def test_bound_of_a_cache_is_a_number_of_bytes_or_refused(option: str) -> None:
    read: dict[Any, int] = {0: 0, 7: 7, "64": 64, "2kB": 2000, "256MB": 256_000_000, "1.5 GB": 1_500_000_000}
    for given, number in read.items():
        keys: dict[str, Any] = {option: given}
        assert getattr(twmd_registry.scorer("twmd", **keys).options, option) == number
    wrong: list[Any] = [-1, 1.5, True, "", "much", "1TB", "MB", "-5MB", "nan", None]
    for given in wrong:
        with pytest.raises(
            SpecError, match=rf'^{option}=.* is not possible: expected a number of bytes from 0, or .*"256MB"'
        ):
            RunOptions(**{option: given})
