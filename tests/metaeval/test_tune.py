"""The grid of settings, and mean correlations against separate scorers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests import tiny
from tests.rated_files import of_group
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.tune import GRID, MAX_SETTINGS, estimate_seconds, mean_correlations, settings, tune
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec
from twmd_registry.registry.values import Centering

R = np.random.default_rng(9)


def make_rated(sizes: dict[str, int]) -> RatedSegments:
    """Return groups of different sizes, their rows mixed."""
    group = list(R.permutation([name for name, size in sizes.items() for _ in range(size)]))
    texts = [" ".join(R.choice(tiny.WORDS, size=R.integers(2, 7))) for _ in range(2 * len(group))]
    return RatedSegments(group, texts[::2], texts[1::2], R.normal(size=len(group)), 0)


@pytest.fixture(scope="module")
def scorers(tiny_encoder: Callable[[str], Path]) -> list[Scorer]:
    keys = {"model": str(tiny_encoder("bert")), "layer": 2, "temperature": 0.1}
    sides = [make_spec("twmd", "paper", output=side, **keys) for side in ("precision", "recall", "f1")]
    return [Scorer(spec) for spec in [*sides, make_spec("sbert", "paper", model=keys["model"], layer=1)]]


def test_mean_correlation_equals_the_mean_over_separately_scored_groups(scorers: list[Scorer]) -> None:
    rated, expected = make_rated({"a": 40, "b": 5}), []
    for scorer in scorers:
        groups = [of_group(rated, name) for name in ("a", "b")]
        scores = [scorer.score(group.predictions, group.references).scores for group in groups]
        pairs = zip(scores, groups, strict=True)
        expected.append(np.mean([stats.pearsonr(values, group.ratings).statistic for values, group in pairs]))
    assert mean_correlations(scorers, rated) == pytest.approx(expected, abs=1e-5)
    assert len(set(expected)) == 4


def test_rated_sources_are_scored_against(tiny_encoder: Callable[[str], Path]) -> None:
    rated = make_rated({"a": 40})
    rated = rated._replace(source=rated.references[::-1])
    made = Scorer(make_spec("twmd", "paper", model=str(tiny_encoder("bert")), layer=2, against="source"))
    scores = made.score(rated.predictions, sources=rated.source).scores
    expected = stats.pearsonr(scores, rated.ratings).statistic
    assert mean_correlations([made], rated) == pytest.approx([expected], abs=1e-5)
    assert estimate_seconds([made], [rated]) > 0
    with pytest.raises(InputError, match="pass sources"):
        mean_correlations([made], rated._replace(source=None))


def test_group_without_a_correlation_is_skipped_with_a_warning(scorers: list[Scorer]) -> None:
    rated = make_rated({"a": 12, "b": 2})
    reason = "b, left out: a setting has no correlation: pearson is undefined: expected at least 3 values, found 2"
    with pytest.warns(TwmdWarning, match=reason):
        means = mean_correlations(scorers, rated)
    assert means.tolist() == mean_correlations(scorers, of_group(rated, "a")).tolist()
    with pytest.warns(TwmdWarning), pytest.raises(InputError, match=r"no group has a correlation: b \(2 segments\)"):
        mean_correlations(scorers, make_rated({"b": 2}))
    words = RatedSegments(["a"] * 4, list(tiny.WORDS[:4]), [tiny.WORDS[4]] * 4, np.arange(4.0), 0)
    # Sentence centering leaves nothing of one word.
    centerings = (Centering("none"), Centering("sentence"))
    centred_scorers = [
        Scorer(scorers[3].requested.replace(special="none", centering=centering)) for centering in centerings
    ]
    with pytest.warns(TwmdWarning, match="1 of 2 settings have no correlation: pearson is undefined: the scores are"):
        plain, centred = mean_correlations(centred_scorers, words)
    assert plain == pytest.approx(mean_correlations(centred_scorers[:1], words)[0])
    assert np.isnan(centred)
    reverse = [scorer.requested for scorer in reversed(centred_scorers)]
    assert [spec.centering.kind for spec, _ in tune(reverse, [words], RunOptions())] == ["none", "sentence"]


def test_tuning_weights_data_by_size_sorts_best_first_and_reports_progress(tiny_encoder: Callable[[str], Path]) -> None:
    data = [make_rated({"x": 8, "y": 4}), make_rated({"x": 6})]
    tried: dict[str, list[Any]] = {"special": ["cls"], "centering": ["none"], "temperature": [0.1, 0.5]}
    specs = list(settings("trwmd", str(tiny_encoder("bert")), [1, 2], tried))
    done, announced = list[int](), list[float]()
    trials = tune(specs, data, RunOptions(), done.append, announced.append)
    assert sum(done) == 18
    assert len(announced) == 1
    assert announced[0] > 0
    means = [mean_correlations([Scorer(spec) for spec in specs], rated) for rated in data]
    keys = [(spec.layer, spec.temperature) for spec in specs]
    expected = dict(zip(keys, (12 * means[0] + 6 * means[1]) / 18, strict=True))
    assert {(spec.layer, spec.temperature): value for spec, value in trials} == pytest.approx(expected, abs=1e-6)
    assert [value for _, value in trials] == sorted((value for _, value in trials), reverse=True)


def test_grid_has_every_combination_of_keys_that_the_metric_uses() -> None:
    centerings = len(GRID["centering"])
    assert len(list(settings("moverscore", "a/b", [1, 2]))) == 2 * 3 * centerings
    assert len(set(settings("twmd", "a/b", [1]))) == 3 * centerings * len(GRID["temperature"])
    assert len(list(settings("bertscore_centered", "a/b", [1]))) == 4 * centerings
    assert len(list(settings("sbert", "a/b", [1]))) == 3 * (2 * centerings - 1)
    with pytest.raises(SpecError, match="has no layer"):
        list(settings("stsscore", "a/b", [1]))
    with pytest.raises(SpecError, match="no combination of the values to try is possible"):
        list(settings("sbert", "a/b", [1], {"vectors": ["raw"], "centering": ["sentence"]}))


@pytest.mark.parametrize("metric", ["twmd", "bertscore_centered", "sbert"])
@pytest.mark.parametrize(("depth", "most"), [(24, MAX_SETTINGS), (6, 5)])
def test_limit_removes_layers_and_temperatures_before_other_values(metric: str, depth: int, most: int) -> None:
    everything, limited = (list(settings(metric, "a/b", range(1, depth + 1), max_settings=m)) for m in (None, most))
    assert 0 < len(limited) <= most
    assert set(limited) <= set(everything)
    if most >= MAX_SETTINGS:
        for name in ("special", "centering", "vectors"):
            assert {getattr(spec, name) for spec in limited} == {getattr(spec, name) for spec in everything}
        assert len({spec.layer for spec in limited}) >= 3
