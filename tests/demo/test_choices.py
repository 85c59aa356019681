"""The settings of the page, and the specifications that they select."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from twmd_registry.demo import answers
from twmd_registry.demo.answers import CENTERINGS, METRICS, SWEEPS, offered_presets, preset_for, spec_of
from twmd_registry.errors import SpecError
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_MODEL, MULTILINGUAL_MODEL, Centering, MetricName
from twmd_registry.registry.spec import make_spec


def test_default_settings_are_every_metrics_default() -> None:
    assert [spec_of(metric) for metric in METRICS] == [make_spec(metric) for metric in MetricName]


def test_offered_presets_need_the_packaged_model_only() -> None:
    offered = offered_presets()
    assert {"embedded", "paper", "wmd"} <= set(offered)
    assert {"roberta-large", "regression", "roberta-base-stsb"}.isdisjoint(offered)
    specs = [spec_of(metric, preset) for metric in METRICS for preset in offered]
    assert {spec.model for spec in specs if spec.metric != "ensemble"} == {EMBEDDED_MODEL, MULTILINGUAL_MODEL}


def test_preset_names_its_languages() -> None:
    offered = offered_presets()
    assert offered["embedded"] == "embedded (en)"
    assert offered["multilingual"] == "multilingual (93 languages)"
    assert (offered["wmd"], offered["paper"]) == ("wmd (en)", "paper")


def test_multilingual_presets_keep_their_languages_for_every_metric() -> None:
    for metric in METRICS:
        assert spec_of(metric, "multilingual") == make_spec(metric, "multilingual")
        other = "multilingual-tuned" if metric == "twmd" else "multilingual"
        assert spec_of(metric, "multilingual-tuned") == make_spec(metric, other)


def test_multilingual_preset_is_not_offered_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "has_multilingual", lambda: False)
    offered_presets.cache_clear()
    assert {"multilingual", "multilingual-tuned"}.isdisjoint(offered_presets())
    offered_presets.cache_clear()


def test_preset_is_set_for_the_metrics_that_have_it() -> None:
    assert spec_of("moverscore", "wmd") == make_spec("moverscore", "wmd")
    assert spec_of("twmd", "wmd") == make_spec("twmd")
    assert spec_of("stsscore", "paper") == make_spec("stsscore")
    assert spec_of("twmd", "paper") == make_spec("twmd", "paper", model=EMBEDDED_MODEL)
    assert [preset_for(metric, "no such preset") for metric in METRICS] == ["embedded"] * len(METRICS)


@pytest.mark.parametrize("metric", ["twmd", "moverscore", "stsscore"])
def test_setting_is_set_for_the_metrics_that_use_its_key(metric: str) -> None:
    spec = spec_of(metric, temperature=0.07, iterations="5", centering="dimension")
    keys = CATALOGUE[MetricName(metric)].keys
    assert spec.temperature == (0.07 if "temperature" in keys else None)
    assert spec.iterations == (5 if "iterations" in keys else None)
    assert spec.centering == ("dimension" if "centering" in keys else None)


def test_every_choice_is_accepted() -> None:
    assert {spec_of("twmd", iterations=sweep).iterations for sweep in SWEEPS} == {
        1,
        2,
        5,
        10,
        "converged",
    }
    assert {spec_of("twmd", centering=centering).centering_kind for centering in CENTERINGS} == set(get_args(Centering))
    for preset in ("embedded", "multilingual"):
        mean = make_spec("bertscore_centered", preset).centering
        assert spec_of("twmd", preset, centering="background").centering == mean


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "nosuch"}, "preset='nosuch' is not offered here; .*embedded-tuned"),
        ({"preset": "roberta-large"}, "preset='roberta-large' is not offered here; .*embedded-tuned"),
        ({"temperature": -1.0}, "temperature=-1.0 is not offered here"),
        ({"iterations": "1000000"}, "iterations='1000000' is not offered here"),
        ({"temperature": 1e-6}, "temperature=1e-06 is not offered here"),
        ({"temperature": float("nan")}, "temperature=nan is not offered here"),
        ({"centering": "background:/a/file"}, "centering='background:/a/file' is not offered here"),
    ],
)
def test_values_beyond_the_choices_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of("twmd", **settings)
    with pytest.raises(SpecError, match="there is no metric 'bleu'"):
        spec_of("bleu")
