"""Explained signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

import twmd_registry
from tests.conftest import Run
from twmd_registry.demo.answers import explain_signature
from twmd_registry.errors import SignatureError
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import presets
from twmd_registry.registry.signature import Signature, canonical


def explained(text: str) -> tuple[dict[str, str], ...]:
    """Return the values, the meanings and the defaults of a signature by field."""
    fields, _, _ = explain_signature(text)
    return tuple({field[0]: field[k] for field in fields} for k in (1, 2, 3))


@pytest.mark.parametrize("metric", ["twmd", "moverscore"])
def test_keys_of_a_default_are_explained_and_defaults(metric: str) -> None:
    with twmd_registry.scorer(metric) as scorer:
        fields, _, notices = explain_signature(scorer.signature)
        values = scorer.spec.values()
    assert notices == []
    by_key = {name: rest for name, *rest in fields}
    for name, value in values.items():
        if name != "members":
            assert by_key[name] == [KEYS[name].format(value), KEYS[name].about, "yes"]
    assert by_key["metric"][0] == metric
    assert by_key["version"][0] == twmd_registry.__version__


def test_other_values_show_the_default() -> None:
    with twmd_registry.scorer("moverscore", transform="linear", ngram=1, layer=5) as scorer:
        values, _, defaults = explained(scorer.signature)
    assert (values["layer"], defaults["layer"]) == ("5", "no, 4")
    # Left out of the signature, because they do nothing, and yet not the default.
    assert (values["transform"], defaults["transform"]) == ("linear", "no, inverse")
    assert (values["ngram"], defaults["ngram"]) == ("1", "no, 3")


def test_ensemble_has_its_members_explained() -> None:
    with twmd_registry.scorer("ensemble(sbert,2*twmd;temperature=0.03)") as scorer:
        values, meanings, defaults = explained(scorer.signature)
    assert (values["1"], values["2"]) == ("sbert", "twmd")
    assert meanings["2"].endswith("Its weight: 2.")
    assert (values["2. temperature"], defaults["2. temperature"]) == ("0.03", "no, 0.15")
    assert "1. temperature" not in values


def test_default_of_another_model_is_not_the_default_model() -> None:
    values, _, defaults = explained(str(canonical(presets()[MetricName.TWMD, "roberta-large"])))
    assert defaults["model"] == "no, sentence-transformers/all-MiniLM-L6-v2"
    assert defaults["temperature"] == "yes"  # of roberta-large
    assert "content" not in values


def test_command_scores_by_the_signature_again(folder: Path, run: Run) -> None:
    for name in ("REF.txt", "HYP.txt"):
        (folder / name).write_text(f"It rains on {name[:3]}.\n", encoding="utf-8")
    with twmd_registry.scorer("ensemble(sbert,twmd)") as scorer:
        expected = scorer.score(["It rains on HYP."], ["It rains on REF."])
        _, command, _ = explain_signature(str(expected.signature))
    out = run(command.removeprefix("twmd "))[1]
    assert str(expected.signature) in out
    assert f"{expected.score:.4f}" in out


def test_older_signature_is_explained_with_a_notice(older_version: str) -> None:
    line = str(
        Signature(twmd_registry.parse(str(canonical(presets()[MetricName.TWMD, "embedded"]))), version=older_version)
    )
    assert any(f"written by version {older_version}" in notice for notice in explain_signature(line)[2])


@pytest.mark.parametrize("text", ["", "<script>alert(1)</script>", "a" * 20_000])
def test_text_without_signature_is_refused(text: str) -> None:
    with pytest.raises(SignatureError, match=r"^column \d+:"):
        explain_signature(text)
