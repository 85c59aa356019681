"""Commands that inform: ``twmd list``, ``explain``, the ``fit`` commands; and the progress bars of all."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import twmd_registry
from tests.cli.parsing import Terminal
from tests.conftest import Run
from twmd_registry.cli import terminal
from twmd_registry.cli.output import format_table
from twmd_registry.metaeval.side_by_side import WIDTH
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import EMBEDDED_MODEL, EMBEDDED_READS, MetricName
from twmd_registry.registry.presets import presets, presets_of


def test_list_shows_every_metric_and_preset(run: Run) -> None:
    status, out, _ = run("list")
    lines = out.splitlines()
    assert status == 0
    assert all(f"{metric}: {CATALOGUE[metric].title}" in lines for metric in MetricName)
    embedded = [line for line in lines if line.startswith("embedded ")]
    assert len(embedded) == len(MetricName)
    assert all(line.endswith("yes (installed)") for line in embedded)
    rows = json.loads(run("list --format json")[1])
    assert [(row["metric"], row["preset"]) for row in rows] == [(str(metric), name) for metric, name in presets()]
    assert all(f"\n{row['preset']} " in out for row in rows)


@pytest.mark.parametrize("metric", MetricName)
def test_explain_shows_keys_presets_and_citation(metric: MetricName, run: Run) -> None:
    status, out, _ = run(f"explain {metric}")
    facts = CATALOGUE[metric]
    assert status == 0
    assert all(f"\n{key} " in out for key in facts.keys)
    assert all(f"\n  {name}\n" in out for name in presets_of(metric))
    assert facts.citation in out
    span = "no fixed bounds" if facts.lowest is None else f"{facts.lowest:g} to {facts.highest:g}"
    assert f"\nrange:              {span}, higher is closer\n" in out
    words = " ".join(out.split())
    assert all(f"Made for {preset.reads}." in words for preset in presets_of(metric).values() if preset.reads)
    assert f"The default model, {EMBEDDED_MODEL}, reads {EMBEDDED_READS}." in words
    assert f"C(X, Y): {facts.formula}" in words


LONG = "an-organisation-with-a-long-name/a-model-whose-name-is-as-long-as-the-names-of-some-models-on-the-hub-are"


def test_no_line_is_wider_than_100_columns(run: Run) -> None:
    lines = run("list")[1].splitlines()
    for metric in MetricName:
        keys = f"--set model={LONG} layer=1" if {"model", "layer"} <= set(CATALOGUE[metric].keys) else ""
        lines += run(f"explain {metric} {keys}")[1].replace(CATALOGUE[metric].citation, "").splitlines()
    table = format_table(("model", "texts", "problem"), [[f"{LONG}@0336012e2308", 12, "a problem " * 12]], "text")
    assert table.count("\n") > 2
    assert [line for line in [*lines, *table.splitlines()] if len(line) > WIDTH] == []


def test_value_of_fit_mean_can_be_set(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(folder / "home"))
    (folder / "corpus.txt").write_text("the cat sat\nit rains\n", encoding="utf-8")
    (folder / "more.jsonl").write_text('{"prediction": "a", "references": ["b", "c"]}\n', encoding="utf-8")
    values, signatures = [], set()
    for option in ("", "-o means"):
        fitted, use = run(f"fit-mean corpus.txt more.jsonl {option}")[1].splitlines()
        assert fitted.startswith("fitted on 5 texts, ")
        values.append(use.removeprefix("use --set "))
        signatures.add(run(f"score corpus.txt -i corpus.txt --set {values[-1]}")[1].splitlines()[-1])
    assert len(signatures) == 1
    assert f"centering:background%3A{values[0].rpartition(':')[2]}" in signatures.pop()
    (folder / "blank.txt").write_text("\n \n", encoding="utf-8")
    status, _, err = run("fit-mean blank.txt")
    assert (status, "every text is empty" in err) == (1, True)


WATCHED = {
    "score few.txt -i few.txt few.txt -m twmd": "80/80 segments",
    "score few.txt -i few.txt -m stsscore bleu --record rec.json": "40/40 segments",
    "score few.txt -i few.txt few.txt -m bleu --paired-bs --paired-bs-n 50": "2/2 steps",
    "report few.txt -i few.txt other.txt -m sbert -o report.html": "alignments",
    "verify rec.json": "40/40 segments",
    "fit-mean few.txt -o means": "40/40 texts",
    "fit-idf few.txt -o idf": "40/40 texts",
    "fit-baseline sbert few.txt --pairs 30 -o baselines": "30/30 pairs",
    "diagnose embedded --data few.txt": "40/40 texts",
    "correlate table:rated.jsonl -m twmd bleu --resamples 0": "36/36 segments",
    "tune sbert --data table:rated.jsonl --layers 1 --try centering=none special=all": "12/12 segments",
    "score few.txt -i few.txt --quiet": None,
}
"""Command lines, and the last state of their bars; None for those without a bar."""


def test_long_work_shows_a_bar_with_total_rate_and_time_left(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("few", "Line {} of a text is not long.\n"), ("other", "Row {} of it.\n")):
        (folder / f"{name}.txt").write_text("".join(text.format(i) for i in range(40)), encoding="utf-8")
    rows = [
        {"prediction": "Line is not" + " long" * (i % 3), "reference": f"Line {i} was long.", "rating": i % 2}
        for i in range(12)
    ]
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(terminal, "PATIENCE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with twmd_registry.scorer("twmd"):
        for line, bar in WATCHED.items():
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stderr", shown := Terminal())
                status, out, _ = run(line)
            assert status == 0, (line, out, shown.getvalue()[-500:])
            bars = re.findall(r" (\d+/\d+ \w+) \d:\d\d:\d\d [-\d]:[-\d]{2}:[-\d]{2} [\d.e+]+/s", shown.getvalue())
            assert bool(bars) is (bar is not None), (line, shown.getvalue())
            if bar is not None:
                assert any(bar in state for state in bars), (line, bars)
