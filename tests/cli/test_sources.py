"""``--src``: the texts that were translated, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import twmd_registry
from tests.conftest import Run
from tests.plugins.test_sources import PREDICTIONS, REFERENCES, SOURCES
from twmd_registry.record.file import read_record


def test_command_scores_records_and_verifies_with_sources(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = {
        against: twmd_registry.score(PREDICTIONS, REFERENCES, sources=SOURCES, against=against)
        for against in ("source", "both")
    }
    for name, lines in (("hyp.txt", PREDICTIONS), ("src.txt", SOURCES), ("ref.txt", REFERENCES)):
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows = [{"prediction": own, "source": text} for own, text in zip(PREDICTIONS, SOURCES, strict=True)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    metric = ["-m", "twmd;against=source"]
    assert run("score -i hyp.txt --src src.txt --record own.json -b -w 9", *metric)[0] == 0
    assert read_record(Path("own.json")).systems[0].results[0].scores == pytest.approx(wanted["source"].scores)
    assert run("verify own.json")[0] == 0
    assert run("verify own.json -i hyp.txt --src ref.txt")[0] == 1
    same = run("score -i hyp.txt --src rows.jsonl -b -w 9", *metric)[1]
    assert float(same) == pytest.approx(wanted["source"].score, abs=1e-6)
    assert run("score -i rows.jsonl -b -w 9", *metric)[1] == same
    Path("src.txt").rename("moved.txt")
    assert "src.txt (--src) is not here. Give all files by -i and --src." in run("verify own.json")[2]
    Path("moved.txt").rename("src.txt")
    both = run("score ref.txt -i hyp.txt --src src.txt -b -w 9 -m", "twmd;against=both")[1]
    assert float(both) == pytest.approx(wanted["both"].score, abs=1e-6)
    assert (
        run(
            "verify",
            str(wanted["source"].signature),
            f"{wanted['source'].score:.5f}",
            "-i",
            "hyp.txt",
            "--src",
            "src.txt",
        )[0]
        == 0
    )


def test_report_shows_scores_against_both_without_alignment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("hyp.txt", PREDICTIONS), ("src.txt", SOURCES), ("ref.txt", REFERENCES)):
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    line = "report ref.txt -i hyp.txt ref.txt --src src.txt -o page.html -m bleu"
    assert run(line, "twmd;against=both")[0] == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "|against:both|" in page
    assert "none of the metrics has an alignment to show" in page


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("score -i hyp.txt --src src.txt -m chrf", "SacreBLEU's chrf compares with references"),
        ("score -i hyp.txt -m twmd;against=source", "references (for against=source, --src or a column source)."),
        ("score -i hyp.txt --src src.txt -m stsscore", "stsscore compares predictions with references: give them."),
        ("score -i hyp.txt --src src.txt", "twmd compares predictions with references"),
        ("score ref.txt -i hyp.txt -m twmd;against=source", "give sources, one per prediction"),
        ("score -i hyp.txt --src hyp.csv -m twmd;against=source", "no text in a column source"),
        ("report -i hyp.txt --src src.txt -o page.html", "a report shows references"),
    ],
)
def test_command_says_which_texts_are_missing(
    line: str, message: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("hyp.txt", "src.txt", "ref.txt"):
        Path(name).write_text("it rains\nit snows\n", encoding="utf-8")
    Path("hyp.csv").write_text("prediction,other\nit rains,x\nit snows,y\n", encoding="utf-8")
    status, _, err = run(line)
    assert status != 0
    assert message in err
