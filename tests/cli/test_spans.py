"""``twmd spans``, ``twmd align --spans`` and ``twmd fit-spans``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.judgments.test_span_files import rating, table
from twmd_registry.cli import main
from twmd_registry.engine.error_spans import SPANS

REFERENCE, PREDICTION = "It rained all day in the old town.", "It rained all night in the old town."


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "ref.txt").write_text(f"{REFERENCE}\nNobody came.\n", encoding="utf-8")
    (tmp_path / "out.txt").write_text(f"{PREDICTION}\nNobody came.\n", encoding="utf-8")
    return ["spans", "twmd", str(tmp_path / "ref.txt"), "-i", str(tmp_path / "out.txt"), "-q"]


def test_spans_are_listed_with_what_marked_them(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(files) == 0
    printed = capsys.readouterr().out
    assert "night" in printed
    assert "|version:" in printed.splitlines()[-1]
    assert " spans:" in printed.splitlines()[-1]


@pytest.mark.parametrize("form", ["json", "mqm", "esa", "contentquo"])
def test_spans_are_written_in_every_form(form: str, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*files, "--format", form]) == 0
    printed = capsys.readouterr().out
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
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twmd_registry.engine.scorer.Scorer.score", None)
    assert main([*files, "--set", "temperature=0.3"]) == 2
    assert "fit them by 'twmd fit-spans'" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["align=sentences", "against=source", "against=both"])
@pytest.mark.parametrize(
    "command", ["spans twmd x.txt -i x.txt", "fit-spans twmd --data x.txt", "align twmd a b --spans"]
)
def test_settings_that_have_no_spans_are_named(
    command: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("it rains\n", encoding="utf-8")
    assert main([*command.split(), "--set", key, "-q"]) == 2
    assert f"error spans are words that the reference does not say, and {key}" in capsys.readouterr().err


def test_align_shows_the_alignment_with_a_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["align", "twmd", PREDICTION, REFERENCE, "--set", "against=source", "-q"]) == 0
    assert "|against:source|" in capsys.readouterr().out


def test_align_shows_spans_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["align", "twmd", PREDICTION, REFERENCE, "-q"]
    assert main([*command, "--spans"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("night") and "minor" in line]
    assert re.fullmatch(r"night +14 +19 +minor +0\.\d{3}", line)
    assert main([*command, "--spans", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [span["text"] for span in shown["hypothesis"]["spans"]] == ["night"]
    assert main([*command, "--format", "json"]) == 0
    assert "hypothesis" not in json.loads(capsys.readouterr().out)


def test_fitted_thresholds_are_the_ones_that_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path / "home"))
    rows = []
    for seg, (end, wrong) in enumerate([("day", "night"), ("week", "month"), ("year", "hour")]):
        target = f"It rained all <v>{wrong}</v> in the old town."
        rows.append(("a", f"doc{seg}", "1", str(seg), "r", "source", target, "Accuracy", "Major"))
        rows.append(("ref", f"doc{seg}", "1", str(seg), "r", "source", f"It rained all {end} in the old town.", "", "No-error"))  # fmt: skip
    (tmp_path / "mqm.tsv").write_text(table(*rows), encoding="utf-8")
    command = ["fit-spans", "twmd", "--data", str(tmp_path / "mqm.tsv"), "--set", "temperature=0.2", "-q"]
    assert main([*command, "--held-out", "mqm:doc2", "--format", "json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert [(row["documents"], row["segments"]) for row in measured] == [
        ("fitted on", 2),
        ("fitted on", 2),
        ("fitted on", 0),
        ("held out", 1),
        ("held out", 1),
        ("held out", 0),
    ]
    assert {row["F1"] for row in measured if row["documents"] == "fitted on" and row["segments"]} == {"100.0"}
    (file,) = (tmp_path / "home" / SPANS.folder).iterdir()
    assert json.loads(file.read_text())["data"] == ["mqm:doc0", "mqm:doc1"]
    assert main(["align", "twmd", PREDICTION, REFERENCE, "--spans", "--set", "temperature=0.2", "-q"]) == 0
    assert "night" in capsys.readouterr().out.partition("error spans of the hypothesis:")[2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("twmd --data mqm.tsv --held-out talk.7", "no document 'talk.7'"),
        ("twmd --data mqm.tsv --held-out mqm:doc", "--held-out names every document"),
        ("twmd --data mqm.tsv ./mqm.tsv", "--data: two files are called mqm"),
        ("stsscore --data mqm.tsv", "stsscore aligns no words, and has no error spans"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mqm.tsv").write_text(table(rating("a", "<v>x</v>"), rating("ref", "y")), encoding="utf-8")
    assert main(["fit-spans", *line.split()]) == 2
    assert message in capsys.readouterr().err
