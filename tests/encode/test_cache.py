"""The cache of references: correct, bounded and freed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests import tiny
from twmd_registry.encode.cache import CachedText, TextCache, TextKey
from twmd_registry.engine import pipeline
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_with
from twmd_registry.errors import SpecError, TwmdWarning
from twmd_registry.registry.options import RunOptions
from twmd_registry.tensors import TextTokens

PREDICTIONS = ["the cat sat", "a dog ran over the hill", "it"]
REFERENCES = [["the cat sat on the mat", "a cat sat"], ["a dog ran"], ["it ran again", "the dog", "we saw it"]]
PAIRS = PREDICTIONS, REFERENCES
DIFFERENT, DIFFERENT_REFERENCES = 9, 6
"""Distinct texts in `PAIRS`, and in its references."""
ROOM = "10MB"
OTHERS = ["a cat sat on the mat today", "we ran", "it rains"]
KEYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch": {"centering": "batch", "centering_size": 2},
    "corpus": {"centering": "corpus"},
    "layers": {"name": "moverscore", "idf": "corpus", "layer": "1,2,3", "aggregation": "pmeans:-inf,1,inf"},
    "sbert": {"name": "sbert", "special": "all"},
    "window": {"truncation": "window:6/2"},
    "cut": {"truncation": "cut:4"},
    "bfloat16": {"dtype": "bfloat16"},
}


def metric(model: str, name: str = "twmd", **keys: Any) -> Scorer:
    return twmd_registry.load(name, **{"model": model, "layer": 2, "centering": "none", **keys})


def score_and_count(
    scorer: Scorer, predictions: Any = PREDICTIONS, references: Any = REFERENCES
) -> tuple[ScoreSet, int]:
    """Score texts; return the scores and the number of encoded texts."""
    before = scorer.backend.model.texts_encoded
    return scorer.score(predictions, references), scorer.backend.model.texts_encoded - before


def key(text: str) -> TextKey:
    return TextKey("model", (1,), None, None, text)


def some_text(tokens: int) -> CachedText:
    special, ids, codes = (np.zeros(tokens, dtype) for dtype in (np.uint8, np.int64, np.int64))
    facts = TextTokens(special, ids, codes, empty=False, truncated=False, unknown=False)
    return CachedText(np.zeros((1, tokens, 4), np.float32), facts)


@pytest.fixture
def model(tiny_encoder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    return str(tiny_encoder("bert"))


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_later_calls_encode_only_uncached_texts_and_score_the_same(model: str, name: str) -> None:
    keys = KEYS[name]
    with metric(model, **keys, keep_references=ROOM) as caching, metric(model, **keys) as plain:
        for predictions, number in ((PREDICTIONS, DIFFERENT), (OTHERS, len(OTHERS)), (PREDICTIONS, len(PREDICTIONS))):
            found, encoded = score_and_count(caching, predictions)
            expected, all_texts = score_and_count(plain, predictions)
            assert (encoded, all_texts) == (number, DIFFERENT)
            np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5)
        assert found.counts == expected.counts


def test_texts_cached_across_chunks_and_metrics_are_encoded_once(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[dict[str, Any]] = [{"name": "twmd"}, {"name": "twmd", "temperature": 0.7}, {"name": "sbert"}]
    whole = [found.scores for found in score_with([metric(model, **settings) for settings in keys], *PAIRS)]
    monkeypatch.setattr(pipeline, "CHUNK_TOKENS", 12)
    scorers = [
        metric(model, **{**settings, "keep_references": room})
        for settings, room in zip(keys, (ROOM, ROOM, 10), strict=True)
    ]
    assert all(scorer.spec for scorer in scorers)
    for number in (DIFFERENT, len(PREDICTIONS)):
        before = scorers[0].backend.model.texts_encoded
        found = [one.scores for one in score_with(scorers, *PAIRS)]
        assert scorers[0].backend.model.texts_encoded - before == number
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-5)


def test_cache_changes_no_counts_or_warnings(model: str, tmp_path: Path) -> None:
    table = tmp_path / "table.txt"
    table.write_text("cat 1 0\ndog 0.5 1\nsat 0 1\n", encoding="utf-8")
    references = [["cat " * 60], [" "], ["zebra h\u00e9ron"]]
    for name, layer, counts in ((model, 2, (3, 1, 1, 1)), (str(table), 0, (3,))):
        results = []
        with metric(name, layer=layer) as plain, metric(name, layer=layer, keep_references=ROOM) as caching:
            for one in (plain, caching, caching):
                with pytest.warns(TwmdWarning) as caught:
                    found, number = score_and_count(one, PREDICTIONS, references)
                results.append((found.counts, found.scores, [str(warning.message) for warning in caught]))
        assert results[0] == results[1] == results[2]
        assert found.counts[: len(counts)] == counts
        assert number == len(PREDICTIONS)
    assert found.counts.oov > 0


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize(
    "other", [{"layer": 1}, {"truncation": "cut:5"}, {"truncation": "window:5/2"}, {"dtype": "bfloat16"}, {"seed": 1}]
)
def test_texts_cached_under_other_settings_or_another_model_are_encoded_again(
    model: str, tmp_path: Path, other: dict[str, Any]
) -> None:
    name = model
    if "seed" in other:
        name, other = str(tiny.save_encoder("bert", tmp_path / "bert", **other)), {}
    with metric(model, keep_references=ROOM) as one, metric(name, **other, keep_references=ROOM) as another:
        one.score(*PAIRS)
        found, number = score_and_count(another)
        assert number == DIFFERENT
        np.testing.assert_allclose(found.scores, metric(name, **other).score(*PAIRS).scores, rtol=0, atol=1e-5)
        assert score_and_count(one)[1] == len(PREDICTIONS)


def test_reference_cache_is_freed_when_the_last_scorer_closes(model: str) -> None:
    scorer, sharing = (metric(model, keep_references=ROOM) for _ in range(2))
    scorer.score(*PAIRS)
    assert sharing.backend.model.reference_cache is scorer.backend.model.reference_cache
    kept = weakref.ref(scorer.backend.model.reference_cache)
    scorer.close()
    assert score_and_count(sharing)[1] == len(PREDICTIONS)
    sharing.close()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("most", [0, 500, 2000, 4000, 10**6])
def test_reference_cache_with_a_byte_limit_does_not_exceed_it(model: str, most: int) -> None:
    with metric(model, keep_references=most) as scorer:
        for predictions in (PREDICTIONS, OTHERS):
            found, number = score_and_count(scorer, predictions)
            cache = scorer.backend.model.reference_cache
            assert (cache is None) is (most == 0)
            cache = TextCache() if cache is None else cache
            assert cache.held_bytes == sum(size for _, size, _ in cache._entries.values()) <= most
        # In the second pass, cached references are found and the others are encoded again.
        assert number == len(OTHERS) + DIFFERENT_REFERENCES - len(cache)
        assert (len(cache) == DIFFERENT_REFERENCES) is (most == 10**6)
        expected = metric(model, keep_references=0).score(OTHERS, REFERENCES).scores
        np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-5)


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


def test_cache_limit_must_be_a_number_of_bytes() -> None:
    read: dict[Any, int] = {0: 0, 7: 7, "64": 64, "2kB": 2000, "256MB": 256_000_000, "1.5 GB": 1_500_000_000}
    for limit, number in read.items():
        assert twmd_registry.load("twmd", keep_references=limit).options.keep_references == number
    wrong: list[Any] = [-1, 1.5, True, "", "much", "1TB", "MB", "-5MB", "nan", None]
    for limit in wrong:
        with pytest.raises(SpecError, match="keep_references=.*bytes"):
            RunOptions(keep_references=limit)
