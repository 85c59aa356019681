"""``twmd reproduce``: what it prints and writes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests import tiny
from tests.papers.rated_files import write_wmt
from twmd_registry.cli import main
from twmd_registry.engine.scorer import scorer
from twmd_registry.judgments.translations import read_wmt
from twmd_registry.metaeval.diagnosis import diagnose
from twmd_registry.registry.options import RunOptions

pytestmark = pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
TABLE = {".txt", ".md", ".tex", ".tsv", "-signatures.tsv"}
PICTURE = {".csv", ".png", ".svg"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for year in (16, 17):
        write_wmt(folder, year, rows=6)
    return folder


@pytest.fixture(scope="module")
def command(data: Path, model: str) -> list[str]:
    return ["--data-dir", str(data), "--model", model]


def rows_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@pytest.mark.parametrize(
    ("table", "drawn"),
    [
        ("twmd-table8", (set(), 0)),
        ("twmd-figure3", (PICTURE, 2 * 4 * 10)),
        ("twmd-figure4", ({f"-{side}{suffix}" for side in ("left", "right") for suffix in PICTURE}, 20)),
        ("twmd-figure6", (PICTURE, 12 * tiny.DEPTH)),
        ("moverscore-figure2", (PICTURE, 6)),
        ("moverscore-figure3", (PICTURE, 2 * 15)),
    ],
)
def test_table_is_printed_and_written_in_every_form(
    table: str, drawn: tuple[set[str], int], command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert main(["reproduce", table, *command]) == 0
    printed = capsys.readouterr().out
    assert main(["reproduce", table, *command, "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out == printed
    written = {path.name.removeprefix(table): path for path in tmp_path.iterdir()}
    pictures, points = drawn
    assert set(written) == TABLE | pictures
    assert written[".txt"].read_text(encoding="utf-8") == printed
    for suffix, path in written.items():
        if suffix.endswith(".csv"):
            assert len(rows_of(path)) == points
        elif suffix.endswith(".png"):
            assert path.read_bytes().startswith(b"\x89PNG")
        elif suffix.endswith(".svg"):
            assert "<svg" in path.read_text(encoding="utf-8")


def test_numbers_are_written_in_full_with_their_signatures(data: Path, model: str, tmp_path: Path) -> None:
    assert (
        main(
            ["reproduce", "twmd-table8", "--data-dir", str(data), "--model", model, "--layer", "2", "-o", str(tmp_path)]
        )
        == 0
    )
    rows = rows_of(tmp_path / "twmd-table8.tsv", "\t")
    assert len(rows) == (6 + 1) * 8 * 2
    for row in rows[: 6 * 8 * 2]:
        assert float(row["difference"]) == pytest.approx(float(row["here"]) - float(row["roberta-base"]))
    agreement = [row for row in rows if row["metric"] == "rank agreement"]
    assert [row["column"] for row in agreement[::2]] == list(dict.fromkeys(row["column"] for row in rows))
    assert all(not row["difference"] for row in agreement)
    signatures = dict(
        line.split("\t") for line in (tmp_path / "twmd-table8-signatures.tsv").read_text(encoding="utf-8").splitlines()
    )
    assert list(signatures) == ["BERTscore", "BERTscore-b", "TWMD", "TWMD-b", "TRWMD", "TRWMD-b"]
    rated = read_wmt(data / "wmt" / "wmt17.jsonl")
    zh = [i for i, group in enumerate(rated.group) if group == "zh-en"]
    from scipy import stats

    with scorer(signatures["TRWMD-b"], model=model) as one:
        scores = one.score([rated.predictions[i] for i in zh], [rated.references[i] for i in zh]).scores
    (row,) = (
        row for row in rows if (row["metric"], row["column"], row["statistic"]) == ("TRWMD-b", "zh-en", "pearson")
    )
    assert float(row["here"]) == pytest.approx(100 * stats.pearsonr(scores, rated.ratings[zh]).statistic, abs=1e-3)


@pytest.mark.parametrize("table", ["twmd-table8", "twmd-figure3", "twmd-figure6"])
def test_json_holds_the_numbers_of_a_table(
    table: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", table, *command, "--format", "json", "-o", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    signatures = [row.split("\t") for row in (tmp_path / f"{table}-signatures.tsv").read_text("utf-8").splitlines()]
    assert found["signatures"] == dict(signatures)
    if table == "twmd-table8":
        rows = rows_of(tmp_path / f"{table}.tsv", "\t")
        assert [row["here"] for row in found["rows"]] == [float(row["here"]) if row["here"] else None for row in rows]
        return
    tsv = rows_of(tmp_path / f"{table}.tsv", "\t")
    printed = [float(value) for row in tsv for name, value in row.items() if re.fullmatch(r"[\d.]+", name)]
    assert [row["here"] for row in found["rows"]] == pytest.approx(printed, rel=0, abs=5.1e-5)  # four decimals


def test_json_of_a_diagnosis_has_the_papers_verdicts(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "twmd-figure2", *command, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rows"]) == len({(row["centering"], row["layer"]) for row in found["rows"]})
    assert {one["paper"] for one in found["verdicts"]} - {None}


def test_words_are_drawn_without_centering_and_under_all(
    data: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    corpus = list(dict.fromkeys(read_wmt(data / "wmt" / "wmt16.jsonl").references))
    found = diagnose(model, corpus, RunOptions())
    for number in (1, 2):
        command = ["reproduce", f"twmd-figure{number}", "--data-dir", str(data), "--model", model]
        assert main([*command, "-o", str(tmp_path)]) == 0
        printed = capsys.readouterr().out
        assert f"{len(corpus)} texts, {found.words} words" in printed
        assert {path.name for path in tmp_path.glob(f"twmd-figure{number}*")} == {
            f"twmd-figure{number}{suffix}" for suffix in PICTURE
        }
        assert main([*command, "--layer", "2"]) == 2
        assert "does not read one layer alone" in capsys.readouterr().err
    first, second = (rows_of(tmp_path / f"twmd-figure{number}.csv") for number in (1, 2))
    assert [(row["centering"], row["layer"]) for row in first] == [("none", str(k)) for k in range(tiny.DEPTH + 1)]
    assert [float(row["random"]) for row in second] == found.estimates[:, :, 0]["mean"].ravel().tolist()
    assert first == [row for row in second if row["centering"] == "none"]
    properties = [
        line.split()[-1] for line in printed.splitlines() if line.startswith("corpus") and "similarity" in line
    ]
    assert properties == ["pass"] * 3


def test_name_that_is_no_table_is_refused_with_the_closest(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "twmd-figure7", "--data-dir", str(data)]) == 2
    assert "no table or figure 'twmd-figure7' to compute again; did you mean" in capsys.readouterr().err
