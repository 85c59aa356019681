"""The MoverScore paper's tables and figures: its printed numbers, what its rows mean, and the same computed here."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests import tiny
from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.mover_figures import run_figure_2
from twmd_registry.cli.reproductions import REPRODUCTIONS, run_reproduce
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.wmt import read_wmt
from twmd_registry.metaeval.lexical import sentence_bleu, sentence_chrf
from twmd_registry.metaeval.published import NO_MODEL, published_rows, published_tables
from twmd_registry.metaeval.reproduce.moverscore import reproduce_moverscore
from twmd_registry.metaeval.reproduce.moverscore_figures import Distribution, LanguagePairScores, ends, figure_2, figure_3
from twmd_registry.metaeval.reproduce.moverscore_layout import MoverReproduction, OurRow
from twmd_registry.metaeval.reproduce.moverscore_rows import MOVER_TABLES, RowModel, alignments, layers, mover, movers, versions
from twmd_registry.metaeval.reproduce.rows import LANGUAGE_PAIRS
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import make_spec

R = np.random.default_rng(23)
PAIRS = LANGUAGE_PAIRS[17]
FIGURES = {"moverscore-figure2", "moverscore-figure3"}
RATINGS = ("informativeness", "naturalness", "quality")

pytestmark = pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
"""Tiny models are untuned, and some tables leave language pairs out; where a warning matters, a test asks for it."""


def sentence() -> str:
    return " ".join(R.choice(tiny.WORDS[:18], size=R.integers(3, 9)))


def write_wmt(folder: Path, pairs: tuple[str, ...] = PAIRS, rows: int = 12) -> Path:
    path = folder / "wmt" / "wmt17.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {"lang": pair, "candidate": sentence(), "reference": sentence(), "score": float(R.normal())} for pair in sorted(pairs) for _ in range(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def write_utterances(folder: Path) -> dict[str, list[dict[str, object]]]:
    written = {}
    for name, rows in (("bagel", 9), ("sfhotel", 11)):
        path = folder / "d2t" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines: list[dict[str, object]] = []
        for i in range(rows):
            first = sentence()
            ratings = {rating: float(R.integers(1, 7)) for rating in RATINGS}
            lines.append({"id": str(i), "prediction": sentence(), "references": [first, sentence(), first, sentence()], **ratings})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        written[name.upper()] = lines
    return written


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wmt(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def first(data: Path, model: str) -> MoverReproduction:
    return reproduce_moverscore("moverscore-table1", data, model=model)


def of_pair(data: Path, pair: str) -> RatedSegments:
    rated = read_wmt(data / "wmt" / "wmt17.jsonl")
    return select(rated, np.array([i for i, group in enumerate(rated.group) if group == pair]))


def row_of(found: MoverReproduction, metric: str) -> OurRow:
    (row,) = (one for one in found.rows if one.metric == metric)
    return row


@pytest.mark.parametrize(
    ("table", "where", "value"),
    [
        ("moverscore-table1", ("-", "METEOR++", "zh-en"), 64.6),
        ("moverscore-table1", ("BERT + MNLI", "WMD-2", "Avg."), 74.3),
        ("moverscore-table1", ("W2V", "SMD", "cs-en"), 43.8),
        ("moverscore-table3", ("BERT", "WMD-1", "BAGEL Inf"), 29.8),
        ("moverscore-table3", ("BERT + MNLI", "WMD-1", "SFHOTEL Qual"), 18.3),
        ("moverscore-table5", ("BERT", "HMD-PREC", "cs-en"), 62.4),
        ("moverscore-table5", ("BERT", "WMD-BIGRAM", "lv-en"), 71.2),
        ("moverscore-table6", ("BERT", "WMD-1 + LAYER 8", "cs-en"), 63.61),
        ("moverscore-table6", ("BERT", "WMD-1 + PMEANS", "zh-en"), 71.92),
        ("moverscore-figure3", ("-", "BEER ~ CHRF++", "de-en"), 97.0),
        ("moverscore-figure3", ("-", "WordMover ~ DA", "zh-en"), 74.0),
    ],
)
def test_the_paper_prints_it_so(table: str, where: tuple[str, str, str], value: float) -> None:
    found = published_rows(table)
    encoder, metric, column = where
    (row,) = (one for one in found.rows if (one.model, one.metric) == (encoder, metric))
    assert row.values.shape == (len(found.columns), 1)
    assert row.values[found.columns.index(column), 0] == value


def test_the_papers_averages_follow_from_its_columns() -> None:
    found = published_rows("moverscore-table1")
    assert found.columns == (*PAIRS, "Avg.")
    assert len(found.rows) == 12
    for row in found.rows:
        assert row.values[:-1].mean() == pytest.approx(row.values[-1, 0], abs=0.1001), row.metric  # each is rounded on its own


def test_single_numbers_of_two_tables_agree() -> None:
    """Table 6's p-means of BERT are Table 1's, to the digits that Table 1 has."""
    single = {row.metric: row.values[:, 0] for row in published_rows("moverscore-table6").rows}["WMD-1 + PMEANS"]
    (whole,) = (row.values[:-1, 0] for row in published_rows("moverscore-table1").rows if (row.model, row.metric) == ("BERT", "WMD-1"))
    assert single == pytest.approx(whole, abs=0.0501)


def test_every_published_table_can_be_computed() -> None:
    names = {name for name in published_tables() if name.startswith("moverscore-")}
    assert names == set(MOVER_TABLES) | {"moverscore-figure3"}
    assert {name for name in REPRODUCTIONS if name.startswith("moverscore-")} == set(MOVER_TABLES) | FIGURES
    for name, table in MOVER_TABLES.items():
        assert f"100 x {table.statistic.title()} " in published_rows(name).about
        computed = table.specs(RowModel("a/b", 12))
        assert set(computed) <= {row.metric for row in published_rows(name).rows}


def test_rows_are_these_specifications() -> None:
    encoder = RowModel("a/b", 12)
    found = versions(encoder)
    v1 = make_spec(MetricName.MOVERSCORE, "moverscore-v1", model="a/b", layer="8-12")
    assert found["WMD-1"] == v1
    assert found["WMD-2"] == v1.replace(ngram=2)
    assert found["SMD"] == make_spec(MetricName.MOVERSCORE, "moverscore-smd", model="a/b", layer="8-12")
    assert (found["BERTSCORE-F1"].special, found["BERTSCORE-F1"].centering, found["BERTSCORE-F1"].output) == ("partners", "none", "f1")
    hard = alignments(encoder)
    shared_keys = ("layer", "special", "subwords", "punctuation", "idf", "centering")
    assert len({tuple(getattr(spec, name) for name in shared_keys) for spec in hard.values()}) == 1
    assert {name: spec.output for name, spec in hard.items() if spec.output} == {"HMD-F1": "f1", "HMD-RECALL": "recall", "HMD-PREC": "precision"}
    assert (hard["HMD-F1"].layer, hard["HMD-F1"].idf, hard["WMD-BIGRAM"].ngram) == (9, "corpus", 2)
    by_layer = layers(encoder)
    assert {name: spec.layer for name, spec in by_layer.items()} == {f"WMD-1 + LAYER {k}": k for k in range(8, 13)} | {
        "WMD-1 + ROUTING": "8-12",
        "WMD-1 + PMEANS": "8-12",
    }
    assert (by_layer["WMD-1 + ROUTING"].aggregation, by_layer["WMD-1 + PMEANS"].aggregation) == ("routing:gaussian", "pmeans:-inf,1,inf")
    assert movers(encoder) == {"SentMover": found["SMD"], "WordMover": found["WMD-1"]}


@pytest.mark.parametrize(
    ("depth", "last", "ninth"), [(0, [0], 0), (1, [1], 1), (3, [1, 2, 3], 2), (6, [2, 3, 4, 5, 6], 4), (24, [20, 21, 22, 23, 24], 18)]
)
def test_other_depths_have_the_last_five_or_all_they_have(depth: int, last: list[int], ninth: int) -> None:
    encoder = RowModel("a/b", depth)
    assert encoder.last == last
    assert versions(encoder)["WMD-1"] == mover(encoder, last)
    assert alignments(encoder)["HMD-F1"].layer == ninth
    assert list(layers(encoder))[: len(last)] == [f"WMD-1 + LAYER {k}" for k in range(13 - len(last), 13)]


def test_an_encoder_is_compared_with_its_like() -> None:
    encoders = ("W2V", "ELMO", "BERT", "BERT + MNLI")
    assert RowModel("a/b", 0).near(encoders) == "W2V"
    assert RowModel("bert-base-uncased", 12).near(encoders) == "BERT"
    assert RowModel("a/b", 12).near(encoders) == "BERT + MNLI"
    assert RowModel("a/b", 0).near(("BERT",)) == "BERT"


def test_cells_are_correlations_of_each_pairs_own_scores(first: MoverReproduction, data: Path, model: str) -> None:
    spec = make_spec("moverscore", "moverscore-v1", model=model, layer="1-3", ngram=2)
    cells = []
    for pair in PAIRS:
        own = of_pair(data, pair)
        cells.append(100 * stats.pearsonr(Scorer(spec).score(own.predictions, own.references).scores, own.ratings).statistic)
    row = row_of(first, "WMD-2")
    assert row.layer == "1-3"
    assert row.values == pytest.approx([*cells, np.mean(cells)], abs=1e-2)
    assert first.segments == dict.fromkeys(sorted(PAIRS), 12) | {"Avg.": 84}
    assert set(first.signatures) == {"BERTSCORE-F1", "SMD", "WMD-1", "WMD-2"}
    assert "|ngram:2|" in first.signatures["WMD-2"]


def test_hard_and_soft_alignments_of_four_pairs(data: Path, model: str) -> None:
    with pytest.warns(TwmdWarning, match=r"left out: ru-en, tr-en, zh-en \(36 rows\)"):
        found = reproduce_moverscore("moverscore-table5", data, model=model, layer=3)
    assert {row.layer for row in found.rows} == {"3"}
    own = of_pair(data, "fi-en")
    spec = make_spec(
        "bertscore_centered", "paper", model=model, layer=3, centering="none", special="all", idf="corpus", punctuation="drop-ascii", subwords="drop"
    )
    scored = Scorer(spec).score(own.predictions, own.references)
    for name, side in (("HMD-PREC", scored.precision), ("HMD-RECALL", scored.recall), ("HMD-F1", scored.f1)):
        expected = 100 * stats.pearsonr(np.array(side), own.ratings).statistic
        assert row_of(found, name).values[2] == pytest.approx(expected, abs=1e-2)
    assert found.counterpart("RUSE") is not None
    assert found.near == "BERT"


def test_layers_stand_beside_the_papers_from_the_last(data: Path, model: str) -> None:
    found = reproduce_moverscore("moverscore-table6", data, model=model)
    assert {row.metric: row.layer for row in found.rows} == {
        "WMD-1 + LAYER 10": "1",
        "WMD-1 + LAYER 11": "2",
        "WMD-1 + LAYER 12": "3",
        "WMD-1 + ROUTING": "1-3",
        "WMD-1 + PMEANS": "1-3",
    }
    sources = [row[:2] for row in found.layout().rows]
    assert sources[1] == ("WMD-1 + LAYER 8", "BERT, layer 8")  # a model of three layers has no counterpart
    assert sources[3:6] == [("WMD-1 + LAYER 10", "here, layer 1"), ("WMD-1 + LAYER 10", "BERT, layer 10"), ("WMD-1 + LAYER 10", "here - BERT")]
    own = of_pair(data, "lv-en")
    single = Scorer(make_spec("moverscore", "moverscore-v1", model=model, layer=2, aggregation="single")).score(own.predictions, own.references)
    expected = 100 * stats.pearsonr(single.scores, own.ratings).statistic
    assert row_of(found, "WMD-1 + LAYER 11").values[3] == pytest.approx(expected, abs=1e-2)


def test_utterances_take_their_best_reference_by_rating(tmp_path: Path, model: str) -> None:
    written = write_utterances(tmp_path)
    found = reproduce_moverscore("moverscore-table3", tmp_path, model=model)
    assert found.statistic == "spearman"
    assert found.segments == {f"{name} {short}": len(lines) for name, lines in written.items() for short in ("Inf", "Nat", "Qual")}
    spec = make_spec("bertscore_centered", model=model, centering="none", special="partners", output="f1")
    for name, lines in written.items():
        with Scorer(spec) as one:
            best = [max(one.score([line["prediction"]] * 4, line["references"]).scores) for line in lines]  # type: ignore[list-item,arg-type]
        for short, rating in zip(("Inf", "Nat", "Qual"), RATINGS, strict=True):
            expected = 100 * stats.spearmanr(best, np.array([line[rating] for line in lines], dtype=float)).statistic
            column = found.paper.columns.index(f"{name} {short}")
            assert row_of(found, "BERTSCORE-F1").values[column] == pytest.approx(expected, abs=1e-6)


def test_the_table_puts_like_beside_like(first: MoverReproduction) -> None:
    laid = first.layout()
    assert laid.header == ("metric", "source", *PAIRS, "Avg.")
    at = next(i for i, row in enumerate(laid.rows) if row[0] == "WMD-1")
    assert [row[1] for row in laid.rows[at : at + 6]] == [
        "here, layer 1-3",
        "W2V",
        "ELMO, layer 1-3",
        "BERT, layer 8-12",
        "BERT + MNLI, layer 8-12",
        "here - BERT + MNLI",
    ]
    r = row_of(first, "WMD-1").values[0]
    assert laid.rows[at][2] == f"{r:.1f}"
    assert laid.rows[at + 5][2] == f"{r - 67.0:+.1f}"
    assert [row[1] for row in laid.rows if row[0] == "RUSE"] == ["paper"]
    assert [row[1] for row in laid.rows if row[0] == "BERTSCORE-F1"][1:] == ["paper", "here - paper"]


def test_the_order_is_that_of_one_encoder(first: MoverReproduction) -> None:
    ranks = {"SMD": 66.7, "WMD-1": 74.3, "WMD-2": 74.3, "BERTSCORE-F1": 71.9}
    ours = {row.metric: row.values[-1] for row in first.rows}
    ordered = [(a, b) for a in ranks for b in ranks if ranks[a] > ranks[b]]
    assert first.ordering is not None
    assert (first.ordering.ordered, first.ordering.alike) == (5, sum(ours[a] > ours[b] for a, b in ordered))
    bert = MoverReproduction(**{**vars(first), "near": "BERT"})
    assert bert.counterpart("WMD-2") is None
    assert np.isnan(bert.difference(row_of(bert, "WMD-2"))).all()
    assert bert.ordering is not None
    assert bert.ordering.rows == 3
    theirs = tuple(OurRow(row.metric, "8-12", row.values[:, 0]) for row in first.paper.rows if row.model in {"BERT", NO_MODEL})
    itself = MoverReproduction(**{**vars(bert), "rows": theirs})
    assert "against the paper's BERT: the paper's ordering by mean Pearson correlation holds: 3 of the 3 pairs" in itself.sentence


def test_missing_data_and_names_are_named(model: str, tmp_path: Path, data: Path) -> None:
    with pytest.raises(FileError, match=r"expected wmt/wmt17\.jsonl in .*; not there"):
        reproduce_moverscore("moverscore-table1", tmp_path, model=model)
    with pytest.raises(FileError, match=r"expected d2t/bagel\.jsonl"):
        reproduce_moverscore("moverscore-table3", tmp_path, model=model)
    with pytest.raises(FileError, match="has no row of zh-en"):
        figure_3(write_wmt(tmp_path, ("de-en",)), model=model)
    with pytest.raises(SpecError, match="no table 'moverscore-table2' to compute again; .* moverscore-table1, moverscore-table3"):
        reproduce_moverscore("moverscore-table2", data, model=model)
    for table in ("moverscore-table1", "moverscore-table6"):
        with pytest.raises(SpecError, match="layer=2 has no meaning here: the paper reads the last five layers"):
            reproduce_moverscore(table, data, model=model, layer=2)
    with pytest.raises(SpecError, match="no table or figure 'moverscore-figure4' to compute again"):
        run_reproduce(Arguments(table="moverscore-figure4"))
    with pytest.raises(SpecError, match="layer=2 has no meaning for moverscore-figure2"):
        run_figure_2(Arguments(table="moverscore-figure2", layer=2))


def test_an_undefined_correlation_is_said(model: str, tmp_path: Path) -> None:
    path = write_wmt(tmp_path) / "wmt" / "wmt17.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps(line | ({"score": 0.5} if line["lang"] == "de-en" else {})) + "\n" for line in lines), encoding="utf-8")
    with pytest.warns(TwmdWarning, match="de-en: no correlation for 4 of 4 settings"):
        found = reproduce_moverscore("moverscore-table1", tmp_path, model=model)
    for row in found.rows:
        assert np.flatnonzero(np.isnan(row.values)).tolist() == [1, 7]
    assert "the order cannot be compared" in found.sentence
    assert found.tsv().splitlines()[0].split("\t")[5:] == ["here", "paper", "W2V", "ELMO", "BERT", "BERT + MNLI", "difference"]
    assert "WMD-1\t1-3\tde-en\t12\tpearson\t\t\t46.3\t58.8\t68.7\t70.8\t" in found.tsv().splitlines()
    with pytest.warns(TwmdWarning, match="de-en: no correlation of DA"):
        figure = figure_3(tmp_path, model=model)
    assert np.isnan(figure.matrices["de-en"][-1]).all()
    assert np.isfinite(figure.matrices["zh-en"]).all()


def test_ends_against_brute_force() -> None:
    for n in (4, 9, 30):
        ratings, scores = R.normal(size=n), R.integers(5, size=n).astype(float)
        order = sorted(range(n), key=lambda i: ratings[i])
        low, high = order[: n // 4], order[n - n // 4 :]
        wins = sum(1.0 if scores[j] > scores[i] else 0.5 if scores[j] == scores[i] else 0.0 for i in low for j in high)
        found = ends(scores, ratings)
        assert found.area == pytest.approx(wins / (len(low) * len(high)))
        for value, rows in ((found.bad, order[: n // 2]), (found.good, order[n // 2 :])):
            if len(rows) > 2 and len(set(scores[rows])) > 1:
                assert value == pytest.approx(stats.pearsonr(scores[rows], ratings[rows]).statistic)
            else:
                assert np.isnan(value)


def test_the_distributions_sentence_says_what_the_numbers_say() -> None:
    ratings = np.arange(12.0)
    rising, half = ratings.copy(), np.array([0.0, 1, 2, 3, 4, 5, 9, 2, 7, 1, 8, 0])
    found = Distribution("moverscore-figure2", "a/b", LanguagePairScores(ratings, {"SentBLEU": half, "WordMover": rising}), {})
    assert "(so it is here: r = 1.00 in the lower half" in found.sentence
    assert "(so it does here: area" in found.sentence
    other = Distribution("moverscore-figure2", "a/b", LanguagePairScores(ratings, {"SentBLEU": np.roll(half, 6), "WordMover": -rising}), {})
    assert "(here it does not: r =" in other.sentence
    assert "(here it does not: area" in other.sentence
    assert found.layout().rows[1] == ("WordMover", "1.000", "1.000", "1.000")


def test_figure_3_is_the_matrix_of_all_measures(data: Path, model: str) -> None:
    found = figure_3(data, model=model)
    assert found.names == ("SentBLEU", "CHRF++", "SentMover", "WordMover", "DA")
    own = of_pair(data, "zh-en")
    word = Scorer(make_spec("moverscore", "moverscore-v1", model=model, layer="1-3")).score(own.predictions, own.references).scores
    numbers = {"SentBLEU": sentence_bleu(own), "CHRF++": sentence_chrf(own), "WordMover": np.array(word), "DA": own.ratings}
    for one, first_numbers in numbers.items():
        for other, second_numbers in numbers.items():
            expected = 100 * stats.pearsonr(first_numbers, second_numbers).statistic
            i, j = found.names.index(one), found.names.index(other)
            assert found.matrices["zh-en"][i, j] == pytest.approx(expected, abs=1e-2)
    cell = row_of(found.table, "CHRF++ ~ DA")
    assert (cell.layer, cell.values[1]) == (NO_MODEL, found.matrices["zh-en"][4, 1])
    assert found.table.ranked == ("SentBLEU ~ DA", "CHRF++ ~ DA", "SentMover ~ DA", "WordMover ~ DA")
    assert len(found.table.rows) == 10
    assert found.table.ordering is not None
    assert found.table.ordering.best == ("WordMover ~ DA",)


def test_figure_2_is_of_german(data: Path, model: str) -> None:
    found, own = figure_2(data, model=model), of_pair(data, "de-en")
    assert list(found.scored.scores) == ["SentBLEU", "WordMover"]
    assert found.scored.ratings.tolist() == own.ratings.tolist()
    assert found.scored.scores["SentBLEU"].tolist() == sentence_bleu(own).tolist()
    assert "12 segments" in found.layout().name


def test_sentence_scores_are_sacrebleus_with_one_or_several_references() -> None:
    import sacrebleu

    texts, refs = ["the cat sat on the mat .", "a dog ran"], [["the cat sat on a mat .", "a cat sat"], ["a dog ran over the hill"]]
    rated = RatedSegments(["x"] * 2, texts, refs, np.zeros(2), 0)
    bleu = [sacrebleu.sentence_bleu(text, own, use_effective_order=True).score / 100 for text, own in zip(texts, refs, strict=True)]
    chrf = [sacrebleu.sentence_chrf(text, own, word_order=2).score / 100 for text, own in zip(texts, refs, strict=True)]
    assert sentence_bleu(rated) == pytest.approx(bleu)
    assert sentence_chrf(rated) == pytest.approx(chrf)
    single = RatedSegments(["x"] * 2, texts, [own[0] for own in refs], np.zeros(2), 0)
    assert sentence_bleu(single)[1] == pytest.approx(bleu[1])


@pytest.mark.parametrize("name", ["moverscore-table1", "moverscore-figure2", "moverscore-figure3"])
def test_the_command_prints_and_writes_every_form(name: str, data: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if name in FIGURES:
        pytest.importorskip("matplotlib")
    arguments = Arguments(table=name, data_dir=data, model=model, layer=None, device="auto", batch_tokens=None, disk_cache=0, output=tmp_path / "out")
    assert run_reproduce(arguments) == 0
    printed = capsys.readouterr().out
    written = {path.name.removeprefix(name): path for path in (tmp_path / "out").iterdir()}
    pictures = {".csv", ".png", ".svg"} if name in FIGURES else set()
    assert set(written) == {".txt", ".md", ".tex", ".tsv", "-signatures.tsv"} | pictures
    assert written[".txt"].read_text(encoding="utf-8") == printed
    if pictures:
        assert written[".png"].read_bytes().startswith(b"\x89PNG")
        assert "<svg" in written[".svg"].read_text(encoding="utf-8")
        rows = list(csv.DictReader(written[".csv"].open(encoding="utf-8", newline="")))
        assert len(rows) == {"moverscore-figure2": 12, "moverscore-figure3": 2 * 15}[name]
    else:
        rows = list(csv.DictReader(written[".tsv"].open(encoding="utf-8"), delimiter="\t"))
        assert len(rows) == 6 * 8
        known = [row for row in rows if row["here"] and row["BERT + MNLI"]]
        assert len(known) == 3 * 8
        for row in known:
            assert float(row["difference"]) == pytest.approx(float(row["here"]) - float(row["BERT + MNLI"]))
