"""Studies: names, measurements and output."""

from __future__ import annotations

import csv
import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

import twmd_registry
from tests.cli.parsing import rows_of
from tests.conftest import Patch, Run, shared
from tests.rated_files import system_rows, write_rows
from twmd_registry.comparison.text_table import TextTable, as_report
from twmd_registry.errors import InputError, SpecError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of, read_rated
from twmd_registry.metaeval.agreement import agreement, permutation, williams_by_part
from twmd_registry.metaeval.side_by_side import score_lexically
from twmd_registry.metaeval.study import SYSTEM, Study, StudyResult, run_study
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

FIRST = ["The heron waited by the weir.", "It rained all night.", "Bread was sold out.", "The tram was late."]
FIRST += ["A dog ran off.", "She sang."]
SECOND = ["A heron was waiting at the weir.", "It rained the whole night.", "There was bread left.", "Snow fell."]
SECOND += ["The dog stayed.", "She was singing."]
RATED = RatedSegments(["x"] * 3 + ["y"] * 3, FIRST, SECOND, np.array([5.0, 4.5, 1.0, 0.5, 1.5, 4.0]), 2)
PLAIN = Study(
    "made.csv",
    content_of(RATED),
    (make_spec("sbert"), make_spec("twmd"), make_spec("twmd", temperature=0.5)),
    ("pearson", "kendall"),
    resamples=50,
)


@pytest.fixture(scope="module")
def result() -> StudyResult:
    return run_study(replace(PLAIN, trials=20), RATED, RunOptions())


def test_study_name_differs_with_every_field() -> None:
    changes: list[dict[str, Any]] = [
        {"data": "other.csv"},
        {"content": "0" * 12},
        {"metrics": PLAIN.metrics[:2]},
        {"statistics": ("pearson",)},
        {"averaging": "none"},
        {"level": SYSTEM},
        {"resamples": 51},
        {"trials": 7},
        {"seed": 1},
        {"metrics": ("bleu", *PLAIN.metrics)},
        {"statistics": ("darr",)},
        {"statistics": ("darr",), "threshold": 3.0},
    ]
    names = {PLAIN.name, *(replace(PLAIN, **change).name for change in changes)}
    assert len(names) == len(changes) + 1
    assert PLAIN.name.startswith(f"study|data:made.csv@{content_of(RATED)}|metrics:sbert;model=")
    assert "|correlation:pearson,kendall|averaging:group|level:segment|bs:50|ar:0|seed:12345|version:" in PLAIN.name


def test_study_has_the_numbers_of_its_parts(result: StudyResult) -> None:
    assert [metric.label for metric in result.scored] == ["sbert", "twmd temperature=0.1", "twmd temperature=0.5"]
    for metric, agreements in zip(result.scored, result.agreements, strict=True):
        alone = twmd_registry.load(metric.signature).score(FIRST, SECOND)
        assert metric.scores == pytest.approx(alone.scores, abs=1e-6)
        assert metric.signature == str(alone.signature)
        expected = {name: agreement(name, metric.scores, RATED, resamples=50) for name in PLAIN.statistics}
        assert agreements == expected
    first, second, _ = (metric.scores for metric in result.scored)
    assert (result.tests[0], result.williams[0]) == ({}, {})
    assert result.tests[1]["kendall"] == permutation(second, first, RATED, "kendall", trials=20)
    assert result.williams[1] == williams_by_part(second, first, RATED) == {"x": None, "y": None}  # 3 segments each
    assert result.dropped == 2


def test_result_prints_its_tables_and_signatures(result: StudyResult) -> None:
    assert result.as_text("txt").startswith("pearson, made.csv, averaging group, level segment")
    assert result.study.name in result.as_text("txt")
    for form, sign in (("tex", "% "), ("tsv", "# ")):
        assert f"\n{sign}sbert: {result.scored[0].signature}" in result.as_text(form)
    name, safe = "cs\x1b[2J\n\ten", r"cs\x1b[2J\n\ten"  # control characters of a name are escaped
    for form in ("txt", "tsv"):
        shown, expected = (
            as_report([TextTable("r", ("metric", label), [(label, "0.5")])], [label], form) for label in (name, safe)
        )
        assert shown == expected


def test_sacrebleu_metrics_are_scored_and_tested_with_ours() -> None:
    result = run_study(
        replace(PLAIN, metrics=("chrf", make_spec("sbert"), "chrf++", "bleu"), trials=5), RATED, RunOptions()
    )
    assert [metric.label for metric in result.scored] == ["chrf", "sbert", "chrf++", "bleu"]
    chrf, sbert, words, bleu = result.scored
    pairs = list(zip(FIRST, SECOND, strict=True))
    assert chrf.scores == pytest.approx([sacrebleu.sentence_chrf(a, [b]).score / 100 for a, b in pairs])
    assert words.scores == pytest.approx([sacrebleu.sentence_chrf(a, [b], word_order=2).score / 100 for a, b in pairs])
    assert bleu.scores == pytest.approx([sacrebleu.sentence_bleu(a, [b]).score / 100 for a, b in pairs])
    assert chrf.signature.startswith("chrf|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")
    assert words.signature.startswith("chrf++|nrefs:1|case:mixed|eff:yes|nc:6|nw:2|")
    assert bleu.signature.startswith("bleu|nrefs:1|case:mixed|eff:yes|tok:13a|")
    assert result.tests[0] == {}
    assert result.tests[1]["pearson"] == permutation(sbert.scores, chrf.scores, RATED, "pearson", trials=5)
    assert "|metrics:chrf,sbert;" in result.study.name
    assert ",chrf++,bleu|" in result.study.name


def test_impossible_study_is_refused() -> None:
    with pytest.raises(SpecError, match="only spa"):
        replace(PLAIN, level="system", trials=5)
    with pytest.raises(SpecError, match="level system"):
        replace(PLAIN, statistics=("pearson", "spa"))


@pytest.mark.parametrize(("changes", "label"), [({"statistics": ("darr",)}, "item"), ({"level": "system"}, "system")])
def test_study_without_labels_is_refused_before_encoding(changes: Any, label: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr("twmd_registry.engine.scorer.score_with", lambda *_args, **_kwargs: pytest.fail("was encoded"))
    with pytest.raises(InputError, match=f"needs the {label} of every segment"):
        run_study(replace(PLAIN, **changes), RATED, RunOptions())


@pytest.fixture
def table(folder: Path) -> str:
    with (folder / "made.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["prediction", "reference", "rating", "lp"])
        writer.writerows(zip(FIRST, SECOND, RATED.ratings.tolist(), RATED.group, strict=True))
        writer.writerow(["Unrated.", "Not rated.", "", "x"])
    return "table:made.csv"


def test_correlate_prints_tables_and_writes_everything(table: str, folder: Path, run: Run) -> None:
    out = folder / "out"
    options = "-m sbert twmd --correlation pearson kendall --trials 10 --resamples 20 -o out"
    _, printed, warned = run(f"correlate {table},group=lp {options}")
    assert "made.csv: rows without a rating, left out: 1 (row" in warned
    assert "higher Pearson correlation than sbert's" in printed
    whole = json.loads((out / "study.json").read_text(encoding="utf-8"))
    assert whole["study"] in printed
    assert [metric["label"] for metric in whole["metrics"]] == ["sbert", "twmd"]
    value = whole["metrics"][1]["agreement"]["pearson"]["value"]
    assert -1 <= value <= 1
    assert f"{value:.3f}" in (out / "pearson.txt").read_text(encoding="utf-8")
    header, *rows = [line.split("\t") for line in (out / "kendall.tsv").read_text(encoding="utf-8").splitlines()]
    assert header == ["metric", "kendall", "95% interval", "rank", "p (better)", "x", "y", "n"]
    assert [row[0] for row in rows] == ["twmd", "sbert"]
    segments = rows_of(out / "segments.csv")
    assert [row["group"] for row in segments] == RATED.group
    alone = twmd_registry.load("twmd").score(FIRST, SECOND).scores
    assert [float(row["twmd"]) for row in segments] == pytest.approx(alone, abs=1e-6)


EDITS = [
    ("The old mill is near Lund.", "The old mill is not near Lund."),
    ("It rained on Friday.", "It rained."),
    ("We saw a heron.", "We saw a stork."),
]


@pytest.fixture
def demetr(tmp_path: Path) -> str:
    lines = [
        {"pert_name": kind, "id": i, "mt_sent": text, "pert_sent": edited, "eng_sent": f"{text[:-1]} today."}
        for kind in ("negation", "dropped")
        for i, (text, edited) in enumerate(EDITS)
    ]
    content = "".join(json.dumps(line | {"severity": "minor"}) + "\n" for line in lines)
    (tmp_path / "demetr.jsonl.xz").write_bytes(lzma.compress(content.encode()))
    return f"demetr:{tmp_path / 'demetr.jsonl.xz'}"


@pytest.mark.parametrize(
    ("edited", "place"),
    [
        ("a dog slept on the mat today", "1st third"),
        ("the cat slept under the mat today", "2nd third"),
        ("the cat slept on the mat", "3rd third"),
        ("the cat slept on the mat today !", "3rd third"),
        ("mat today", "whole"),
        (".", "whole"),
    ],
)
def test_demetr_is_grouped_by_the_edited_third_of_the_sentence(edited: str, place: str, tmp_path: Path) -> None:
    row = {"pert_name": "kind", "id": 1, "eng_sent": "the cat slept", "mt_sent": "the cat slept on the mat today"}
    (tmp_path / "demetr.jsonl").write_text(f"{json.dumps(row | {'pert_sent': edited})}\n")
    rated = read_rated(f"demetr:{tmp_path / 'demetr.jsonl'},by=position")
    assert (rated.group, rated.item) == ([place] * 2, ["kind 1"] * 2)


def test_demetr_rows_with_an_edit_have_two_segments(demetr: str) -> None:
    rated = read_rated(f"{demetr},first=2")
    assert (rated.group, rated.ratings.tolist()) == (["negation"] * 4 + ["dropped"] * 4, [1.0, 0.0] * 4)
    assert rated.predictions[:4] == [*EDITS[0], *EDITS[1]]
    assert (rated.item or [])[:4] == ["0", "0", "1", "1"]
    for key, words in (("first=x", "expected first=N, a whole number"), ("by=place", "by=edit or position")):
        with pytest.raises(SpecError, match=words):
            read_rated(f"{demetr},{key}")
    with pytest.warns(TwmdWarning, match=r"rows whose edit changed nothing, left out: \d+ \(row \d+, row"):
        rated = read_rated(f"demetr:{shared('data/demetr.jsonl.xz')},first=100")
    assert rated.dropped == 35 * 100 - len(rated.group) // 2  # each row once
    assert rated.group.count("critical_id10_numbers_replaced") == 2 * 44


def test_challenge_set_accuracy_is_the_share_of_better_texts_scored_higher(
    demetr: str, tmp_path: Path, run: Run
) -> None:
    printed = run(f"correlate {demetr} -m twmd chrf -q -o {tmp_path} --format json")[1]
    first, second = json.loads(printed)["metrics"]
    assert (first["label"], second["label"]) == ("twmd", "chrf")
    references, scorer = [f"{text[:-1]} today." for text, _ in EDITS], twmd_registry.load("twmd")
    better, worse = (scorer.score([pair[side] for pair in EDITS], references).scores for side in (0, 1))
    groups = {group["name"]: group for group in first["agreement"]["accuracy"]["groups"]}
    assert groups["negation"]["value"] == np.mean(np.subtract(better, worse) > 0)
    assert groups["negation"]["n"] == 2 * len(EDITS)
    assert float(rows_of(tmp_path / "segments.csv")[0]["twmd"]) == pytest.approx(better[0], abs=1e-6)


@pytest.mark.parametrize(
    ("references", "nrefs"), [(["a", "b"], "1"), ([["a", "b"]] * 2, "2"), ([["a"], ["b", "c"]], "var")]
)
def test_signature_of_sacrebleus_metric_has_the_number_of_references(references: list[Any], nrefs: str) -> None:
    rated = RATED._replace(predictions=FIRST[:2], references=references)
    assert score_lexically("chrf", rated)[1].startswith(f"chrf|nrefs:{nrefs}|case:mixed|")


def test_rouge_is_the_f1_of_the_best_reference() -> None:
    rated = RATED._replace(predictions=["the cat sat on mats"], references=[["dogs", "on mats the cat sat today"]])
    for name, score in (("rouge1", 10 / 11), ("rouge2", 6 / 9), ("rougeL", 6 / 11)):
        scores, signature = score_lexically(name, rated)
        assert scores == pytest.approx((score,))
        assert signature.startswith(f"{name}|nrefs:2|stemmer:no|version:")


def test_figures_have_a_panel_per_metric(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    data = write_rows(tmp_path / "own.jsonl", [row | {"group": "a/../../own"} for row in system_rows()])
    command = f"correlate {data} -m chrf bleu -q -o {tmp_path}"
    assert run(command)[0] == 0
    drawn = (tmp_path / "scatter.svg").read_text(encoding="utf-8")
    assert [name in drawn for name in (">chrf<", ">bleu<")] == [True, True]
    assert run(f"{command} --level system --correlation spa")[0] == 0
    drawn = (tmp_path / "spa-a_.._.._own.svg").read_text(encoding="utf-8")
    assert drawn.index(">s3<") < drawn.index(">s0<")  # the best system first
    assert (tmp_path / "spa-a_.._.._own.png").read_bytes().startswith(b"\x89PNG")
