"""Whether two columns order the same rows alike, against every pair of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from twmd_registry.metaeval.reproduce.ordering import compare_order

R = np.random.default_rng(12)


def test_order_against_brute_force() -> None:
    for _ in range(20):
        here, paper = R.integers(6, size=8).astype(float), R.integers(6, size=8).astype(float)
        found = compare_order("abcdefgh", here, paper)
        assert found is not None
        ordered = [(i, j) for i in range(8) for j in range(i) if paper[i] != paper[j]]
        assert found.ordered == len(ordered)
        assert found.alike == sum((here[i] - here[j]) * (paper[i] - paper[j]) > 0 for i, j in ordered)
        assert found.tau == pytest.approx(stats.kendalltau(here, paper).statistic)
        best = [i for i in range(8) if paper[i] == max(paper)]
        assert found.best == tuple("abcdefgh"[i] for i in best)
        assert found.place == 1 + sum(value > max(here[i] for i in best) for value in here)
        assert here["abcdefgh".index(found.ours)] == max(here)


def test_rows_without_a_number_are_not_ordered() -> None:
    found = compare_order("abc", np.array([1.0, np.nan, 2.0]), np.array([1.0, 3.0, 2.0]))
    assert found is not None
    assert (found.rows, found.alike, found.ordered, found.best, found.holds) == (2, 1, 1, ("c",), True)
    assert compare_order("ab", np.array([1.0, np.nan]), np.array([1.0, 3.0])) is None
