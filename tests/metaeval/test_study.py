"""Studies: their names, what they measure, how it is written."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from twmd_registry.metaeval.systems import system_level

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.agreement import Averaging, agreement
from twmd_registry.metaeval.correlation import Statistic, correlate
from twmd_registry.metaeval.side_by_side import FORMATS, TextTable, as_note, as_text
from twmd_registry.metaeval.significance import permutation, williams, williams_by_part
from twmd_registry.metaeval.study import Level, Study, run_study
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec, make_spec

FIRST = [
    "The heron waited by the weir.",
    "It rained all night.",
    "Bread was sold out.",
    "The tram was late.",
    "A dog ran off.",
    "She sang.",
]
SECOND = [
    "A heron was waiting at the weir.",
    "It rained the whole night.",
    "There was bread left.",
    "Snow fell.",
    "The dog stayed.",
    "She was singing.",
]
RATED = RatedSegments(["x"] * 3 + ["y"] * 3, FIRST, SECOND, np.array([5.0, 4.5, 1.0, 0.5, 1.5, 4.0]), 2)


def study(**changes: Any) -> Study:
    metrics = (make_spec("sbert"), make_spec("twmd"), make_spec("twmd", temperature=0.5))
    plain = Study("made.csv", content_of(RATED), metrics, (Statistic.PEARSON, Statistic.KENDALL), resamples=50)
    return replace(plain, **changes)


def test_one_name_is_one_study() -> None:
    names = [
        study().name,
        *(
            study(**change).name
            for change in (
                {"data": "other.csv"},
                {"content": "0" * 12},
                {"metrics": study().metrics[:2]},
                {"statistics": (Statistic.PEARSON,)},
                {"averaging": Averaging.NONE},
                {"level": Level.SYSTEM},
                {"resamples": 51},
                {"trials": 7},
                {"seed": 1},
                {"metrics": (*study().metrics, "bleu")},
                {"metrics": ("bleu", *study().metrics)},
                {"statistics": (Statistic.DARR,)},
                {"statistics": (Statistic.DARR,), "threshold": 3.0},
            )
        ),
    ]
    assert len(set(names)) == len(names)
    assert study().name == study().name
    assert names[0].startswith(f"study|data:made.csv@{content_of(RATED)}|metrics:sbert;model=")
    assert "|correlation:pearson,kendall|averaging:group|level:segment|bs:50|ar:0|seed:12345|version:" in names[0]


def test_a_study_measures_what_its_parts_do() -> None:
    found = run_study(study(trials=20), RATED, RunOptions())
    assert [one.label for one in found.measured] == ["sbert", "twmd temperature=0.15", "twmd temperature=0.5"]
    for one, spec in zip(found.measured, study().metrics, strict=True):
        alone = twmd_registry.scorer(one.signature).score(FIRST, SECOND)
        assert one.scores == pytest.approx(alone.scores, abs=1e-6)
        assert one.signature == str(alone.signature)
        assert one.agreements[0] == agreement("pearson", one.scores, RATED, resamples=50)
        assert one.agreements[1].groups[0].value == pytest.approx(
            correlate("kendall", one.scores[:3], RATED.ratings[:3])
        )
        assert isinstance(spec, MetricSpec)
        assert spec.metric == one.signature.partition("|")[0]
    first, second, _ = found.measured
    assert first.tests == ()
    assert second.tests[1] == permutation(second.scores, first.scores, RATED, "kendall", trials=20)
    assert second.williams == williams_by_part(second.scores, first.scores, RATED)
    assert [part.name for part in second.williams] == ["x", "y"]
    assert [part.test for part in second.williams] == [None, None]  # three segments are too few
    assert found.dropped == 2


def test_systems_are_ranked_by_their_means() -> None:
    rated = RATED._replace(group=["x"] * 6, system=["a", "b", "c"] * 2)
    wanted = study(content=content_of(rated), level=Level.SYSTEM, metrics=(make_spec("twmd"),))
    (found,) = run_study(wanted, rated, RunOptions()).measured
    expected = system_level("pearson", found.scores, rated, resamples=50)
    assert (found.agreements[0], found.accuracies[0]) == (expected.agreement, expected.accuracy)
    table = run_study(wanted, rated, RunOptions()).tables["pearson"]
    assert table.header == ("metric", "pearson", "95% interval", "accuracy", "x", "n")
    assert table.rows[0][3] == f"{expected.accuracy.value:.3f}"
    with pytest.raises(SpecError, match="tests compare metrics on segments"):
        replace(wanted, trials=5)
    assert study(level="system") == study(level=Level.SYSTEM)  # a name is what it names
    assert study(statistics=("pearson",)).statistics == (Statistic.PEARSON,)
    for wrong in ({"level": "sytem"}, {"averaging": "itm"}, {"statistics": ("tau",)}):
        with pytest.raises(SpecError, match="there is no"):
            study(**wrong)


@pytest.mark.parametrize(
    "changes",
    [
        {"statistics": ("darr",)},
        {"averaging": "item"},
        {"level": "system"},
        {"statistics": ("acc_eq",), "level": "system"},
    ],
)
def test_what_cannot_be_measured_costs_no_encoding(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twmd_registry.engine.scorer.score_all", lambda *_args, **_kwargs: pytest.fail("was encoded"))
    with pytest.raises((InputError, SpecError)):
        run_study(study(**changes), RATED, RunOptions())


def test_sacrebleus_metrics_stand_beside_ours(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_study(study(metrics=("chrf", make_spec("sbert"), "chrf++", "bleu"), trials=5), RATED, RunOptions())
    assert [one.label for one in found.measured] == ["chrf", "sbert", "chrf++", "bleu"]
    chrf, sbert, words, bleu = found.measured
    pairs = list(zip(FIRST, SECOND, strict=True))
    assert chrf.scores == pytest.approx([sacrebleu.sentence_chrf(a, [b]).score / 100 for a, b in pairs])
    assert words.scores == pytest.approx([sacrebleu.sentence_chrf(a, [b], word_order=2).score / 100 for a, b in pairs])
    assert bleu.scores == pytest.approx([sacrebleu.sentence_bleu(a, [b]).score / 100 for a, b in pairs])
    assert chrf.signature.startswith("chrf|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")
    assert words.signature.startswith("chrf++|nrefs:1|case:mixed|eff:yes|nc:6|nw:2|")
    assert bleu.signature.startswith("bleu|nrefs:1|case:mixed|eff:yes|tok:13a|")
    assert chrf.tests == ()  # the first is who others are tested against, whoever wrote it
    assert sbert.tests[0] == permutation(sbert.scores, chrf.scores, RATED, "pearson", trials=5)
    assert "|metrics:chrf,sbert;" in found.study.name
    assert ",chrf++,bleu|" in found.study.name
    assert main(["correlate", f"table:{table}", "-m", "chrf", "sbert", "--trials", "5", "--resamples", "0"]) == 0
    printed = capsys.readouterr().out
    assert "chrf: chrf|nrefs:1" in printed
    assert "higher Pearson correlation than chrf's" in printed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metrics": ("ter",)}, "there is none called 'ter'"),
        ({"metrics": ()}, "no metric to compare"),
        ({"statistics": ()}, "needs a correlation"),
        ({"resamples": -3}, "resamples of 0 or more, not -3"),
        ({"trials": -1}, "trials of 0 or more"),
        ({"seed": -1}, "seed of 0 or more"),
        ({"threshold": math.nan}, "threshold from 0"),
        ({"threshold": -5.0}, "threshold from 0"),
    ],
)
def test_a_study_that_cannot_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        study(**changes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-m", "ter"], "there is no metric 'ter'"),
        (["-m", "chrf", "--set", "word_order=0"], "without keys of their own"),
        (["-m", "chrf", "--preset", "roberta-large"], "without keys of their own"),
        (["-m", "twmd;layer=3", "--set", "layer=4"], "without keys of their own"),
        (["-m", "chrf", "--threshold", "3"], "--threshold is of darr"),
        (["-m", "sbert,twmd;layer=3"], "expected one metric with its keys, not 2"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    options: list[str], words: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["correlate", f"table:{table}", *options]) == 2
    assert words in capsys.readouterr().err


def test_a_metric_may_bring_keys_of_its_own(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["correlate", f"table:{table}", "-m", "sbert;layer=3", "sbert", "--set", "layer=4", "--resamples", "0"])
        == 0
    )
    printed = capsys.readouterr().out
    assert "sbert layer=3: sbert|model:" in printed
    assert [
        line.partition("|layer:")[2][0]
        for line in printed.splitlines()
        if line.startswith("sbert") and "|layer:" in line
    ] == ["3", "4"]


def test_a_part_without_a_value_stays_in_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    rows = [("x", 1, 1.0), ("x", 2, 2.0), ("x", 3, 5.0), ("y", 1, 3.0), ("y", 2, 3.0), ("y", 3, 3.0)]
    texts = [(FIRST[i], SECOND[i], rating, group) for i, (group, _, rating) in enumerate(rows)]
    path.write_text(
        "prediction,reference,rating,group\n" + "".join(f'"{a}","{b}",{c},{d}\n' for a, b, c, d in texts),
        encoding="utf-8",
    )
    assert main(["correlate", f"table:{path}", "-m", "chrf", "--resamples", "0", "-o", str(tmp_path / "out")]) == 0
    header, row = [
        line.split("\t") for line in (tmp_path / "out" / "pearson.tsv").read_text(encoding="utf-8").splitlines()[-2:]
    ]
    assert (header[-3:], row[-2]) == (["x", "y", "n"], "undefined")
    assert "chrf, pearson: the mean is over 1 of 2, without y (3 segments: " in capsys.readouterr().out
    assert main(["correlate", f"table:{path}", "-m", "chrf", "-o", str(path / "out")]) == 1
    assert "is a file: give a folder" in capsys.readouterr().err


@pytest.mark.parametrize("form", FORMATS.values())
def test_a_name_neither_steers_a_terminal_nor_breaks_a_row(form: str) -> None:
    name = "cs\x1b[2J\n\ten"
    shown = as_text(TextTable("pearson", ("metric", name), [(name, "0.5")]), form)
    assert shown == as_text(TextTable("pearson", ("metric", r"cs\x1b[2J\n\ten"), [(r"cs\x1b[2J\n\ten", "0.5")]), form)
    assert "\x1b" not in shown + as_note([name], form)
    assert "\n" not in as_note([name], form)


def test_a_result_prints_itself() -> None:
    found = run_study(study(metrics=(make_spec("sbert"),)), RATED, RunOptions())
    assert str(found).startswith("pearson, made.csv, averaging group, level segment")
    assert found.study.name in str(found)
    for form, sign in (("latex_booktabs", "% "), ("tsv", "# ")):
        assert f"\n{sign}sbert: {found.measured[0].signature}" in found.as_text(form)


def test_williams_by_part_is_williams_of_each_parts_correlations() -> None:
    rng = np.random.default_rng(4)
    ratings, noise = rng.normal(size=40), rng.normal(size=(2, 40))
    rated = RatedSegments(["x"] * 25 + ["y"] * 15, [""] * 40, [""] * 40, ratings, 0)
    a, b = ratings + 0.5 * noise[0], ratings + noise[1]
    for part, rows in zip(williams_by_part(a, b, rated), (slice(0, 25), slice(25, 40)), strict=True):
        r = np.corrcoef([ratings[rows], a[rows], b[rows]])
        assert part.test == pytest.approx(williams(r[0, 1], r[0, 2], r[1, 2], len(ratings[rows])))


def test_other_data_than_the_studys_are_refused() -> None:
    with pytest.raises(InputError, match=r"not the study's data: their content is @[0-9a-f]{12}, not @000000000000"):
        run_study(study(content="0" * 12), RATED, RunOptions())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "made.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["prediction", "reference", "rating", "lp"])
        writer.writerows(zip(FIRST, SECOND, RATED.ratings.tolist(), RATED.group, strict=True))
        writer.writerow(["Unrated.", "Not rated.", "", "x"])
    return path


def test_the_command_prints_tables_and_writes_everything(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["correlate", f"table:{table},group=lp", "-m", "sbert", "twmd", "--correlation", "pearson", "kendall"]
    assert main([*arguments, "--trials", "10", "--resamples", "20", "-o", str(out)]) == 0
    printed, said = capsys.readouterr()
    assert "made.csv: rows without a rating, or with a text too short, left out: 1 (row" in said
    whole = json.loads((out / "study.json").read_text(encoding="utf-8"))
    assert whole["study"] in printed
    assert [one["label"] for one in whole["metrics"]] == ["sbert", "twmd"]
    value = whole["metrics"][1]["agreement"]["pearson"]["value"]
    assert -1 <= value <= 1
    assert f"{value:.3f}" in (out / "pearson.txt").read_text(encoding="utf-8")
    header, *rows = [line.split("\t") for line in (out / "kendall.tsv").read_text(encoding="utf-8").splitlines()]
    assert header == ["metric", "kendall", "95% interval", "p (better)", "x", "y", "n"]
    assert [row[0] for row in rows] == ["sbert", "twmd"]
    segments = list(csv.DictReader((out / "segments.csv").open(encoding="utf-8", newline="")))
    assert [row["group"] for row in segments] == RATED.group
    alone = twmd_registry.scorer("twmd").score(FIRST, SECOND).scores
    assert [float(row["twmd"]) for row in segments] == pytest.approx(alone, abs=1e-6)


def test_data_are_named_by_an_option_as_in_other_commands_or_alone(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for data in ([f"table:{table}"], ["--data", f"table:{table}"]):
        assert main(["correlate", *data, "-m", "chrf", "--resamples", "0"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert main(["correlate", f"table:{table}", "--data", f"table:{table}", "-m", "chrf"]) == 2
    assert "name rated data once" in capsys.readouterr().err


def test_an_ensemble_may_have_members_with_keys(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = ["ensemble(sbert;layer=3,twmd)", "ensemble(sbert,twmd)"]
    assert main(["correlate", "--data", f"table:{table}", "-m", *metrics, "--resamples", "0"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\nensemble(sbert layer={layer},twmd): ensemble(sbert;" in printed for layer in (3, 4))


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "tsv", "json"])
def test_every_form_is_printed(form: str, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["correlate", f"table:{table}", "-m", "sbert", "--by", "none", "--resamples", "0", "--format", form]) == 0
    )
    printed = capsys.readouterr().out
    if form == "json":
        assert json.loads(printed)["metrics"][0]["agreement"]["pearson"]["low"] is None
    else:
        assert "sbert" in printed
        assert {"markdown": "|-----", "latex": "\\toprule", "tsv": "metric\tpearson", "text": "---"}[form] in printed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "item"], "averaging=item needs the item"),
        (["--correlation", "darr"], "darr compares segments of one item"),
        (["--correlation", "tau"], "there is no statistic 'tau'"),
    ],
)
def test_what_the_data_do_not_say_is_refused(
    options: list[str], words: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["correlate", f"table:{table}", "-m", "sbert", *options]) != 0
    assert words in capsys.readouterr().err


def test_constant_scores_have_no_correlation(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "same.csv"
    path.write_text("prediction,reference,rating\n" + "".join(f"Rain.,Rain.,{i}\n" for i in range(4)), encoding="utf-8")
    assert main(["correlate", f"table:{path}", "-m", "twmd"]) != 0
    assert "pearson is undefined everywhere" in capsys.readouterr().err
