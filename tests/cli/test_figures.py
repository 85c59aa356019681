"""``twmd reproduce twmd-figureN``: files, what is in them, and bad input."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from tests import tiny
from tests.metaeval.rated_files import write_sts, write_wmt
from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.figures import FIGURES, SWEEPS, SWEPT_TEMPERATURES
from twmd_registry.cli.reproductions import run_reproduce
from twmd_registry.engine.scorer import scorer
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.judgments.wmt import read_wmt
from twmd_registry.metaeval.diagnose import diagnose
from twmd_registry.metaeval.reproduce.protocols import read_data, sts
from twmd_registry.metaeval.reproduce.rows import METRICS, TABLES
from twmd_registry.metaeval.reproduce.temperatures import TEMPERATURES, TUNING_YEARS
from twmd_registry.metaeval.word_pairs import Similarity
from twmd_registry.registry.options import RunOptions

PAIRS = ("cs-en", "de-en")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_sts(tmp_path_factory.mktemp("data"))
    for year in (15, 16, 17):
        write_wmt(folder, year, PAIRS, 6)
    return folder


def ask(table: str, model: str, data: Path, output: Path | None, **more: Any) -> Arguments:
    return Arguments(
        **(
            {
                "table": table,
                "data_dir": data,
                "model": model,
                "layer": None,
                "output": output,
                "device": "auto",
                "batch_tokens": None,
                "disk_cache": 0,
            }
            | more
        )
    )


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def by_hand(row: dict[str, str], model: str, path: Path) -> float:
    """The mean over language pairs of what the row's signature scores."""
    rated, found = read_wmt(path), []
    with scorer(row["signature"], model=model) as one:
        for pair in PAIRS:
            rows = [i for i, group in enumerate(rated.group) if group == pair]
            scores = one.score([rated.predictions[i] for i in rows], [rated.references[i] for i in rows]).scores
            found.append(stats.pearsonr(scores, rated.ratings[rows]).statistic)
    return sum(found) / len(found)


def test_words_are_drawn_without_centering_and_under_all(model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rated = read_wmt(data / "wmt" / "wmt16.jsonl")
    corpus = list(dict.fromkeys(rated.references))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        found = diagnose(model, corpus, RunOptions())
        for table in ("twmd-figure1", "twmd-figure2"):
            assert run_reproduce(ask(table, model, data, tmp_path)) == 0
            assert {path.name for path in tmp_path.glob(f"{table}*")} == {f"{table}.csv", f"{table}.png", f"{table}.svg"}
            printed = capsys.readouterr().out
            assert f"corpus: the {len(corpus)} different references of wmt16, {found.words} words" in printed
            assert "The paper reads that" in printed
    first, second = (read_rows(tmp_path / f"twmd-figure{i}.csv") for i in (1, 2))
    assert [(row["centering"], row["layer"]) for row in first] == [("none", str(k)) for k in range(tiny.DEPTH + 1)]
    assert [float(row["random"]) for row in second] == [row.similarities[Similarity.RANDOM].mean for row in found.rows]
    assert first == [row for row in second if row["centering"] == "none"]


def test_temperatures_are_drawn_for_every_year_that_is_there(model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(TwmdWarning, match=r"without a panel, because not in .*: wmt/wmt18\.jsonl\."):
        assert run_reproduce(ask("twmd-figure3", model, data, tmp_path, layer=2)) == 0
    rows = read_rows(tmp_path / "twmd-figure3.csv")
    assert [(row["data"], row["metric"], row["centering"], float(row["temperature"])) for row in rows] == [
        (year, metric, centering, temperature)
        for year in ("wmt15", "wmt16", "wmt17")
        for metric in ("twmd", "trwmd")
        for centering in ("none", "batch")
        for temperature in TEMPERATURES
    ]
    for row in rows[7::40]:
        assert float(row["pearson"]) == pytest.approx(by_hand(row, model, data / "wmt" / f"{row['data']}.jsonl"), abs=1e-5)
    printed = capsys.readouterr().out
    assert [line.partition(" that ")[0] for line in printed.splitlines()[-3:]] == [f"{year}: The paper reads" for year in ("wmt15", "wmt16", "wmt17")]
    assert "wmt15: 2 groups, 12 segments" in printed
    drawn = (tmp_path / "twmd-figure3.svg").read_text(encoding="utf-8")
    assert all(f">{name}<" in drawn for name in ("wmt15", "wmt16", "wmt17", "twmd", "trwmd-b", "temperature"))
    assert (tmp_path / "twmd-figure3.png").read_bytes().startswith(b"\x89PNG")


def test_sweeps_are_drawn_with_the_plans_errors(model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_reproduce(ask("twmd-figure4", model, data, tmp_path, layer=2)) == 0
    rows = read_rows(tmp_path / "twmd-figure4-left.csv")
    assert [(float(row["temperature"]), int(row["iterations"])) for row in rows] == [(t, n) for t in SWEPT_TEMPERATURES for n in SWEEPS]
    assert float(rows[7]["pearson"]) == pytest.approx(by_hand(rows[7], model, data / "wmt" / "wmt17.jsonl"), abs=1e-5)
    errors = read_rows(tmp_path / "twmd-figure4-right.csv")
    assert [(row["line"], float(row["iterations"])) for row in errors] == [(f"twmd-b T={t:g}", n) for t in SWEPT_TEMPERATURES for n in SWEEPS]
    assert float(errors[0]["marginal_error"]) > float(errors[4]["marginal_error"]) > 0
    printed = capsys.readouterr().out
    assert "plans: the first 6 pairs of cs-en" in printed
    assert printed.count("The paper reads that") == 2
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("table", ["twmd-figure5", "twmd-figure6"])
def test_layers_are_drawn_with_a_panel_per_metric(table: str, model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_reproduce(ask(table, model, data, tmp_path)) == 0
    rows = read_rows(tmp_path / f"{table}.csv")
    assert [(row["metric"], row["centering"], row["layer"]) for row in rows] == [
        (metric, centering, str(layer)) for metric in METRICS.values() for centering in ("none", "batch") for layer in range(1, tiny.DEPTH + 1)
    ]
    assert {row["data"] for row in rows} == {"wmt17" if table == "twmd-figure6" else "STS12 to STS16"}
    row = rows[-2]
    if table == "twmd-figure6":
        expected = by_hand(row, model, data / "wmt" / "wmt17.jsonl")
    else:
        with scorer(row["signature"], model=model) as one:
            expected = float(sts([one], read_data(TABLES["twmd-table1"], data), ("pearson",)).values[0, 0, 0]) / 100
    assert float(row["pearson"]) == pytest.approx(expected, abs=1e-5)
    assert "batch centering raises the correlation of every metric in every layer: this " in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {f"{table}.csv", f"{table}.png", f"{table}.svg"}


def test_the_choice_of_temperature_is_a_table(model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_reproduce(ask("twmd-appendix-b", model, data, None, layer=2)) == 0
    printed = capsys.readouterr().out
    assert run_reproduce(ask("twmd-appendix-b", model, data, tmp_path, layer=2)) == 0
    assert capsys.readouterr().out == printed == (tmp_path / "twmd-appendix-b.txt").read_text(encoding="utf-8")
    assert "wmt15 (2 groups, 12 segments) and wmt16 (2 groups, 12 segments)" in printed
    suffixes = (".txt", ".md", ".tex", ".tsv", "-signatures.tsv")
    assert {path.name for path in tmp_path.iterdir()} == {f"twmd-appendix-b{suffix}" for suffix in suffixes}
    lines = (tmp_path / "twmd-appendix-b.tsv").read_text(encoding="utf-8").splitlines()
    signed = [line.split("\t") for line in (tmp_path / "twmd-appendix-b-signatures.tsv").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 13
    for line, (row, side, signature) in zip(lines[1:], signed, strict=True):
        cells = line.split("\t")
        assert [row, side] == cells[:2]
        assert f"|temperature:{cells[-2]}|" in signature
        best = TEMPERATURES.index(float(cells[-2]))
        assert float(cells[2 + best]) == max(map(float, cells[2:-2]))


def test_bad_input_is_refused_before_anything_is_measured(model: str, data: Path, tmp_path: Path) -> None:
    for table in set(FIGURES) - {"twmd-appendix-b"}:
        with pytest.raises(SpecError, match=f"{table} is drawn into a folder: give one by -o DIR"):
            run_reproduce(ask(table, model, data, None))
    for table in ("twmd-figure1", "twmd-figure2", "twmd-figure5", "twmd-figure6"):
        with pytest.raises(SpecError, match=f"{table} shows every layer: leave --layer 2 out"):
            run_reproduce(ask(table, model, data, tmp_path, layer=2))
    write_wmt(tmp_path, TUNING_YEARS[0], PAIRS)
    for table, missing in (
        ("twmd-figure1", "wmt/wmt16"),
        ("twmd-figure4", "wmt/wmt17"),
        ("twmd-figure5", "sts/STS12, sts/STS13, sts/STS14, sts/STS15, sts/STS16"),
        ("twmd-figure6", "wmt/wmt17"),
        ("twmd-appendix-b", "wmt/wmt16"),
    ):
        with pytest.raises(FileError, match=rf"^expected {missing}(\.jsonl)? in .*; not there"):
            run_reproduce(ask(table, model, tmp_path, tmp_path / "out"))
    with pytest.raises(FileError, match=r"needs one of wmt/wmt15\.jsonl, .*, wmt/wmt18\.jsonl in .*, and none is there"):
        run_reproduce(ask("twmd-figure3", model, tmp_path / "empty", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
