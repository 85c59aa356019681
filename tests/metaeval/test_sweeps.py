"""Figures 3 to 6: settings as the paper has them, correlations against one scorer at a time, plans against loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests import tiny
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.reproduce.rows import TABLES
from twmd_registry.metaeval.sweeps import (
    SweepPoint,
    Weighting,
    iteration_settings,
    layer_settings,
    lines,
    marginal_errors,
    measure,
    temperature_settings,
)
from twmd_registry.registry.names import Centering, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

R = np.random.default_rng(9)
WMT, STS = TABLES["twmd-table2"], TABLES["twmd-table1"]


def made_up(sizes: dict[str, int]) -> RatedSegments:
    """Groups of different sizes, their rows mixed."""
    group = list(R.permutation([name for name, size in sizes.items() for _ in range(size)]))
    texts = [" ".join(R.choice(tiny.WORDS, size=R.integers(2, 7))) for _ in range(2 * len(group))]
    return RatedSegments(group, texts[::2], texts[1::2], R.normal(size=len(group)), 0)


DATA = [made_up({"a": 40, "b": 5}), made_up({"c": 6, "d": 9})]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("bert")))


@pytest.mark.parametrize("weighting", list(Weighting))
def test_agreement_is_the_mean_of_correlations_of_groups_scored_apart(weighting: Weighting, model: str) -> None:
    specs = layer_settings(model, [1, 3], STS)
    measured = measure(specs, DATA, RunOptions(), weighting=weighting)
    assert [one.spec for one in measured] == specs
    for spec, found in measured[::5]:
        of_data = []
        for rated in DATA:
            total, weights = 0.0, 0
            for name in sorted(set(rated.group)):
                rows = [i for i, group in enumerate(rated.group) if group == name]
                scores = Scorer(spec).score([rated.predictions[i] for i in rows], [rated.references[i] for i in rows]).scores
                weight = len(rows) if weighting is Weighting.SIZE else 1
                total += weight * stats.pearsonr(scores, rated.ratings[rows]).statistic
                weights += weight
            of_data.append(total / weights)
        assert found == pytest.approx(np.mean(of_data), abs=1e-5)


def test_every_side_is_measured_as_itself(model: str) -> None:
    specs = [make_spec("twmd", "paper", model=model, layer=2, temperature=0.1, output=side) for side in ("precision", "recall", "f1")]
    together = measure(specs, DATA, RunOptions())
    apart = [measure([spec], DATA, RunOptions())[0] for spec in specs]
    assert [one.spec for one in together] == specs
    assert [one.pearson for one in together] == [one.pearson for one in apart]
    assert len({one.pearson for one in together}) == 3
    for spec, found in zip(specs, together, strict=True):
        scores = Scorer(spec).score(DATA[0].predictions[:9], DATA[0].references[:9]).scores
        alone = RatedSegments(["a"] * 9, DATA[0].predictions[:9], DATA[0].references[:9], DATA[0].ratings[:9], 0)
        assert measure([spec], [alone], RunOptions())[0].pearson == pytest.approx(stats.pearsonr(scores, alone.ratings).statistic, abs=1e-5)
        assert found.spec.output == spec.output


def test_settings_are_the_papers(model: str) -> None:
    specs = layer_settings(model, [2], WMT)
    assert [(spec.metric, spec.centering_kind) for spec in specs] == [
        (metric, one)
        for metric in ("sbert", "wordset_cka", "moverscore", "bertscore_centered", "twmd", "trwmd")
        for one in (Centering.NONE, Centering.BATCH)
    ]
    assert {(str(spec.metric), str(spec.centering_kind)): spec.temperature for spec in specs if spec.temperature} == {
        ("twmd", "none"): 0.02,
        ("trwmd", "none"): 0.02,
        ("twmd", "batch"): 0.10,
        ("trwmd", "batch"): 0.15,
    }
    assert {spec.output for spec in specs} == {"precision", None}
    assert {spec.special for spec in specs} == {"cls"}
    assert {(spec.centering_size, spec.centering_side) for spec in specs if spec.centering_kind is Centering.BATCH} == {(32, "separate")}
    assert {spec.vectors for spec in specs if spec.metric is MetricName.SBERT} == {"unit"}
    assert {spec.ngram for spec in specs if spec.metric is MetricName.MOVERSCORE} == {None}
    warm = temperature_settings(model, 1, WMT, [0.1, 0.2, 0.3])
    assert len(set(warm)) == 2 * 2 * 3
    swept = iteration_settings(model, 1, WMT, [0.1, 0.2], [1, 4])
    assert [(spec.temperature, spec.iterations) for spec in swept] == [(0.1, 1), (0.1, 4), (0.2, 1), (0.2, 4)]


def test_measurements_become_lines_with_x_ascending(model: str) -> None:
    found = lines([SweepPoint(spec, float(i)) for i, spec in enumerate(temperature_settings(model, 1, WMT, [0.3, 0.1]))], "temperature")
    assert [(line.name, line.x.tolist(), line.y.tolist()) for line in found] == [
        ("twmd", [0.1, 0.3], [1.0, 0.0]),
        ("twmd-b", [0.1, 0.3], [3.0, 2.0]),
        ("trwmd", [0.1, 0.3], [5.0, 4.0]),
        ("trwmd-b", [0.1, 0.3], [7.0, 6.0]),
    ]
    swept = iteration_settings(model, 1, WMT, [0.1, 0.2], [1, 4])
    assert [line.name for line in lines([SweepPoint(spec, 0.0) for spec in swept], "iterations")] == ["twmd-b T=0.1", "twmd-b T=0.2"]


def test_the_marginal_error_is_that_of_plans_made_by_hand(model: str) -> None:
    rated, sweeps = made_up({"a": 6}), [1, 3, 200]
    (spec,) = iteration_settings(model, 2, WMT, [0.1], [1])
    found = marginal_errors(spec, rated, [0.05, 0.2], sweeps, RunOptions(), pairs=4)
    assert [line.name for line in found] == ["twmd-b T=0.05", "twmd-b T=0.2"]
    scores = Scorer(spec).score(rated.predictions, rated.references)
    for line, temperature in zip(found, [0.05, 0.2], strict=True):
        for number, error in zip(sweeps, line.y, strict=True):
            expected = []
            for segment in range(4):
                plan = np.exp(scores.explain(segment).similarities.astype(np.float64) / temperature)
                for _ in range(number):
                    plan /= plan.sum(0)
                    plan /= plan.sum(1, keepdims=True)
                n, m = plan.shape
                expected.append(sum(abs(plan[:, j].sum() / n - 1 / m) for j in range(m)))
            assert error == pytest.approx(np.mean(expected), rel=1e-6, abs=1e-9)
        assert line.y[0] > line.y[1] > line.y[2]


def test_a_group_without_a_correlation_is_named_and_left_out(model: str) -> None:
    specs, whole = layer_settings(model, [1], STS)[:4], made_up({"a": 12, "b": 2})
    rows = np.flatnonzero(np.array(whole.group) == "a")
    with pytest.warns(TwmdWarning, match="b: no correlation for 4 of 4 settings: pearson is undefined: 3 or more segments are needed, there are 2"):
        found = measure(specs, [whole], RunOptions())
    assert found == measure(specs, [select(whole, rows)], RunOptions())


def test_a_setting_that_does_not_vary_where_others_do_is_refused(model: str) -> None:
    words = RatedSegments(["a"] * 4, list(tiny.WORDS[:4]), [tiny.WORDS[4]] * 4, np.arange(4.0), 0)
    specs = [make_spec("sbert", model=model, layer=1, special="none", centering=one) for one in ("none", "sentence")]  # nothing is left of one word
    with pytest.warns(TwmdWarning), pytest.raises(InputError, match=r"group a: pearson is undefined for .*centering=sentence.*, and not for others"):
        measure(specs, [words], RunOptions())


def test_bad_input_is_refused(model: str) -> None:
    (spec,) = iteration_settings(model, 2, WMT, [0.1], [1])
    with pytest.raises(InputError, match="at least one rated data set"):
        measure([spec], [], RunOptions())
    with (
        pytest.warns(TwmdWarning, match="b: no correlation for 1 of 1 settings: pearson is undefined: 3 or more segments are needed"),
        pytest.raises(InputError, match=r"no group has a correlation: b \(2 segments\)"),
    ):
        measure([spec], [made_up({"b": 2})], RunOptions())
    with pytest.raises(InputError, match="expected numbers from 1"):
        marginal_errors(spec, DATA[0], [0.1], [0, 1], RunOptions())
    empty = RatedSegments(["a"] * 2, ["", ""], ["", ""], np.ones(2), 0)
    with pytest.warns(TwmdWarning, match="texts without a token"), pytest.raises(InputError, match="there is no plan to measure"):
        marginal_errors(spec, empty, [0.1], [1], RunOptions())
