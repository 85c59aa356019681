"""Words and tokens in whole scores: those that are not in the vocabulary, that weigh nothing, or that are left out.

Numbers are compared in tests/engine/test_whole_scores.py, cached texts in tests/encode/test_cache.py.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests import tiny
from twmd_registry.encode.encoder import tokenise
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import TwmdWarning
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import MetricName

ALIGNED = [metric for metric in MetricName if "unknown" in CATALOGUE[metric].keys]
HEART, ANGRY, ROCKET = "\U0001f60d", "\U0001f621", "\U0001f680"
PARTLY = [
    ("\u0e23\u0e32\u0e04\u0e32 250 \u0e1a\u0e32\u0e17.", "\u0e2b\u0e21\u0e32 250 \u0e04\u0e23\u0e31\u0e49\u0e07.")
]
PARTLY += [("\u222bx dx", "\u2211x dx"), (f"I love it {HEART}", f"I love it {ANGRY}"), (HEART, ANGRY)]
"""Pairs of distinct texts that differ in unknown tokens only."""
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "bigrams": {"ngram": 2},
    "sentences": {"ngram": "sentence"},
    "layers": {"layer": "2-4", "aggregation": "pmeans"},
    "idf": {"idf": "corpus"},
    "own tokens": {"special": "none"},
    "batch": {"centering": "batch", "centering_side": "joint"},
    "dimension": {"centering": "dimension"},
}


def quiet(metric: str, predictions: list[str], references: Any, **keys: Any) -> ScoreSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        return twmd_registry.load(metric, any_language=True, **keys).score(predictions, references)


@pytest.mark.parametrize("way", WAYS)
def test_unknown_tokens_match_only_where_their_texts_are_equal(way: str) -> None:
    predictions, references = map(list, zip(*PARTLY, strict=True))
    scorers = [twmd_registry.load(metric, any_language=True, **WAYS[way]) for metric in ALIGNED]
    keeping = [twmd_registry.load(metric, any_language=True, **WAYS[way], unknown="keep") for metric in ALIGNED]
    for found in twmd_registry.score_all(scorers, predictions, references):
        assert max(found.scores) < 0.95, found.signature
    texts = [*predictions, *references, f"I LOVE it {HEART}"]
    others = [*predictions, *references, f"i love it {HEART}"]
    found_alike = twmd_registry.score_all(scorers, texts, others)
    for found in [*found_alike, *twmd_registry.score_all(keeping, predictions, references)]:
        assert found.scores == pytest.approx([1] * len(found.scores), abs=1e-5), found.signature


@pytest.mark.parametrize("metric", ["twmd", "sbert"])
def test_default_is_signed_and_a_signature_without_the_key_keeps_its_meaning(metric: str) -> None:
    found = quiet(metric, *map(list, zip(*PARTLY, strict=True)))
    signed = str(found.signature)
    assert "|unknown:apart|" in signed
    assert "|un:apart|" in found.signature.format(short=True)
    assert quiet(signed, *map(list, zip(*PARTLY, strict=True))).scores == found.scores
    without = signed.replace("|unknown:apart|", "|")
    assert quiet(without, *map(list, zip(*PARTLY, strict=True))).scores == pytest.approx([1] * len(PARTLY), abs=1e-5)


@pytest.mark.parametrize("metric", ["twmd", "sbert", "stsscore", "ensemble"])
def test_unknown_tokens_are_counted_and_their_texts_named(metric: str) -> None:
    long = f"{ROCKET} went up over the old harbour in the cold morning"
    predictions = [f"I love it {HEART}", "a cat", long, "", "long words " * 4000]  # no special token is unknown
    references = [[f"I love it {ANGRY}", "I love it"], [f"a cat {HEART}"], ["a rocket went up"], ["a"], ["a"]]
    with pytest.warns(TwmdWarning) as caught:
        found = twmd_registry.load(metric).score(predictions, references)
    messages = [str(one.message) for one in caught if "unknown" in str(one.message)]
    assert len(messages) == 1
    assert "more than 10% unknown tokens: 3 (predictions[0], references[0][0], references[1])" in messages[0]
    assert (found.counts.unknown, found.counts.oov) == (3, 4)


@pytest.mark.parametrize("metric", ["twmd", "stsscore"])
def test_small_share_of_unknown_tokens_is_counted_without_a_warning(metric: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TwmdWarning)
        found = twmd_registry.load(metric).score(
            [f"{ROCKET} went up over the old house in the cold and wet morning"], ["it went up"]
        )
    assert (found.counts.unknown, found.counts.oov) == (0, 1)


def test_long_text_of_unknown_tokens_is_read_in_linear_time() -> None:
    start = time.process_time()
    (text,) = tokenise(tiny.tokenizer(), [f"{ROCKET} " * 16_000], limit=None)
    assert text.missing == (ROCKET,) * 16_000
    assert time.process_time() - start < 10  # offsets that are listed anew for every token take a minute


def test_single_segment_has_no_rare_words_and_warns() -> None:
    with pytest.warns(TwmdWarning, match="every token has idf 0 .*: 2; their tokens count the same") as caught:
        twmd_registry.load("twmd", idf="corpus", centering="none").score(["a cat sat"], ["the cat"])
    assert len([one for one in caught if "idf 0" in str(one.message)]) == 1


def test_text_whose_words_are_all_left_out_is_compared_by_its_special_tokens_and_warns() -> None:
    with pytest.warns(TwmdWarning, match="every word left out: 2; only their special tokens are compared"):
        found = twmd_registry.load("moverscore", "embedded", punctuation="drop", special="all").score(
            ["?!", "?!", "Snow."], ["?!", "Snow.", "..."]
        )
    assert found.scores[0] == pytest.approx(1)
    assert found.explain(0).hypothesis == ("[CLS] [SEP]",)


def test_stop_word_with_an_apostrophe_matches_every_form_of_it(tmp_path: Path) -> None:
    (tmp_path / "stop.txt").write_text("don't\n", encoding="utf-8")
    texts = ["they don't know", "they don\u2019t know", "they DON'T know", "don knows"]
    found = twmd_registry.load("moverscore", "wmd", stopwords=tmp_path / "stop.txt").score(texts, ["snow"] * 4)
    assert [found.explain(i).hypothesis for i in range(4)] == [("they", "know")] * 3 + [("don", "knows")]


@pytest.mark.parametrize(("release", "authors"), [("v1", 0.6475), ("v2", 0.6512)])
def test_curled_quotation_marks_score_as_the_authors_programs_do(release: str, authors: float) -> None:
    with twmd_registry.load("moverscore", f"moverscore-{release}", idf="none") as one:
        found = one.score(["He said \u201cyes\u201d today."], ["Today he said yes."])
    assert found.scores == pytest.approx([authors], abs=1e-4)  # their numbers were printed with four digits


def test_special_token_written_in_a_text_counts_as_a_word() -> None:
    with twmd_registry.load("bertscore_centered", centering="none", special="none") as metric:
        found = metric.score(["cat", "cat"], ["cat", "cat [SEP]"])
    assert found.recall is not None
    assert found.recall[0] == pytest.approx(1)
    assert found.recall[1] < 0.99
