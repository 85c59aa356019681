"""The experiments as data: printed numbers, row names and measurements."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from experiments.papers.experiment import AVERAGE, experiment_names, make_settings, read_experiment
from experiments.papers.run import MEASURES, measure, roc_area
from tests.conftest import shared
from tests.rated_files import LANGUAGE_PAIRS
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.sets import HUB
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.spec import make_spec
from twmd_registry.registry.values import Aggregation, Idf, Layers

TABLES = [name for name in experiment_names() if read_experiment(name).printed and name != "twmd-appendix-b"]


def settings_of(
    name: str, *, depth: int = 12, layer: int | None = 10, members: dict[str, str] | None = None
) -> dict[str, MetricSpec]:
    """Return the specifications of an experiment's rows for a made-up model; rows of a single layer read layer 10."""
    result = make_settings(read_experiment(name, members), "a/b", own=[10], requested_layer=layer, depth=depth)
    return {one.label: one.metric for one in result if isinstance(one.metric, MetricSpec)}


def cell(name: str, source: str, metric: str, column: str) -> list[float]:
    table = read_experiment(name)
    (row,) = (row for row in table.printed if (row.source, row.metric) == (source, metric))
    return [value for value, one in zip(row.values, table.cells, strict=True) if one[0] == column]


@pytest.mark.parametrize(
    ("place", "numbers"),
    [
        (("twmd-table2", "roberta-base, layer 10", "SBERT", "cs-en"), [45.1, 60.0]),
        (("moverscore-table1", "paper", "METEOR++", "zh-en"), [64.6]),
        (("moverscore-table1", "BERT + MNLI, layer 8-12", "WMD-2", AVERAGE), [74.3]),
        (("moverscore-table2", "BERT + MNLI, layer 8-12", "WMD-2", "TAC-2009 Pyr"), [82.5, 69.4]),
        (("moverscore-table6", "BERT, layer 8", "WMD-1 + LAYER 8", "cs-en"), [63.61]),
        (("moverscore-figure3", "paper", "BEER ~ CHRF++", "de-en"), [97.0]),
    ],
)
def test_printed_number_equals_the_papers(place: tuple[str, str, str, str], numbers: list[float]) -> None:
    assert cell(*place) == numbers


def test_printed_numbers_of_herbold_are_in_the_papers_text() -> None:
    text = shared("papers/stsscore.txt").read_text(encoding="utf-8")
    printed = {tuple(re.split(r"[\t ()]+", line.strip(" )"))) for line in text.splitlines()}
    for number in range(1, 5):
        for row in read_experiment(f"stsscore-table{number}").printed:
            assert (row.metric, *(f"{value:.2f}" for value in row.values)) in printed, row


INCONSISTENT_AVERAGES = {
    ("twmd-table3", "roberta-base", "SBERT-b", "pearson"),
    ("twmd-table3", "roberta-base", "MoverScore-b", "kendall"),
    ("twmd-table3", "roberta-large", "CKA", "kendall"),
    ("twmd-table6", "roberta-base", "BERTscore-b", "pearson"),
}
"""Averages that a paper prints and that are 0.11 to 0.13 from the mean of its own columns; the others are rounded to
0.1, as the columns are.
"""


def test_printed_averages_equal_the_means_of_their_columns_except_four() -> None:
    inconsistent = set()
    for name in TABLES:
        table = read_experiment(name)
        for row in table.printed:
            averaged = {
                averaged_statistic
                for column, _, averaged_statistic in table.cells
                if column == AVERAGE and len(table.columns) > 1
            }
            for statistic in averaged:
                pairs = zip(row.values, table.cells, strict=True)
                *columns, average = (value for value, (*_, cell_statistic) in pairs if cell_statistic == statistic)
                assert abs(np.mean(columns) - average) < 0.13
                if abs(np.mean(columns) - average) > 0.1001:
                    inconsistent.add((name, row.model, row.metric, statistic))
    assert inconsistent == INCONSISTENT_AVERAGES


def test_every_experiment_is_complete() -> None:
    for name in experiment_names():
        table = read_experiment(name)
        assert table.centerings or (table.rows and table.cells), name
        assert {statistic for *_, statistic in table.cells} <= set(MEASURES)
        assert {len(row.values) for row in table.printed if name != "twmd-appendix-b"} <= {len(table.cells)}, name
        if name.startswith("twmd-table") and len(table.columns) == 8:
            assert tuple(table.columns) == (*LANGUAGE_PAIRS[int(next(iter(table.data))[3:])], AVERAGE)
    with pytest.raises(SpecError, match="figure 'twmd-table22'; did you mean 'twmd-table2'"):
        read_experiment("twmd-table22")
    reads = {name for name in experiment_names() if read_experiment(name).reads_one_layer}
    others = {"twmd-figure3", "twmd-figure4", "twmd-appendix-b", "moverscore-table5"}
    assert reads == {*(f"twmd-table{i}" for i in range(1, 10)), *others}


def test_rows_of_the_twmd_paper_map_to_their_specifications() -> None:
    spec = settings_of("twmd-table2")["TWMD-b"]
    batch = {"centering": "batch", "centering_size": 32, "centering_side": "separate"}
    expected = {"output": "precision", "layer": 10, "special": "cls", "normalize": True, "model": "a/b", **batch}
    expected |= {"temperature": 0.1, "iterations": 1, "objective": "expected"}
    assert {name: spec.values()[name] for name in expected} == expected
    assert settings_of("twmd-table6")["BERTscore"].output == "recall"
    assert settings_of("twmd-table1")["BERTscore"].special == "none"
    whole, mover = settings_of("twmd-table1")["SBERT-dim"], settings_of("twmd-table2")["MoverScore"]
    assert (whole.vectors, whole.centering.kind, mover.centering.kind) == ("unit", "dimension", "none")
    assert {mover.ngram, mover.distance, mover.transform, mover.idf} == {None}
    rows = ("TWMD", "TRWMD", "TWMD-b", "TRWMD-b")
    for number in (1, 2, 3, 5, 6, 7, 8, 9):
        specs = settings_of(f"twmd-table{number}")
        temperatures = (0.01, 0.01, 0.08, 0.06) if number in {8, 9} else (0.02, 0.02, 0.1, 0.15)
        expected = {} if number == 1 else dict(zip(rows, temperatures, strict=True))
        assert {row: spec.temperature for row, spec in specs.items() if spec.temperature} == expected


def test_figures_vary_the_keys_that_they_name() -> None:
    by_layer = settings_of("twmd-figure6", depth=2, layer=None)
    assert [(spec.metric, spec.centering.kind, spec.values()["layer"]) for spec in by_layer.values()] == [
        (metric, centering, layer)
        for metric in ("sbert", "wordset_cka", "moverscore", "bertscore_centered", "twmd", "trwmd")
        for centering in ("none", "batch")
        for layer in (1, 2)
    ]
    swept = settings_of("twmd-figure4")
    assert [(spec.temperature, spec.iterations) for spec in swept.values()] == [
        (t, n) for t in (0.01, 0.02, 0.05, 0.1) for n in (1, 2, 5, 10, 20)
    ]
    assert "TWMD-b temperature=0.01 iterations=2" in swept
    chosen = settings_of("twmd-appendix-b")
    assert len(chosen) == len(set(chosen.values())) == 4 * 3 * 10
    paper = {(row.metric, row.model): row.values[0] for row in read_experiment("twmd-appendix-b").printed}
    for table, output in (("twmd-table2", "precision"), ("twmd-table6", "recall"), ("twmd-table8", "f1")):
        temperatures = {row: spec.temperature for row, spec in settings_of(table).items() if spec.temperature}
        assert temperatures == {row: value for (row, side), value in paper.items() if side == output}


def test_rows_of_the_moverscore_paper_map_to_their_specifications() -> None:
    result = settings_of("moverscore-table1", layer=None)
    v1 = make_spec("moverscore", "moverscore-v1", model="a/b", layer="8-12")
    assert result["WMD-1"] == v1
    assert result["WMD-2"] == v1.replace(ngram=2)
    assert result["SMD"] == make_spec("moverscore", "moverscore-smd", model="a/b", layer="8-12")
    greedy = result["BERTSCORE-F1"]
    assert (greedy.special, greedy.centering.kind, greedy.output) == ("partners", "none", "f1")
    hard = settings_of("moverscore-table5", layer=None)
    shared_keys = ("layer", "special", "subwords", "punctuation", "idf", "centering")
    assert len({tuple(getattr(spec, name) for name in shared_keys) for spec in hard.values()}) == 1
    outputs = {name: spec.output for name, spec in hard.items() if spec.output}
    assert outputs == {"HMD-F1": "f1", "HMD-RECALL": "recall", "HMD-PREC": "precision"}
    assert (hard["HMD-F1"].layer, hard["HMD-F1"].idf) == (Layers((9,)), Idf("corpus"))
    assert hard["WMD-BIGRAM"].ngram == 2
    assert {spec.layer for spec in settings_of("moverscore-table5", layer=3).values()} == {Layers((3,))}
    several = settings_of("moverscore-table6", layer=None)
    assert several["WMD-1 + ROUTING"].aggregation == Aggregation.parse("routing")
    assert several["WMD-1 + PMEANS"] == v1
    assert settings_of("moverscore-figure2", layer=None) == {"WordMover": v1}


@pytest.mark.parametrize(
    ("depth", "last", "ninth"),
    [(0, [0], 0), (1, [1], 1), (3, [1, 2, 3], 2), (6, [2, 3, 4, 5, 6], 4), (24, [20, 21, 22, 23, 24], 18)],
)
def test_encoder_of_other_depth_reads_its_last_five_layers_or_all(depth: int, last: list[int], ninth: int) -> None:
    several = settings_of("moverscore-table1", depth=depth, layer=None)["WMD-1"]
    assert several.layer == Layers(tuple(last))
    assert several.aggregation == (Aggregation.parse("pmeans:-inf,1,inf") if len(last) > 1 else None)
    assert settings_of("moverscore-table5", depth=depth, layer=None)["HMD-F1"].layer == Layers((ninth,))
    rows = settings_of("moverscore-table6", depth=depth, layer=None).items()
    single = {row: spec.values()["layer"] for row, spec in rows if "LAYER" in row}
    assert single == {f"WMD-1 + LAYER {k}": layer for k, layer in zip(range(13 - len(last), 13), last, strict=True)}


def test_papers_members_and_encoders_are_replaced_and_matched() -> None:
    members = {"STSScore": "stsscore;clip=yes"}
    assert settings_of("stsscore-table2", members=members)["embedded"].clip is True
    assert settings_of("stsscore-table4", members=members)["Longer"].clip is True
    assert "clip=yes" in settings_of("stsscore-table3", members=members)["Ensemble"].texts()["members"]
    assert settings_of("stsscore-table3")["STSScore"].clip is not True
    with pytest.raises(SpecError, match="expected one metric with its keys, not 2"):
        settings_of("stsscore-table1", members={"S-BERT": "sbert,twmd"})
    mover, twmd = read_experiment("moverscore-table1"), read_experiment("twmd-table2")
    nearest = [mover.nearest(model, depth) for model, depth in (("a/b", 0), ("bert-base-uncased", 12), ("a/b", 12))]
    assert nearest == ["W2V", "BERT", "BERT + MNLI"]
    assert [twmd.nearest(model, 12) for model in ("roberta-large", "a/b")] == ["roberta-large", "roberta-base"]


R = np.random.default_rng(3)


@pytest.mark.parametrize("levels", [3, 1000])
def test_area_is_the_share_of_pairs_with_a_higher_positive(levels: int) -> None:
    scores, positive = R.integers(levels, size=60) / levels, R.random(60) < 0.3
    wins = [(x > y) + 0.5 * (x == y) for x in scores[positive] for y in scores[~positive]]
    assert roc_area(scores, positive) == pytest.approx(np.mean(wins))
    assert MEASURES["auc"](scores, positive.astype(float)) == roc_area(scores, positive)


def test_measures_of_classes_halves_and_quarters_follow_the_ratings() -> None:
    scores, labels = R.random(40), R.integers(2, size=40).astype(float)
    for label in (0, 1):
        selected = [x for x, one in zip(scores, labels, strict=True) if one == label]
        mean = sum(selected) / len(selected)
        assert MEASURES[f"mean-{label}"](scores, labels) == pytest.approx(mean)
        assert MEASURES[f"deviation-{label}"](scores, labels) == pytest.approx(
            (sum((x - mean) ** 2 for x in selected) / (len(selected) - 1)) ** 0.5
        )
    ratings, scores = R.permutation(np.repeat(np.arange(7.0), 3)), R.random(21)
    order = sorted(range(21), key=lambda i: ratings[i])
    for name, rows in (("lower", order[:10]), ("upper", order[10:])):
        expected = stats.pearsonr(scores[rows], ratings[rows]).statistic
        assert MEASURES[f"pearson-{name}"](scores, ratings) == pytest.approx(expected)
    pairs = [(scores[high], scores[low]) for high in order[-5:] for low in order[:5]]
    wins = [(high > low) + 0.5 * (high == low) for high, low in pairs]
    assert MEASURES["auc-quarters"](scores, ratings) == pytest.approx(np.mean(wins))
    with pytest.raises(InputError, match="both classes"):
        MEASURES["auc-quarters"](scores[:3], ratings[:3])


def test_undefined_numbers_are_nan_and_warn_once() -> None:
    ratings, scores = np.array([0.0, 1, 1, 0, 1]), R.random(5)
    reason = "not every number is defined for 1 of 2 rows; pearson is undefined: the scores are constant"
    with pytest.warns(TwmdWarning, match=f"^lv-en: {reason}") as caught:
        result = measure([(scores, ratings), (np.ones(5), ratings)], ["pearson", "mean-1"], "lv-en")
    assert np.isnan(result).tolist() == [[False, False], [True, False]]
    assert len(caught) == 1


def test_data_sets_of_the_study_are_known_names_on_the_hub() -> None:
    assert {source["hub"] for source in read_experiment("stsscore-table1").data.values()} <= set(HUB)
