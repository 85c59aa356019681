"""Segments of a report: which are highlighted, how they are grouped, and which words differ."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.reports import column, comparison
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.report.segments import (
    GROUPS,
    changed_facts,
    choose_highlights,
    disagreements,
    group_by,
    mark_differences,
    percentile_ranks,
    split_pieces,
    split_words,
)

VALUES = st.lists(st.one_of(st.integers(0, 6).map(float), st.just(math.nan)), min_size=1, max_size=40)
TEXTS = st.lists(st.text(alphabet="ab ,\u0301我\n", max_size=12), min_size=1, max_size=3)


@pytest.mark.parametrize("errors", [False, True])
def test_percentile_rank_is_the_share_of_beaten_scores(errors: bool) -> None:
    scores = np.random.default_rng(3).integers(0, 6, size=(3, 7)).astype(float)
    flat = (-scores if errors else scores).ravel()
    beaten = [(np.sum(score > flat) + (np.sum(score == flat) - 1) / 2) / (len(flat) - 1) for score in flat]
    ranks = percentile_ranks(column("any", scores, errors=errors))
    np.testing.assert_allclose(ranks, np.reshape(beaten, scores.shape), atol=1e-12)


def test_undefined_score_is_never_highlighted() -> None:
    first = np.array([[0.1, np.nan, 0.5, 0.9], [0.2, 0.3, 0.4, 0.8]])
    second = np.array([[1.0, 2.0, 3.0, 4.0], [4.0, np.nan, 2.0, 1.0]])
    columns = column("first", first), column("second", second)
    assert np.isnan(percentile_ranks(columns[0])).tolist() == np.isnan(first).tolist()
    assert np.isnan(disagreements(columns)).tolist() == [[False, True, False, False], [False, True, False, False]]
    assert 1 not in [segment for segment, *_ in choose_highlights(SystemComparison(("a", "b"), columns), 20)]
    assert np.isnan(percentile_ranks(column("one", np.array([[0.5]])))).all()


def test_highlights_are_half_system_differences_and_half_metric_disagreements() -> None:
    table = comparison(["a.txt", "b.txt"], 50)
    highlights = choose_highlights(table, 8)
    differing, rest = highlights[:4], highlights[4:]
    spans = np.ptp([cell.scores for cell in table.columns[0].cells], axis=0)
    assert [segment for segment, *_ in differing] == np.argsort(-spans)[:4].tolist()
    (segment, systems, reason), cells = differing[0], table.columns[0].cells
    best, worst = (cells[i].scores[segment] for i in systems)
    assert best > worst
    ends = [f"{cells[i].scores[segment]:.4f} to {table.systems[i]}" for i in systems]
    assert reason == f"systems differ: twmd gives {ends[0]} and {ends[1]}"
    disagreement = disagreements(table.columns)
    taken = {segment for segment, *_ in differing}
    order = sorted((-disagreement[i, s], i, s) for i in range(2) for s in range(50) if s not in taken)
    expected: dict[int, int] = {}
    for _, system, segment in order:
        expected.setdefault(segment, system)
    pairs = [(segment, (system,)) for segment, system in list(expected.items())[:4]]
    assert [(segment, systems) for segment, systems, _ in rest] == pairs
    segment, (system,), reason = rest[0]
    places = sorted((percentile_ranks(one)[system, segment], one.name) for one in table.columns)
    high, low = (f"{name} ranks it above {share:.0%}" for share, name in (places[-1], places[0]))
    assert reason == f"metrics disagree on {table.systems[system]}: {high}, and {low}, of all other scores"


@given(VALUES)
def test_groups_partition_defined_values_and_keep_equal_values_together(values: list[float]) -> None:
    groups = [group.tolist() for group in group_by(np.array(values))]
    assert sorted(i for group in groups for i in group) == [i for i, x in enumerate(values) if not math.isnan(x)]
    assert len(groups) <= GROUPS
    assert all(max(values[i] for i in one) < min(values[i] for i in other) for one, other in pairwise(groups))


@given(TEXTS, TEXTS)
def test_marked_parts_join_to_the_text_and_no_mark_is_blank(predictions: list[str], references: list[str]) -> None:
    for texts, marked in zip((predictions, references), mark_differences(predictions, references), strict=True):
        assert ["".join(parts) for parts in marked] == texts
        assert ["".join(split_pieces(text)) for text in texts] == texts
        assert all(part.strip() for parts in marked for part in parts[1::2])


def test_words_without_counterpart_in_the_closest_reference_are_marked() -> None:
    assert mark_differences(["so it is."], ["so it is."]) == ([["so it is."]], [["so it is."]])
    assert mark_differences(["a b"], ["c d "]) == ([["", "a b"]], [["", "c d", " "]])
    marked, _ = mark_differences(["a red car", "one blue bus"], ["a red van", "one blue bus"])
    assert marked == [["a red ", "car"], ["one blue bus"]]
    _, marked = mark_differences(["a red car", "a car here"], ["a big car here"])
    assert marked == [["a ", "big", " car here"]]


@pytest.mark.parametrize(
    ("prediction", "reference", "facts"),
    [
        ("He came on Tuesday with two dogs.", "He came on Monday with three dogs.", "monday three tuesday two"),
        ("It cost 1,000.50 in Rome", "It cost 1,000.5 in rome", "1,000.5 1,000.50"),
        ("In May we met Anna. It rained", "We met Anna in May", ""),
    ],
)
def test_numbers_and_names_that_changed_are_marked_by_rule(prediction: str, reference: str, facts: str) -> None:
    found = changed_facts([prediction], [reference])
    assert found == facts.split()
    (marked,), _ = mark_differences([prediction], [reference], found)
    assert {*found} & {*split_words(prediction)} <= {part.casefold() for part in marked[1::2]}
    assert "".join(marked) == prediction


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧", "👩🏽\u200d🚀", "🇩🇪", "❤️\u200d🔥", "1️⃣", "ที่", "क्षेत्र", "e\u0301t\u00ade"]
)
def test_user_character_is_in_one_piece(text: str) -> None:
    assert split_pieces(f"a {text}, {text}") == ["a", " ", text, ",", " ", text]
