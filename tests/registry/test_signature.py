from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twmd_registry
from twmd_registry.errors import SignatureError, TwmdError
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.keys import KEYS, LARGEST, SMALLEST
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import presets
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import MetricSpec, make_spec

OTHER: dict[str, Any] = {
    "output": "recall",
    "model": "some/other-model",
    "revision": "v2",
    "adapter": "other@0123456789ab",
    "layer": 3,
    "special": "all",
    "centering": "dimension",
    "centering_size": 7,
    "centering_side": "joint",
    "temperature": 0.123,
    "iterations": 5,
    "objective": "entropic",
    "vectors": "raw",
    "normalize": False,
    "scale": 4.0,
    "multiref": "mean",
    "truncation": "cut:99",
    "dtype": "bfloat16",
}
"""For every key a value that no preset has."""


def whole(metric: MetricName) -> MetricSpec:
    """A specification in which every key of the metric is set."""
    keys: dict[str, Any] = {"centering": "batch"} if "centering" in CATALOGUE[metric].keys else {}
    spec = make_spec(metric, model="a/b", revision="main", **keys).replace(fingerprint="0123456789ab", adapter="name@ba9876543210")
    return spec.replace(layer=5) if "layer" in CATALOGUE[metric].keys else spec


specs = st.builds(
    lambda metric, temperature, layer, model, size: whole(metric).replace(
        model=model,
        **({"temperature": temperature} if "temperature" in CATALOGUE[metric].keys else {}),
        **({"layer": layer, "centering_size": size} if "layer" in CATALOGUE[metric].keys else {}),
    ),
    st.sampled_from(MetricName),
    st.floats(SMALLEST, LARGEST),
    st.integers(0, 500),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\0"), min_size=1).filter(str.strip),
    st.integers(1, 10**6),
)


@given(spec=specs, short=st.booleans(), nrefs=st.sampled_from([None, "1", "12", "var"]))
def test_a_signature_gives_its_specification_back(spec: MetricSpec, short: bool, nrefs: str | None) -> None:
    signature = Signature(spec, nrefs)
    assert parse_signature(signature.format(short=short)) == signature


@pytest.mark.parametrize("metric", MetricName)
def test_every_key_is_in_the_signature_and_changes_it(metric: MetricName) -> None:
    spec = whole(metric)
    assert set(spec.values()) == set(CATALOGUE[metric].keys)
    for key in (*CATALOGUE[metric].keys, "fingerprint"):
        other = spec.replace(**{key: OTHER.get(key, "ffffffffffff")})
        assert other != spec
        assert str(Signature(other)) != str(Signature(spec)), key


def test_every_field_of_a_specification_is_a_key() -> None:
    fields = {field.name for field in dataclasses.fields(MetricSpec)}
    assert fields == set(KEYS) | {"metric", "fingerprint"}
    assert set(OTHER) == set(KEYS)
    assert {key for entry in CATALOGUE.values() for key in entry.keys} == set(KEYS)


def test_short_names_are_one_or_two_letters_and_unique() -> None:
    shorts = [key.short for key in KEYS.values()]
    assert len(set(shorts)) == len(shorts)
    assert all(0 < len(short) <= 2 for short in shorts)


def test_keys_of_every_metric_are_in_signature_order() -> None:
    order = list(KEYS)
    for metric, entry in CATALOGUE.items():
        assert list(entry.keys) == sorted(entry.keys, key=order.index), metric


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("nothing|x:1", 1),
        ("twmd|output:f9", 6),
        ("twmd|output:f1|colour:red", 16),
        ("twmd|output:f1|output:f1", 16),
        ("twmd|layer:3|output:f1", 14),
        ("twmd|output", 6),
        ("twmd|output:f1|layer:-1", 16),
    ],
)
def test_a_broken_signature_is_refused_at_its_column(text: str, column: int) -> None:
    with pytest.raises(SignatureError, match=rf"^column {column}: "):
        parse_signature(text)


@pytest.mark.parametrize("text", ["", "twmd", "twmd|output:f1|version:0.1.0", "twmd|model:a@b|truncation:cut|dtype:float32|nrefs:1"])
def test_a_signature_that_lacks_something_is_refused(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_signature(text)


@given(st.text())
def test_any_text_at_all_gives_a_specification_or_the_packages_own_error(text: str) -> None:
    try:
        twmd_registry.parse(text)
    except TwmdError:
        return
    assert text.strip().partition("|")[0] in set(MetricName)


@pytest.mark.parametrize(("metric", "preset"), list(presets()))
def test_every_preset_makes_a_specification(metric: MetricName, preset: str) -> None:
    model = None if presets()[metric, preset].model else "some/model"
    spec = make_spec(metric, preset, model=model)
    assert set(spec.values()) <= set(CATALOGUE[metric].keys)
    settled = spec.replace(layer=spec.layer or 0) if "layer" in CATALOGUE[metric].keys else spec
    assert parse_signature(str(Signature(settled))).spec == settled
