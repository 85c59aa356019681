"""Paired tests on simulated systems: false positives and power."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from twmd_registry.comparison import significance
from twmd_registry.comparison.significance import MEAN_ROUNDING, draw_segments, draw_swaps, p_value, score_resamples
from twmd_registry.record.checks import _randomise

SEGMENTS, TRIALS, SIMULATIONS = 60, 199, 1000
Test = Callable[[np.ndarray, np.ndarray, int], float]


def mean_of(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[:, 0] / sums[:, 1])


def statistics_of(scores: np.ndarray) -> np.ndarray:
    return np.stack([scores, np.ones(len(scores))], axis=1)


def randomise(first: np.ndarray, second: np.ndarray, seed: int) -> float:
    swaps = draw_swaps(TRIALS, len(first), np.random.default_rng(seed))
    return significance.randomise(statistics_of(first), statistics_of(second), swaps, mean_of, MEAN_ROUNDING)


def bootstrap(first: np.ndarray, second: np.ndarray, seed: int) -> float:
    drawn = draw_segments(TRIALS, len(first), np.random.default_rng(seed))
    one, other = (score_resamples(statistics_of(scores), drawn, mean_of) for scores in (first, second))
    difference, unlike = float(first.mean() - second.mean()), int((first != second).sum())
    return significance.bootstrap(one - other, difference, len(first), unlike, MEAN_ROUNDING)


TESTS = {"randomisation": randomise, "bootstrap": bootstrap}
EQUAL: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "continuous scores": lambda rng: rng.normal(size=(2, SEGMENTS)),
    "scores in steps": lambda rng: rng.choice([0.0, 0.25, 0.5, 1.0], size=(2, SEGMENTS)),
    "few segments": lambda rng: rng.normal(size=(2, 3)),
    "few segments that differ": lambda rng: np.where(rng.random(SEGMENTS) < 0.05, rng.random((2, SEGMENTS)), 0.5),
}


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("scores", EQUAL)
def test_equal_systems_are_rarely_significant(scores: str, test: str) -> None:
    rng, significant = np.random.default_rng(1), 0
    for seed in range(SIMULATIONS):
        first, second = EQUAL[scores](rng)
        significant += TESTS[test](first, second, seed) < 0.05
    assert significant <= 0.06 * SIMULATIONS


@pytest.mark.parametrize("test", TESTS)
def test_better_system_is_significant(test: str) -> None:
    rng = np.random.default_rng(2)
    found = [TESTS[test](rng.normal(size=SEGMENTS), rng.normal(0.6, 1, SEGMENTS), seed) < 0.05 for seed in range(200)]
    assert np.mean(found) == pytest.approx(0.9, abs=0.07)  # the power of Student's t


def test_rounding_noise_is_not_significant() -> None:
    scores = np.random.default_rng(3).random(SEGMENTS)
    for name, noise in (("all", 2.4e-7), ("every other", np.arange(SEGMENTS) % 2 * 2.4e-7)):
        lower = scores - noise
        p = [*(test(scores, lower, 0) for test in TESTS.values()), _randomise(lower.tolist(), scores.tolist(), 0)]
        assert p == [1.0] * 3, name


def test_tied_trials_count_as_reached() -> None:
    assert p_value(np.array([0.1, 0.2, 0.3 - 1e-12, 0.4]), 0.3, 1e-9) == 3 / 5
