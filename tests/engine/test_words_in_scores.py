"""Laws of words, weights, n-grams and layers from end to end; tests/engine/test_whole_scores.py has their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.conftest import Texts
from twmd_registry.errors import TwmdWarning

ALIGNED = ["twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka", "sbert"]
WAYS: dict[str, dict[str, Any]] = {
    "idf": {"idf": "corpus"},
    "idf of references": {"idf": "references"},
    "bigrams": {"ngram": 2, "idf": "corpus"},
    "sentences": {"ngram": "sentence", "idf": "references"},
    "words": {"subwords": "drop", "punctuation": "drop"},
    "layers": {"layer": "last:3", "aggregation": "pmeans"},
    "routing": {"layer": "2-5", "aggregation": "routing", "ngram": 2},
    "concat": {"layer": "1,3,6", "aggregation": "concat", "idf": "corpus"},
}


@pytest.mark.parametrize("metric", ["twmd", "moverscore"])
def test_scorers_that_look_differently_do_not_disturb_each_other(metric: str, texts: Texts) -> None:
    few = [side[:5] for side in texts]
    scorers = [twmd_registry.scorer(metric, centering="none", **keys) for keys in WAYS.values()]
    for one, together in zip(scorers, twmd_registry.score_all(scorers, *few), strict=True):
        assert one.score(*few).scores == pytest.approx(together.scores, abs=1e-6)


@pytest.mark.parametrize(("metric", "ngram"), zip(ALIGNED, [1, 2, "sentence"] * 2, strict=True))
def test_single_segment_has_no_rare_words_and_says_so(metric: str, ngram: int | str, texts: Texts) -> None:
    # The scale of the weights, which must be 1, shows in entropic objectives and in sums that nothing divides.
    shown: dict[str, dict[str, Any]] = {
        "twmd": {"objective": "entropic"},
        "trwmd": {"objective": "entropic"},
        "wordset_cka": {"normalize": False},
    }
    keys: dict[str, Any] = {"centering": "none", "ngram": ngram, **shown.get(metric, {})}
    with pytest.warns(
        TwmdWarning, match="of which every token has the idf 0 .*: 2; their tokens count the same"
    ) as caught:
        found = twmd_registry.scorer(metric, idf="corpus", **keys).score(texts.predictions[:1], texts.references[:1])
    assert len([one for one in caught if "idf 0" in str(one.message)]) == 1
    plain = twmd_registry.scorer(metric, **keys).score(texts.predictions[:1], texts.references[:1])
    assert found.scores == pytest.approx(plain.scores, rel=1e-6)


def test_text_whose_words_are_all_left_out_is_compared_by_its_special_tokens_and_says_so() -> None:
    with pytest.warns(TwmdWarning, match="of which every word is left out: 2; only their special tokens are compared"):
        found = twmd_registry.scorer("moverscore", punctuation="drop", special="all").score(
            ["?!", "?!", "Snow."], ["?!", "Snow.", "..."]
        )
    assert found.scores[0] == pytest.approx(1)
    assert found.explain(0).hypothesis == ("[CLS] [SEP]",)


def test_stop_word_with_an_apostrophe_matches_every_form_of_it(tmp_path: Path) -> None:
    (tmp_path / "stop.txt").write_text("don't\n", encoding="utf-8")
    texts = ["they don't know", "they don\u2019t know", "they DON'T know", "don knows"]
    found = twmd_registry.scorer("moverscore", "wmd", stopwords=tmp_path / "stop.txt").score(texts, ["snow"] * 4)
    assert [found.explain(i).hypothesis for i in range(4)] == [("they", "know")] * 3 + [("don", "knows")]


@pytest.mark.parametrize(("release", "authors"), [("v1", 0.6475), ("v2", 0.6512)])
def test_curled_quotation_marks_score_as_the_authors_programs_do(release: str, authors: float) -> None:
    with twmd_registry.scorer("moverscore", f"moverscore-{release}", idf="none") as one:
        found = one.score(["He said \u201cyes\u201d today."], ["Today he said yes."])
    assert found.scores == pytest.approx([authors], abs=1e-4)  # their numbers were printed with four digits


def test_special_token_written_in_a_text_counts_as_a_word() -> None:
    with twmd_registry.scorer("bertscore_centered", centering="none", special="none") as metric:
        found = metric.score(["cat", "cat"], ["cat", "cat [SEP]"])
    assert found.recall is not None
    assert found.recall[0] == pytest.approx(1)
    assert found.recall[1] < 0.99
