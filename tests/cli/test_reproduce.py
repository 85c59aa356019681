"""``twmd reproduce``: what it prints and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import tiny
from tests.cli.parsing import rows_of
from tests.conftest import Run
from tests.papers.rated_files import write_wmt
from twmd_registry.engine.scorer import scorer
from twmd_registry.judgments.corpora import read_wmt
from twmd_registry.metaeval.diagnosis import diagnose
from twmd_registry.registry.options import RunOptions

pytestmark = pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
pytest.importorskip("matplotlib")
TABLE = {".txt", ".md", ".tex", ".tsv", "-signatures.tsv"}
PICTURE = {".csv", ".png", ".svg"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for year in (16, 17):
        write_wmt(folder, year, rows=6)
    return folder


@pytest.fixture
def command(data: Path, tiny_encoder: Callable[[str], Path]) -> str:
    return f"--data-dir {data} --model {tiny_encoder('bert')}"


@pytest.mark.parametrize(
    ("table", "pictures"),
    [
        ("twmd-table8", (set(), 0)),
        ("twmd-figure4", ({f"-{side}{suffix}" for side in ("left", "right") for suffix in PICTURE}, 20)),
        ("moverscore-figure2", (PICTURE, 6)),
        ("moverscore-figure3", (PICTURE, 2 * 15)),
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


def test_numbers_are_written_in_full_with_their_signatures(
    command: str, data: Path, tiny_encoder: Callable[[str], Path], tmp_path: Path, run: Run
) -> None:
    from scipy import stats

    status, out, _ = run(f"reproduce twmd-table8 {command} --layer 2 --format json -o {tmp_path}")
    rows, printed = rows_of(tmp_path / "twmd-table8.tsv"), json.loads(out)
    assert (status, len(rows)) == (0, (6 + 1) * 8 * 2)
    assert [row["here"] for row in printed["rows"]] == [float(row["here"]) if row["here"] else None for row in rows]
    for row in rows[: 6 * 8 * 2]:
        assert float(row["difference"]) == pytest.approx(float(row["here"]) - float(row["roberta-base"]))
    agreement = [row for row in rows if row["metric"] == "rank agreement"]
    assert [row["column"] for row in agreement[::2]] == list(dict.fromkeys(row["column"] for row in rows))
    assert all(not row["difference"] for row in agreement)
    lines = (tmp_path / "twmd-table8-signatures.tsv").read_text(encoding="utf-8").splitlines()
    signatures = dict(line.split("\t") for line in lines)
    assert list(signatures) == ["BERTscore", "BERTscore-b", "TWMD", "TWMD-b", "TRWMD", "TRWMD-b"]
    assert printed["signatures"] == signatures
    rated = read_wmt(data / "wmt" / "wmt17.jsonl")
    zh = [i for i, group in enumerate(rated.group) if group == "zh-en"]
    with scorer(signatures["TRWMD-b"], model=str(tiny_encoder("bert"))) as again:
        scores = again.score([rated.predictions[i] for i in zh], [rated.references[i] for i in zh]).scores
    cell = ("TRWMD-b", "zh-en", "pearson")
    (row,) = (row for row in rows if (row["metric"], row["column"], row["statistic"]) == cell)
    assert float(row["here"]) == pytest.approx(100 * stats.pearsonr(scores, rated.ratings[zh]).statistic, abs=1e-3)


def test_json_holds_the_numbers_of_a_figure(command: str, tmp_path: Path, run: Run) -> None:
    printed = json.loads(run(f"reproduce twmd-figure3 {command} --format json -o {tmp_path}")[1])
    assert len(rows_of(tmp_path / "twmd-figure3.csv")) == 2 * 4 * 10
    rows = rows_of(tmp_path / "twmd-figure3.tsv")
    shown = [float(value) for row in rows for name, value in row.items() if re.fullmatch(r"[\d.]+", name)]
    assert [row["here"] for row in printed["rows"]] == pytest.approx(shown, rel=0, abs=5.1e-5)  # four decimals


def test_diagnosis_is_drawn_without_centering_and_under_all(
    command: str, data: Path, tiny_encoder: Callable[[str], Path], tmp_path: Path, run: Run
) -> None:
    corpus = list(dict.fromkeys(read_wmt(data / "wmt" / "wmt16.jsonl").references))
    diagnosis = diagnose(str(tiny_encoder("bert")), corpus, RunOptions())
    for name in ("twmd-figure1", "twmd-figure2"):
        status, printed, _ = run(f"reproduce {name} {command} -o {tmp_path}")
        assert (status, f", {len(corpus)} texts, {diagnosis.words} words" in printed) == (0, True)
        assert ("  paper  " in printed) is (name == "twmd-figure2")  # the paper says nothing of figure 1 in words
        assert {path.name for path in tmp_path.glob(f"{name}*")} == {f"{name}{suffix}" for suffix in PICTURE}
        status, _, err = run(f"reproduce {name} {command} --layer 2")
        assert (status, "does not read one layer alone" in err) == (2, True)
    first, second = (rows_of(tmp_path / f"twmd-figure{number}.csv") for number in (1, 2))
    assert [(row["centering"], row["layer"]) for row in first] == [("none", str(k)) for k in range(tiny.DEPTH + 1)]
    assert [float(row["random"]) for row in second] == diagnosis.estimates[:, :, 0]["mean"].ravel().tolist()
    assert first == [row for row in second if row["centering"] == "none"]
    lines = [line for line in printed.splitlines() if "  corpus  " in line and "similarity" in line]
    assert len(lines) == 3
    assert all("  pass  " in line for line in lines)
    found = json.loads(run(f"reproduce twmd-figure2 {command} --format json")[1])
    assert len(found["rows"]) == len({(row["centering"], row["layer"]) for row in found["rows"]})
    assert {verdict["paper"] for verdict in found["verdicts"]} - {None}
    assert found["model"] == diagnosis.model  # in full, while titles have its own name alone
    assert f" Here: {Path(diagnosis.model).name}, " in printed
