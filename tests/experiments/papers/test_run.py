"""Recomputed experiments: numbers against a separate scorer per group, layouts, and bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.papers.experiment import AVERAGE, read_experiment
from experiments.papers.reproduction import Reproduction
from experiments.papers.run import first_pairs, marginal_errors, reproduce
from tests.conftest import shared
from tests.judgments.test_corpora import write_tac
from tests.rated_files import LANGUAGE_PAIRS, SUBSETS, YEARS, of_group, write_sts, write_wmt
from twmd_registry.engine.scorer import Scorer, load
from twmd_registry.errors import FileError, InputError, SpecError, TwmdWarning
from twmd_registry.judgments.corpora import read_sts, read_tac, read_wmt
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.side_by_side import score_lexically
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

pytestmark = pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
"""Ignore warnings about untuned models and missing language pairs unless a test expects them."""


@pytest.fixture(scope="module")
def model(tiny_encoder: Callable[[str], Path]) -> str:
    return str(tiny_encoder("bert"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_sts(tmp_path_factory.mktemp("data"))
    for year, rows in ((15, 35), (16, 6), (17, 40), (18, 6)):
        write_wmt(folder, year, rows=rows)
    return folder


@pytest.fixture(scope="module")
def second(data: Path, model: str) -> Reproduction:
    return run("twmd-table2", data, model=model, layer=2)


def run(name: str, folder: Path, *, model: str, layer: int | None = None) -> Reproduction:
    (result,) = reproduce([read_experiment(name)], folder, model=model, layer=layer)
    return result


def values(result: Reproduction, row: str) -> dict[tuple[str, str], float]:
    """Return the numbers of the first row of this name by column and statistic."""
    match = next(one for one in result.rows if one.metric == row)
    return {(column, name): n for (column, _, name), n in zip(result.experiment.cells, match.values, strict=True)}


def pearson(spec: MetricSpec | str, own: RatedSegments, side: str = "scores") -> float:
    with Scorer(spec) if isinstance(spec, MetricSpec) else load(spec) as one:
        scores = getattr(one.score(own.predictions, own.references), side)
    return float(stats.pearsonr(scores, own.ratings).statistic)


def test_cells_are_per_pair_correlations(second: Reproduction, model: str, data: Path) -> None:
    result, rated, side = values(second, "TWMD-b"), read_wmt(data / "wmt" / "wmt17.jsonl"), "precision"
    batch: dict[str, Any] = {"centering": "batch", "centering_size": 32}
    spec = make_spec("twmd", "paper", model=model, layer=2, output="f1", temperature=0.1, **batch)
    cells: dict[tuple[str, str], float] = {}
    for pair in LANGUAGE_PAIRS[17]:
        segments = of_group(rated, pair)
        scores = getattr(Scorer(spec).score(segments.predictions, segments.references), side)
        cells[pair, "kendall"] = 100 * stats.kendalltau(scores, segments.ratings).statistic
        cells[pair, "pearson"] = 100 * stats.pearsonr(scores, segments.ratings).statistic
    for statistic in ("kendall", "pearson"):
        cells[AVERAGE, statistic] = float(np.mean([cells[pair, statistic] for pair in LANGUAGE_PAIRS[17]]))
    assert result == pytest.approx(cells, abs=1e-3)
    assert list(result) == list(cells)


def test_years_average_over_subsets_then_equally(model: str, data: Path) -> None:
    years = []
    result = run("twmd-table1", data, model=model, layer=1)
    spec = next(setting.metric for setting in result.settings if setting.row == "BERTscore-batch")
    with Scorer(spec) as one:  # type: ignore[arg-type]
        for year in YEARS:
            rated, total = read_sts(data / "sts" / year), np.zeros(2)
            for subset, size in SUBSETS:
                rows = [i for i, group in enumerate(rated.group) if group == subset]
                rows.sort(key=lambda i: len(rated.predictions[i]) + len(rated.references[i]))
                part = select(rated, np.array(rows))
                scores = one.score(part.predictions, part.references).scores
                correlations = [
                    measure(scores, part.ratings).statistic for measure in (stats.pearsonr, stats.spearmanr)
                ]
                total += size * np.array(correlations)
            years.append(100 * total / 44)
    assert list(values(result, "BERTscore-batch").values()) == pytest.approx(np.mean(years, axis=0), abs=1e-3)
    assert result.segments == {AVERAGE: 220}
    by_layer = run("twmd-figure5", data, model=model)
    labels = [setting.label for setting in by_layer.settings]
    figure = by_layer.values[labels.index("BERTscore-b layer=1"), 0]
    assert figure == pytest.approx(values(result, "BERTscore-batch")[AVERAGE, "pearson"] / 100, abs=1e-6)


def test_undefined_correlation_affects_only_its_cell_and_the_mean(model: str, tmp_path: Path) -> None:
    path = write_wmt(tmp_path, 17) / "wmt" / "wmt17.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line | ({"score": 0.5} if line["lang"] == "lv-en" else {}) for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    reason = "lv-en: not every number is defined for 6 of 6 rows; kendall is undefined: the ratings are constant"
    with pytest.warns(TwmdWarning, match=reason):
        result = run("twmd-table8", tmp_path, model=model, layer=2)
    columns = np.array([column for column, *_ in result.experiment.cells])
    for undefined in (np.isnan(result.values).all(axis=0), np.isnan(result.values).any(axis=0)):
        assert set(columns[undefined]) == {"lv-en", AVERAGE}
    assert result.table()[2][1][5] == "- / -"
    assert "\tlv-en\t5\tkendall\t\t" in result.text("tsv")
    assert np.isnan(result.rank_agreement()[""][1]).sum() == 4


def test_missing_data_are_named(model: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected wmt/wmt18\.jsonl in .*; not found"):
        run("twmd-table3", tmp_path, model=model)
    (tmp_path / "sts" / "STS13").mkdir(parents=True)
    with pytest.raises(FileError, match="expected sts/STS12, sts/STS14, sts/STS15, sts/STS16 in"):
        run("twmd-table1", tmp_path, model=model)
    with pytest.raises(FileError, match="wmt17 has no row of lv-en, zh-en: the table's groups are cs-en"):
        run("twmd-table2", write_wmt(tmp_path, 17, ("cs-en", "de-en", "fi-en", "ru-en", "tr-en")), model=model)
    with pytest.raises(FileError, match="twmd-figure3: no data set can be read"):
        run("twmd-figure3", tmp_path / "sts", model=model)
    result = run("twmd-table8", write_wmt(tmp_path, 17, (*LANGUAGE_PAIRS[17], "xx-en")), model=model, layer=1)
    assert result.segments[AVERAGE] == 35
    for name in ("twmd-figure5", "moverscore-table1"):
        with pytest.raises(SpecError, match=f"{name} does not read a single layer"):
            run(name, data, model=model, layer=2)


def test_figure_axis_is_computed_and_weighted_by_year_size(model: str, data: Path) -> None:
    result = run("twmd-appendix-b", data, model=model, layer=2)
    place = [setting.label for setting in result.settings].index("TWMD-b output=recall temperature=0.05")
    by_year = [
        np.mean([pearson(result.settings[place].metric, of_group(year_data, pair)) for pair in LANGUAGE_PAIRS[15]])
        for year_data in (read_wmt(data / "wmt" / f"wmt{year}.jsonl") for year in (15, 16))
    ]
    total = result.values[place, 0]
    assert total == pytest.approx(100 * np.average(by_year, weights=[70, 12]), abs=1e-3)
    _, header, rows = result.table()
    temperatures = "0.001 0.005 0.01 0.02 0.03 0.05 0.06 0.08 0.1 0.15"
    assert " ".join(header) == f"data segments metric output {temperatures} best paper"
    assert len(rows) == 12
    row = next(row for row in rows if row[2:4] == ("TWMD-b", "recall"))
    assert row[9] == f"{total:.2f}"
    assert row[-1] == "0.1"
    assert float(row[header.index(row[-2])]) == max(map(float, row[4:-2]))
    result = run("twmd-figure3", data, model=model, layer=2)
    panels = result.curves()
    assert {panel: list(lines) for panel, lines in panels.items()} == {
        f"wmt{year}": ["twmd", "twmd-b", "trwmd", "trwmd-b"] for year in (15, 16, 17, 18)
    }
    x, y = panels["wmt16"]["trwmd-b"]
    assert (x[3], len(x)) == (0.02, len(y))
    labels = [setting.label for setting in result.settings]
    assert y[3] == result.values[labels.index("TRWMD-b temperature=0.02"), 1]


def test_marginal_errors_of_handmade_plans_are_correct(model: str, data: Path) -> None:
    vary = {"temperature": [0.05, 0.2], "iterations": [1, 3, 200]}
    experiment = replace(read_experiment("twmd-figure4"), plans=4, vary={"temperature": [0.05], "iterations": [1]})
    (result,) = reproduce([experiment], data, model=model, layer=2)
    result = replace(result, experiment=replace(experiment, vary=vary))
    group, rated = first_pairs(result)
    assert (group, len(rated.ratings)) == ("cs-en", 4)
    lines = marginal_errors(result, RunOptions())
    assert list(lines) == ["twmd-b T=0.05", "twmd-b T=0.2"]
    scores = Scorer(result.settings[0].metric).score(rated.predictions, rated.references)  # type: ignore[arg-type]
    for temperature, (sweeps, errors) in zip((0.05, 0.2), lines.values(), strict=True):
        for number, error in zip(sweeps, errors, strict=True):
            expected = []
            for segment in range(4):
                plan = np.exp(scores.explain(segment).similarities.astype(np.float64) / temperature)
                for _ in range(int(number)):
                    plan /= plan.sum(0)
                    plan /= plan.sum(1, keepdims=True)
                n, m = plan.shape
                expected.append(sum(abs(plan[:, j].sum() / n - 1 / m) for j in range(m)))
            assert error == pytest.approx(np.mean(expected), rel=1e-6, abs=1e-9)
        assert errors[0] > errors[1] > errors[2]
    empty = {"wmt17": {"cs-en": rated._replace(predictions=[""] * 4, references=[""] * 4)}}
    with pytest.raises(InputError, match="no plan to measure"):
        marginal_errors(replace(result, rated=empty), RunOptions())


def test_movers_are_measured_separately_per_pair(model: str, data: Path) -> None:
    result, rated = run("moverscore-table1", data, model=model), read_wmt(data / "wmt" / "wmt17.jsonl")
    spec = make_spec("moverscore", "moverscore-v1", model=model, layer="1-3", ngram=2)
    cells = [100 * pearson(spec, of_group(rated, pair)) for pair in LANGUAGE_PAIRS[17]]
    assert list(values(result, "WMD-2").values()) == pytest.approx([*cells, np.mean(cells)], abs=1e-2)
    sources = [row[1] for row in result.table()[2] if row[0] == "WMD-1"]
    theirs = ["W2V", "ELMO, layer 1-3", "BERT, layer 8-12", "BERT + MNLI, layer 8-12"]
    assert sources == ["here, layer 1-3", *theirs, f"here - {theirs[-1]}"]
    assert [row[1] for row in result.table()[2] if row[0] == "RUSE"] == ["paper"]
    assert [row[1] for row in result.table()[2] if row[0] == "BERTSCORE-F1"][1:] == ["paper", "here - paper"]
    bert = replace(result, near="BERT")
    assert [ours.metric for ours, _ in bert.compared] == ["BERTSCORE-F1", "SMD", "WMD-1"]
    assert bert.rank_agreement()[""][0] == 3


def rated_pairs(folder: Path, pairs: list[tuple[str, str, float]]) -> Path:
    path = folder / "stsb" / "test.csv"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f'"{a}","{b}",{rating}\n' for a, b, rating in pairs), encoding="utf-8")
    return folder


def test_pairs_are_split_at_their_median_length(tmp_path: Path) -> None:
    pairs = [("a " * (i % 7 + 1), "the heron " * (i % 5 + 1), float(i % 6)) for i in range(21)]
    (result,) = reproduce([read_experiment("stsscore-table4")], rated_pairs(tmp_path, pairs))
    lengths = np.array([(len(a) + len(b)) / 2 for a, b, _ in pairs])
    ratings, place = np.array([one for *_, one in pairs]), ("STS-B", next(iter(result.rated["STS-B"])))
    shorter = lengths < np.median(lengths)
    for half, rows in (("Shorter", shorter), ("Longer", ~shorter), ("All", lengths > 0)):
        expected = stats.spearmanr(result.scores["All"][place][rows], ratings[rows]).statistic
        assert values(result, half)["STS-B rho", "spearman"] == pytest.approx(expected)
    assert result.segments == {column: 21 if column.startswith("STS-B") else 0 for column in result.experiment.columns}


def test_sbert_column_has_the_published_numbers() -> None:
    shared("data/stsb/test.csv")
    experiment = read_experiment("stsscore-table1")
    columns = {name: cells for name, cells in experiment.columns.items() if name.startswith("STS-B")}
    rows, data = {"S-BERT": experiment.rows["S-BERT"]}, {"STS-B": experiment.data["STS-B"]}
    (result,) = reproduce([replace(experiment, rows=rows, data=data, columns=columns)], shared("data"))
    published = next(row.values for row in experiment.printed if row.metric == "S-BERT")
    numbers = result.rows[0].values
    assert [round(value, 2) for value in numbers] == list(published[: len(numbers)])


def test_summaries_of_a_topic_are_correlated_and_averaged(tmp_path: Path, model: str) -> None:
    path = write_tac(tmp_path)
    with pytest.warns(TwmdWarning):
        result = run("moverscore-table2", tmp_path, model=model)
    rated = read_tac(path)
    expected = []
    for topic in ("D1", "D2"):
        segments = of_group(rated, topic)
        scores, signature = score_lexically("rouge1", segments)
        expected.append(100 * stats.pearsonr(scores, segments.ratings).statistic)
        assert signature.startswith("rouge1|nrefs:2|stemmer:no|version:")
    assert values(result, "ROUGE-1")["TAC-2009 Pyr", "pearson"] == pytest.approx(np.mean(expected), abs=1e-9)
    row = next(row for row in result.rows if row.metric == "WMD-1")
    assert "multiref:mean" in str(result.signatures[[r.metric for r in result.rows].index(row.metric)])
