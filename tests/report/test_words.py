"""Words of texts in any script, and marks of those that differ."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twmd_registry.report.words import mark_differences, pieces, words

TEXTS = st.lists(st.text(alphabet="ab ,\u0301我\n", max_size=12), min_size=1, max_size=3)


@settings(deadline=None)
@given(st.text())
def test_pieces_joined_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't go.", ["don", "t", "go"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
        ("我们 go", ["我", "们", "go"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("?! ", []),
    ],
)
def test_words_of_a_script_are_its_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_parts_joined_are_the_text_and_no_mark_is_blank(predictions: list[str], references: list[str]) -> None:
    for texts, marked in zip((predictions, references), mark_differences(predictions, references), strict=True):
        assert ["".join(parts) for parts in marked] == texts
        assert all(part.strip() for parts in marked for part in parts[1::2])


def test_equal_texts_have_no_mark_and_texts_without_a_common_word_are_all_mark() -> None:
    assert mark_differences(["so it is."], ["so it is."]) == ([["so it is."]], [["so it is."]])
    assert mark_differences(["a b"], ["c d "]) == ([["", "a b"]], [["", "c d", " "]])


def test_a_prediction_is_compared_with_its_closest_reference() -> None:
    marked, _ = mark_differences(["a red car", "one blue bus"], ["a red van", "one blue bus"])
    assert marked == [["a red ", "car"], ["one blue bus"]]


def test_a_word_of_a_reference_is_marked_where_no_prediction_has_it() -> None:
    _, marked = mark_differences(["a red car", "a car here"], ["a big car here"])
    assert marked == [["a ", "big", " car here"]]
