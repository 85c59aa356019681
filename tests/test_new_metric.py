"""The guide to a new metric: the five steps of CONTRIBUTING.md, and what of them is missing, first things first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.align.test_family import ORACLES
from twmd_registry import selfcheck
from twmd_registry.align import ALIGNERS, PLANS, SYMMETRIC
from twmd_registry.hub.prose import metrics_with_card
from twmd_registry.hub.values import measured
from twmd_registry.plugins.evaluate import hook
from twmd_registry.plugins.sacrebleu import metric as for_sacrebleu
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import presets
from twmd_registry.train import recipe

ROOT = Path(__file__).resolve().parents[1]
UNALIGNED = {MetricName.STSSCORE, MetricName.ENSEMBLE}
"""Metrics with a way of their own to a score."""
NO_MODULE = {MetricName.SBERT}
"""In Python and on the command line only."""
NO_CARD = {MetricName.SBERT, MetricName.ENSEMBLE}


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def naming(metric: str) -> Iterator[str]:
    if metric not in set(MetricName):
        yield f"twmd_registry/registry/names.py: add a member {metric.upper()} = {metric!r} to MetricName"
    if metric not in CATALOGUE:
        yield f"twmd_registry/registry/catalogue.py: add an Entry to CATALOGUE: the keys {metric} uses, its range, whom to cite"


def aligning(metric: str) -> Iterator[str]:
    if metric in UNALIGNED:
        return
    if metric not in ORACLES:
        yield (
            f"tests/oracles/family.py: write C(X, Y) of {metric} for one pair by plain loops, and name it in ORACLES of tests/align/test_family.py; "
            "it imports nothing of ours, so that it can disagree"
        )
    for table, of_what in ((ALIGNERS, "returns C, shape (B,)"), (PLANS, "returns its plan, shape (B, N, M)")):
        if metric not in table:
            name = "ALIGNERS" if table is ALIGNERS else "PLANS"
            yield f"twmd_registry/align/{metric}.py: write the function that {of_what}, and name it in {name} of twmd_registry/align/__init__.py"
    if (metric in SYMMETRIC) is CATALOGUE[MetricName(metric)].two_sided:
        yield f"twmd_registry/align/__init__.py: {metric} is in SYMMETRIC or its Entry is two_sided, one of both"


def setting(metric: str) -> Iterator[str]:
    if (metric, "embedded") not in presets():
        yield f"twmd_registry/registry/presets.toml: add [embedded.metrics.{metric}] with a provenance: how its values were chosen"
    if not any(owner == metric and preset.model is None for (owner, _), preset in presets().items()):
        yield f"twmd_registry/registry/presets.toml: add [paper.metrics.{metric}]: the settings for models that nobody tuned"
    if metric not in recipe.TRAINABLE and metric not in recipe.UNTRAINABLE:
        yield f"twmd_registry/train/recipe.py: name {metric} in TRAINABLE, or in UNTRAINABLE with the reason"


def showing(metric: str) -> Iterator[str]:
    from twmd_registry.plugins.torchmetrics import metric as for_torchmetrics

    for module, file in ((for_sacrebleu, "sacrebleu"), (for_torchmetrics, "torchmetrics")):
        if metric not in module.METRICS:
            yield f"twmd_registry/plugins/{file}/metric.py: add a class with METRIC = MetricName.{metric.upper()}, and name it in METRICS"
    if metric in NO_MODULE:
        return
    if not (ROOT / "metrics" / metric / f"{metric}.py").is_file():
        yield f"metrics/{metric}/{metric}.py: write the class for evaluate, with an example that runs (metrics/wordset_cka is a short one)"
    if metric not in hook.METRICS:
        yield f"twmd_registry/plugins/evaluate/hook.py: name {metric} in METRICS"
    if metric not in re.findall(r"^METRICS := (.*)$", text("Makefile"), flags=re.MULTILINE)[0].split():
        yield f"Makefile: name {metric} in METRICS, so that `make demo` shows it"


def publishing(metric: str) -> Iterator[str]:
    if f"\n| `{metric}` |" not in text("README.md"):
        yield f"README.md: add a row for {metric} to the table of metrics"
    if f"`{metric}`" not in text("CHANGELOG.md") and metric not in re.findall(r"\w+", text("CHANGELOG.md")):
        yield f"CHANGELOG.md: say in the newest section that {metric} is new"
    if metric not in {one.metric for one in measured()}:
        yield (
            f"twmd_registry/data/agreement.tsv: add {metric}'s agreement with people on WMT17, and the README's two tables of it "
            f"(`twmd correlate wmt:wmt17.jsonl -m {metric} --correlation pearson kendall` measures it)"
        )
    if metric not in NO_CARD and metric not in metrics_with_card():
        yield f"twmd_registry/data/cards/{metric}.toml: write what a person knows about {metric} (wordset_cka.toml is a short one)"
    if metric not in NO_CARD and not (ROOT / "hub_cards" / metric).is_dir():
        yield f"hub_cards/{metric}: run `make cards`, which writes it"
    if metric not in json.loads(selfcheck.GOLDEN.read_text(encoding="utf-8"))["metrics"] or f"{metric}\t" not in text("tests/registry/canonical.tsv"):
        yield f"twmd_registry/data/selfcheck.json, tests/registry/canonical.tsv: run `make goldens`, which adds {metric}'s scores and signatures"


STEPS: dict[str, Callable[[str], Iterator[str]]] = {
    "Name it": naming,
    "Align": aligning,
    "Give it settings": setting,
    "Show it to other programs": showing,
    "Publish it": publishing,
}


def missing(metric: str) -> list[str]:
    """What the first unfinished step still asks for; steps after it are not looked at."""
    for number, (title, step) in enumerate(STEPS.items(), start=1):
        if todo := [f"step {number}, {title}: {what}." for what in step(metric)]:
            return todo
    return []


def begun() -> list[str]:
    """Every metric that some file knows of."""
    folders = [path.name for path in (ROOT / "metrics").iterdir() if path.is_dir() and not path.name.startswith(("_", "."))]
    return list(dict.fromkeys([*MetricName, *CATALOGUE, *ALIGNERS, *hook.METRICS, *metrics_with_card(), *sorted(folders)]))


@pytest.mark.parametrize("metric", begun())
def test_every_step_of_a_metric_is_done(metric: str) -> None:
    if todo := missing(metric):
        pytest.fail("\n  ".join([f"{metric} is not finished (see CONTRIBUTING.md):", *todo]), pytrace=False)


def test_the_steps_are_those_of_contributing() -> None:
    titles = re.findall(r"^### (\d)\. (.+)$", text("CONTRIBUTING.md"), flags=re.MULTILINE)
    assert titles == [(str(number), title) for number, title in enumerate(STEPS, start=1)]


def test_a_metric_that_nobody_wrote_begins_with_its_name() -> None:
    assert [line.split(":")[1].strip() for line in missing("no_such_metric")] == [
        "twmd_registry/registry/names.py",
        "twmd_registry/registry/catalogue.py",
    ]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (CATALOGUE, "step 1, Name it: twmd_registry/registry/catalogue.py: "),
        (ORACLES, "step 2, Align: tests/oracles/family.py: "),
        (ALIGNERS, "step 2, Align: twmd_registry/align/wordset_cka.py: "),
        (PLANS, "step 2, Align: twmd_registry/align/wordset_cka.py: "),
        (for_sacrebleu.METRICS, "step 4, Show it to other programs: twmd_registry/plugins/sacrebleu/metric.py: "),
    ],
)
def test_what_is_not_done_is_named(table: dict[MetricName, object], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("wordset_cka") == []
    monkeypatch.delitem(table, MetricName.WORDSET_CKA)
    (line,) = missing("wordset_cka")
    assert line.startswith(said)
