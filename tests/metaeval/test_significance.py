from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from tests.metaeval.test_agreement import campaign
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import agreement
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.significance import permutation, williams


def plain(ratings: np.ndarray) -> RatedSegments:
    return RatedSegments(["g"] * len(ratings), [], [], ratings, 0)


def williams_p(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    """The formula written out another way: the determinant of the matrix by numpy, Student's density integrated."""
    determinant = float(np.linalg.det(np.array([[1, r_a, r_b], [r_a, 1, r_ab], [r_b, r_ab, 1]])))
    mean, degrees = (r_a + r_b) / 2, n - 3
    spread = 2 * determinant * (n - 1) / degrees + mean**2 * (1 - r_ab) ** 3
    t = (r_a - r_b) * math.sqrt(n - 1) * math.sqrt(1 + r_ab) / math.sqrt(spread)
    scale = math.exp(special.gammaln((degrees + 1) / 2) - special.gammaln(degrees / 2)) / math.sqrt(degrees * math.pi)
    return float(integrate.quad(lambda u: scale * (1 + u * u / degrees) ** (-(degrees + 1) / 2), t, math.inf)[0])


@pytest.mark.parametrize(
    ("r_a", "r_b", "r_ab", "n"),
    [(0.6, 0.5, 0.8, 103), (0.5, 0.6, 0.8, 103), (0.3, -0.2, 0.1, 4), (0.71, 0.70, 0.95, 560)],
)
def test_williams_is_the_formula(r_a: float, r_b: float, r_ab: float, n: int) -> None:
    found = williams(r_a, r_b, r_ab, n)
    assert found.p == pytest.approx(williams_p(r_a, r_b, r_ab, n), rel=1e-6)
    assert found.difference == pytest.approx(r_a - r_b)
    assert found.p + williams(r_b, r_a, r_ab, n).p == pytest.approx(1)


def test_williams_p_is_uniform_where_neither_is_better() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(1500):
        people = rng.normal(size=40)
        shared_noise = rng.normal(size=40)
        a, b = (people + shared_noise + 0.7 * rng.normal(size=40) for _ in range(2))
        found.append(
            williams(correlate("pearson", a, people), correlate("pearson", b, people), correlate("pearson", a, b), 40).p
        )
    assert stats.kstest(found, "uniform").pvalue > 0.05


def test_williams_finds_a_difference() -> None:
    assert williams(0.7, 0.5, 0.6, 560).p < 1e-6
    assert williams(0.5, 0.7, 0.6, 560).p > 1 - 1e-6


def test_equal_metrics_differ_by_nothing() -> None:
    assert williams(0.6, 0.6, 1.0, 100) == (0.0, 0.5)
    assert williams(0.6, 0.6, 0.3, 100) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.6, 0.5, 0.8, 3), "needs more than 3 segments; got 3"),
        ((1.2, 0.5, 0.8, 30), "expected a correlation from -1 to 1 as r_a; got 1.2"),
        ((0.2, math.nan, 0.8, 30), "as r_b; got nan"),
        ((0.9, -0.9, 0.9, 30), "no data have the correlations 0.9, -0.9 and 0.9 together"),
        ((0.6, -0.6, -1.0, 30), "undefined for metrics that correlate with each other by -1.0"),
    ],
)
def test_correlations_that_cannot_be_are_refused(arguments: tuple[float, float, float, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        williams(*arguments)


def test_permutations_p_is_uniform_where_neither_is_better() -> None:
    rng = np.random.default_rng(8)
    found = []
    for trial in range(150):
        people = rng.normal(size=40)
        a, b = (people + rng.normal(size=40) for _ in range(2))
        # The metrics' own scales must not matter.
        found.append(permutation(a, 50 * b + 3, plain(people), "pearson", trials=99, seed=trial).p)
    assert stats.kstest(found, "uniform").pvalue > 0.05


@pytest.mark.parametrize("statistic", ["pearson", "spearman", "kendall", "darr", "acc_eq"])
def test_permutation_finds_a_difference(statistic: str) -> None:
    good, rated = campaign(items=25)
    bad = good + np.random.default_rng(1).normal(0, 40, len(good))
    better, worse = (
        permutation(good, bad, rated, statistic, trials=99),
        permutation(bad, good, rated, statistic, trials=99),
    )
    assert better.p == 1 / 100
    assert worse.p == 1
    expected = (
        agreement(statistic, good, rated, resamples=0).value - agreement(statistic, bad, rated, resamples=0).value
    )
    assert better.difference == pytest.approx(expected)
    assert worse.difference == pytest.approx(-expected)


@pytest.mark.parametrize("items", [None, ["a", "a", "b", "b", "b", "c", "d", "d"]])
def test_p_is_the_share_of_all_swaps(items: list[str] | None) -> None:
    rng = np.random.default_rng(2)
    people, a, b = rng.normal(size=(3, 8))
    a += 0.7 * people
    codes = np.arange(8) if items is None else np.unique(items, return_inverse=True)[1]
    x, y = ((own - own.mean()) / own.std() for own in (a, b))
    observed, differences = stats.pearsonr(x, people).statistic - stats.pearsonr(y, people).statistic, []
    for chosen in np.ndindex(*(2,) * (int(codes.max()) + 1)):
        swapped = np.array(chosen, dtype=bool)[codes]
        one, other = np.where(swapped, y, x), np.where(swapped, x, y)
        differences.append(stats.pearsonr(one, people).statistic - stats.pearsonr(other, people).statistic)
    exact = np.mean(np.array(differences) >= observed - 1e-12)
    assert 0.05 < exact < 0.95
    found = permutation(a, b, plain(people)._replace(item=items), "pearson", trials=4000)
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4000) + 1 / 4000)


def test_averages_over_items_are_swapped_item_by_item() -> None:
    good, rated = campaign(items=20)
    bad = good + np.random.default_rng(1).normal(0, 9, len(good))
    found = permutation(good, bad, rated, "kendall", averaging="item", trials=2000)
    values = [agreement("kendall", own, rated, averaging="item", resamples=0) for own in (good, bad)]
    differences = np.array([a.value - b.value for a, b in zip(values[0].groups, values[1].groups, strict=True)])
    signs = np.random.default_rng(0).choice([-1, 1], size=(20000, len(differences)))
    expected = float(((signs * differences).mean(axis=1) >= differences.mean() - 1e-12).mean())
    assert 0.02 < expected < 0.4
    assert found.p == pytest.approx(expected, abs=0.02)
    assert found.difference == pytest.approx(differences.mean())


def test_equal_metrics_have_p_1() -> None:
    scores, rated = campaign()
    assert permutation(scores, scores, rated, "kendall", trials=20) == (0.0, 1.0)


def test_a_seed_is_a_result() -> None:
    scores, rated = campaign()
    other = scores + np.random.default_rng(1).normal(0, 8, len(scores))
    same = [permutation(scores, other, rated, "pearson", trials=50, seed=seed).p for seed in (1, 1)]
    assert same[0] == same[1]


def test_a_group_that_either_metric_leaves_undefined_is_left_out_for_both() -> None:
    scores, rated = campaign()
    first = np.array(rated.group) == "g0"
    broken = np.where(first, 1.0, scores + np.random.default_rng(1).normal(0, 8, len(scores)))
    with pytest.warns(
        TwmdWarning, match=r"pearson is undefined for 1 of 2, .*: g0 \(60 segments: the scores are constant"
    ):
        found = permutation(scores, broken, rated, "pearson", trials=50)
    rows = np.flatnonzero(~first)
    expected = correlate("pearson", scores[rows], rated.ratings[rows]) - correlate(
        "pearson", broken[rows], rated.ratings[rows]
    )
    assert found.difference == pytest.approx(expected)
    with pytest.raises(InputError, match="pearson is undefined everywhere"):
        permutation(scores, np.ones(len(scores)), rated, "pearson")


def test_bad_input_is_named() -> None:
    scores, rated = campaign()
    with pytest.raises(SpecError, match="expected one trial or more, not 0"):
        permutation(scores, scores, rated, "pearson", trials=0)
    with pytest.raises(InputError, match="expected scores_b of shape"):
        permutation(scores, scores[1:], rated, "pearson")
