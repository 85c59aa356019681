"""The STSScore paper's analysis: its statistics against their definitions, its tables, and the whole command."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import twmd_registry
from tests.conftest import shared
from twmd_registry.cli import main
from twmd_registry.errors import FileError, InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.herbold import SOURCES, cells, find_data, halves, length_table, pair_lengths, table
from twmd_registry.metaeval.published import HERBOLD, HERBOLD_COLUMNS
from twmd_registry.metaeval.roc import area, curve
from twmd_registry.metaeval.table import NOT_HERE

R = np.random.default_rng(3)
SENTENCES = [
    "The heron waited.",
    "A heron was waiting by the weir.",
    "Rain.",
    "It rained the whole night.",
    "Bread was sold out by nine.",
    "No bread.",
]


def rated(name: str, segments: int) -> RatedSegments:
    firsts, seconds = ([SENTENCES[i] for i in R.integers(len(SENTENCES), size=segments)] for _ in range(2))
    ratings = R.integers(2, size=segments) if SOURCES[name].classes else R.uniform(0, 5, segments)
    return RatedSegments([name] * segments, firsts, seconds, ratings.astype(np.float64), 0)


@pytest.mark.parametrize("levels", [3, 1000])
def test_the_area_is_how_often_a_positive_scores_higher(levels: int) -> None:
    scores, positive = R.integers(levels, size=60) / levels, R.random(60) < 0.3
    wins = [(x > y) + 0.5 * (x == y) for x in scores[positive] for y in scores[~positive]]
    assert area(scores, positive) == pytest.approx(np.mean(wins))


def test_the_curve_passes_every_threshold_once() -> None:
    found = curve(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, False, True, False]))
    assert found.false.tolist() == [0, 0, 0.5, 1]
    assert found.true.tolist() == [0, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("scores", "positive", "words"),
    [([1.0, 2.0], [True, True], "needs both classes; 2 of 2 are positive"), ([1.0, np.nan], [True, False], "needs finite scores")],
)
def test_a_curve_that_is_not_defined_is_refused(scores: list[float], positive: list[bool], words: str) -> None:
    with pytest.raises(InputError, match=words):
        curve(np.array(scores), np.array(positive))


def test_cells_are_the_definitions() -> None:
    data = {name: rated(name, 40) for name in ("STS-B", "MRPC")}
    scores = {name: R.random(40) for name in data}
    found = dict(zip(HERBOLD_COLUMNS, cells(data, scores), strict=True))
    labels, own = data["MRPC"].ratings, scores["MRPC"]
    for suffix, value in (("neg", 0), ("pos", 1)):
        chosen = [x for x, label in zip(own, labels, strict=True) if label == value]
        mean = sum(chosen) / len(chosen)
        spread = (sum((x - mean) ** 2 for x in chosen) / (len(chosen) - 1)) ** 0.5
        assert found[f"MRPC {suffix}"] == f"{mean:.2f} ({spread:.2f})"
    assert found["STS-B r"] == f"{stats.pearsonr(scores['STS-B'], data['STS-B'].ratings).statistic:.2f}"
    assert found["STS-B rho"] == f"{stats.spearmanr(scores['STS-B'], data['STS-B'].ratings).statistic:.2f}"
    assert found["QQP neg"] == found["WMT22-ZH-EN r"] == NOT_HERE


def test_constant_scores_have_no_correlation_and_say_so() -> None:
    assert cells({"STS-B": rated("STS-B", 9)}, {"STS-B": np.zeros(9)})[0] == NOT_HERE


def test_every_row_of_ours_stands_over_the_papers() -> None:
    data = {"STS-B": rated("STS-B", 9)}
    found = table("Table 2", data, {"RoBERTa": {"STS-B": R.random(9)}, "embedded": {"STS-B": R.random(9)}})
    assert [row[:2] for row in found.rows] == [("RoBERTa", "here"), ("RoBERTa", "paper"), ("embedded", "here"), ("BERT-base", "paper")]
    assert found.rows[1][2:] == HERBOLD["Table 2"]["RoBERTa"]


def test_data_is_split_at_the_median_length() -> None:
    data = {"STS-B": rated("STS-B", 41)}
    split, own = halves(data, {"STS-B": np.arange(41.0)})
    lengths = pair_lengths(data["STS-B"])
    assert max(pair_lengths(split["Shorter"]["STS-B"])) < np.median(lengths) <= min(pair_lengths(split["Longer"]["STS-B"]))
    assert sorted([*own["Shorter"]["STS-B"], *own["Longer"]["STS-B"]]) == list(range(41))
    for i, score in enumerate(own["Longer"]["STS-B"]):
        assert split["Longer"]["STS-B"].predictions[i] == data["STS-B"].predictions[int(score)]
    assert [row[0] for row in length_table(data, {"STS-B": np.arange(41.0)}).rows] == [name for name in HERBOLD["Table 4"] for _ in range(2)]


def test_the_papers_tables_agree_with_one_another() -> None:
    assert all(len(row) == len(HERBOLD_COLUMNS) for rows in HERBOLD.values() for row in rows.values())
    for row in HERBOLD["Table 1"].keys() & HERBOLD["Table 3"].keys():
        assert HERBOLD["Table 1"][row] == HERBOLD["Table 3"][row]
    assert HERBOLD["Table 1"]["STSScore"] == HERBOLD["Table 2"]["RoBERTa"] == HERBOLD["Table 4"]["All"]


def test_the_papers_numbers_are_in_the_paper() -> None:
    printed = {line.strip() for line in shared("papers/stsscore.txt").read_text(encoding="utf-8").splitlines()}
    for rows in HERBOLD.values():
        for row, published in rows.items():
            assert "\t".join([row, *published]) in printed, row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """STS-B, MRPC and WMT22, made up; no QQP."""
    for name in ("stsb", "mrpc", "wmt22/references", "wmt22/human-scores", "wmt22/system-outputs/zh-en"):
        (tmp_path / "data" / name).mkdir(parents=True)
    data = tmp_path / "data"
    stsb, mrpc = rated("STS-B", 12), rated("MRPC", 12)
    with (data / "stsb" / "test.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(zip(stsb.predictions, stsb.references, stsb.ratings.tolist(), strict=True))
    lines = [f"{int(r)}\t1\t2\t{a}\t{b}" for a, b, r in zip(mrpc.predictions, mrpc.references, mrpc.ratings, strict=True)]
    (data / "mrpc" / "msr_paraphrase_test.txt").write_text("\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines]), encoding="utf-8")
    (data / "wmt22" / "references" / "zh-en.refA.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    (data / "wmt22" / "system-outputs" / "zh-en" / "A.txt").write_text("\n".join(reversed(SENTENCES)), encoding="utf-8")
    (data / "wmt22" / "human-scores" / "zh-en.mqm.seg.score").write_text("".join(f"A\t{-i}\n" for i in range(len(SENTENCES))), encoding="utf-8")
    return data


def test_one_command_writes_tables_and_figures_and_names_what_is_missing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = tmp_path / "out"
    assert main(["study", "stsscore", "--data-dir", str(folder), "-o", str(out), "--stsscore", "stsscore;clip=yes"]) == 0
    printed, said = capsys.readouterr()
    assert "left out: QQP (no qqp/quora_duplicate_questions.tsv or qqp/train.tsv in" in said
    assert "left out: RoBERTa of Table 2" in said
    tables = [f"{name}.{suffix}" for name in ("table1", "table2", "table3", "table4", "auc") for suffix in ("txt", "md", "tex", "tsv")]
    figures = [f"{name}.{suffix}" for name in ("sts-b", "mrpc", "mrpc-roc", "wmt22-zh-en") for suffix in ("png", "svg")]
    data = [f"{name}.csv" for name in ("sts-b", "mrpc", "wmt22-zh-en")]
    assert sorted(path.name for path in out.iterdir()) == sorted([*tables, *figures, *data, "data.txt", "signatures.txt"])
    signatures = dict(line.split("\t") for line in (out / "signatures.txt").read_text(encoding="utf-8").splitlines())
    assert "|clip:yes|" in signatures["STSScore"]
    assert signatures["Ensemble"].startswith("ensemble(stsscore;")
    rows = list(csv.DictReader((out / "sts-b.csv").open(encoding="utf-8", newline="")))
    stsb = find_data(folder)[0]["STS-B"]
    expected = twmd_registry.scorer(signatures["Ensemble"]).score(stsb.predictions, stsb.references).scores
    assert [float(row["Ensemble"]) for row in rows] == pytest.approx(expected)
    first = (out / "table1.txt").read_text(encoding="utf-8")
    assert first in printed
    header, *rows_of_table = [line.split("\t") for line in (out / "table1.tsv").read_text(encoding="utf-8").splitlines()]
    assert header == ["measure", "source", *HERBOLD_COLUMNS]
    assert rows_of_table[1] == ["BLEU", "paper", *HERBOLD["Table 1"]["BLEU"]]
    assert (out / "sts-b.png").read_bytes().startswith(b"\x89PNG")


def test_a_set_of_one_class_has_no_area_and_costs_nothing_else(folder: Path, tmp_path: Path) -> None:
    path = folder / "mrpc" / "msr_paraphrase_test.txt"
    path.write_text(re.sub(r"^0\t", "1\t", path.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")
    out = tmp_path / "out"
    assert main(["study", "stsscore", "--data-dir", str(folder), "-o", str(out)]) == 0
    assert not (out / "mrpc-roc.png").exists()
    assert all(line.split("\t")[1].strip() == NOT_HERE for line in (out / "auc.tsv").read_text(encoding="utf-8").splitlines()[1:])


def test_nothing_is_scored_for_an_output_that_cannot_be_written(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    assert main(["study", "stsscore", "--data-dir", str(folder), "-o", str(tmp_path / "out")]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert (tmp_path / "out").read_text(encoding="utf-8") == "mine"


def test_files_of_two_runs_are_never_mixed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    assert main(["study", "stsscore", "--data-dir", str(folder), "-o", str(out)]) == 1
    assert "is not empty: give a new folder" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_the_hub_is_asked_only_for_what_is_not_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def read(name: str) -> RatedSegments:
        asked.append(name)
        raise FileError("cannot read it from the Hub: no network")

    monkeypatch.setattr("twmd_registry.metaeval.herbold.read_hub", read)
    data, missing = find_data(folder, hub=True)
    assert asked == ["glue/qqp"]
    assert list(data) == ["STS-B", "MRPC", "WMT22-ZH-EN"]
    assert len(missing) == 1
    assert missing[0].endswith("(cannot read it from the Hub: no network)")
    with pytest.raises(FileError, match="none of the data sets is here"):
        find_data(None, hub=True)
    assert asked[1:] == [source.hub for source in SOURCES.values()]


@pytest.mark.parametrize(("options", "words"), [([], "give --data-dir DIR, --hub"), (["--data-dir", __file__], "is not a folder; expected one that")])
def test_data_that_cannot_be_are_named(options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "stsscore", "-o", str(tmp_path / "out"), *options]) == 1
    assert words in capsys.readouterr().err


def test_settings_that_cannot_be_leave_no_folder(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["study", "stsscore", "--data-dir", str(folder), "-o", str(out), "--bertscore", "bertscore_centered;layer=99"]) != 0
    assert not out.exists()


def test_one_measure_is_one_metric(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "stsscore", "--data-dir", str(folder), "-o", str(tmp_path / "out"), "--sbert", "sbert,twmd"]) != 0
    assert "expected one metric with its keys, not 2" in capsys.readouterr().err


def test_a_folder_without_any_of_the_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none of the data sets is here: STS-B \(no stsb/test.csv"):
        find_data(tmp_path)


def test_the_papers_own_column_of_s_bert_comes_out_as_published() -> None:
    shared("data/stsb/test.csv")
    data, _ = find_data(shared("data"))
    with twmd_registry.scorer("sbert", layer=6, special="all", centering="none") as sbert:
        scores = {name: np.array(sbert.score(data[name].predictions, data[name].references).scores) for name in ("STS-B", "MRPC")}
    assert cells(data, scores)[:4] == HERBOLD["Table 1"]["S-BERT"][:4]
