"""Agreement with people's error spans, and fitting thresholds to them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from twmd_registry.engine.error_spans import ErrorSpan, Word, find_error_spans
from twmd_registry.errors import InputError
from twmd_registry.judgments.span_files import MarkedSegment
from twmd_registry.metaeval.span_agreement import differing_words, fit_spans, mark_characters, second_raters, span_f1
from twmd_registry.registry.spec import make_spec

TEXT = "abcdefghij"
MINOR, MAJOR = ErrorSpan(0, 4, "minor"), ErrorSpan(2, 6, "major")


def marked(*spans: ErrorSpan, text: str = TEXT) -> MarkedSegment:
    return MarkedSegment("a", "doc", "1", "", text, "", spans)


def wmt23(people: list[str], ours: list[str]) -> float:
    """Return F1 as the script of WMT23's task 2 counts it: characters ``-``, ``m`` or ``M`` of all segments."""
    pairs = [pair for own in zip(people, ours, strict=True) for pair in zip(*own, strict=True)]
    right = sum(1.0 if a == b else 0.5 for a, b in pairs if "-" not in {a, b})
    precision = right / sum(b != "-" for _, b in pairs)
    recall = right / sum(a != "-" for a, _ in pairs)
    return 2 * precision * recall / (precision + recall)


def test_f1_counts_characters_and_half_of_those_with_another_severity() -> None:
    people = [marked(ErrorSpan(0, 4, "minor"), ErrorSpan(6, 8, "major")), marked()]
    ours = [[ErrorSpan(2, 7, "major")], [ErrorSpan(9, 10, "minor")]]
    f1, precision, recall = span_f1(zip(people, ours, strict=True))
    assert f1 == pytest.approx(wmt23(["mmmm--MM--", "-" * 10], ["--MMMMM---", "---------m"]))
    assert (precision, recall) == pytest.approx((2 / 6, 2 / 6))
    assert span_f1([(marked(), [])]) == (0, 0, 0)
    spans = [ErrorSpan(2, 6, "major"), ErrorSpan(0, 4, "minor")]
    assert mark_characters(TEXT, spans).tolist() == [1, 1, 2, 2, 2, 2, 0, 0, 0, 0]


def test_second_raters_are_other_people_who_rated_the_same_translation() -> None:
    first, second = marked(MINOR)._replace(rater="r1"), marked(MAJOR)._replace(rater="r2", system="b")
    others = [first._replace(prediction="another"), first._replace(number="2"), first]
    pairs = second_raters([first, second, *others[:2]])
    assert pairs == [(first, second.spans), (second, first.spans)]
    assert second_raters([first, others[2]]) == []
    assert span_f1(pairs) == pytest.approx((0.25, 0.25, 0.25))


def test_word_diff_marks_words_without_a_counterpart() -> None:
    spans = differing_words("the small cat sat, twice", "the cat sat")
    assert [("the small cat sat, twice"[span.start : span.end], span.severity) for span in spans] == [
        ("small", "major"),
        (", twice", "major"),
    ]
    assert differing_words("the cat", "the cat") == ()


def test_fit_finds_the_threshold_that_people_used() -> None:
    draw = np.random.default_rng(0)
    segments, words = [], []
    for _ in range(60):
        badness = draw.uniform(size=20)
        own = [Word(3 * i, 3 * i + 3, float(value)) for i, value in enumerate(badness)]
        words.append(own)
        spans = find_error_spans(own, (0.7, 2.0, 0))
        segments.append(marked(*(span._replace(severity="minor") for span in spans), text="x" * 60))
    about = json.loads(fit_spans(make_spec("twmd"), segments, words, ["made"]))
    assert about["settings"]["minor"] == pytest.approx(0.7, abs=0.02)
    assert (about["settings"]["smoothing"], about["segments"], about["data"]) == (0, 60, ["made"])
    with pytest.raises(InputError, match="nothing to fit"):
        fit_spans(make_spec("twmd"), [marked()], [[Word(0, 3, 0.5)]], ["made"])
