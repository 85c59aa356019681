"""Undefined results are named, counted and skipped, and do not affect other metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Run
from tests.rated_files import write_rows
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.judgments.official import LabelledScores
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.study import SEGMENT, SYSTEM, Level, Study, StudyResult, run_study
from twmd_registry.registry.names import STATISTICS, Statistic
from twmd_registry.registry.options import RunOptions
from twmd_registry.report.agreement_page import agreement_page, draw_agreement

SYSTEMS, ITEMS = "abcd", 6
DEFINED_FOR_EQUAL_SCORES = {"darr", "tau_10", "tau_14", "tau_eq", "accuracy", "acc_eq", "spa"}
"""They count ties of the metric, or draw them at random."""


def make_rated(groups: Sequence[str] = ("x", "y")) -> RatedSegments:
    """Return ratings of four systems in each group."""
    rows = [(group, system, f"{group}:{item}") for group in groups for system in SYSTEMS for item in range(ITEMS)]
    names, systems, items = map(list, zip(*rows, strict=True))
    ratings = np.random.default_rng(0).integers(0, 100, len(rows)) + 20.0 * np.array([ord(name) for name in systems])
    return RatedSegments(names, [""] * len(rows), ["a"] * len(rows), ratings, 0, items, systems)


def published(label: str, scores: np.ndarray) -> LabelledScores:
    return LabelledScores(label, f"official:{label}", tuple(scores.tolist()))


RATED = make_rated()
GOOD = published("good", RATED.ratings + np.random.default_rng(1).normal(0, 30, len(RATED.ratings)))
FLAT = published("flat", np.full(len(RATED.ratings), 0.5))


def measure(
    metrics: Sequence[LabelledScores], statistics: Sequence[Statistic], level: Level, trials: int, rated: RatedSegments
) -> StudyResult:
    study = Study("made", content_of(rated), tuple(metrics), tuple(statistics), level=level, resamples=20)
    return run_study(replace(study, trials=trials), rated, RunOptions())


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
@pytest.mark.parametrize(
    ("level", "statistic"),
    [
        *((SEGMENT, statistic) for statistic in STATISTICS if statistic != "spa"),
        *((SYSTEM, statistic) for statistic in ("pearson", "spearman", "kendall", "spa")),
    ],
)
def test_metric_with_constant_scores_does_not_change_others(statistic: Statistic, level: Level) -> None:
    trials = 0 if level == SYSTEM and statistic != "spa" else 20
    alone = measure([GOOD], [statistic], level, 0, RATED)
    for metrics in ([FLAT, GOOD], [GOOD, FLAT]):
        result = measure(metrics, [statistic], level, trials, RATED)
        good, flat = metrics.index(GOOD), metrics.index(FLAT)
        assert result.agreements[good] == alone.agreements[0]
        found = result.agreements[flat][statistic]
        written = result.as_dict()["metrics"][flat]["agreement"][statistic]
        assert found.is_defined == (statistic in DEFINED_FOR_EQUAL_SCORES)
        if not found.is_defined:
            assert [(name, n) for name, n, _ in found.undefined] == [
                (name, len(RATED.group) // 2) for name in "xy"
            ] or (level == SYSTEM and [name for name, *_ in found.undefined] == ["x", "y"])
            assert (written["value"], [part["name"] for part in written["undefined"]]) == (None, ["x", "y"])
            assert f"flat, {statistic}: undefined everywhere: x (" in result.as_text("txt")
            rows = {row[0]: row[1] for row in result.tables[statistic][2]}
            assert (list(rows), rows["flat"]) == (["good", "flat"], "undefined")
            if trials:
                assert (result.ranks[good][statistic], result.ranks[flat][statistic]) == (1, None)
                assert result.tests[1][statistic] is None


def test_studies_without_values_and_tests_without_items_raise_errors() -> None:
    with (
        pytest.warns(TwmdWarning),
        pytest.raises(InputError, match=r"no metric has a value; pearson: x \(the scores are"),
    ):
        measure([FLAT, replace_label(FLAT)], ["pearson"], SEGMENT, 0, RATED)
    with pytest.raises(InputError, match="a significance test or an interval needs 2 segments"):
        measure([GOOD], ["pearson"], SEGMENT, 9, RATED._replace(item=["one"] * len(RATED.group), system=None))


def replace_label(metric: LabelledScores) -> LabelledScores:
    return metric._replace(label="other", signature="official:other")


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_groups_of_one_segment_or_system_are_left_out() -> None:
    lonely = RatedSegments(["z"], [""], ["a"], np.array([1.0]), 0, ["z:0"], ["a"])
    names = ("group", "item", "system", "predictions", "references")
    joined: dict[str, Any] = {name: [*getattr(RATED, name), *getattr(lonely, name)] for name in names}
    rated = RATED._replace(**joined, ratings=np.r_[RATED.ratings, lonely.ratings])
    scores = [metric._replace(scores=(*metric.scores, 0.1)) for metric in (GOOD, FLAT)]
    measured: dict[Level, tuple[Statistic, Statistic]] = {SEGMENT: ("pearson", "acc_eq"), SYSTEM: ("pearson", "spa")}
    for level, statistics in measured.items():
        result = measure(scores, statistics, level, 0, rated)
        alone = measure([GOOD], statistics, level, 0, RATED)
        for statistic in statistics:
            result_of_statistic = result.agreements[0][statistic]
            assert (result_of_statistic.value, result_of_statistic.groups) == (
                alone.agreements[0][statistic].value,
                alone.agreements[0][statistic].groups,
            )
            assert [name for name, *_ in result_of_statistic.undefined] == ["z"]
        if level == SYSTEM:
            assert result.accuracies[0]["spa"].value == alone.accuracies[0]["spa"].value
            assert list(draw_agreement(result, rated, ".svg")) == ["spa-x", "spa-y"]
        else:
            assert "undefined" in agreement_page([(result, rated)])
    with pytest.raises(InputError, match="no metric has a value"):
        measure([GOOD._replace(scores=(0.1,))], ["pearson"], SYSTEM, 0, lonely)


def test_every_output_format_shows_undefined(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    words = ["rain", "raining", "rained", "rains", "ran", "train", "brain", "drain"]
    rows = [
        {
            "prediction": word,
            "reference": "rainy",
            "rating": k % 5,
            "group": "ab"[k % 2],
            "item": str(k),
            "system": f"s{k}",
        }
        for k, word in enumerate(words)
    ]
    data = write_rows(tmp_path / "own.jsonl", rows)
    command = f"correlate {data} -m bleu chrf --correlation pearson kendall --resamples 0 --trials 9"
    status, out, err = run(f"{command} --format json -o {tmp_path / 'out'}")
    bleu, chrf = json.loads(out)["metrics"]
    assert status == 0
    assert "bleu: pearson is undefined everywhere: a (4 values: the scores are constant" in err
    assert bleu["agreement"]["pearson"]["value"] is None
    assert bleu["ranks"] == {"pearson": None, "kendall": None}
    assert isinstance(chrf["agreement"]["pearson"]["value"], float)
    assert chrf["tests"] == {"pearson": None, "kendall": None}
    assert (tmp_path / "out" / "scatter.svg").is_file()
    for form in ("tsv", "md", "tex", "txt"):
        assert "undefined" in (tmp_path / "out" / f"pearson.{form}").read_text(encoding="utf-8")
