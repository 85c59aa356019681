"""``--src``: the texts that were translated, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import twmd_registry
from tests.conftest import Run
from tests.plugins.test_sources import PREDICTIONS, REFERENCES, SOURCES

SOURCE = ("-m", "twmd;against=source")
BOTH = "twmd;against=both"


@pytest.fixture
def files(folder: Path) -> Path:
    """Return a working folder with predictions, sources, references, and a table of predictions with sources."""
    for name, lines in (("hyp", PREDICTIONS), ("src", SOURCES), ("ref", REFERENCES)):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows = [{"prediction": own, "source": text} for own, text in zip(PREDICTIONS, SOURCES, strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "hyp.csv").write_text("prediction,other\nit rains,x\nit snows,y\n", encoding="utf-8")
    return folder


def test_command_scores_records_and_verifies_with_sources(files: Path, run: Run) -> None:
    wanted = twmd_registry.score(PREDICTIONS, sources=SOURCES, against="source")
    assert run("score -i hyp.txt --src src.txt --record own.json -b -w 9", *SOURCE)[0] == 0
    recorded = twmd_registry.read_record("own.json").systems[0].results[0]
    assert recorded.scores == pytest.approx(wanted.scores)
    assert run("verify own.json")[0] == 0
    assert run("verify own.json -i hyp.txt --src ref.txt")[0] == 1
    assert run(f"verify '{wanted.signature}' {wanted.score:.5f} -i hyp.txt --src src.txt")[0] == 0
    same = run("score -i hyp.txt --src rows.jsonl -b -w 9", *SOURCE)[1]
    assert float(same) == pytest.approx(wanted.score, abs=1e-6)
    assert run("score -i rows.jsonl -b -w 9", *SOURCE)[1] == same
    both = run("score ref.txt -i hyp.txt --src src.txt -b -w 9 -m", BOTH)[1]
    wanted = twmd_registry.score(PREDICTIONS, REFERENCES, sources=SOURCES, against="both")
    assert float(both) == pytest.approx(wanted.score, abs=1e-6)
    (files / "src.txt").unlink()
    assert "src.txt (--src), as it was scored, is neither here nor beside" in run("verify own.json")[2]


def test_report_shows_scores_against_both_without_alignment(files: Path, run: Run) -> None:
    assert run("report ref.txt -i hyp.txt ref.txt --src src.txt -o page.html -m bleu", BOTH)[0] == 0
    page = (files / "page.html").read_text(encoding="utf-8")
    assert "|against:both|" in page
    assert "none of the metrics has an alignment to show" in page


def test_rows_without_a_source_are_counted_and_those_of_a_file_of_sources_are_named(files: Path, run: Run) -> None:
    rows = [{"prediction": "it rained", "source": text} for text in ("there was rain", None)]
    (files / "gap.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _, out, err = run("score -i gap.jsonl -sl -w 2", *SOURCE)
    assert (out.splitlines()[1], "texts without a token: 1" in err) == ("0.00", True)
    (files / "gap.txt").write_text("there was rain\n \n", encoding="utf-8")
    for src in ("gap.txt", "gap.jsonl"):
        complained = run(f"score -i hyp.txt --src {src}", *SOURCE)[2]
        assert f"{src} has no text for 1 of its rows, the first of them row 2." in complained


@pytest.mark.parametrize("suffix", ["html", "svg"])
def test_alignment_with_a_source_calls_it_so(suffix: str, folder: Path, run: Run) -> None:
    command = ["align", "twmd", "it rained", "there was rain", "--set", "against=source", "-o", f"plan.{suffix}"]
    shown, drawn = run(*command)[1], (folder / f"plan.{suffix}").read_text(encoding="utf-8")
    assert "hypothesis    source" in shown
    assert "source" in drawn
    assert "reference" not in shown + drawn
