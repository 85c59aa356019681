"""Table 4 of the TWMD paper, with a random model that nobody tuned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests import tiny
from tests.metaeval.rated_files import write_wmt
from twmd_registry.cli import main
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.metaeval.reproduce.run import reproduce
from twmd_registry.metaeval.reproduce.tuned import ROWS, reproduce_tuned
from twmd_registry.registry.names import EMBEDDED_MODEL


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_encoder("bert", tmp_path_factory.mktemp("models") / "bert"))


def test_its_numbers_are_those_of_the_other_tables(model: str, tmp_path: Path) -> None:
    for year in (17, 18):
        write_wmt(tmp_path, year)
    found = reproduce_tuned("twmd-table4", tmp_path, model=model, layer=2)
    for number, columns in ((2, [0, 1]), (3, [2])):
        other = reproduce(f"twmd-table{number}", tmp_path, model=model, layer=2)
        for row in ROWS:
            mean = other.ours[0].values[other.ours[0].rows.index(row), -1]
            assert found.rows[row][columns] == pytest.approx(mean[: len(columns)])
    assert found.segments == (35, 35, 35)
    assert [one.metric for one in found.paper.rows] == ["BLEURT-pre", "BLEURT", "TWMD", "TWMD-b"] * 2
    assert found.paper.rows[-1].values[:, 0].tolist() == [63.4, 82.9, 35.5]
    better = "with" if found.rows["TWMD-b"][1] > found.rows["TWMD"][1] else "without"
    assert f"and is better {better} it (the paper's: base 81.0 and 80.7; large 81.7 and 82.9" in found.sentence


def test_a_year_that_is_not_here_stays_empty(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_wmt(tmp_path, 17)
    with pytest.warns(TwmdWarning, match=r"no wmt/wmt18.jsonl in .*; its column stays empty"):
        found = reproduce_tuned("twmd-table4", tmp_path, model=model, layer=2)
    assert all(np.isnan(values[2]) for values in found.rows.values())
    assert found.layout().rows[1][-1] == "-"
    out = tmp_path / "out"
    assert main(["reproduce", "twmd-table4", "--data-dir", str(tmp_path), "--model", model, "--layer", "2", "-o", str(out)]) == 0
    lines = [line.split("\t") for line in (out / "twmd-table4.tsv").read_text(encoding="utf-8").splitlines()]
    assert lines[0] == ["metric", "column", "segments", "here", "base", "large"]
    assert [line[3] for line in lines[1:] if line[1] == "WMT18 tau"] == ["", ""]
    assert "twmd-table4-signatures.tsv" in {path.name for path in out.iterdir()}
    capsys.readouterr()


def test_a_model_that_nobody_tuned_is_refused(tmp_path: Path, model: str) -> None:
    with pytest.raises(SpecError, match="is of models that were fine-tuned on WMT15-16: give one by --model"):
        reproduce_tuned("twmd-table4", tmp_path, model=EMBEDDED_MODEL)
    with pytest.raises(FileError, match=r"expected wmt/wmt17.jsonl in"), pytest.warns(TwmdWarning):
        reproduce_tuned("twmd-table4", tmp_path, model=model, layer=2)
