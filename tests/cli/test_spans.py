"""``twmd spans``, ``twmd align --spans`` and ``twmd fit-spans``."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import Refused, Run
from tests.judgments.test_span_files import rating, table
from twmd_registry.engine.error_spans import SPANS

REFERENCE, PREDICTION = "It rained all day in the old town.", "It rained all night in the old town."
ALIGN = f"align twmd -q {shlex.join([PREDICTION, REFERENCE])}"
SCORE = "spans twmd ref.txt -i out.txt -q"


@pytest.fixture
def files(folder: Path) -> None:
    """Fill a working folder with a reference, a prediction, and ratings of two segments."""
    for name, text in (("ref", REFERENCE), ("out", PREDICTION)):
        (folder / f"{name}.txt").write_text(f"{text}\nNobody came.\n", encoding="utf-8")
    (folder / "mqm.tsv").write_text(table(rating("a", "<v>x</v>"), rating("ref", "y")), encoding="utf-8")


def test_spans_are_listed_with_what_marked_them(files: None, run: Run) -> None:
    status, printed, _ = run(SCORE)
    assert (status, "night" in printed) == (0, True)
    assert re.search(r"\|version:\S* spans:", printed.splitlines()[-1])


@pytest.mark.parametrize("form", ["json", "mqm", "esa", "contentquo"])
def test_spans_are_written_in_every_form(form: str, files: None, run: Run) -> None:
    status, printed, _ = run(f"{SCORE} --format {form}")
    assert status == 0
    if form == "mqm":
        rows = [line.split("\t") for line in printed.splitlines()]
        assert rows[1][6] == PREDICTION.replace("night", "<v>night</v>")
        assert rows[2][6:] == [PREDICTION, "Accuracy/Omission", "Minor"]
        assert rows[3][6:] == ["Nobody came.", "No-error", "No-error"]
    elif form == "esa":
        first, second = map(json.loads, printed.splitlines())
        assert PREDICTION[first["esa_spans"][0]["start_i"] : first["esa_spans"][0]["end_i"]] == "night"
        assert second["esa_spans"] == []
    else:
        first, second = json.loads(printed)["segments"]
        assert first["issues" if form == "contentquo" else "spans"][0]["start"] == PREDICTION.index("night")


def test_metric_without_thresholds_is_refused_before_anything_is_scored(
    files: None, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twmd_registry.engine.scorer.Scorer.score", None)
    refused(f"{SCORE} --set temperature=0.3", "fit them by 'twmd fit-spans'")


@pytest.mark.parametrize("key", ["align=sentences", "against=source", "against=both"])
def test_settings_that_have_no_spans_are_named(key: str, files: None, refused: Refused) -> None:
    for command in (SCORE, "fit-spans twmd --data mqm.tsv", f"{ALIGN} --spans"):
        refused(f"{command} --set {key}", f"error spans are words that the reference does not say, and {key}")


def test_align_shows_the_alignment_with_a_source(run: Run) -> None:
    status, printed, _ = run(f"{ALIGN} --set against=source")
    assert (status, "|against:source|" in printed) == (0, True)


def test_align_shows_spans_if_asked(run: Run) -> None:
    lines = run(f"{ALIGN} --spans")[1].splitlines()
    assert len([line for line in lines if re.fullmatch(r"night +14 +19 +minor +0\.\d{3}", line)]) == 1
    shown = json.loads(run(f"{ALIGN} --spans --format json")[1])
    assert [span["text"] for span in shown["hypothesis"]["spans"]] == ["night"]
    assert "hypothesis" not in json.loads(run(f"{ALIGN} --format json")[1])


def test_fitted_thresholds_are_the_ones_that_are_used(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(folder / "home"))
    rows = []
    for seg, (end, wrong) in enumerate([("day", "night"), ("week", "month"), ("year", "hour")]):
        for system, words, *error in (("a", f"<v>{wrong}</v>", "Accuracy", "Major"), ("ref", end, "", "No-error")):
            target = f"It rained all {words} in the old town."
            rows.append((system, f"doc{seg}", "1", str(seg), "r", "source", target, *error))
    (folder / "mqm.tsv").write_text(table(*rows), encoding="utf-8")
    line = "fit-spans twmd --data mqm.tsv --set temperature=0.2 -q --held-out mqm:doc2 --format json"
    measured = json.loads(run(line)[1])
    found = [(row["documents"], row["segments"]) for row in measured]
    assert found == [*(("fitted on", n) for n in (2, 2, 0)), *(("held out", n) for n in (1, 1, 0))]
    assert {row["F1"] for row in measured[:2]} == {100.0}
    (file,) = (folder / "home" / SPANS.folder).iterdir()
    assert json.loads(file.read_text())["data"] == ["mqm:doc0", "mqm:doc1"]
    status, printed, _ = run(f"{ALIGN} --spans --set temperature=0.2")
    assert (status, "night" in printed.partition("error spans of the hypothesis:")[2]) == (0, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("twmd --data mqm.tsv --held-out talk.7", "no document 'talk.7'"),
        ("twmd --data mqm.tsv --held-out mqm:doc", "--held-out names every document"),
        ("twmd --data mqm.tsv ./mqm.tsv", "--data: two files are called mqm"),
        ("stsscore --data mqm.tsv", "stsscore aligns no words, and has no error spans"),
    ],
)
def test_line_whose_spans_cannot_be_fitted_is_refused(line: str, message: str, files: None, refused: Refused) -> None:
    refused(f"fit-spans {line}", message)
