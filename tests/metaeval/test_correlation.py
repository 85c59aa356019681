"""Statistics and their resamples against scipy and double loops."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.conftest import shared
from tests.metaeval.pairwise import correlate_pairs
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.official import read_official
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.agreement import agreement, draw
from twmd_registry.metaeval.correlation import correlate, make_estimator, order_p_values
from twmd_registry.registry.names import Statistic

VECTORS: dict[str, Callable[[Any, Any], float]] = {
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
}


def make_tied_data(seed: int, rows: int, items: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return scores and ratings with many ties, and items with different numbers of segments."""
    rng = np.random.default_rng(seed)
    ratings = rng.integers(0, 6, rows) * 10.0
    scores = (ratings / 20 + rng.integers(0, 5, rows)) / 8
    return scores, ratings, [f"i{k}" for k in rng.integers(0, items, rows)]


def list_pairs(items: list[str]) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(items)) for j in range(i) if items[i] == items[j]]


def loop_darr(scores: np.ndarray, ratings: np.ndarray, items: list[str], threshold: float) -> float:
    concordant = discordant = 0
    for i, j in list_pairs(items):
        better, worse = (i, j) if ratings[i] > ratings[j] else (j, i)
        if ratings[better] - ratings[worse] >= threshold:
            concordant += scores[better] > scores[worse]
            discordant += scores[better] <= scores[worse]
    return (concordant - discordant) / (concordant + discordant)


def loop_acc_eq(scores: np.ndarray, ratings: np.ndarray, items: list[str]) -> tuple[float, float]:
    """Try every epsilon, in exact arithmetic."""
    pairs, best = list_pairs(items), (Fraction(-1), 0.0)
    for epsilon in sorted({0.0} | {abs(scores[i] - scores[j]) for i, j in pairs}):
        shares: dict[str, list[bool]] = {}
        for i, j in pairs:
            metric, human = scores[i] - scores[j], ratings[i] - ratings[j]
            alike = human == 0 if abs(metric) <= epsilon else metric * human > 0
            shares.setdefault(items[i], []).append(alike)
        mean = sum((Fraction(sum(share), len(share)) for share in shares.values()), Fraction(0)) / len(shares)
        best = max(best, (mean, epsilon), key=lambda candidate: candidate[0])  # the first of equals
    return float(best[0]), best[1]


def loop_pdp(scores: np.ndarray, ratings: np.ndarray, items: list[str]) -> float:
    """Correlate differences of both orders by scipy."""
    pairs = [pair for i, j in list_pairs(items) for pair in ((i, j), (j, i))]
    return float(stats.pearsonr(*([own[i] - own[j] for i, j in pairs] for own in (scores, ratings))).statistic)


def loop_tau(variant: str, scores: np.ndarray, ratings: np.ndarray, items: list[str]) -> float:
    """Count pairs in a loop, by the rules of a variant (Deutsch et al. 2023, Table 1)."""
    total = counted = 0.0
    for i, j in list_pairs(items):
        metric, human = np.sign(scores[i] - scores[j]), np.sign(ratings[i] - ratings[j])
        if variant == "tau_eq":
            value: float | None = 1 if metric == human else -1
        elif human == 0:
            value = None
        elif metric == 0:
            value = {"tau_10": -1, "tau_13": None, "tau_14": 0, "accuracy": 0.5}[variant]
        else:
            value = 1 if metric == human else 0 if variant == "accuracy" else -1
        if value is not None:
            total, counted = total + value, counted + 1
    return total / counted


LOOPS: dict[str, Callable[[Any, Any, Any], float]] = {
    "darr": lambda x, y, items: loop_darr(x, y, items, 25),
    "acc_eq": lambda x, y, items: loop_acc_eq(x, y, items)[0],
    "pdp": loop_pdp,
    **{name: functools.partial(loop_tau, name) for name in ("tau_10", "tau_13", "tau_14", "tau_eq", "accuracy")},
}
"""Independent implementations of the statistics of items."""


@pytest.mark.parametrize("statistic", VECTORS)
def test_correlation_equals_scipys_at_any_scale(statistic: str) -> None:
    for seed in range(3):
        scores, ratings, _ = make_tied_data(seed, 40, 5)
        expected = VECTORS[statistic](scores, ratings)
        assert correlate(statistic, scores, ratings) == pytest.approx(expected, abs=1e-12)
        # Powers of two keep every tie.
        assert correlate(statistic, scores * 2.0**-700, ratings * 2.0**700) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("statistic", VECTORS)
@pytest.mark.parametrize(("rows", "spread"), [(4, 2), (25, 4), (60, 1000)])
def test_resample_equals_scipys_value_of_the_drawn_rows(statistic: Statistic, rows: int, spread: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.integers(0, spread, rows).astype(float), rng.integers(0, spread, rows).astype(float)
    x[0], x[1], y[0], y[2] = 0, 1, 0, 1
    weights = draw(rows, 80, rng)
    assert (weights.sum(axis=0) == rows).all()
    values = make_estimator(statistic, y)(x).resampled(weights)
    undefined = 0
    for value, drawn in zip(values, weights.T, strict=True):
        drawn_x, drawn_y = np.repeat(x, drawn), np.repeat(y, drawn)
        if np.ptp(drawn_x) == 0 or np.ptp(drawn_y) == 0 or (drawn > 0).sum() < 3:
            assert math.isnan(value)
            undefined += 1
        else:
            assert value == pytest.approx(VECTORS[statistic](drawn_x, drawn_y), abs=1e-12)
    assert (undefined > 0) == (rows == 4)


@pytest.mark.parametrize("statistic", LOOPS)
def test_statistic_of_items_equals_its_loop_at_any_scale(statistic: str) -> None:
    for seed in range(4):
        scores, ratings, items = make_tied_data(seed, 40, 6 + seed)
        expected = LOOPS[statistic](scores, ratings, items)
        scale = 1.0 if statistic in {"darr", "accuracy"} else 2.0**-700  # these have thresholds
        assert correlate_pairs(statistic, scores, ratings, items) == pytest.approx(expected, abs=1e-12)
        assert correlate_pairs(statistic, scores * scale, ratings / scale, items) == pytest.approx(expected, abs=1e-12)


def test_darr_counts_ties_of_scores_as_discordant_and_allows_for_rounding() -> None:
    ratings = np.array([70.1, 45.1, 50.0])
    assert ratings[0] - ratings[1] < 25
    assert correlate_pairs("darr", [2, 1, 9], ratings, ["a"] * 3) == 1
    assert correlate_pairs("darr", [1, 1, 9], ratings, ["a"] * 3) == -1
    data = make_tied_data(0, 60, 12)
    for threshold in (10, 40):
        assert correlate_pairs("darr", *data, threshold=threshold) == pytest.approx(loop_darr(*data, threshold))


def test_acc_eq_takes_the_smallest_of_the_best_epsilons() -> None:
    for seed in range(4):
        scores, ratings, items = make_tied_data(seed, 40, 6 + seed)
        estimate = make_estimator("acc_eq", ratings, items)(scores)
        assert (estimate.value, estimate.epsilon) == pytest.approx(loop_acc_eq(scores, ratings, items))
        assert estimate.n == sum(items.count(item) > 1 for item in items)
    for values, rated, epsilon in (([1, 2, 4], [1, 2, 3], 0.0), ([1, 1.5, 4], [1, 1, 3], 0.5)):
        estimate = make_estimator("acc_eq", np.array(rated), ["a"] * 3)(np.array(values))
        assert (estimate.value, estimate.epsilon) == (1.0, epsilon)


def make_systems(seed: int, systems: int = 6, items: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and ratings, shape (systems, items), with ties."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(0, 2, (systems, 1))
    return tuple(np.round(quality + rng.normal(0, 6, (systems, items))) for _ in range(2))  # type: ignore[return-value]


def test_p_value_of_an_order_is_the_share_of_permutations() -> None:
    scores, _ = make_systems(1, systems=4)
    p = order_p_values(scores)
    rule: Any = {"permutation_type": "samples", "alternative": "greater", "vectorized": True}
    for i, j in itertools.combinations(range(len(scores)), 2):
        how = rule | {"n_resamples": 20_000, "rng": np.random.default_rng(0)}
        exact = stats.permutation_test((scores[i], scores[j]), lambda x, y, axis: x.sum(axis) - y.sum(axis), **how)
        assert p[i, j] == pytest.approx(exact.pvalue, abs=4 * math.sqrt(0.25 / 1000))
    assert not np.tril(p).any()
    p = order_p_values(np.array([[0.3, 0.3], [0.1, 0.1], [0.3, 0.3]]))
    assert p[0, 1] == pytest.approx(1 / 4, abs=0.06)
    assert p[1, 2] == p[0, 2] == 1
    same = order_p_values(np.repeat(np.random.default_rng(0).random((1, 460)), 13, axis=0))
    assert (same[np.triu_indices(13, 1)] == 1).all()


def test_spa_equals_a_loop_over_system_pairs_and_drops_incomplete_items() -> None:
    scores, ratings = make_systems(2)
    rows = [(system, item) for system in range(6) for item in range(40)] + [(0, 99), (3, 99)]
    rows = [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]
    order = [item for item in dict.fromkeys(item for _, item in rows) if item < 40]  # of the data
    human, metric = order_p_values(ratings[:, order]), order_p_values(scores[:, order])
    pairs = list(itertools.combinations(range(6), 2))
    expected = np.mean([1 - abs(human[pair] - metric[pair]) for pair in pairs])
    x, y = (
        [float(matrix[system, item]) if item < 40 else 77.0 for system, item in rows] for matrix in (scores, ratings)
    )
    systems, items = [f"s{system}" for system, _ in rows], [f"i{item}" for _, item in rows]
    estimate = make_estimator("spa", np.array(y), items, systems=systems)(np.array(x))
    assert estimate.value == pytest.approx(expected)
    assert (estimate.n, estimate.units) == (240, 6)
    assert 0.5 < estimate.value < 0.999
    assert correlate_pairs("spa", y, np.array(y), items, systems) == 1
    for value, drawn in zip(
        estimate.resampled(weights := draw(6, 20, np.random.default_rng(0))), weights.T, strict=True
    ):
        chosen = [(i, j) for i, j in itertools.combinations(np.repeat(np.arange(6), drawn).tolist(), 2) if i != j]
        assert value == pytest.approx(np.mean([1 - abs(human[pair] - metric[pair]) for pair in chosen]))


def spa_of_the_task(ratings: np.ndarray, scores: np.ndarray) -> float:
    """Compute the soft pairwise accuracy as mt-metrics-eval does, in float32; shape (systems, items) each."""
    signs = 2 * np.rint(np.random.default_rng(4).random((1000, ratings.shape[1]), dtype=np.float32)) - 1
    below = np.triu_indices(len(ratings), 1)
    p = []
    for values in (ratings.astype(np.float32), scores.astype(np.float32)):
        permuted, observed = signs @ values.T, values.sum(axis=1)
        reached = permuted[:, below[0]] - permuted[:, below[1]] >= observed[below[0]] - observed[below[1]]
        p.append(reached.mean(axis=0))
    return float(1 - np.abs(p[0] - p[1]).mean())


def test_spa_equals_the_shared_tasks() -> None:
    data = f"mte:{shared('data/mte/wmt23')}"
    with pytest.warns(TwmdWarning):
        rated = read_rated(data)
        metrics = read_official(data, rated)
    systems = dict.fromkeys(rated.system or [])
    rows = [[row for row, name in enumerate(rated.system or []) if name == system] for system in sorted(systems)]
    assert len(metrics) == 11
    for metric in metrics:
        own = agreement("spa", metric.scores, rated, resamples=0).value
        expected = spa_of_the_task(rated.ratings[rows], np.array(metric.scores)[rows])
        assert own == pytest.approx(expected, abs=1e-6), metric.label


@pytest.mark.parametrize("statistic", LOOPS)
def test_resample_of_items_equals_the_loop_over_the_drawn_items(statistic: Statistic) -> None:
    scores, ratings, items = make_tied_data(3, 30, 6)
    estimate = make_estimator(statistic, ratings, items)(scores)
    names = [name for name in sorted(set(items)) if items.count(name) > 1]
    assert estimate.units == len(names)
    weights = draw(len(names), 20, np.random.default_rng(0))
    for value, drawn in zip(estimate.resampled(weights), weights.T, strict=True):
        copies = [(name, k) for name, times in zip(names, drawn, strict=True) for k in range(times)]
        rows = [(i, f"{name}-{k}") for name, k in copies for i, item in enumerate(items) if item == name]
        chosen, copied = [i for i, _ in rows], [name for _, name in rows]
        data = scores[chosen], ratings[chosen], copied
        assert value == pytest.approx(LOOPS[statistic](*data))


THREE = np.array([1.0, 20.0, 90.0])


@pytest.mark.parametrize(
    ("statistic", "items", "words"),
    [
        ("darr", ["a", "a", "b"], "25"),
        ("acc_eq", ["a", "b", "c"], "item"),
        ("pdp", ["a", "b", "a"], "scores"),
        ("acc_eq", None, "item"),
        ("spa", ["a", "b", "c"], "systems"),
    ],
)
def test_pairwise_statistic_without_pairs_raises_an_error(statistic: str, items: list[str] | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        correlate_pairs(statistic, [1, 2, 1], THREE, items, ["x", "y", "x"])
    with pytest.raises(InputError, match="system"):
        correlate_pairs("spa", [1, 2, 3], THREE, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("statistic", "scores", "ratings", "words"),
    [
        ("kendal", [1, 2, 3], THREE, "did you mean 'kendall'"),
        ("pearson", [1, math.nan, 3], THREE, r"scores\[1\] is nan; expected a finite number"),
        ("pearson", [1, 2, 3], [1.0, 2.0, math.inf], r"ratings\[2\] is inf"),
        ("pearson", [1, 2], THREE, r"expected scores of shape \(3,\).*\(2,\)"),
        *((own, [1, 1, 1], THREE, rf"{own} is undefined: the scores are constant \(1\)") for own in VECTORS),
        *((own, [1, 2, 3], [2.0] * 3, r"the ratings are constant \(2\)") for own in VECTORS),
        *((own, [1, 2], [1.0, 20.0], "found 2") for own in VECTORS),
    ],
)
def test_bad_input_is_named(statistic: str, scores: list[float], ratings: Any, words: str) -> None:
    with pytest.raises(SpecError if statistic == "kendal" else InputError, match=words):
        correlate(statistic, scores, np.array(ratings))
