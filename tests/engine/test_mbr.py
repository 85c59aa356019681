"""`mbr`: utilities and choices equal those of calls of `score`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twmd_registry import load, mbr, score, score_all
from twmd_registry.engine.mbr import CANDIDATES_AT_ONCE, TIED, Choice
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.registry.names import MetricName

CANDIDATES = [
    ["dogs bark at night", "the cat sat on the mat", "a cat sat on a mat", "the cat sat there", "the cat sat there"],
    ["it rained all day", "the whole day was rainy", "nobody came"],
    ["one text alone"],
]
METRICS = [*MetricName, "ensemble(bertscore_centered;output=recall,2*sbert)", "ensemble(twmd;align=sentences)"]


def tables(choices: tuple[Choice, ...]) -> list[np.ndarray]:
    return [np.asarray(choice.utilities) for choice in choices]


def draw_candidates(segments: int, number: int) -> list[list[str]]:
    draw = np.random.default_rng(5)
    words = "the a cat dog sat ran on over mat hill in rain we saw it again today".split()
    lists = []
    for _ in range(segments):
        base = draw.choice(words, 7)
        changed = [np.where(draw.random(7) < 0.3, draw.choice(words, 7), base) for _ in range(number)]
        lists.append([" ".join(text) for text in changed])
    return lists


@pytest.mark.parametrize("metric", METRICS)
def test_utilities_and_choices_equal_a_call_of_score_per_pair(metric: str) -> None:
    lists = [CANDIDATES[0][:3], CANDIDATES[1]]
    with load(metric) as single:
        found = mbr(lists, metric, utilities=True)
        for texts, choice in zip(lists, found.choices, strict=True):
            expected = np.array([[single.score([text], [other]).score for other in texts] for text in texts])
            np.testing.assert_allclose(np.asarray(choice.utilities), expected, atol=1e-6)
            assert choice.expected_utility == pytest.approx(expected.mean(1).max(), abs=1e-6)
            assert choice.index == int(np.flatnonzero(expected.mean(1) >= expected.mean(1).max() - TIED)[0])
            assert choice.candidate == texts[choice.index]
        assert str(found.signature) == f"{single.signature}".replace("|version", "|nrefs:1|version")


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"centering": "batch", "centering_size": 3},
        {"centering": "batch", "centering_size": 3, "centering_side": "joint"},
        {"centering": "corpus"},
        {"idf": "corpus"},
        {"output": "recall", "idf": "references", "centering": "corpus", "centering_side": "separate"},
    ],
)
def test_expected_utility_is_the_score_against_all_candidates_by_their_mean(keys: dict[str, Any]) -> None:
    found = mbr(CANDIDATES, "twmd", utilities=True, **keys).choices
    predictions = [text for texts in CANDIDATES for text in texts]
    references = [texts for texts in CANDIDATES for _ in texts]
    scores = score(predictions, references, "twmd", multiref="mean", **keys).scores
    means = np.concatenate([table.mean(1) for table in tables(found)])
    np.testing.assert_allclose(means, scores, atol=1e-6)


@pytest.mark.parametrize("metric", ["sbert;against=source", "sbert;against=both;source_weight=0.4"])
def test_sources_decide_as_in_score(metric: str) -> None:
    name, *given = metric.split(";")
    sources = ["hounds barked", "no sunshine", "sentence"]  # without words of the candidates
    spec: dict[str, Any] = {"centering": "none", **dict(key.split("=") for key in given)}
    with load(name, **spec) as made:
        found = mbr(CANDIDATES, made, sources=sources)
        assert f"|nrefs:{0 if 'source' in metric.split(';')[1:][0] else 1}|" in str(found.signature)
        for texts, source, choice in zip(CANDIDATES, sources, found.choices, strict=True):
            count = len(texts)
            pairs = [text for text in texts for _ in texts], texts * count
            (scores,) = score_all([made], *pairs, sources=[source] * count**2)
            means = np.reshape(scores.scores, (count, count)).mean(1)
            assert choice.index == int(means.argmax())
            assert choice.expected_utility == pytest.approx(means.max(), abs=1e-6)
    with pytest.raises(InputError, match="1 sources for"):
        mbr(CANDIDATES, name, sources=["one"], **spec)


def test_equal_candidates_count_as_often_as_they_occur_and_the_first_is_chosen() -> None:
    texts = ["a dog ran", "it rains", "a dog ran", "a dog ran"]
    (choice,) = mbr([texts], utilities=True).choices
    table = np.asarray(choice.utilities)
    assert choice.index == 0
    np.testing.assert_array_equal(table[0], table[2])  # to the bit
    assert choice.expected_utility == pytest.approx((3 + table[0, 1]) / 4, abs=1e-6)


def test_more_candidates_than_a_batch_score_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [*draw_candidates(6, 5), *CANDIDATES]
    done: list[int] = []
    whole = mbr(lists, utilities=True, progress=done.append).choices
    assert sum(done) == sum(map(len, lists)) < CANDIDATES_AT_ONCE
    monkeypatch.setattr("twmd_registry.engine.mbr.CANDIDATES_AT_ONCE", 7)
    parts = mbr(lists, utilities=True).choices
    assert [choice.index for choice in parts] == [choice.index for choice in whole]
    for table, expected in zip(tables(parts), tables(whole), strict=True):
        np.testing.assert_allclose(table, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "nothing to choose from"),
        ([["a"], []], r"candidates\[1\] is an empty list"),
        (["a text"], r"candidates\[0\] is the text str 'a text'"),
        ([["a", None]], r"candidates\[0\]\[1\] must be a text; got None"),
    ],
)
def test_bad_candidates_are_refused_with_their_row(candidates: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mbr(candidates)


def test_empty_choice_is_named_and_segments_are_counted_once() -> None:
    with pytest.warns(TwmdWarning) as caught:
        found = mbr([["", " ", "a cat"], ["x", "y"], ["a dog", "a dog", "", "a cow"]])
    assert [choice.index for choice in found.choices] == [0, 0, 0]
    messages = [str(warning.message) for warning in caught]
    assert [message.partition(";")[0] for message in messages if "empty" in message] == [
        "texts without a token: 2",
        "segments for which an empty candidate was chosen: 1 (candidates[0])",
    ]


def test_warnings_name_segments_and_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.engine.mbr.CANDIDATES_AT_ONCE", 2)
    lists = [["it rains", "word " * 900], ["it rains", "word " * 900], ["it rains", "☃ ☃ ☃ snow"]]
    with pytest.warns(TwmdWarning) as caught:
        mbr(lists)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == len(set(messages)) == 2
    assert any("references[2][1]" in message for message in messages)
