"""Groups of segments by length and word frequency."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twmd_registry.report.groups import GROUPS, frequencies, group_by, lengths

VALUES = st.lists(st.one_of(st.integers(0, 6).map(float), st.just(math.nan)), min_size=1, max_size=40)


@settings(deadline=None)
@given(VALUES)
def test_groups_hold_every_known_segment_once_and_part_no_equal_values(values: list[float]) -> None:
    groups = group_by(np.array(values))
    known = [i for i, value in enumerate(values) if not math.isnan(value)]
    assert sorted(i for group in groups for i in group.segments.tolist()) == known
    assert len(groups) <= GROUPS
    for group in groups:
        own = [values[i] for i in group.segments]
        assert (min(own), max(own)) == (group.low, group.high)
    for one, other in pairwise(groups):
        assert one.high < other.low


def test_groups_of_different_values_have_about_equal_size() -> None:
    values = np.random.default_rng(1).permutation(103).astype(float)
    assert sorted(len(group.segments) for group in group_by(values)) == [25, 26, 26, 26]


def test_length_is_the_number_of_words_of_the_first_reference() -> None:
    assert lengths([["It rained, twice.", "no"], ["..."], ["我们"]]).tolist() == [3, 0, 2]


def test_frequency_is_the_geometric_mean_of_how_often_words_occur_in_all_references() -> None:
    found = frequencies([["The cat", "the dog"], ["the end!"], ["?"]])
    assert found[0] == pytest.approx(math.sqrt(3 * 1))
    assert found[1] == pytest.approx(math.sqrt(3 * 1))
    assert math.isnan(found[2])
    assert frequencies([["a a b"]])[0] == pytest.approx((2 * 2 * 1) ** (1 / 3))
