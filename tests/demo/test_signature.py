"""The signature, explained."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.demo.choices import METRICS
from twmd_registry.demo.signature_tab import explain_signature
from twmd_registry.errors import SignatureError
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import presets
from twmd_registry.registry.signature import Signature, canonical


@pytest.mark.parametrize("metric", METRICS)
def test_every_key_of_a_default_is_explained_and_a_default(metric: str) -> None:
    with twmd_registry.scorer(metric) as scorer:
        found = explain_signature(scorer.signature)
        values = scorer.spec.values()
    by_key = {field.key: field for field in found.fields}
    for name, value in values.items():
        if name != "members":
            field = by_key[name]
            assert (field.value, field.meaning, field.default) == (KEYS[name].format(value), KEYS[name].about, "yes")
    assert by_key["metric"].value == metric
    assert by_key["version"].value == twmd_registry.__version__
    assert found.notices == ()


def test_what_is_set_otherwise_shows_the_default() -> None:
    with twmd_registry.scorer("moverscore", transform="linear", ngram=1, layer=5) as scorer:
        found = {field.key: field for field in explain_signature(scorer.signature).fields}
    assert (found["layer"].value, found["layer"].default) == ("5", "no, 4")
    # Left out of the signature, because they do nothing, and yet not the default.
    assert (found["transform"].value, found["transform"].default) == ("linear", "no, inverse")
    assert (found["ngram"].value, found["ngram"].default) == ("1", "no, 3")


def test_the_members_of_an_ensemble_are_explained_one_by_one() -> None:
    with twmd_registry.scorer("ensemble(sbert,2*twmd;temperature=0.03)") as scorer:
        found = {field.key: field for field in explain_signature(scorer.signature).fields}
    assert (found["1"].value, found["2"].value) == ("sbert", "twmd")
    assert found["2"].meaning.endswith("Its weight: 2.")
    assert (found["2. temperature"].value, found["2. temperature"].default) == ("0.03", "no, 0.15")
    assert "1. temperature" not in found


@pytest.mark.parametrize(
    ("metric", "name"),
    [(metric, name) for metric, name in presets() if "?" not in str(canonical(presets()[metric, name]))],
)
def test_every_presets_signature_is_explained(metric: MetricName, name: str) -> None:
    signature = canonical(presets()[metric, name])
    found = explain_signature(str(signature))
    assert {field.key for field in found.fields} >= set(signature.spec.values()) - {"members"}


def test_a_models_default_of_another_model_is_not_the_default_model() -> None:
    line = str(canonical(presets()[MetricName.TWMD, "roberta-large"]))
    found = {field.key: field for field in explain_signature(line).fields}
    assert found["model"].default == "no, sentence-transformers/all-MiniLM-L6-v2"
    assert found["temperature"].default == "yes"  # of roberta-large
    assert "content" not in found


def test_the_command_scores_by_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("REF.txt", "HYP.txt"):
        (tmp_path / name).write_text(f"It rains on {name[:3]}.\n", encoding="utf-8")
    with twmd_registry.scorer("ensemble(sbert,twmd)") as scorer:
        found = scorer.score(["It rains on HYP."], ["It rains on REF."])
        command = explain_signature(str(found.signature)).command
    assert main(shlex.split(command)[1:]) == 0
    out = capsys.readouterr().out
    assert str(found.signature) in out
    assert f"{found.score:.4f}" in out


def test_older_signature_is_explained_with_a_notice(older_version: str) -> None:
    line = str(
        Signature(twmd_registry.parse(str(canonical(presets()[MetricName.TWMD, "embedded"]))), version=older_version)
    )
    assert any(f"written by version {older_version}" in notice for notice in explain_signature(line).notices)


@pytest.mark.parametrize("text", ["", "twmd", "<script>alert(1)</script>", "twmd|layer:4|version:0.3.0", "a" * 20_000])
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(SignatureError, match=r"^column \d+:"):
        explain_signature(text)
