"""The guide to a new metric: the five steps of CONTRIBUTING.md, and what of them is missing, first things first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.align.test_family import ORACLES
from twmd_registry.align import ALIGNERS, PLANS, SYMMETRIC
from twmd_registry.hub.card_text import metrics_with_card
from twmd_registry.hub.values import measured
from twmd_registry.plugins.evaluate import hook
from twmd_registry.plugins.sacrebleu import metric as for_sacrebleu
from twmd_registry.record import selfcheck
from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.presets import Preset, presets
from twmd_registry.train import recipe

ROOT = Path(__file__).resolve().parents[1]
UNALIGNED = {MetricName.STSSCORE, MetricName.ENSEMBLE}
"""Metrics with a way of their own to a score."""
NO_MODULE = {MetricName.SBERT}
"""In Python and on the command line only."""
NO_CARD = {MetricName.SBERT, MetricName.ENSEMBLE}


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def is_file(path: str) -> bool:
    return (ROOT / path).is_file()


def is_in_the_changelog(metric: str) -> bool:
    """Whether the newest section names a metric in backticks, or an older one does, or that of the first version, which lists them."""
    newest, *older = re.split(r"^## .+$", text("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    quoted = re.compile(rf"`{metric}[`(]")
    first = re.search(r"^First version: [^.]+", older[-1], flags=re.MULTILINE) if older else None
    return any(quoted.search(section) for section in (newest, *older)) or (first is not None and metric in re.findall(r"\w+", first[0]))


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
    if not is_file(f"metrics/{metric}/{metric}.py"):
        yield f"metrics/{metric}/{metric}.py: write the class for evaluate, with an example that runs (metrics/wordset_cka is a short one)"
    if metric not in hook.METRICS:
        yield f"twmd_registry/plugins/evaluate/hook.py: name {metric} in METRICS"
    if metric not in re.findall(r"^METRICS := (.*)$", text("Makefile"), flags=re.MULTILINE)[0].split():
        yield f"Makefile: name {metric} in METRICS, so that `make demo` shows it"


def publishing(metric: str) -> Iterator[str]:
    if f"\n| `{metric}` |" not in text("README.md"):
        yield f"README.md: add a row for {metric} to the table of metrics"
    if not is_in_the_changelog(metric):
        yield f"CHANGELOG.md: say in the newest section that {metric} is new"
    if metric not in {one.metric for one in measured()}:
        yield (
            f"twmd_registry/data/agreement.tsv: add {metric}'s agreement with people on WMT17, and the README's two tables of it "
            f"(`twmd correlate wmt:wmt17.jsonl -m {metric} --correlation pearson kendall` measures it)"
        )
    if metric not in NO_CARD and metric not in metrics_with_card():
        yield f"twmd_registry/data/cards/{metric}.toml: write what a person knows about {metric} (wordset_cka.toml is a short one)"
    if metric not in NO_CARD and not is_file(f"hub_cards/{metric}/README.md"):
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


CKA = MetricName.WORDSET_CKA
"""The metric that is taken apart here."""
Break = Callable[[pytest.MonkeyPatch], None]


def without_entry(table: dict[MetricName, Any]) -> Break:
    """Take the metric out of a table."""
    return lambda patch: patch.delitem(table, CKA)


def instead(name: str, value: object) -> Break:
    """Let this file see something else under a name."""
    return lambda patch: patch.setitem(globals(), name, value)


def without_file(gone: str) -> Break:
    there = is_file
    return instead("is_file", lambda path: path != gone and there(path))


def without_words(path: str, pattern: str) -> Break:
    """Let a file lack what a pattern finds, which must be there."""
    read = text

    def changed(asked: str) -> str:
        shorter, times = re.subn(pattern, "", read(asked), flags=re.MULTILINE) if asked == path else (read(asked), 1)
        assert times
        return shorter

    return instead("text", changed)


def without_names(owner: object, attribute: str) -> Break:
    """Take the metric out of a tuple of names."""
    return lambda patch: patch.setattr(owner, attribute, tuple(name for name in getattr(owner, attribute) if name != CKA))


def without_presets(gone: Callable[[Preset], bool]) -> Break:
    kept = {key: preset for key, preset in presets().items() if key[0] != CKA or not gone(preset)}
    return instead("presets", lambda: kept)


def without_torchmetrics(patch: pytest.MonkeyPatch) -> None:
    metric = pytest.importorskip("twmd_registry.plugins.torchmetrics.metric")
    patch.delitem(metric.METRICS, CKA)


def without_agreement(patch: pytest.MonkeyPatch) -> None:
    kept = [one for one in measured() if one.metric != CKA]
    patch.setitem(globals(), "measured", lambda: kept)


NOT_DONE: list[tuple[Break, str]] = [
    (without_entry(CATALOGUE), "1, Name it: twmd_registry/registry/catalogue.py: add an Entry"),
    (without_entry(ORACLES), "2, Align: tests/oracles/family.py: "),
    (without_entry(ALIGNERS), "2, Align: twmd_registry/align/wordset_cka.py: write the function that returns C, shape (B,), and name it in ALIGNERS"),
    (
        without_entry(PLANS),
        "2, Align: twmd_registry/align/wordset_cka.py: write the function that returns its plan, shape (B, N, M), and name it in PLANS",
    ),
    (
        lambda patch: patch.setitem(CATALOGUE, CKA, replace(CATALOGUE[CKA], two_sided=True)),
        "2, Align: twmd_registry/align/__init__.py: wordset_cka is in SYMMETRIC or its Entry is two_sided",
    ),
    (without_presets(lambda preset: preset.name == "embedded"), "3, Give it settings: twmd_registry/registry/presets.toml: add [embedded."),
    (without_presets(lambda preset: preset.model is None), "3, Give it settings: twmd_registry/registry/presets.toml: add [paper."),
    (without_names(recipe, "TRAINABLE"), "3, Give it settings: twmd_registry/train/recipe.py: "),
    (without_entry(for_sacrebleu.METRICS), "4, Show it to other programs: twmd_registry/plugins/sacrebleu/metric.py: "),
    (without_torchmetrics, "4, Show it to other programs: twmd_registry/plugins/torchmetrics/metric.py: "),
    (without_file("metrics/wordset_cka/wordset_cka.py"), "4, Show it to other programs: metrics/wordset_cka/wordset_cka.py: "),
    (without_names(hook, "METRICS"), "4, Show it to other programs: twmd_registry/plugins/evaluate/hook.py: "),
    (without_words("Makefile", r"(?<=^METRICS := ).*$"), "4, Show it to other programs: Makefile: "),
    (without_words("README.md", r"^\| `wordset_cka` \|"), "5, Publish it: README.md: "),
    (without_words("CHANGELOG.md", r"\bwordset_cka\b"), "5, Publish it: CHANGELOG.md: say in the newest section"),
    (without_words("CHANGELOG.md", r"^First version: "), "5, Publish it: CHANGELOG.md: say in the newest section"),
    (without_agreement, "5, Publish it: twmd_registry/data/agreement.tsv: "),
    (instead("metrics_with_card", lambda: ()), "5, Publish it: twmd_registry/data/cards/wordset_cka.toml: "),
    (without_file("hub_cards/wordset_cka/README.md"), "5, Publish it: hub_cards/wordset_cka: "),
    (
        without_words("tests/registry/canonical.tsv", r"^wordset_cka\t"),
        "5, Publish it: twmd_registry/data/selfcheck.json, tests/registry/canonical.tsv: ",
    ),
]


@pytest.mark.parametrize(("undo", "said"), NOT_DONE, ids=[said for _, said in NOT_DONE])
def test_what_is_not_done_is_named(undo: Break, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing(CKA) == []
    undo(monkeypatch)
    (line,) = missing(CKA)
    assert line.startswith(f"step {said}")


def test_scores_that_were_never_published_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    golden = json.loads(selfcheck.GOLDEN.read_text(encoding="utf-8"))
    del golden["metrics"][CKA]
    (tmp_path / "selfcheck.json").write_text(json.dumps(golden), encoding="utf-8")
    monkeypatch.setattr(selfcheck, "GOLDEN", tmp_path / "selfcheck.json")
    (line,) = missing(CKA)
    assert line.startswith("step 5, Publish it: twmd_registry/data/selfcheck.json, ")
