"""Nothing changes a published score unnoticed: canonical signatures, versions and the changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.registry.history import CHANGES, VERSIONS, changes_between
from twmd_registry.registry.names import Centering, MetricName
from twmd_registry.registry.presets import PACKAGED, presets
from twmd_registry.registry.signature import canonical, parse_signature
from twmd_registry.registry.spec import MetricSpec, make_spec
from twmd_registry.version import __version__

GOLDEN = Path(__file__).with_name("canonical.tsv")
CHANGELOG = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")


def test_canonical_signatures_are_the_golden_ones(capsys: pytest.CaptureFixture[str]) -> None:
    # A line that differs is a change of a published score: a new version, a line in history.py and in the changelog,
    # and then `twmd list --signatures > tests/registry/canonical.tsv`.
    assert main(["list", "--signatures"]) == 0
    assert capsys.readouterr().out == GOLDEN.read_text(encoding="utf-8")


def test_every_packaged_preset_of_every_metric_has_one() -> None:
    listed = [tuple(line.split("\t")[:2]) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    assert listed == [(str(metric), name) for (metric, name), preset in presets().items() if preset.source == PACKAGED]


@pytest.mark.parametrize("metric", MetricName)
def test_a_canonical_signature_is_the_one_that_scores_get(metric: MetricName) -> None:
    signature = str(canonical(presets()[metric, "embedded"]))
    found = twmd_registry.scorer(metric).score(["a cat"], ["the cat"])
    assert str(found.signature) == signature.replace("|version:", "|nrefs:1|version:")


@pytest.mark.parametrize("metric", MetricName)
def test_a_signature_gives_the_scorer_back(metric: MetricName) -> None:
    by_name = twmd_registry.scorer(metric).score(["the cat sat", "it rains"], [["a cat sat"], ["it pours", "rain"]])
    for text in (str(by_name.signature), by_name.signature.format(short=True)):
        assert twmd_registry.scorer(text).score(["the cat sat", "it rains"], [["a cat sat"], ["it pours", "rain"]]) == by_name


def test_versions_are_this_packages_and_the_changelogs() -> None:
    assert VERSIONS[-1] == __version__
    headings = [line.removeprefix("## ") for line in CHANGELOG.splitlines() if line.startswith("## ")]
    assert headings == list(reversed(VERSIONS))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_scores_is_in_the_changelog_word_for_word(change: object) -> None:
    assert isinstance(change, tuple)
    version, metrics, what, _ = change
    section = " ".join(CHANGELOG.split(f"## {version}\n")[1].split("\n## ")[0].split())
    assert f"- {what} ({', '.join(metrics)})" in section


def test_changes_between_versions_concern_a_metric_and_its_centering() -> None:
    def changes(metric: MetricName, centering: Centering, one: str = "0.1.0", other: str = "0.2.0") -> list[str]:
        spec = MetricSpec(metric=metric, centering=centering)
        found = changes_between(spec, one, other)
        assert found == changes_between(spec, other, one)
        return [change.what.split()[0] for change in found]

    assert changes(MetricName.STSSCORE, Centering.NONE) == ["A"]
    assert changes(MetricName.TWMD, Centering.NONE) == []
    assert changes(MetricName.TWMD, Centering.SENTENCE) == ["Two"]
    assert changes(MetricName.SBERT, Centering.SENTENCE) == ["Two", "A"]
    assert changes(MetricName.SBERT, Centering.SENTENCE, "0.2.0", "0.2.0") == []
    of_members = changes_between(make_spec("ensemble", members="stsscore,sbert;centering=none"), "0.1.0", "0.2.0")
    assert of_members == changes_between(make_spec("stsscore"), "0.1.0", "0.2.0")


def test_a_line_for_any_model_stands_for_a_preset_and_is_not_parsed() -> None:
    line = str(canonical(presets()[MetricName.STSSCORE, "regression"]))
    assert "|model:?|" in line
    with pytest.raises(ValueError, match="model is a blank"):
        parse_signature(line)
