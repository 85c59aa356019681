"""The numbers of tables against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.papers.measures import MEASURES, measure, roc_area, roc_curve

R = np.random.default_rng(3)


@pytest.mark.parametrize("levels", [3, 1000])
def test_area_is_the_share_of_pairs_with_a_higher_positive(levels: int) -> None:
    scores, positive = R.integers(levels, size=60) / levels, R.random(60) < 0.3
    wins = [(x > y) + 0.5 * (x == y) for x in scores[positive] for y in scores[~positive]]
    assert roc_area(scores, positive) == pytest.approx(np.mean(wins))
    assert MEASURES["auc"](scores, positive.astype(float)) == roc_area(scores, positive)


def test_curve_passes_every_threshold_once() -> None:
    false, true = roc_curve(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, False, True, False]))
    assert (false.tolist(), true.tolist()) == ([0, 0, 0.5, 1], [0, 0.5, 1, 1])
    with pytest.raises(InputError, match="needs both classes; 2 of 2 are positive"):
        roc_curve(np.array([1.0, 2.0]), np.array([True, True]))
    with pytest.raises(InputError, match="needs finite scores"):
        roc_curve(np.array([1.0, np.nan]), np.array([True, False]))


def test_moments_are_of_the_scores_of_a_class() -> None:
    scores, labels = R.random(40), R.integers(2, size=40).astype(float)
    for label in (0, 1):
        own = [x for x, one in zip(scores, labels, strict=True) if one == label]
        mean = sum(own) / len(own)
        assert MEASURES[f"mean-{label}"](scores, labels) == pytest.approx(mean)
        assert MEASURES[f"deviation-{label}"](scores, labels) == pytest.approx(
            (sum((x - mean) ** 2 for x in own) / (len(own) - 1)) ** 0.5
        )


def test_measures_of_halves_and_quarters_follow_the_ratings() -> None:
    ratings, scores = R.permutation(np.repeat(np.arange(7.0), 3)), R.random(21)
    order = sorted(range(21), key=lambda i: ratings[i])
    for name, rows in (("lower", order[:10]), ("upper", order[10:])):
        assert MEASURES[f"pearson-{name}"](scores, ratings) == pytest.approx(
            stats.pearsonr(scores[rows], ratings[rows]).statistic
        )
    wins = [
        (scores[high] > scores[low]) + 0.5 * (scores[high] == scores[low]) for high in order[-5:] for low in order[:5]
    ]
    assert MEASURES["auc-quarters"](scores, ratings) == pytest.approx(np.mean(wins))
    with pytest.raises(InputError, match="both classes"):
        MEASURES["auc-quarters"](scores[:3], ratings[:3])


def test_undefined_numbers_are_nan_and_warned_of_once() -> None:
    ratings, scores = np.array([0.0, 1, 1, 0, 1]), R.random(5)
    with pytest.warns(TwmdWarning) as caught:
        result = measure([(scores, ratings), (np.ones(5), ratings)], ["pearson", "mean-1"], "lv-en")
    assert np.isnan(result).tolist() == [[False, False], [True, False]]
    (warning,) = caught
    assert str(warning.message).startswith(
        "lv-en: not every number is defined for 1 of 2 rows; pearson is undefined: the scores are constant"
    )
