from __future__ import annotations

import math
from typing import Any

import pytest

from twmd_registry.errors import SpecError
from twmd_registry.registry.names import EMBEDDED_MODEL, Centering, MetricName
from twmd_registry.registry.options import RunOptions, split_options
from twmd_registry.registry.presets import default_preset, presets_of
from twmd_registry.registry.spec import make_spec


@pytest.mark.parametrize(("metric", "key"), [("twmd", "temperature"), ("stsscore", "scale")])
@pytest.mark.parametrize("value", [0, -1, 1e-45, 9e-7, 2e6, 1e300, math.nan, math.inf, "nan", "warm", "", True])
def test_temperatures_and_scales_out_of_range_are_refused(metric: str, key: str, value: Any) -> None:
    with pytest.raises(SpecError, match=f"{key}=.*expected a number from 1e-6 to 1e6"):
        make_spec(metric, **{key: value})


@pytest.mark.parametrize(
    ("key", "value", "menu"),
    [
        ("output", "F1", "precision, recall, f1"),
        ("special", "both", "one of cls (the first only), none, all, or partners"),
        ("centering", "mean", "dimension, sentence, batch, corpus, background"),
        ("centering", "batch:3", "background:HASH"),
        ("centering", "background:", "background:HASH"),
        ("layer", -1, "a whole number from 0"),
        ("layer", 2.5, "a whole number from 0"),
        ("layer", True, "a whole number from 0"),
        ("iterations", 0, "a whole number from 1, or 'converged'"),
        ("iterations", "many", "a whole number from 1, or 'converged'"),
        ("normalize", "maybe", "yes or no"),
        ("multiref", "min", "max, mean"),
        ("truncation", "cut:0", "cut:N"),
        ("truncation", "window:9", "window:N/S"),
        ("truncation", "window:8/9", "window:N/S"),
        ("truncation", "window:8/0", "window:N/S"),
        ("dtype", "int8", "float32, bfloat16, float16"),
        ("model", "  ", "a Hub id"),
        ("model", 7, "a Hub id"),
    ],
)
def test_impossible_value_is_refused_with_the_menu(key: str, value: Any, menu: str) -> None:
    with pytest.raises(SpecError, match=f"{key}=") as caught:
        make_spec("twmd", **{key: value})
    assert menu in str(caught.value)


def test_empty_revision_is_refused() -> None:
    with pytest.raises(SpecError, match="revision='' is not possible: expected a branch, tag or commit"):
        make_spec("twmd", model="org/name@")


def test_unknown_names_are_refused_with_the_closest_match() -> None:
    with pytest.raises(SpecError, match="no metric 'twdm'; did you mean 'twmd'"):
        make_spec("twdm")
    with pytest.raises(SpecError, match="no preset 'embeded'; did you mean 'embedded'"):
        make_spec("twmd", "embeded")
    with pytest.raises(SpecError, match="no key 'temprature'; did you mean 'temperature'"):
        make_spec("twmd", temprature=1)


def test_key_of_another_metric_is_refused() -> None:
    with pytest.raises(SpecError, match="moverscore does not use the key 'temperature'"):
        make_spec("moverscore", temperature=0.1)
    with pytest.raises(SpecError, match="stsscore does not use the key 'layer'"):
        make_spec("stsscore", layer=3)


def test_centering_keys_follow_the_centering() -> None:
    batch = make_spec("twmd", centering="batch")
    assert (batch.centering_size, batch.centering_side) == (32, "separate")
    corpus = make_spec("twmd", centering="corpus")
    assert (corpus.centering_size, corpus.centering_side) == (None, "joint")
    assert make_spec("twmd", "roberta-base", centering="none").centering_size is None
    for centering in set(Centering) - {Centering.BATCH, Centering.CORPUS}:
        with pytest.raises(SpecError, match="centering_side has no meaning"):
            make_spec("twmd", centering=centering, centering_side="joint")
    with pytest.raises(SpecError, match="centering_size has no meaning"):
        make_spec("twmd", centering="corpus", centering_size=3)


def test_raw_vectors_that_centering_makes_zero_are_refused() -> None:
    with pytest.raises(SpecError, match="mean of raw vectors zero"):
        make_spec("sbert", vectors="raw", centering="sentence")


def test_text_and_python_values_mean_the_same() -> None:
    by_text = make_spec("twmd", layer="3", temperature="0.5", normalize="no", iterations="7")
    assert by_text == make_spec("twmd", layer=3, temperature=0.5, normalize=False, iterations=7)


def test_without_a_preset_the_one_tuned_for_the_model_is_taken() -> None:
    assert make_spec("twmd").model == EMBEDDED_MODEL
    assert make_spec("twmd") == make_spec("twmd", "embedded") == make_spec("twmd", model="embedded")
    assert make_spec("twmd", model="roberta-large") == make_spec("twmd", "roberta-large")
    unknown = make_spec("twmd", model="a/model-nobody-tuned")
    assert (unknown.layer, unknown.centering) == (None, Centering.BATCH)
    assert default_preset(MetricName.TWMD, "a/model-nobody-tuned").name == "paper"


def test_revision_can_be_part_of_the_model() -> None:
    spec = make_spec("twmd", model="org/name@v1.2")
    assert (spec.model, spec.revision) == ("org/name", "v1.2")
    assert spec == make_spec("twmd", model="org/name", revision="v1.2")


def test_paper_preset_needs_a_model() -> None:
    with pytest.raises(SpecError, match="names no model"):
        make_spec("twmd", "paper")


@pytest.mark.parametrize("metric", MetricName)
def test_every_metric_has_an_embedded_preset_that_comes_first(metric: MetricName) -> None:
    assert next(iter(presets_of(metric))) == "embedded"
    assert all(preset.provenance.strip() for preset in presets_of(metric).values())


def test_options_and_keys_are_split() -> None:
    options, keys = split_options({"device": "cpu", "layer": 3, "batch_tokens": None}, ("layer",))
    assert (options, keys) == (RunOptions(device="cpu"), {"layer": 3})
    with pytest.raises(SpecError, match="unknown key 'devise'; did you mean 'device'"):
        split_options({"devise": "cpu"}, ("layer",))
    for wrong in (0, -5, 1.5, True):
        with pytest.raises(SpecError, match="batch_tokens"):
            RunOptions(batch_tokens=wrong)  # type: ignore[arg-type]


def test_preset_among_keys_is_refused() -> None:
    with pytest.raises(SpecError, match="a preset is no key: name it in scorer"):
        split_options({"preset": "embedded"}, ("layer",))
    assert split_options({"output": "f1"}, ("layer",))[1] == {"output": "f1"}


@pytest.mark.parametrize(
    ("word", "meant"), [("bertscore", "bertscore_centered"), ("cka", "wordset_cka"), ("twdm", "twmd")]
)
def test_word_that_is_part_of_a_name_means_that_name(word: str, meant: str) -> None:
    with pytest.raises(SpecError, match=f"did you mean '{meant}'"):
        make_spec(word)
