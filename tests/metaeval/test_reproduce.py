"""The TWMD paper's tables: its printed numbers, what its rows mean, and the same tables computed here."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests import tiny
from tests.conftest import shared
from tests.metaeval.rated_files import SUBSETS, write_sts, write_wmt
from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.reproductions import run_reproduce
from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import select
from twmd_registry.judgments.sts import read_sts
from twmd_registry.judgments.wmt import read_wmt
from twmd_registry.metaeval.group_correlation import measure_groups
from twmd_registry.metaeval.published import published, published_tables
from twmd_registry.metaeval.reproduce.layout import Reproduction
from twmd_registry.metaeval.reproduce.protocols import YEARS, sts
from twmd_registry.metaeval.reproduce.rows import CENTERINGS, LANGUAGE_PAIRS, METRICS, TABLES, spec_of_row
from twmd_registry.metaeval.reproduce.run import reproduce
from twmd_registry.metaeval.reproduce.tuned import TUNED_TABLE
from twmd_registry.registry.spec import make_spec

R = np.random.default_rng(11)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory, model: str) -> tuple[Path, Reproduction]:
    folder = write_wmt(tmp_path_factory.mktemp("data"), 17)
    return folder, reproduce("twmd-table2", folder, model=model, layer=2)


@pytest.mark.parametrize(
    ("table", "where", "cell"),
    [
        ("twmd-table1", ("bert-large-uncased", 19, "MoverScore-sent", "Avg."), (54.9, 58.3)),
        ("twmd-table2", ("roberta-base", 10, "SBERT", "cs-en"), (45.1, 60.0)),
        ("twmd-table2", ("roberta-large", 19, "TWMD-b", "Avg."), (57.4, 77.1)),
        ("twmd-table3", ("roberta-base", 10, "CKA-b", "et-en"), (34.2, 49.3)),
        ("twmd-table5", ("roberta-large", 21, "TRWMD-b", "Avg."), (31.2, 43.7)),
        ("twmd-table6", ("roberta-base", 10, "TWMD", "fi-en"), (61.9, 80.9)),
        ("twmd-table7", ("roberta-large", 19, "BERTscore-b", "de-en"), (41.0, 57.5)),
        ("twmd-table8", ("roberta-base", 10, "TRWMD-b", "zh-en"), (53.3, 74.6)),
        ("twmd-table9", ("roberta-large", 19, "TWMD", "cs-en"), (30.8, 43.2)),
    ],
)
def test_the_paper_prints_it_so(table: str, where: tuple[str, int, str, str], cell: tuple[float, float]) -> None:
    found = published(table)
    model, layer, row, column = where
    (block,) = (block for block in found.blocks if (block.model, block.layer) == (model, layer))
    assert tuple(block.values[block.rows.index(row), found.columns.index(column)]) == cell


OFF = {
    ("twmd-table3", "roberta-base", "SBERT-b", "pearson"),
    ("twmd-table3", "roberta-base", "MoverScore-b", "kendall"),
    ("twmd-table3", "roberta-large", "CKA", "kendall"),
    ("twmd-table6", "roberta-base", "BERTscore-b", "pearson"),
}
"""Averages that the paper prints and that are 0.11 to 0.13 from the mean of its own columns."""


def test_the_papers_averages_follow_from_its_columns_but_for_four() -> None:
    off = set()
    for table in TABLES:
        found = published(table)
        assert found.columns[-1] == "Avg."
        for block in found.blocks:
            assert block.rows == found.blocks[0].rows
            assert block.values.shape == (len(block.rows), len(found.columns), 2)
            if len(found.columns) > 1:
                distance = np.abs(block.values[:, :-1].mean(axis=1) - block.values[:, -1])
                assert distance.max() < 0.13
                # columns and average are rounded to 0.1, each on its own
                off |= {(table, block.model, block.rows[r], TABLES[table].statistics[s]) for r, s in np.argwhere(distance > 0.1001)}
    assert off == OFF


def test_every_published_table_can_be_computed_and_says_what_its_cells_are() -> None:
    assert {name for name in published_tables() if name.startswith("twmd-")} == {*TABLES, TUNED_TABLE}
    for name, table in TABLES.items():
        assert table.year is None or published(name).columns[:-1] in {(), LANGUAGE_PAIRS[table.year]}
        first, other = table.statistics
        assert f"100 x {first.title()} / 100 x {other.title()} " in published(name).about
    with pytest.raises(SpecError, match="did you mean 'twmd-table2'"):
        published("table2")


def test_a_row_of_the_paper_is_this_specification() -> None:
    spec = spec_of_row("TWMD-b", TABLES["twmd-table2"], "a/b", 10)
    wanted = {"output": "precision", "layer": 10, "special": "cls", "centering": "batch", "centering_size": 32, "centering_side": "separate"}
    wanted |= {"temperature": 0.1, "iterations": 1, "objective": "expected", "normalize": True}
    assert {name: spec.values()[name] for name in wanted} == wanted
    assert spec_of_row("BERTscore", TABLES["twmd-table6"], "a/b", 10).output == "recall"
    assert spec_of_row("BERTscore", TABLES["twmd-table1"], "a/b", 10).special == "none"
    assert spec_of_row("SBERT-dim", TABLES["twmd-table1"], "a/b", 10).vectors == "unit"
    mover = spec_of_row("MoverScore", TABLES["twmd-table2"], "a/b", 10)
    assert (mover.ngram, mover.distance, mover.transform, mover.idf, mover.centering) == (None, None, None, None, "none")
    with pytest.raises(SpecError, match="no row 'TWMD-x' in the paper"):
        spec_of_row("TWMD-x", TABLES["twmd-table2"], "a/b", 10)


@pytest.mark.parametrize("table", TABLES)
def test_temperatures_are_the_papers(table: str) -> None:
    for row in published(table).blocks[0].rows:
        found = spec_of_row(row, TABLES[table], "a/b", 1)
        expected = {
            "TWMD": (0.02, 0.01),
            "TRWMD": (0.02, 0.01),
            "TWMD-b": (0.1, 0.08),
            "TRWMD-b": (0.15, 0.06),
        }.get(row, (None, None))[table in {"twmd-table8", "twmd-table9"}]
        assert found.temperature == expected
        assert (found.metric, found.centering) == (METRICS[row.partition("-")[0]], CENTERINGS[row.partition("-")[2]])


@pytest.mark.parametrize(("table", "side"), [("twmd-table2", "precision"), ("twmd-table6", "recall"), ("twmd-table8", "f1")])
def test_cells_are_correlations_of_each_pairs_own_scores(table: str, side: str, model: str, tmp_path: Path) -> None:
    found = reproduce(table, write_wmt(tmp_path, 17, rows=40), model=model, layer=2)
    rated = read_wmt(tmp_path / "wmt" / "wmt17.jsonl")
    row = found.ours[0].rows.index("TWMD-b")
    temperature = 0.08 if side == "f1" else 0.1
    spec = make_spec("twmd", "paper", model=model, layer=2, output="f1", temperature=temperature, centering="batch", centering_size=32)
    cells = []
    for pair in LANGUAGE_PAIRS[17]:
        own = select(rated, np.array([i for i, group in enumerate(rated.group) if group == pair]))
        scores = getattr(Scorer(spec).score(own.predictions, own.references), side)
        cells.append([100 * stats.kendalltau(scores, own.ratings).statistic, 100 * stats.pearsonr(scores, own.ratings).statistic])
    assert found.ours[0].values[row] == pytest.approx(np.array([*cells, np.mean(cells, axis=0)]), abs=1e-3)
    assert found.segments == dict.fromkeys(sorted(LANGUAGE_PAIRS[17]), 40) | {"Avg.": 280}


def test_columns_follow_the_paper_and_not_the_file(model: str, tmp_path: Path) -> None:
    found = reproduce("twmd-table3", write_wmt(tmp_path, 18), model=model, layer=2)
    assert found.paper.columns == (*LANGUAGE_PAIRS[18], "Avg.")
    rated = read_wmt(tmp_path / "wmt" / "wmt18.jsonl")
    with Scorer(spec_of_row("CKA", TABLES["twmd-table3"], model, 2)) as one:
        alone = measure_groups([one], rated, ("kendall", "pearson"))
    row = found.ours[0].rows.index("CKA")
    for c, pair in enumerate(LANGUAGE_PAIRS[18]):
        assert found.ours[0].values[row, c] == pytest.approx(100 * alone.values[0, list(alone.segments).index(pair)], abs=1e-3)


def test_years_are_weighted_by_subset_and_then_counted_alike(model: str, tmp_path: Path) -> None:
    write_sts(tmp_path)
    data = [read_sts(tmp_path / "sts" / year) for year in YEARS]
    years = []
    with Scorer(spec_of_row("BERTscore-batch", TABLES["twmd-table1"], model, 1)) as one:
        found = sts([one], data, ("pearson", "spearman"))
        for rated in data:
            total = np.zeros(2)
            for subset, size in SUBSETS:
                rows = [i for i, group in enumerate(rated.group) if group == subset]
                rows.sort(key=lambda i: len(rated.predictions[i]) + len(rated.references[i]))
                own = select(rated, np.array(rows))
                scores = one.score(own.predictions, own.references).scores
                total += size * np.array([stats.pearsonr(scores, own.ratings).statistic, stats.spearmanr(scores, own.ratings).statistic])
            years.append(100 * total / 44)
    assert found.values[0, 0] == pytest.approx(np.mean(years, axis=0), abs=1e-3)
    assert found.segments == {"Avg.": 220}
    table = reproduce("twmd-table1", tmp_path, model=model, layer=1)
    assert table.ours[0].values[table.ours[0].rows.index("BERTscore-batch"), 0] == pytest.approx(found.values[0, 0], abs=1e-3)


def test_other_layers_stand_beside_the_papers_other_layers(model: str, tmp_path: Path) -> None:
    found = reproduce("twmd-table5", write_wmt(tmp_path, 18), model=model, layer=2)
    assert [block.layer for block in found.ours] == [1, 3]
    assert [(block.model, block.layer) for block in found.beside] == [("roberta-base", 9), ("roberta-base", 11)]
    assert found.difference[1] == pytest.approx(found.ours[1].values - found.beside[1].values)
    assert found.sentence.count("the paper's ordering") == 2
    whole = reproduce("twmd-table3", tmp_path, model=model, layer=3)
    assert found.ours[1].values[:, 0] == pytest.approx(whole.ours[0].values[:, -1], abs=1e-3)


def test_the_table_puts_like_beside_like(second: tuple[Path, Reproduction]) -> None:
    _, found = second
    laid = found.layout()
    assert laid.header == ("metric", "source", *LANGUAGE_PAIRS[17], "Avg.")
    assert laid.rows[0] == ("segments", "here", *["5"] * 7, "35")
    at = next(i for i, row in enumerate(laid.rows) if row[0] == "TWMD-b")
    assert [row[1] for row in laid.rows[at : at + 4]] == [
        "here, layer 2",
        "roberta-base, layer 10",
        "roberta-large, layer 19",
        "here - roberta-base, layer 10",
    ]
    assert laid.rows[at + 1][2:4] == ("50.0 / 68.5", "51.5 / 70.8")
    tau, r = found.ours[0].values[found.ours[0].rows.index("TWMD-b"), 0]
    assert laid.rows[at][2] == f"{tau:.1f} / {r:.1f}"
    assert laid.rows[at + 3][2] == f"{tau - 50.0:+.1f} / {r - 68.5:+.1f}"
    assert "TWMD-b" in found.markdown()
    assert "\\toprule" in found.latex()


def test_a_model_of_the_paper_is_compared_with_itself(second: tuple[Path, Reproduction]) -> None:
    _, found = second
    assert found.beside[0].model == "roberta-base"
    large = Reproduction(**{**vars(found), "ours": (found.ours[0]._replace(model="roberta-large"),)})
    assert large.beside[0].model == "roberta-large"
    itself = Reproduction(**{**vars(found), "ours": (found.paper.blocks[0],)})
    assert "the paper's ordering by mean Pearson correlation holds: 64 of the 64 pairs" in itself.sentence
    assert "(Kendall's tau-b 1.00), and its best row, TWMD-b, is the best here too." in itself.sentence


def test_the_command_prints_and_writes_every_form(
    second: tuple[Path, Reproduction], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, found = second
    arguments = {"table": "twmd-table2", "data_dir": folder, "model": model, "layer": 2, "device": "auto", "batch_tokens": None, "disk_cache": 0}
    assert run_reproduce(Arguments(**arguments, output=tmp_path / "out")) == 0
    printed = capsys.readouterr().out
    assert printed == f"{found.text()}\n\n{found.sentence}\n"
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"twmd-table2.txt", "twmd-table2.md", "twmd-table2.tex", "twmd-table2.tsv", "twmd-table2-signatures.tsv"}
    assert (tmp_path / "out" / "twmd-table2.txt").read_text(encoding="utf-8") == printed
    rows = list(csv.DictReader((tmp_path / "out" / "twmd-table2.tsv").open(encoding="utf-8"), delimiter="\t"))
    assert len(rows) == 12 * 8 * 2
    for row in rows:
        r, c = found.ours[0].rows.index(row["metric"]), found.paper.columns.index(row["column"])
        s = found.statistics.index(row["statistic"])
        assert float(row["here"]) == pytest.approx(found.ours[0].values[r, c, s], abs=1e-3)
        assert float(row["roberta-large"]) == found.paper.blocks[1].values[r, c, s]
        assert float(row["difference"]) == pytest.approx(float(row["here"]) - float(row["roberta-base"]))
    signatures = dict(line.split("\t") for line in (tmp_path / "out" / "twmd-table2-signatures.tsv").read_text(encoding="utf-8").splitlines())
    assert signatures == found.signatures


def test_an_undefined_correlation_is_said_and_spreads_to_the_mean(model: str, tmp_path: Path) -> None:
    write_wmt(tmp_path, 17)
    path = tmp_path / "wmt" / "wmt17.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps(line | ({"score": 0.5} if line["lang"] == "lv-en" else {})) + "\n" for line in lines), encoding="utf-8")
    with pytest.warns(TwmdWarning, match="lv-en: no correlation for 6 of 6 settings: kendall is undefined: the ratings are constant"):
        found = reproduce("twmd-table8", path.parents[1], model=model, layer=2)
    values = found.ours[0].values
    assert np.isnan(values[:, [3, 7]]).all()
    assert np.isfinite(values[:, [0, 1, 2, 4, 5, 6]]).all()
    assert found.layout().rows[1][5] == "- / -"
    assert "\tlv-en\t5\tkendall\t\t" in found.tsv()
    assert "the order cannot be compared" in found.sentence


def test_missing_data_are_named(model: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected wmt/wmt18\.jsonl in .*; not there"):
        reproduce("twmd-table3", tmp_path, model=model)
    (tmp_path / "sts" / "STS13").mkdir(parents=True)
    with pytest.raises(FileError, match="expected sts/STS12, sts/STS14, sts/STS15, sts/STS16 in"):
        reproduce("twmd-table1", tmp_path, model=model)
    with pytest.raises(FileError, match="has no row of lv-en, zh-en: the table's language pairs are cs-en"):
        reproduce("twmd-table2", write_wmt(tmp_path, 17, ("cs-en", "de-en", "fi-en", "ru-en", "tr-en")), model=model)
    with pytest.raises(SpecError, match="no table 'twmd-table4' to compute again"):
        reproduce("twmd-table4", tmp_path, model=model)
    with pytest.warns(TwmdWarning, match=r"language pairs that the table does not have, left out: xx-en \(5 rows\)"):
        found = reproduce("twmd-table8", write_wmt(tmp_path, 17, (*LANGUAGE_PAIRS[17], "xx-en")), model=model, layer=1)
    assert found.segments["Avg."] == 35


def test_a_layer_by_default_is_the_models_own(model: str, tmp_path: Path) -> None:
    with pytest.warns(TwmdWarning, match="layer"):
        found = reproduce("twmd-table8", write_wmt(tmp_path, 17), model=model)
    with pytest.warns(TwmdWarning, match="layer"):
        assert found.ours[0].layer == Scorer(make_spec("twmd", model=model)).spec.layer


TRUTHS = {
    ("twmd", 4): (68.3, 68.5, 68.5),
    ("bertscore_centered", 4): (64.4, 64.3, 67.2),
    ("twmd", 6): (67.8, 67.9, 67.9),
    ("bertscore_centered", 6): (65.5, 64.8, 66.4),
}
"""WMT17, mean Pearson of precision, recall and F1 by metric and layer: the embedded model without centering, special=cls, T = 0.1, one sweep."""


def test_known_truths_of_the_embedded_model() -> None:
    rated = read_wmt(shared("data/wmt/wmt17.jsonl"))
    pairs = [np.flatnonzero(np.array(rated.group) == pair) for pair in LANGUAGE_PAIRS[17]]
    keys = {"model": "embedded", "centering": "none", "special": "cls"}
    scorers = [
        Scorer(make_spec(metric, "paper", layer=layer, **keys, **({"temperature": 0.1} if metric == "twmd" else {}))) for metric, layer in TRUTHS
    ]
    found = {}
    for key, result in zip(TRUTHS, score_all(scorers, rated.predictions, rated.references), strict=True):
        sides = [np.array(side) for side in (result.precision, result.recall, result.f1)]
        found[key] = np.array([[100 * stats.pearsonr(side[rows], rated.ratings[rows]).statistic for rows in pairs] for side in sides])
    assert found["twmd", 4].shape == (3, 7)
    for key, expected in TRUTHS.items():
        assert found[key].mean(axis=1) == pytest.approx(expected, abs=0.06), key
    for layer in (4, 6):
        assert (found["twmd", layer][:2] > found["bertscore_centered", layer][:2]).all()
