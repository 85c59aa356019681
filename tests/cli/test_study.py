"""``twmd study``: the STSScore paper's analysis as one command."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.judgments.sentence_pairs import read_stsb

R = np.random.default_rng(3)
SENTENCES = [
    "The heron waited.",
    "A heron was waiting by the weir.",
    "Rain.",
    "It rained the whole night.",
    "Bread was sold out by nine.",
    "No bread.",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """STS-B, MRPC and WMT22, made up; no QQP."""
    for name in ("stsb", "mrpc", "wmt22/references", "wmt22/human-scores", "wmt22/system-outputs/zh-en"):
        (tmp_path / "data" / name).mkdir(parents=True)
    data, drawn = tmp_path / "data", R.integers(len(SENTENCES), size=(24, 2))
    pairs = [(SENTENCES[a], SENTENCES[b]) for a, b in drawn]
    with (data / "stsb" / "test.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows((*pair, f"{R.uniform(0, 5):.2f}") for pair in pairs[:12])
    lines = [f"{i % 2}\t1\t2\t{a}\t{b}" for i, (a, b) in enumerate(pairs[12:])]
    (data / "mrpc" / "msr_paraphrase_test.txt").write_text(
        "\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines]), encoding="utf-8"
    )
    (data / "wmt22" / "references" / "zh-en.refA.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    (data / "wmt22" / "system-outputs" / "zh-en" / "A.txt").write_text("\n".join(reversed(SENTENCES)), encoding="utf-8")
    (data / "wmt22" / "human-scores" / "zh-en.mqm.seg.score").write_text(
        "".join(f"A\t{-i}\n" for i in range(len(SENTENCES))), encoding="utf-8"
    )
    return data


def study(folder: Path, out: Path, *options: str) -> int:
    return main(["study", "stsscore", "--data-dir", str(folder), "-o", str(out), *options])


def test_one_command_writes_tables_and_figures_and_names_what_is_missing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = tmp_path / "out"
    assert study(folder, out, "--stsscore", "stsscore;clip=yes") == 0
    printed, warned = capsys.readouterr()
    assert "left out: QQP (no qqp/quora_duplicate_questions.tsv or qqp/train.tsv in" in warned
    assert "left out: RoBERTa (" in warned
    tables = [
        f"{name}.{suffix}"
        for name in ("table1", "table2", "table3", "table4", "auc")
        for suffix in ("txt", "md", "tex", "tsv")
    ]
    figures = [f"{name}.{suffix}" for name in ("sts-b", "mrpc", "mrpc-roc", "wmt22-zh-en") for suffix in ("png", "svg")]
    data = [f"{name}.csv" for name in ("sts-b", "mrpc", "wmt22-zh-en")]
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [*tables, *figures, *data, "data.txt", "signatures.txt"]
    )
    signatures = dict(line.split("\t") for line in (out / "signatures.txt").read_text(encoding="utf-8").splitlines())
    assert list(signatures) == ["BLEU", "BERTScore", "S-BERT", "STSScore", "Ensemble"]
    assert "|clip:yes|" in signatures["STSScore"]
    assert signatures["Ensemble"].startswith("ensemble(stsscore;")
    rows = list(csv.DictReader((out / "sts-b.csv").open(encoding="utf-8", newline="")))
    stsb = read_stsb(folder / "stsb" / "test.csv")
    expected = twmd_registry.scorer(signatures["Ensemble"]).score(stsb.predictions, stsb.references).scores
    assert [float(row["Ensemble"]) for row in rows] == pytest.approx(expected)
    assert (out / "table1.txt").read_text(encoding="utf-8") in printed
    numbers = list(csv.DictReader((out / "table1.tsv").open(encoding="utf-8"), delimiter="\t"))
    assert [row["paper"] for row in numbers if row["metric"] == "BLEU"][:3] == ["0.34", "0.32", "0.26"]
    assert [row["here"] for row in numbers if row["column"].startswith("QQP")] == [""] * 5 * 4
    assert (out / "sts-b.png").read_bytes().startswith(b"\x89PNG")


def test_json_holds_the_numbers_of_every_table(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study(folder, tmp_path / "out", "--format", "json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["table1", "table2", "table3", "table4", "auc"]
    for name, one in printed.items():
        rows = list(csv.DictReader((tmp_path / "out" / f"{name}.tsv").open(encoding="utf-8"), delimiter="\t"))
        assert [list(row) for row in one["rows"]] == [list(row) for row in rows]
        assert [row["here"] for row in one["rows"]] == [float(row["here"]) if row["here"] else None for row in rows]
    kept = dict(line.split("\t") for line in (tmp_path / "out" / "signatures.txt").read_text("utf-8").splitlines())
    assert {own for one in printed.values() for own in one["signatures"].values()} == set(kept.values())


def test_set_of_one_class_has_no_area_and_costs_nothing_else(folder: Path, tmp_path: Path) -> None:
    path = folder / "mrpc" / "msr_paraphrase_test.txt"
    path.write_text(re.sub(r"^0\t", "1\t", path.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")
    assert study(folder, tmp_path / "out") == 0
    assert not (tmp_path / "out" / "mrpc-roc.png").exists()
    rows = list(csv.DictReader((tmp_path / "out" / "auc.tsv").open(encoding="utf-8"), delimiter="\t"))
    assert [row["here"] for row in rows if row["column"] == "MRPC"] == [""] * 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bertscore", "bertscore_centered;layer=99"], "layer=99 is out of range"),
        (["--sbert", "sbert,twmd"], "expected one metric with its keys, not 2"),
    ],
)
def test_bad_settings_leave_no_folder(
    options: list[str], words: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study(folder, tmp_path / "out", *options) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_files_that_are_there_are_kept(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert study(folder, tmp_path / "file") == 2
    assert "is a file." in capsys.readouterr().err
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine", encoding="utf-8")
    assert study(folder, tmp_path / "out") == 1
    assert "is not empty: give a new folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("options", "words"),
    [([], "give --data-dir DIR, --hub"), (["--data-dir", __file__], "is not a folder; expected a folder that")],
)
def test_data_that_are_not_there_are_named(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "stsscore", "-o", str(tmp_path / "out"), *options]) == 1
    assert words in capsys.readouterr().err
