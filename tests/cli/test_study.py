"""``twmd study``: the STSScore paper's analysis as one command."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from tests.cli.parsing import rows_of
from tests.conftest import Refused, Run
from tests.judgments.test_mt_metrics_eval import wmt
from tests.judgments.test_readers import MRPC, written
from twmd_registry.judgments.corpora import read_stsb

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
def data(folder: Path) -> Path:
    """Return a folder with STS-B, MRPC and WMT22, made up; no QQP."""
    data = folder / "data"
    for name in ("stsb", "mrpc"):
        (data / name).mkdir(parents=True)
    pairs = [(SENTENCES[a], SENTENCES[b]) for a, b in R.integers(len(SENTENCES), size=(24, 2))]
    with (data / "stsb" / "test.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows((*pair, f"{R.uniform(0, 5):.2f}") for pair in pairs[:12])
    write_mrpc(data, [f"{i % 2}\t1\t2\t{a}\t{b}" for i, (a, b) in enumerate(pairs[12:])])
    wmt(data / "wmt22", "".join(f"A\t{-i}\n" for i in range(len(SENTENCES))), {"A": "\n".join(SENTENCES[::-1])})
    written(data / "wmt22", "\n".join(SENTENCES), "references/zh-en.refA.txt")
    return data


def write_mrpc(data: Path, rows: list[str]) -> None:
    written(data, "\n".join([MRPC, *rows]), "mrpc/msr_paraphrase_test.txt")


def signatures_of(out: Path) -> dict[str, str]:
    return dict(line.split("\t") for line in (out / "signatures.txt").read_text(encoding="utf-8").splitlines())


def test_study_writes_tables_and_figures_and_names_what_is_missing(
    data: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    status, printed, warned = run("study stsscore --data-dir data -o out --stsscore 'stsscore;clip=yes'")
    out = data.parent / "out"
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
    stsb = read_stsb(data / "stsb" / "test.csv")
    expected = twmd_registry.scorer(signatures["Ensemble"]).score(stsb.predictions, stsb.references).scores
    assert [float(row["Ensemble"]) for row in rows_of(out / "sts-b.csv")] == pytest.approx(expected)
    assert (out / "table1.txt").read_text(encoding="utf-8") in printed
    rows = rows_of(out / "table1.tsv")
    assert [row["paper"] for row in rows if row["metric"] == "BLEU"][:3] == ["0.34", "0.32", "0.26"]
    assert [row["here"] for row in rows if row["column"].startswith("QQP")] == [""] * 5 * 4
    assert (out / "sts-b.png").read_bytes().startswith(b"\x89PNG")


def test_json_holds_every_table_and_a_set_of_one_class_has_no_area(data: Path, run: Run) -> None:
    write_mrpc(data, [f"1\t1\t2\t{a}\t{b}" for a, b in zip(SENTENCES, SENTENCES[::-1], strict=True)])
    for other in ("stsb", "wmt22"):
        shutil.rmtree(data / other)
    status, out, _ = run("study stsscore --data-dir data -o out --format json")
    printed, written = json.loads(out), data.parent / "out"
    assert (status, list(printed)) == (0, TABLES)
    for name, table in printed.items():
        rows = rows_of(written / f"{name}.tsv")
        assert [list(row) for row in table["rows"]] == [list(row) for row in rows]
        assert [row["here"] for row in table["rows"]] == [float(row["here"]) if row["here"] else None for row in rows]
    signatures = {signature for table in printed.values() for signature in table["signatures"].values()}
    assert signatures == set(signatures_of(written).values())
    assert not (written / "mrpc-roc.png").exists()
    assert [row["here"] for row in rows_of(written / "auc.tsv") if row["column"] == "MRPC"] == [""] * 5


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ("--data-dir data --bertscore 'bertscore_centered;layer=99'", 2, "layer=99 is out of range"),
        ("--data-dir data --sbert sbert,twmd", 2, "expected one metric with its keys, not 2"),
        ("", 1, "give --data-dir DIR, --hub"),
        (f"--data-dir {__file__}", 1, "no data set can be read"),
        ("--data-dir data -o file", 2, "is a file."),
        ("--data-dir data -o data", 1, "is not empty: give a new folder"),
    ],
)
def test_bad_line_leaves_folders_as_they_are(
    options: str, status: int, words: str, data: Path, refused: Refused
) -> None:
    (data.parent / "file").write_text("mine", encoding="utf-8")
    refused(f"study stsscore -o out {options}", words, status)
    assert not (data.parent / "out").exists()
