"""``study``, ``reproduce`` and ``diagnose``: output and errors."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from experiments.papers.experiment import AVERAGE, UNNAMED, read_experiment
from tests.cli.parsing import rows_of
from tests.conftest import Refused, Run
from tests.judgments.test_mt_metrics_eval import wmt
from tests.judgments.test_readers import MRPC, written
from tests.rated_files import write_wmt
from twmd_registry.demo.space import card_text, metrics_with_card
from twmd_registry.judgments.corpora import read_stsb

pytest.importorskip("matplotlib")

R = np.random.default_rng(3)
TABLES = ["table1", "table2", "table3", "table4", "auc"]
SENTENCES = [
    "The heron waited.",
    "A heron was waiting by the weir.",
    "Rain.",
    "It rained the whole night.",
    "Bread was sold out by nine.",
    "No bread.",
]


@pytest.fixture
def papers(folder: Path) -> Path:
    """Return a folder with made-up STS-B, MRPC and WMT22 data, without QQP."""
    papers = folder / "data"
    for name in ("stsb", "mrpc"):
        (papers / name).mkdir(parents=True)
    pairs = [(SENTENCES[a], SENTENCES[b]) for a, b in R.integers(len(SENTENCES), size=(24, 2))]
    with (papers / "stsb" / "test.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows((*pair, f"{R.uniform(0, 5):.2f}") for pair in pairs[:12])
    write_mrpc(papers, [f"{i % 2}\t1\t2\t{a}\t{b}" for i, (a, b) in enumerate(pairs[12:])])
    wmt(papers / "wmt22", "".join(f"A\t{-i}\n" for i in range(len(SENTENCES))), {"A": "\n".join(SENTENCES[::-1])})
    written(papers / "wmt22", "\n".join(SENTENCES), "references/zh-en.refA.txt")
    return papers


def write_mrpc(papers: Path, rows: list[str]) -> None:
    written(papers, "\n".join([MRPC, *rows]), "mrpc/msr_paraphrase_test.txt")


def signatures_of(out: Path) -> dict[str, str]:
    return dict(line.split("\t") for line in (out / "signatures.txt").read_text(encoding="utf-8").splitlines())


def test_study_writes_tables_and_figures_and_names_missing_data(
    papers: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    status, printed, warned = run("study stsscore --data-dir data -o out --stsscore 'stsscore;clip=yes'")
    out = papers.parent / "out"
    assert status == 0
    assert "left out: QQP (no qqp/quora_duplicate_questions.tsv or qqp/train.tsv in" in warned
    assert "left out: RoBERTa (" in warned
    tables = [f"{name}.{suffix}" for name in TABLES for suffix in ("txt", "md", "tex", "tsv")]
    figures = [f"{name}.{suffix}" for name in ("sts-b", "mrpc", "mrpc-roc", "wmt22-zh-en") for suffix in ("png", "svg")]
    numbers = ["sts-b.csv", "mrpc.csv", "wmt22-zh-en.csv", "data.txt", "signatures.txt"]
    assert sorted(path.name for path in out.iterdir()) == sorted([*tables, *figures, *numbers])
    signatures = signatures_of(out)
    assert list(signatures) == ["BLEU", "BERTScore", "S-BERT", "STSScore", "Ensemble"]
    assert "|clip:yes|" in signatures["STSScore"]
    assert signatures["Ensemble"].startswith("ensemble(stsscore;")
    stsb = read_stsb(papers / "stsb" / "test.csv")
    expected = twmd_registry.load(signatures["Ensemble"]).score(stsb.predictions, stsb.references).scores
    assert [float(row["Ensemble"]) for row in rows_of(out / "sts-b.csv")] == pytest.approx(expected)
    assert (out / "table1.txt").read_text(encoding="utf-8") in printed
    rows = rows_of(out / "table1.tsv")
    assert [row["paper"] for row in rows if row["metric"] == "BLEU"][:3] == ["0.34", "0.32", "0.26"]
    assert [row["here"] for row in rows if row["column"].startswith("QQP")] == [""] * 5 * 4
    assert (out / "sts-b.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ("--data-dir data --bertscore 'bertscore_centered;layer=99'", 2, "layer=99 is out of range"),
        ("", 1, "pass --data-dir"),
        ("--data-dir data -o data", 1, "is not empty"),
    ],
)
def test_bad_command_leaves_folders_unchanged(
    options: str, status: int, words: str, papers: Path, refused: Refused
) -> None:
    refused(f"study stsscore -o out {options}", words, status)
    assert not (papers.parent / "out").exists()


TABLE = {".txt", ".md", ".tex", ".tsv", "-signatures.tsv"}
PICTURE = {".csv", ".png", ".svg"}


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for year in (16, 17):
        write_wmt(folder, year, rows=6)
    return folder


@pytest.fixture
def command(years: Path, tiny_encoder: Callable[[str], Path]) -> str:
    return f"--data-dir {years} --set model={tiny_encoder('bert')}"


@pytest.mark.parametrize(
    ("table", "pictures"),
    [
        ("twmd-table8", (set(), 0)),
        ("twmd-figure4", ({f"-{side}{suffix}" for side in ("left", "right") for suffix in PICTURE}, 20)),
        ("moverscore-figure2", (PICTURE, 6)),
    ],
)
def test_table_is_printed_and_written_in_every_format(
    table: str, pictures: tuple[set[str], int], command: str, tmp_path: Path, run: Run
) -> None:
    status, printed, _ = run(f"reproduce {table} {command} -o {tmp_path}")
    assert status == 0
    written, (drawn, points) = {path.name.removeprefix(table): path for path in tmp_path.iterdir()}, pictures
    assert set(written) == TABLE | drawn
    assert written[".txt"].read_text(encoding="utf-8") == printed
    for suffix, path in written.items():
        if suffix.endswith(".csv"):
            assert len(rows_of(path)) == points
        elif suffix.endswith(".png"):
            assert path.read_bytes().startswith(b"\x89PNG")
        elif suffix.endswith(".svg"):
            assert "<svg" in path.read_text(encoding="utf-8")


CARDS = [(metric, row) for metric in metrics_with_card() for row in card_text(metric)["papers"]]


@pytest.mark.parametrize(("metric", "row"), CARDS)
def test_paper_numbers_in_cards_match_the_printed_ones(metric: str, row: dict[str, str]) -> None:
    source = re.fullmatch(r"(.+), Table (\d): ([\w-]+)(?: on (.+))?", row["source"])
    assert source is not None, row["source"]
    paper, number, name, model = source.groups()
    papers = {"Chen et al. 2020": "twmd", "Zhao et al. 2019": "moverscore", "Herbold 2024": "stsscore"}
    experiment = read_experiment(f"{papers[paper]}-table{number}")
    authors, _, year = paper.rpartition(" ")
    assert re.match(rf"{authors} \({year}\),.* Table {number}:", experiment.about)
    (printed,) = (row for row in experiment.printed if row.metric == name and row.model == (model or UNNAMED))
    unit = "STS-B" if row["data"] == "stsb-test" else AVERAGE
    for (_, cell, statistic), value in zip(experiment.cells, printed.values, strict=True):
        if cell == unit:
            assert float(row[statistic]) == pytest.approx(100 * value / experiment.scale)
