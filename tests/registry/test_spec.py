"""Specifications: the values of keys, neutral values, and presets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import twmd_registry
from twmd_registry.errors import SpecError
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import AppliedSpec, MetricSpec
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import CENTERINGS, EMBEDDED_MODEL, MetricName
from twmd_registry.registry.options import OPTION_NAMES, PART_NAMES, MetricKeys, PartKeys
from twmd_registry.registry.presets import default_preset, presets_of
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import make_spec
from twmd_registry.registry.values import Layers

LAYERS = "a whole number, negative from the end (-1 for the last); several as 2-6 or 1,3,6 or last:5"
SEVERAL = "selects several layers: set aggregation to one of: mean, concat, pmeans, routing"
ROOTS = "other powers of negative numbers are undefined"
NOT_LAYERS = [
    "6-2",
    "2-",
    "--2",
    "-0",
    "1,,3",
    ",1",
    "1,",
    "last",
    "last:0",
    "last:-1",
    "last:x",
    "last:2,3",
    "2:6",
    "",
]
NOT_POWERS = ["0.5", "2.0", "0", "-1", "-3", "nan", "1/3", "x", "1,,2", "100", "1e2"]
NOT_SCALES = [0, -1, 1e-45, 9e-7, 2e6, 1e300, math.nan, math.inf, "nan", "warm", "", True]
REFUSED: list[tuple[str, list[Any], str]] = [
    ("output", ["F1"], "precision, recall, f1"),
    ("special", ["both"], "one of cls (only the first), none, all, or partners"),
    ("centering", ["mean", "batch:3", "background:"], "dimension, sentence, batch, corpus, background, or background:"),
    ("layer", [*NOT_LAYERS, 2.5, "1.5", True, [], [1, "3"], "1 0", "2 4", "1 -2 4"], LAYERS),
    ("aggregation", ["mean:3", "routing:box", "concat:", "sum", ""], "single (one layer), mean, concat"),
    ("aggregation", [f"pmeans:{power}" for power in NOT_POWERS], ROOTS),
    ("ngram", [0, -1, 1.5, "0", "phrase", True], ", or 'sentence'"),
    ("idf", ["corpus:0123456789ab", "background", "background:", "yes", "predictions"], "none, corpus"),
    ("subwords", ["merge"], "one of keep, drop"),
    ("punctuation", ["no"], "one of keep, drop, drop-ascii"),
    ("unknown", ["drop"], "one of keep, apart"),
    ("align", ["words", True], "one of texts, sentences"),
    ("temperature", NOT_SCALES, "a number from 1e-6 to 1e6"),
    ("iterations", [0, "many"], ", or 'converged'"),
    ("normalize", ["maybe"], "yes or no"),
    ("multiref", ["min"], "max, mean"),
    ("truncation", ["cut:0", "window:9", "window:8/9", "window:8/0"], "cut:N tokens, or window:N/S"),
    ("dtype", ["int8"], "float32, bfloat16, float16"),
    ("model", ["  ", 7], "a Hub id"),
]
"""Keys, impossible values, and the choices in the message."""

NEUTRAL: dict[str, Any] = {
    "aggregation": "single",
    "unknown": "keep",
    "subwords": "keep",
    "punctuation": "keep",
    "stopwords": "none",
    "stopword_unit": "word",
    "ngram": 1,
    "idf": "none",
    "distance": "similarity",
    "transform": "linear",
}


def spec(**keys: Any) -> MetricSpec:
    return make_spec("moverscore", "wmd", **{"layer": 4, "unknown": "keep"} | keys)


@pytest.mark.parametrize(
    ("metric", "key", "value", "menu"),
    [
        *(("twmd", key, value, menu) for key, values, menu in REFUSED for value in values),
        *(("stsscore", "scale", value, "a number from 1e-6 to 1e6") for value in NOT_SCALES),
        ("moverscore", "distance", "manhattan", "one of similarity, sqeuclidean, euclidean"),
        ("moverscore", "transform", "log", "one of linear, inverse"),
    ],
)
def test_impossible_value_error_lists_the_choices(metric: str, key: str, value: Any, menu: str) -> None:
    with pytest.raises(SpecError, match=f"{key}=.* is not possible: expected ") as caught:
        make_spec(metric, **{key: value})
    assert menu in str(caught.value)


@pytest.mark.parametrize(
    ("key", "written", "wanted"),
    [
        ("layer", "2-6", "2-6"),
        ("layer", "1,3,6", "1,3,6"),
        ("layer", "6,3,1", "1,3,6"),
        ("layer", "2,3,4", "2-4"),
        ("layer", "1-3,5", "1,2,3,5"),
        ("layer", " 1, 3 ,6 ", "1,3,6"),
        ("layer", "last:5", "last:5"),
        ("layer", range(-5, 0), "last:5"),
        ("layer", range(2, 5), "2-4"),
        ("layer", [3, 1], "1,3"),
        ("layer", (0, -1), "0,-1"),
        ("aggregation", "pmeans", "pmeans:-inf,1,inf"),
        ("aggregation", "pmeans:1, 3,+INF", "pmeans:1,3,inf"),
        ("aggregation", "routing", "routing:gaussian"),
        ("stopwords", Path("a/b"), "a/b"),
    ],
)
def test_value_has_one_canonical_form(key: str, written: Any, wanted: str) -> None:
    assert str(getattr(spec(**{"layer": "2-6", "aggregation": "mean"} | {key: written}), key)) == wanted


def test_text_and_python_values_mean_the_same_and_none_nothing() -> None:
    assert make_spec("moverscore", layer=None) == make_spec("moverscore")
    by_text = make_spec("twmd", layer="3", temperature="0.5", normalize="no", iterations="7")
    assert by_text == make_spec("twmd", layer=3, temperature=0.5, normalize=False, iterations=7)
    assert [make_spec("twmd", layer=written).values()["layer"] for written in ("4-4", "3,3", 5, "5")] == [4, 3, 5, 5]


@pytest.mark.parametrize(
    ("metric", "keys", "words"),
    [
        *(
            ("moverscore", keys | {"model": "embedded", "layer": layer}, f"layer={layer} {SEVERAL}")
            for layer in ("2-6", "1,3,6", "last:5")
            for keys in ({}, {"aggregation": "single"})
        ),
        *(
            ("moverscore", {"layer": layer, "aggregation": "mean"}, "aggregation=mean needs several layers")
            for layer in (4, "last:1", "3-3")
        ),
        (
            "bertscore_centered",
            {"special": "partners", "ngram": 2},
            "special=partners",
        ),
        ("sbert", {"vectors": "raw", "centering": "sentence"}, "mean of raw vectors zero"),
        *(
            ("twmd", {"centering": centering, "centering_side": "joint"}, "centering_side has no effect")
            for centering in set(CENTERINGS) - {"batch", "corpus"}
        ),
        ("twmd", {"centering": "corpus", "centering_size": 3}, "centering_size has no effect"),
        ("twmd", {"align": "sentences", "idf": "references"}, "align=sentences allows no baseline, no idf"),
        ("twmd", {"align": "sentences", "against": "source"}, "and no against=source"),
        ("trwmd", {"align": "sentences", "baseline": "0123456789ab"}, "align=sentences allows no baseline"),
        ("twmd", {"model": "org/name@"}, "revision='' is not possible: expected a branch, tag or commit"),
    ],
)
def test_values_that_exclude_each_other_are_refused(metric: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        make_spec(metric, **keys)


def test_unknown_names_and_keys_of_another_metric_are_refused() -> None:
    for word, meant in (("bertscore", "bertscore_centered"), ("cka", "wordset_cka"), ("twdm", "twmd")):
        with pytest.raises(SpecError, match=f"unknown metric '{word}'; did you mean '{meant}'"):
            make_spec(word)
    with pytest.raises(SpecError, match="no preset 'embeded'; did you mean 'embedded'"):
        make_spec("twmd", "embeded")
    with pytest.raises(SpecError, match="unknown key 'temprature'; did you mean 'temperature'"):
        make_spec("twmd", temprature=1)
    others = [("moverscore", "temperature"), ("twmd", "distance"), ("sbert", "output"), ("ensemble", "layer")]
    for metric, key in (*others, *(("stsscore", key) for key in ("layer", "ngram", "idf", "unknown"))):
        keys: dict[str, Any] = {key: 1}
        with pytest.raises(SpecError, match=f"{metric} does not use the key '{key}'"):
            make_spec(metric, **keys)


def test_centering_keys_follow_the_centering() -> None:
    batch = make_spec("twmd", centering="batch")
    assert (batch.centering.size, batch.centering.side) == (32, "separate")
    corpus = make_spec("twmd", centering="corpus")
    assert (corpus.centering.size, corpus.centering.side) == (None, "joint")
    assert make_spec("twmd", "roberta-base", centering="none").centering.size is None


@pytest.mark.parametrize("key", NEUTRAL)
def test_value_without_effect_is_omitted(key: str) -> None:
    assert spec(**{key: NEUTRAL[key]}) == spec()
    assert getattr(spec(**{key: NEUTRAL[key]}), key) is None


def test_last_layers_depend_on_the_model() -> None:
    with twmd_registry.load("moverscore", layer="last:5", aggregation="mean") as one:
        assert one.spec.layer == Layers.parse("2-6")
        assert "layer:2-6" in one.signature
    with twmd_registry.load("moverscore", layer="last:1") as one:
        assert one.spec.layer == Layers((6,))
    for layer, why in (("last:7", "this model has 6 layers"), ("2-9", ".*all-MiniLM-L6-v2 has hidden states 0 to 6")):
        with pytest.raises(SpecError, match=f"layer={layer.replace('2-', '')} is out of range: {why}"):
            twmd_registry.load("moverscore", layer=layer, aggregation="mean").score(["a"], ["a"])


def test_model_decides_the_preset_and_may_have_a_revision() -> None:
    assert make_spec("twmd").model == EMBEDDED_MODEL
    assert make_spec("twmd") == make_spec("twmd", "embedded-tuned")
    assert make_spec("twmd", "embedded") == make_spec("twmd", model="embedded") != make_spec("twmd")
    assert make_spec("twmd", model="roberta-large") == make_spec("twmd", "roberta-large")
    unknown = make_spec("twmd", model="a/model-nobody-tuned")
    assert (unknown.layer, unknown.centering.kind) == (None, "batch")
    assert default_preset(MetricName.TWMD, "a/model-nobody-tuned").name == "paper"
    with pytest.raises(SpecError, match="names no model"):
        make_spec("twmd", "paper")
    named = make_spec("twmd", model="org/name@v1.2")
    assert (named.model, named.revision) == ("org/name", "v1.2")
    assert named == make_spec("twmd", model="org/name", revision="v1.2")


@pytest.mark.parametrize("metric", MetricName)
def test_every_metric_has_an_untuned_preset_that_comes_first_and_is_the_default_where_none_is_tuned(
    metric: MetricName,
) -> None:
    named = presets_of(metric)
    assert default_preset(metric, None).name == ("embedded-tuned" if "embedded-tuned" in named else "embedded")
    assert next(iter(named)) == "embedded"
    assert all(preset.provenance.strip() for preset in named.values())


IMPOSSIBLE: list[dict[str, Any]] = [
    {"temperature": -0.15},
    {"layer": b"\x03"},
    *({key: 10**5000} for key in ("layer", "temperature", "iterations", "output")),  # Python does not write it
    {"metric": "nonsense"},
    {"fingerprint": "XYZ"},
]


@pytest.mark.parametrize("changes", IMPOSSIBLE)
def test_constructor_and_replace_reject_impossible_values(changes: dict[str, Any]) -> None:
    spec = make_spec("twmd")
    with pytest.raises(SpecError):
        spec.replace(**changes)
    with pytest.raises(SpecError):
        MetricSpec(**{"metric": MetricName.TWMD, **changes})


@pytest.mark.parametrize("keys", [{}, {"layer": -1}, {"stopwords": "my.txt"}])
def test_request_has_no_signature(keys: dict[str, Any]) -> None:
    request: Any = make_spec("twmd", **keys)
    with pytest.raises(SpecError, match="applied"):
        Signature(request)


ANYTHING = st.one_of(
    st.text(max_size=12),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.lists(st.integers(-9, 30), max_size=4),
    st.sampled_from(["batch", "corpus", "background:0123456789ab", "2-6", "mean", "cut:9", "window:9/3", "both", "no"]),
)
APPLIED = [AppliedSpec.of(make_spec(metric)) for metric in MetricName]


def check_round_trip(spec: MetricSpec) -> None:
    """Check that a specification's signature parses back; an open request or one with a file has none."""
    try:
        applied = AppliedSpec.of(spec)
    except SpecError:
        named = [*spec.centering.means, spec.idf and spec.idf.table, spec.stopwords, spec.baseline]
        assert any(named) or "layer" in CATALOGUE[spec.metric].keys
        return
    for short in (False, True):
        assert parse_signature(Signature(applied).format(short=short)).spec == applied


@settings(max_examples=300, deadline=None)
@hypothesis.given(
    st.sampled_from(APPLIED), st.dictionaries(st.sampled_from([*KEYS, "metric", "fingerprint"]), ANYTHING, max_size=3)
)
def test_constructor_and_replace_agree_with_the_signature(spec: AppliedSpec, changes: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"metric": spec.metric, "fingerprint": spec.fingerprint, **spec.values()}
    request = MetricSpec(**whole)
    makers: list[Callable[[], MetricSpec]] = [
        lambda: spec.replace(**changes),
        lambda: request.replace(**changes),
        lambda: dataclasses.replace(request, **changes),
        lambda: MetricSpec(**whole | changes),
        lambda: AppliedSpec(**whole | changes),
        lambda: MetricSpec(**{"metric": spec.metric, **changes}),
    ]
    for make in makers:
        try:
            made = make()
        except SpecError:
            continue
        check_round_trip(made)


def test_scorer_refuses_a_specification_its_metric_does_not_support() -> None:
    with pytest.raises(SpecError, match="transform"):
        twmd_registry.load(make_spec("twmd").replace(transform="inverse"))
    with pytest.raises(SpecError, match="temperature"):
        twmd_registry.load(make_spec("twmd").replace(temperature=None))


def test_typed_keywords_cover_keys_parts_and_run_options() -> None:
    assert set(MetricKeys.__annotations__) == {*KEYS, *OPTION_NAMES}
    assert set(PartKeys.__annotations__) == {*PART_NAMES, *OPTION_NAMES}
