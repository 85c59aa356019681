"""Nothing changes a published score unnoticed: canonical signatures, versions and the changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import PACKAGED, presets
from twmd_registry.registry.signature import CHANGES, VERSIONS, canonical, changes_between, parse_signature
from twmd_registry.registry.spec import make_spec
from twmd_registry.version import __version__

GOLDEN = Path(__file__).with_name("canonical.tsv")
CHANGELOG = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


def test_canonical_signatures_are_the_golden_ones(capsys: pytest.CaptureFixture[str]) -> None:
    # A line that differs is a change of a published score: a new version, a line in signature.py and in the changelog,
    # and then `twmd list --signatures > tests/registry/canonical.tsv`.
    assert main(["list", "--signatures"]) == 0
    assert capsys.readouterr().out == GOLDEN.read_text(encoding="utf-8")


def test_every_packaged_preset_has_a_golden_signature() -> None:
    listed = [tuple(line.split("\t")[:2]) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    assert listed == [(str(metric), name) for (metric, name), preset in presets().items() if preset.source == PACKAGED]


@pytest.mark.parametrize("metric", MetricName)
def test_canonical_signature_is_the_one_that_scores_get(metric: MetricName) -> None:
    signature = str(canonical(presets()[metric, "embedded"]))
    found = twmd_registry.scorer(metric).score(["a cat"], ["the cat"])
    assert str(found.signature) == signature.replace("|version:", "|nrefs:1|version:")


@pytest.mark.parametrize("metric", MetricName)
def test_signature_gives_the_scorer_back(metric: MetricName) -> None:
    by_name = twmd_registry.scorer(metric).score(["the cat sat", "it rains"], [["a cat sat"], ["it pours", "rain"]])
    for text in (str(by_name.signature), by_name.signature.format(short=True)):
        assert (
            twmd_registry.scorer(text).score(["the cat sat", "it rains"], [["a cat sat"], ["it pours", "rain"]])
            == by_name
        )


def test_versions_are_this_packages_and_the_changelogs() -> None:
    assert VERSIONS[-1] == __version__
    headings = [line.removeprefix("## ") for line in CHANGELOG.splitlines() if line.startswith("## ")]
    assert headings == list(reversed(VERSIONS))
    assert all(f"- {what}" in CHANGELOG for _, _, what in CHANGES)


def test_changes_between_versions_concern_the_metrics_of_a_specification(older_version: str) -> None:
    for metric, expected in (("stsscore", ["0.3.0: Empty texts score 0."]), ("twmd", [])):
        assert (
            changes_between(make_spec(metric), older_version, __version__)
            == changes_between(make_spec(metric), __version__, older_version)
            == expected
        )
    assert changes_between(make_spec("ensemble", members="stsscore,sbert"), older_version, __version__) == [
        "0.3.0: Empty texts score 0."
    ]
    assert changes_between(make_spec("stsscore"), __version__, __version__) == []


def test_line_for_any_model_stands_for_a_preset_and_is_not_parsed() -> None:
    line = str(canonical(presets()[MetricName.STSSCORE, "regression"]))
    assert "|model:?|" in line
    with pytest.raises(ValueError, match="model is a blank"):
        parse_signature(line)
