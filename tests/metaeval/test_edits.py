"""Edits: everything that each can do to a text, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twmd_registry.metaeval.edit_words import ANTONYMS, CONTRACTED, NUMBER_WORDS
from twmd_registry.metaeval.edits import CONTROLS, RULES, Edit, apply_edit, collect_names, names_in, rules_with

NAMES = {1: ("Ada", "Oslo", "Bo"), 2: ("Ada Berg", "New Haven")}
RULES_HERE = rules_with(NAMES)


def every_result(text: str, edit: Edit) -> set[str]:
    """All that an edit can make of a text, one replacement at a time."""
    return {text[: place.start] + choice + text[place.end :] for place in RULES_HERE[edit](text) for choice in place.choices}


def test_every_edit_has_a_rule() -> None:
    assert set(rules_with({})) == set(Edit)
    assert set(RULES) == set(Edit) - {Edit.NAME}
    assert set(CONTROLS) < set(Edit)


@pytest.mark.parametrize(
    ("edit", "text", "results"),
    [
        (Edit.NEGATION, "It is late.", {"It is not late."}),
        (Edit.NEGATION, "It is not late.", {"It is late."}),
        (Edit.NEGATION, "It isn't late.", {"It is late."}),
        (Edit.NEGATION, "It isn’t late.", {"It is late."}),  # noqa: RUF001
        (Edit.NEGATION, "It does n't rain , it ca n't", {"It does rain , it ca n't", "It does n't rain , it can"}),
        (Edit.NEGATION, "They cannot swim and won't", {"They can swim and won't", "They cannot swim and will"}),
        (Edit.NEGATION, "She has been here, he has a dog", {"She has not been here, he has a dog"}),
        (Edit.NEGATION, "He does not know", {"He does know"}),
        (Edit.NEGATION, "It was not only cold", set()),
        (Edit.NEGATION, "He will never go", set()),
        (Edit.NEGATION, "In May the can-opener broke.", set()),
        (Edit.NUMBER, "Bus 7 left", {f"Bus {digit} left" for digit in "12345689"}),
        (Edit.NUMBER, "at 0.5", {f"at {n}.5" for n in range(1, 10)} | {f"at 0.{n}" for n in "012346789"}),
        (Edit.NUMBER, "the A380 and the 3D film", set()),
        (Edit.NUMBER, "no one of the second", set()),
        (Edit.NUMBER, "a million", {"a hundred", "a thousand", "a billion"}),
        (Edit.NAME, "Then Ada left.", {"Then Oslo left.", "Then Bo left."}),
        (Edit.NAME, "Then Ada saw Oslo.", {"Then Bo saw Oslo.", "Then Ada saw Bo."}),
        (Edit.NAME, "Then Ada Berg left.", {"Then New Haven left."}),
        (Edit.NAME, "Ada left. Oslo is far.", set()),
        (Edit.NAME, "Then Eve left.", set()),
        (Edit.ANTONYM, "Then prices rose.", {"Then prices fell."}),
        (Edit.ANTONYM, "an old house", {"an new house", "an young house"}),
        (Edit.ANTONYM, "New South roses", set()),
        (Edit.CLAUSE, "I saw it, and it was cold, said Bo.", {"I saw it, said Bo."}),
        (Edit.CLAUSE, "We all went home because it had rained.", {"We all went home."}),
        (Edit.CLAUSE, "Salt, bread, and milk were sold.", set()),
        (Edit.CLAUSE, "At 1,000 metres the air was thin.", set()),
        (Edit.CLAUSE, '"We came back late, but we came," he said.', {'"We came back late," he said.'}),
        (Edit.CLAUSE, "It rained.", set()),
        (Edit.CONTRACTION, "We do not know.", {"We don't know."}),
        (Edit.CONTRACTION, "We don't know.", {"We do not know."}),
        (Edit.CONTRACTION, "We can't say.", {"We cannot say."}),
        (Edit.CONTRACTION, "It may not rain.", set()),
        (Edit.QUOTES, 'He said "no" .', {"He said “no” ."}),
        (Edit.QUOTES, "“No,” he said.", {'"No," he said.'}),
        (Edit.QUOTES, 'a 5" pipe', set()),
        (Edit.FULL_STOP, "It rains.", {"It rains"}),
        (Edit.FULL_STOP, "It rains .", {"It rains"}),
        (Edit.FULL_STOP, "It rains...", set()),
        (Edit.FULL_STOP, "Does it rain?", set()),
    ],
)
def test_what_an_edit_can_do(edit: Edit, text: str, results: set[str]) -> None:
    assert every_result(text, edit) == results
    made = apply_edit(text, edit, RULES_HERE, 5)
    assert made in results if results else made is None


WORDS = st.sampled_from(
    """Ada Berg Oslo Bo New Haven Mr May It is isn't not n't cannot can't don't do has been rained , ; . ! " “ ” ' and but which two three
    hundred 7 1,250 0.5 old rose won before bread the river said slowly 007 A380 3rd ( ) – ’s é Żar""".split()  # noqa: RUF001
)
TEXTS = st.lists(WORDS, max_size=14).flatmap(
    lambda words: st.sampled_from([" ".join(words), re.sub(r" ([,;.!])", r"\1", " ".join(words))])
) | st.text(max_size=20)


@settings(deadline=None)
@given(TEXTS, st.sampled_from(Edit), st.integers(0, 99))
def test_one_place_is_changed_and_nothing_else(text: str, edit: Edit, seed: int) -> None:
    places = RULES_HERE[edit](text)
    for place in places:
        assert 0 <= place.start <= place.end <= len(text)
        assert place.choices
        assert text[place.start : place.end] not in place.choices
    made = apply_edit(text, edit, RULES_HERE, seed)
    assert (made is None) == (not places)
    assert made != text
    assert made is None or made in every_result(text, edit)
    assert made == apply_edit(text, edit, RULES_HERE, seed)


@settings(deadline=None)
@given(TEXTS)
def test_numbers_differ_in_one_digit_or_word(text: str) -> None:
    for place in RULES[Edit.NUMBER](text):
        before = text[place.start : place.end]
        for after in place.choices:
            if before.isalpha():
                assert any(before in alike and after in alike for alike in NUMBER_WORDS)
            else:
                assert len(after) == len(before)
                assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
                assert after[0] != "0" or before[0] == "0"


@settings(deadline=None)
@given(TEXTS)
def test_controls_can_be_undone(text: str) -> None:
    straight = re.sub("[“”]", '"', text)
    for made in every_result(text, Edit.QUOTES):
        assert re.sub("[“”]", '"', made) == straight
    for made in every_result(text, Edit.FULL_STOP):
        assert text.startswith(made)
        assert text[len(made) :].strip() == "."
    for place in RULES[Edit.CONTRACTION](text):
        whole = {text[place.start : place.end].replace(" n't", "n't"), *place.choices}
        pairs = [{short, f"{verb} not"} for short, verb in CONTRACTED.items()] + [{"can't", "cannot"}]
        assert whole in pairs


def test_different_seeds_and_texts_draw_differently() -> None:
    texts = [f"Then {n} of 81 men saw two old ships." for n in range(100, 140)]
    first, second = ([apply_edit(text, Edit.NUMBER, RULES_HERE, seed) for text in texts] for seed in (1, 2))
    assert first != second
    places = {next(i for i, (a, b) in enumerate(zip(text, str(made), strict=False)) if a != b) for text, made in zip(texts, first, strict=True)}
    assert len(places) > 4  # digits of both numbers, and the word


def test_the_lists_are_what_they_say() -> None:
    for word, others in ANTONYMS.items():
        assert word == word.lower()
        assert word not in others
        assert all(word in ANTONYMS[other] for other in others)
        assert len(set(others)) == len(others)
    every = [word for alike in NUMBER_WORDS for word in alike]
    assert len(set(every)) == len(every)
    assert all(short.endswith("n't") for short in CONTRACTED)


def test_names_are_collected_by_length() -> None:
    texts = ["Yesterday Ada Berg met Bo in Oslo.", "He and Bo left on Monday.", "A Very Long Headline With Capitals", "“Eve” came."]
    assert [[text[place.start : place.end] for place in names_in(text)] for text in texts] == [["Ada Berg", "Bo", "Oslo"], ["Bo"], [], []]
    assert collect_names(texts) == {1: ("Bo", "Oslo"), 2: ("Ada Berg",)}
