"""Significance tests against another formula and all swaps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special

from tests.metaeval.test_agreement import make_campaign
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval import agreement as module
from twmd_registry.metaeval.agreement import (
    AgreementTest,
    agreement,
    permutation,
    rank_metrics,
    williams,
    williams_by_part,
)
from twmd_registry.metaeval.correlation import correlate


def rate(ratings: np.ndarray, item: list[str] | None = None) -> RatedSegments:
    return RatedSegments(["g"] * len(ratings), [], [], ratings, 0, item)


def check_share(p: float, exact: float, trials: int) -> None:
    """Check an estimated share against the share over all swaps."""
    assert 0.05 < exact < 0.95
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / trials) + 1 / trials)


def add_noise(scores: np.ndarray, deviation: float) -> np.ndarray:
    return scores + np.random.default_rng(1).normal(0, deviation, len(scores))


def integrate_williams(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    """Compute p from the determinant of the matrix by numpy and the integral of Student's density."""
    determinant = float(np.linalg.det(np.array([[1, r_a, r_b], [r_a, 1, r_ab], [r_b, r_ab, 1]])))
    mean, degrees = (r_a + r_b) / 2, n - 3
    spread = 2 * determinant * (n - 1) / degrees + mean**2 * (1 - r_ab) ** 3
    t = (r_a - r_b) * math.sqrt(n - 1) * math.sqrt(1 + r_ab) / math.sqrt(spread)
    scale = math.exp(special.gammaln((degrees + 1) / 2) - special.gammaln(degrees / 2)) / math.sqrt(degrees * math.pi)
    return float(integrate.quad(lambda u: scale * (1 + u * u / degrees) ** (-(degrees + 1) / 2), t, math.inf)[0])


@pytest.mark.parametrize(
    ("r_a", "r_b", "r_ab", "n"),
    [(0.6, 0.5, 0.8, 103), (0.6, 0.6, 0.3, 100), (0.3, -0.2, 0.1, 4), (0.71, 0.70, 0.95, 560)],
)
def test_williams_equals_its_formula(r_a: float, r_b: float, r_ab: float, n: int) -> None:
    difference, p = williams(r_a, r_b, r_ab, n)
    assert p == pytest.approx(integrate_williams(r_a, r_b, r_ab, n), rel=1e-6)
    assert difference == pytest.approx(r_a - r_b)
    assert p + williams(r_b, r_a, r_ab, n)[1] == pytest.approx(1)


def test_williams_by_part_tests_each_parts_correlations() -> None:
    rng = np.random.default_rng(4)
    ratings, *noise = rng.normal(size=(3, 40))
    rated = rate(ratings)._replace(group=["x"] * 25 + ["y"] * 13 + ["z"] * 2)
    a, b = ratings + 0.5 * noise[0], ratings + noise[1]
    tests = williams_by_part(a, b, rated)
    assert list(tests) == ["x", "y", "z"]
    assert tests["z"] is None
    for name, rows in (("x", slice(0, 25)), ("y", slice(25, 38))):
        r = np.corrcoef([ratings[rows], a[rows], b[rows]])
        assert tests[name] == pytest.approx(williams(r[0, 1], r[0, 2], r[1, 2], len(ratings[rows])))


@pytest.mark.parametrize("statistic", ["pearson", "kendall", "acc_eq"])
def test_permutation_detects_the_better_metric(statistic: str) -> None:
    good, rated = make_campaign(items=25)
    bad = add_noise(good, 40)
    better, worse = (permutation(*pair, rated, statistic, trials=49) for pair in ((good, bad), (bad, good)))
    assert (better[1], worse[1]) == (1 / 50, 1)
    a, b = (agreement(statistic, scores, rated, resamples=0).value for scores in (good, bad))
    assert (better[0], worse[0]) == pytest.approx((a - b, b - a))
    assert permutation(good, good, rated, statistic, trials=5) == (0.0, 1.0)


@pytest.mark.parametrize("statistic", ["pearson", "spa"])
def test_metrics_without_a_significant_difference_share_a_rank(statistic: str) -> None:
    good, rated = make_campaign(items=40)
    rng = np.random.default_rng(5)
    twins = [good, good + rng.normal(0, 1e-3, len(good))]
    systems = np.unique(np.asarray(rated.system), return_inverse=True)[1]
    worse = [add_noise(good, 60) + 40 * (systems == 0), -good]  # the first favours the worst system
    scores = [worse[1], twins[0], worse[0], twins[1]]
    values = [agreement(statistic, metric_scores, rated, resamples=0).value for metric_scores in scores]
    assert rank_metrics(scores, values, rated, statistic, trials=99) == [3, 1, 2, 1]


def test_metric_is_compared_with_all_metrics_of_the_rank_above(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def outperforms(a: list[float], b: list[float], *_args: Any, **_keys: Any) -> AgreementTest:
        compared.append((a[0], b[0]))
        return AgreementTest(0.1, 0.05 if (a[0], b[0]) in {(1, 3), (3, 5)} else 0.051)

    monkeypatch.setattr(module, "permutation", outperforms)
    _, rated = make_campaign(items=2)
    ranks = rank_metrics([[k] for k in range(1, 6)], [0.9, 0.8, 0.7, 0.6, 0.5], rated, "pearson")
    assert ranks == [1, 1, 2, 2, 3]
    assert compared == [(1, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 5)]


ITEMS = ["a", "a", "b", "b", "b", "c", "d", "d"]


@pytest.mark.parametrize(("items", "single"), [(None, False), (ITEMS, False), (ITEMS, True)])
def test_permutation_p_is_the_share_of_all_swaps(items: list[str] | None, single: bool) -> None:
    people, a, b = np.random.default_rng(2).normal(size=(3, 8))
    a += 0.7 * people
    codes = np.arange(8) if items is None or single else np.unique(items, return_inverse=True)[1]
    x, y = ((values - values.mean()) / values.std() for values in (a, b))
    differences = []
    for chosen in np.ndindex(*(2,) * (int(codes.max()) + 1)):
        swapped = np.array(chosen, dtype=bool)[codes]
        r = np.corrcoef([people, np.where(swapped, y, x), np.where(swapped, x, y)])[0]
        differences.append(r[1] - r[2])
    exact = np.mean(np.array(differences) >= differences[0] - 1e-12)
    first, again = (permutation(a, b, rate(people, items), "pearson", trials=2000, single=single) for _ in range(2))
    check_share(first[1], float(exact), 2000)
    assert first == again


@pytest.mark.parametrize("single", [True, False])
def test_permutation_of_acc_eq_swaps_the_results_of_pairs_or_of_items(single: bool) -> None:
    items = ["a", "a", "b", "b", "b", "c", "c", "d"]
    human, a, b = np.array([[1.0, 2, 3, 1, 1, 2, 5, 0], [1, 2, 9, 3, 4, 7, 8, 0], [5, 2, 3, 4, 3.5, 6, 1, 0]])
    pairs, of_item = np.array([(0, 1), (2, 3), (2, 4), (3, 4), (5, 6)]).T, np.array([1, 3, 3, 3, 1])

    def results(scores: np.ndarray) -> np.ndarray:
        metric, order = scores[pairs[0]] - scores[pairs[1]], np.sign(human[pairs[0]] - human[pairs[1]])
        tied = [np.where(np.abs(metric) <= epsilon, 0, metric) for epsilon in (0, *np.abs(metric))]
        return max(((np.sign(signs) == order) / of_item / 3 for signs in tied), key=np.sum)

    difference = results(a) - results(b)
    swapped = np.arange(5) if single else np.array([0, 1, 1, 1, 2])
    signs = 1 - 2 * np.array(list(np.ndindex(*(2,) * (swapped[-1] + 1))))[:, swapped]
    exact = np.mean(signs @ difference >= difference.sum() - 1e-12)
    observed, p = permutation(a, b, rate(human, items), "acc_eq", trials=4000, single=single)
    assert observed == pytest.approx(difference.sum())
    check_share(p, float(exact), 4000)


def test_undefined_group_is_skipped_and_impossible_test_refused() -> None:
    scores, rated = make_campaign()
    first = np.array(rated.group) == "g0"
    broken = np.where(first, 1.0, add_noise(scores, 8))
    reason = r"pearson is undefined for 1 of 2, .*: g0 \(60 values: the scores are constant"
    with pytest.warns(TwmdWarning, match=reason):
        test = permutation(scores, broken, rated, "pearson", trials=50)
    a, b = (correlate("pearson", values[~first], rated.ratings[~first]) for values in (scores, broken))
    assert test[0] == pytest.approx(a - b)
    with pytest.raises(InputError, match="pearson is undefined everywhere"):
        permutation(scores, np.ones(len(scores)), rated, "pearson")
    with pytest.raises(InputError, match="needs more than 3 segments; got 3"):
        williams(0.6, 0.5, 0.8, 3)
    with pytest.raises(InputError, match="undefined for metrics that are each other's opposite"):
        williams(0.6, -0.6, -1.0, 30)
    scores, rated = make_campaign()
    with pytest.raises(SpecError, match="not 0"):
        permutation(scores, scores, rated, "pearson", trials=0)
    with pytest.raises(InputError, match="expected scores of shape"):
        permutation(scores, scores[1:], rated, "pearson")
