"""The keys that choose layers, words and distances: what they accept, refuse and leave unsaid."""

from __future__ import annotations

from typing import Any

import pytest

import twmd_registry
from twmd_registry.errors import SpecError
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import MetricSpec, make_spec

NEUTRAL: dict[str, Any] = {
    "aggregation": "single",
    "unknown": "keep",
    "subwords": "keep",
    "punctuation": "keep",
    "stopwords": "none",
    "ngram": 1,
    "idf": "none",
    "distance": "similarity",
    "transform": "linear",
}


def spec(**keys: Any) -> MetricSpec:
    return make_spec("moverscore", "wmd", **{"layer": 4, "unknown": "keep"} | keys)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("2-6", "2-6"),
        ("1,3,6", "1,3,6"),
        ("6,3,1", "1,3,6"),
        ("2,3,4", "2-4"),
        ("1-3,5", "1,2,3,5"),
        ("2-4,3-6", "2-6"),
        (" 1, 3 ,6 ", "1,3,6"),
        ("last:5", "last:5"),
        ("0-1", "0-1"),
    ],
)
def test_several_layers_have_one_canonical_form(written: str, wanted: str) -> None:
    assert spec(layer=written, aggregation="mean").layer == wanted


@pytest.mark.parametrize(("written", "layers"), [("2-6", (2, 3, 4, 5, 6)), ("1,3,6", (1, 3, 6)), ("last:5", ())])
def test_specification_lists_its_layers_unless_only_the_model_knows(written: str, layers: tuple[int, ...]) -> None:
    assert spec(layer=written, aggregation="concat").layers == layers


@pytest.mark.parametrize(("written", "number"), [("4-4", 4), ("3,3", 3), (5, 5), ("5", 5)])
def test_single_layer_is_read_as_a_number(written: Any, number: int) -> None:
    assert spec(layer=written).layer == number


@pytest.mark.parametrize(
    "written",
    [
        "6-2",
        "2-",
        "-2",
        "1,,3",
        ",1",
        "1,",
        "last",
        "last:0",
        "last:-1",
        "last:x",
        "last:2,3",
        "1.5",
        "2:6",
        "",
        True,
        None,
        [1, 3],
    ],
)
def test_value_that_is_not_a_layer_is_refused_with_the_forms(written: Any) -> None:
    if written is None:
        assert make_spec("moverscore", layer=None).layer == make_spec("moverscore").layer
        return
    with pytest.raises(SpecError, match=r"layer=.*a whole number from 0; several as 2-6 or 1,3,6 or last:5"):
        spec(layer=written, aggregation="mean")


@pytest.mark.parametrize("written", ["1 0", "2 4", "1 -2 4"])
def test_numbers_apart_are_not_one_number(written: str) -> None:
    with pytest.raises(SpecError, match="layer="):
        spec(layer=written, aggregation="mean" if "-" in written else None)


@pytest.mark.parametrize("layer", ["2-6", "1,3,6", "last:5"])
@pytest.mark.parametrize("aggregation", [None, "single"])
def test_several_layers_need_an_aggregation(layer: str, aggregation: str | None) -> None:
    with pytest.raises(
        SpecError,
        match=rf"layer={layer} selects several layers: set aggregation to one of: mean, concat, pmeans, routing",
    ):
        spec(layer=layer, aggregation=aggregation)


@pytest.mark.parametrize("layer", [4, "last:1", "3-3"])
def test_aggregation_needs_several_layers(layer: Any) -> None:
    with pytest.raises(SpecError, match="aggregation=mean needs several layers"):
        spec(layer=layer, aggregation="mean")


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("pmeans", "pmeans:-inf,1,inf"),
        ("pmeans:1, 3,+INF", "pmeans:1,3,inf"),
        ("pmeans:99", "pmeans:99"),
        ("routing", "routing:gaussian"),
        ("routing:epanechnikov", "routing:epanechnikov"),
        ("concat", "concat"),
    ],
)
def test_aggregation_has_one_canonical_form(written: str, wanted: str) -> None:
    assert spec(layer="2-6", aggregation=written).aggregation == wanted


@pytest.mark.parametrize("power", ["0.5", "2.0", "0", "-1", "-3", "nan", "1/3", "x", "1,,2", "100", "1e2"])
def test_power_without_a_root_is_refused_with_the_reason(power: str) -> None:
    with pytest.raises(SpecError, match=r"aggregation=.*other powers of negative numbers are not defined"):
        spec(layer="2-6", aggregation=f"pmeans:{power}")


@pytest.mark.parametrize("aggregation", ["mean:3", "routing:box", "concat:", "sum", ""])
def test_aggregation_that_is_none_is_refused(aggregation: str) -> None:
    with pytest.raises(SpecError, match="aggregation="):
        spec(layer="2-6", aggregation=aggregation)


@pytest.mark.parametrize("ngram", [0, -1, 1.5, "0", "phrase", True])
def test_ngram_of_no_tokens_is_refused(ngram: Any) -> None:
    with pytest.raises(SpecError, match="ngram=.*a whole number from 1, or 'sentence'"):
        spec(ngram=ngram)


@pytest.mark.parametrize("idf", ["corpus:0123456789ab", "background", "background:", "yes", "predictions"])
def test_idf_that_is_none_is_refused(idf: str) -> None:
    with pytest.raises(SpecError, match="idf=.*none, corpus"):
        spec(idf=idf)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("distance", "manhattan"),
        ("transform", "log"),
        ("subwords", "merge"),
        ("punctuation", "no"),
        ("unknown", "drop"),
    ],
)
def test_other_values_are_refused_with_the_menu(key: str, value: str) -> None:
    with pytest.raises(SpecError, match=rf"{key}='{value}' is not possible: expected one of"):
        spec(**{key: value})


@pytest.mark.parametrize("key", NEUTRAL)
def test_value_that_does_nothing_is_left_out(key: str) -> None:
    assert spec(**{key: NEUTRAL[key]}) == spec()
    assert getattr(spec(**{key: NEUTRAL[key]}), key) is None


def test_signatures_do_not_say_that_nothing_is_done() -> None:
    with (
        twmd_registry.scorer("moverscore", "wmd", unknown="keep") as plain,
        twmd_registry.scorer("moverscore", "wmd", **NEUTRAL) as neutral,
    ):
        assert plain.signature == neutral.signature
        assert not [key for key in NEUTRAL if f"|{key}:" in plain.signature]


@pytest.mark.parametrize("metric", [metric for metric in MetricName if metric is not MetricName.MOVERSCORE])
def test_only_exact_transport_has_distances(metric: str) -> None:
    with pytest.raises(SpecError, match="does not use the key 'distance'"):
        make_spec(metric, distance="euclidean")


def test_regression_has_no_words() -> None:
    for key in ("layer", "aggregation", "unknown", "subwords", "punctuation", "stopwords", "ngram", "idf"):
        with pytest.raises(SpecError, match=f"does not use the key '{key}'"):
            make_spec("stsscore", **{key: "corpus"})


def test_last_layers_are_settled_by_the_model() -> None:
    with twmd_registry.scorer("moverscore", layer="last:5", aggregation="mean") as one:
        assert one.spec.layer == "2-6"
        assert "layer:2-6" in one.signature
    with twmd_registry.scorer("moverscore", layer="last:1") as one:
        assert one.spec.layer == 6


@pytest.mark.parametrize(
    ("layer", "why"),
    [("last:7", "layer=last:7 is out of range: this model has 6 layers"), ("2-9", "layer=9 is out of range")],
)
def test_layers_that_the_model_does_not_have_are_refused(layer: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        twmd_registry.scorer("moverscore", layer=layer, aggregation="mean").score(["a"], ["a"])


def test_partners_with_ngrams_are_refused() -> None:
    with pytest.raises(SpecError, match="special=partners is a way of matching tokens"):
        make_spec("bertscore_centered", special="partners", ngram=2)
