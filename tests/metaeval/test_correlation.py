from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from twmd_registry.errors import InputError, SpecError
from twmd_registry.metaeval.agreement import draw
from twmd_registry.metaeval.correlation import PAIRWISE, STATISTICS, Statistic, correlate, make_sample

VECTORS: dict[str, Callable[[Any, Any], float]] = {
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
}


def made_up(seed: int, rows: int, items: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Scores and ratings with many ties, of items with different numbers of segments."""
    rng = np.random.default_rng(seed)
    ratings = rng.integers(0, 6, rows) * 10.0
    scores = (ratings / 20 + rng.integers(0, 5, rows)) / 8
    return scores, ratings, [f"i{k}" for k in rng.integers(0, items, rows)]


def every_pair(items: list[str]) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(items)) for j in range(i) if items[i] == items[j]]


def brute_darr(scores: np.ndarray, ratings: np.ndarray, items: list[str], threshold: float) -> float:
    concordant = discordant = 0
    for i, j in every_pair(items):
        better, worse = (i, j) if ratings[i] > ratings[j] else (j, i)
        if ratings[better] - ratings[worse] >= threshold:
            if scores[better] > scores[worse]:
                concordant += 1
            else:
                discordant += 1
    return (concordant - discordant) / (concordant + discordant)


def brute_acc_eq(scores: np.ndarray, ratings: np.ndarray, items: list[str]) -> tuple[float, float]:
    """Every epsilon tried, in exact arithmetic."""
    pairs = every_pair(items)
    best = (Fraction(-1), 0.0)
    for epsilon in sorted({0.0} | {abs(scores[i] - scores[j]) for i, j in pairs}):
        shares: dict[str, list[bool]] = {}
        for i, j in pairs:
            metric = scores[i] - scores[j]
            tied = abs(metric) <= epsilon
            people = ratings[i] - ratings[j]
            shares.setdefault(items[i], []).append(people == 0 if tied else metric * people > 0)
        mean = sum((Fraction(sum(one), len(one)) for one in shares.values()), Fraction(0)) / len(shares)
        best = max(best, (mean, epsilon), key=lambda found: found[0])  # the first of equals
    return float(best[0]), best[1]


def test_there_is_a_function_for_every_statistic() -> None:
    assert set(STATISTICS) == set(Statistic)
    assert {*VECTORS, *PAIRWISE} == set(Statistic)


def test_correlations_are_the_definitions() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(size=30).round(1)
    dx, dy = x - x.mean(), y - y.mean()
    assert correlate("pearson", x, y) == pytest.approx((dx * dy).sum() / np.sqrt((dx**2).sum() * (dy**2).sum()))
    rx, ry = stats.rankdata(x), stats.rankdata(y)
    assert correlate("spearman", x, y) == pytest.approx(np.corrcoef(rx, ry)[0, 1])
    signs = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i in range(30) for j in range(i)]
    ties = sum(y[i] == y[j] for i in range(30) for j in range(i))
    assert correlate("kendall", x, y) == pytest.approx(sum(signs) / np.sqrt(len(signs) * (len(signs) - ties)))


@pytest.mark.parametrize("statistic", VECTORS)
@pytest.mark.parametrize("seed", range(5))
def test_correlations_are_scipys(statistic: str, seed: int) -> None:
    scores, ratings, _ = made_up(seed, 40, 5)
    assert correlate(statistic, scores, ratings) == pytest.approx(VECTORS[statistic](scores, ratings), abs=1e-12)
    # Neither tiny nor huge numbers are lost; powers of two keep every tie.
    assert correlate(statistic, scores * 2.0**-700, ratings * 2.0**700) == pytest.approx(
        correlate(statistic, scores, ratings), abs=1e-12
    )


@pytest.mark.parametrize("statistic", VECTORS)
@pytest.mark.parametrize(("rows", "spread"), [(4, 2), (25, 4), (60, 1000)])
def test_resamples_are_scipys_of_the_drawn_rows(statistic: str, rows: int, spread: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.integers(0, spread, rows).astype(float), rng.integers(0, spread, rows).astype(float)
    x[0], x[1], y[0], y[2] = 0, 1, 0, 1
    weights = draw(rows, 200, rng)
    assert (weights.sum(axis=0) == rows).all()
    found = STATISTICS[Statistic(statistic)](x, make_sample(Statistic(statistic), y, None)).resampled(weights)
    undefined = 0
    for value, drawn in zip(found, weights.T, strict=True):
        own, people = np.repeat(x, drawn), np.repeat(y, drawn)
        if np.ptp(own) == 0 or np.ptp(people) == 0 or (drawn > 0).sum() < 3:
            assert math.isnan(value)
            undefined += 1
        else:
            assert value == pytest.approx(VECTORS[statistic](own, people), abs=1e-12)
    assert (undefined > 0) == (rows == 4)


@pytest.mark.parametrize("seed", range(8))
def test_darr_is_the_double_loop(seed: int) -> None:
    scores, ratings, items = made_up(seed, 60, 12)
    for threshold in (10, 25, 40):
        assert correlate("darr", scores, ratings, items, threshold=threshold) == pytest.approx(
            brute_darr(scores, ratings, items, threshold)
        )


def test_darr_counts_a_metrics_ties_as_wrong_and_forgives_rounding() -> None:
    ratings = np.array([70.1, 45.1, 50.0])
    assert ratings[0] - ratings[1] < 25
    assert correlate("darr", [2, 1, 9], ratings, ["a"] * 3) == 1
    assert correlate("darr", [1, 1, 9], ratings, ["a"] * 3) == -1


@pytest.mark.parametrize("seed", range(8))
def test_acc_eq_tries_every_epsilon(seed: int) -> None:
    scores, ratings, items = made_up(seed, 40, 6 + seed)
    estimate = STATISTICS[Statistic.ACC_EQ](scores, make_sample(Statistic.ACC_EQ, ratings, items))
    accuracy, epsilon = brute_acc_eq(scores, ratings, items)
    assert estimate.value == pytest.approx(accuracy)
    assert estimate.epsilon == epsilon
    assert estimate.n == sum(items.count(item) > 1 for item in items)


def test_acc_eq_takes_the_smallest_epsilon_of_equals() -> None:
    perfect = STATISTICS[Statistic.ACC_EQ](
        np.array([1.0, 2.0, 4.0]), make_sample(Statistic.ACC_EQ, np.array([1.0, 2.0, 3.0]), ["a"] * 3)
    )
    assert (perfect.value, perfect.epsilon) == (1.0, 0.0)
    tied = STATISTICS[Statistic.ACC_EQ](
        np.array([1.0, 1.5, 4.0]), make_sample(Statistic.ACC_EQ, np.array([1.0, 1.0, 3.0]), ["a"] * 3)
    )
    assert (tied.value, tied.epsilon) == (1.0, 0.5)


@pytest.mark.parametrize("statistic", sorted(PAIRWISE))
def test_resamples_of_items_are_the_oracle_of_the_drawn_items(statistic: str) -> None:
    scores, ratings, items = made_up(3, 30, 6)
    estimate = STATISTICS[Statistic(statistic)](scores, make_sample(Statistic(statistic), ratings, items))
    names = [name for name in sorted(set(items)) if items.count(name) > 1]
    assert estimate.units == len(names)
    weights = draw(len(names), 40, np.random.default_rng(0))
    for value, drawn in zip(estimate.resampled(weights), weights.T, strict=True):
        copies = [(name, k) for name, times in zip(names, drawn, strict=True) for k in range(times)]
        rows = [(i, f"{name}-{k}") for name, k in copies for i, item in enumerate(items) if item == name]
        own, people, copied = scores[[i for i, _ in rows]], ratings[[i for i, _ in rows]], [name for _, name in rows]
        expected = brute_darr(own, people, copied, 25) if statistic == "darr" else brute_acc_eq(own, people, copied)[0]
        assert value == pytest.approx(expected)


@pytest.mark.parametrize("statistic", VECTORS)
def test_undefined_correlations_are_errors_and_not_zero(statistic: str) -> None:
    with pytest.raises(InputError, match=rf"{statistic} is undefined: the scores are constant \(1\)"):
        correlate(statistic, [1, 1, 1], np.array([1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match=r"the ratings are constant \(2\)"):
        correlate(statistic, [1, 2, 3], np.array([2.0, 2.0, 2.0]))
    with pytest.raises(InputError, match="3 or more segments are needed, there are 2"):
        correlate(statistic, [1, 2], np.array([1.0, 2.0]))


def test_pairs_that_are_none_are_said() -> None:
    with pytest.raises(
        InputError, match="darr is undefined: no two segments of one item have ratings that differ by 25 or more"
    ):
        correlate("darr", [1, 2, 3], np.array([1.0, 20.0, 90.0]), ["a", "a", "b"])
    with pytest.raises(InputError, match="acc_eq is undefined: no two segments are of one item"):
        correlate("acc_eq", [1, 2, 3], np.array([1.0, 20.0, 90.0]), ["a", "b", "c"])
    with pytest.raises(InputError, match="the data do not say which segments are of one item"):
        correlate("acc_eq", [1, 2, 3], np.array([1.0, 20.0, 90.0]))


def test_bad_input_is_named() -> None:
    with pytest.raises(SpecError, match="there is no statistic 'kendal'; did you mean 'kendall'"):
        correlate("kendal", [1, 2, 3], np.array([1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match=r"scores\[1\] is nan; expected a finite number"):
        correlate("pearson", [1, math.nan, 3], np.array([1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match=r"ratings\[2\] is inf"):
        correlate("pearson", [1, 2, 3], np.array([1.0, 2.0, math.inf]))
    with pytest.raises(InputError, match=r"expected scores of shape \(3,\).*got shape \(2,\)"):
        correlate("pearson", [1, 2], np.array([1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match="expected an item for every one of 3 rated segments; got 2"):
        correlate("darr", [1, 2, 3], np.array([1.0, 2.0, 3.0]), ["a", "b"])
