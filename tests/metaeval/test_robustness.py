"""Robustness: which texts are edited, how they are scored, what is said of them."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from scipy import stats

import twmd_registry
from tests.conftest import shared
from twmd_registry.cli import main
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.edited import UPPER, EditCandidates, choose_texts, edit_texts, lay_out
from twmd_registry.metaeval.edits import CONTROLS, Edit, collect_names, rules_with
from twmd_registry.metaeval.robustness import TIE, RobustnessStudy, prefer, run_robustness
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import make_spec

TEXTS = [
    ("The old mill is near Lund, but the road there was closed.", "The old mill is close to Lund, but its road was shut."),
    ("On Friday 40 people did not find Mora on a map .", "On Friday forty people didn't find Mora on the map."),
    ('He said "no" and then won two games in Umea.', 'He said "no" and won two games in Umea then.'),
    ("The river has been high since the rain began.", "The river is high since it began to rain."),
    ("Snow", "Snow fell."),
    ("Bread was sold out.", "Bread was sold out."),
]
DATA = RatedSegments(["xx-en"] * 6, [text for text, _ in TEXTS], [reference for _, reference in TEXTS], np.array([3.0, 3.0, 3.0, 3.0, 3.0, 3.0]), 0)
LOW = DATA._replace(predictions=["A mill."] * 6, ratings=np.full(6, 1.0))
BOTH = RatedSegments(["xx-en"] * 12, [*DATA.predictions, *LOW.predictions], [*DATA.references] * 2, np.r_[DATA.ratings, LOW.ratings], 0)
STUDY = RobustnessStudy(("made@0",), (make_spec("sbert"), make_spec("twmd"), make_spec("twmd", temperature=0.5), "bleu"), resamples=50)


def test_the_best_text_of_each_reference_is_chosen_if_it_is_good() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        n = int(rng.integers(1, 25))
        references = [f"r{k}" for k in rng.integers(0, 6, n)]
        texts = [f"r{k}" if k < 6 else f"t{i}" for i, k in enumerate(rng.integers(0, 30, n))]
        rated = RatedSegments([f"g{k}" for k in rng.integers(0, 2, n)], texts, references, rng.integers(0, 6, n).astype(float), 0)
        expected, low, same = set(), 0, 0
        for group in set(rated.group):
            own = [i for i in range(n) if rated.group[i] == group]
            least = np.percentile([rated.ratings[i] for i in own], 100 * UPPER)
            for reference in {references[i] for i in own}:
                best = max((i for i in own if references[i] == reference), key=lambda i: (rated.ratings[i], -i))
                low += bool(rated.ratings[best] < least)
                same += bool(rated.ratings[best] >= least and texts[best] == reference)
                if rated.ratings[best] >= least and texts[best] != reference:
                    expected.add((texts[best], (reference,)))
        if not expected:
            with pytest.raises(InputError, match=f"no text to edit: {low} best texts are rated too low, {same} are their own reference"):
                choose_texts([rated])
            continue
        found = choose_texts([rated])
        assert set(zip(found.texts, found.references, strict=True)) == expected
        assert (found.low, found.same) == (low, same)


def test_groups_of_different_data_are_different() -> None:
    low = LOW._replace(predictions=["A mill"] * 6)
    apart, together = choose_texts([DATA, low]), choose_texts([BOTH])
    assert (len(apart.texts), apart.low, apart.same) == (5 + 6, 0, 1)
    assert (len(together.texts), together.low, together.same) == (5, 0, 1)
    several = DATA._replace(references=[[reference, "Snow"] for reference in DATA.references])
    assert (choose_texts([several]).same, choose_texts([several]).references[0][1]) == (2, "Snow")


def test_every_text_is_edited_or_counted() -> None:
    chosen = EditCandidates((*DATA.predictions, "It is late"), tuple((one,) for one in [*DATA.references, "It is not late"]), 0, 0)
    rules = rules_with(collect_names(DATA.references))
    found = {own.edit: own for own in edit_texts(chosen, 4)}
    assert set(found) == set(Edit)
    for edit, own in found.items():
        assert len(own.rows) + own.left_out == len(chosen.texts)
        assert list(own.rows) == [i for i, text in enumerate(chosen.texts) if rules[edit](text) and not (edit is Edit.NEGATION and i == 6)]
        for row, text in zip(own.rows, own.texts, strict=True):
            assert text in {
                chosen.texts[row][: place.start] + choice + chosen.texts[row][place.end :]
                for place in rules[edit](chosen.texts[row])
                for choice in place.choices
            }
    assert 6 not in found[Edit.NEGATION].rows  # the only edit makes its reference of it
    assert edit_texts(chosen, 4) == edit_texts(chosen, 4) != edit_texts(chosen, 5)


def test_preference_is_what_two_loops_count() -> None:
    rng = np.random.default_rng(5)
    before, after = rng.normal(0.1, 1, (2, 60))
    after[:10] = before[:10] + rng.uniform(-0.9, 0.9, 10) * TIE
    found = prefer(Edit.NAME, before, after, resamples=4000, seed=1)
    wins, ties = 0.0, 0
    for one, other in zip(before, after, strict=True):
        ties += abs(one - other) <= TIE
        wins += 0.5 if abs(one - other) <= TIE else float(one > other)
    assert (found.n, found.ties) == (60, ties)
    assert ties == 10
    assert found.preferred == pytest.approx(wins / 60)
    assert found.difference == pytest.approx(sum(before - after) / 60)
    shares = np.where(np.abs(before - after) <= TIE, 0.5, before > after)
    for values, (low, high) in ((shares, found.preferred_interval), (before - after, found.difference_interval)):
        theirs = stats.bootstrap((values,), np.mean, n_resamples=4000, method="percentile", random_state=np.random.default_rng(2)).confidence_interval
        assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.05 * values.std())
    swapped = prefer(Edit.NAME, after, before, resamples=0, seed=1)
    assert found.preferred is not None
    assert swapped.preferred == pytest.approx(1 - found.preferred)
    assert swapped.preferred_interval == (None, None)


def test_no_texts_have_no_preference_and_no_number_is_no_score() -> None:
    nothing = prefer(Edit.NAME, np.zeros(0), np.zeros(0), resamples=10, seed=0)
    assert (nothing.n, nothing.preferred, nothing.difference, nothing.preferred_interval) == (0, None, None, (None, None))
    with pytest.raises(InputError, match=r"edited scores\[1\] is nan"):
        prefer(Edit.NAME, np.zeros(2), np.array([0.0, np.nan]), resamples=10, seed=0)
    with pytest.raises(InputError, match="edited scores of shape"):
        prefer(Edit.NAME, np.zeros(2), np.zeros(3), resamples=10, seed=0)


def test_scores_are_those_of_each_pair_by_itself() -> None:
    found = run_robustness(STUDY, [BOTH], RunOptions())
    assert [one.label for one in found.measured] == ["sbert", "twmd temperature=0.15", "twmd temperature=0.5", "bleu"]
    assert all(isinstance(spec, str) or spec.fingerprint for spec in found.study.metrics)
    for one in found.measured[:3]:
        scorer = twmd_registry.scorer(one.signature)
        rows = [(own.edit, row, text) for own in found.edited for row, text in zip(own.rows, own.texts, strict=True)]
        references = [found.chosen.references[row] for _, row, _ in rows]
        before = scorer.score([found.chosen.texts[row] for _, row, _ in rows], references).scores
        after = scorer.score([text for *_, text in rows], references).scores
        for own in one.preferences:
            differences = [x - y for (edit, *_), x, y in zip(rows, before, after, strict=True) if edit is own.edit]
            assert own.n == len(differences) > 0
            assert own.difference == pytest.approx(sum(differences) / own.n, abs=1e-5)
            assert own.preferred == pytest.approx(sum(x > 0 for x in differences) / own.n)
    bleu = found.measured[3]
    theirs = [sacrebleu.sentence_bleu(text, own).score / 100 for text, own in zip(found.pairs.predictions, found.pairs.references, strict=True)]
    assert bleu.scores == pytest.approx(theirs)
    everything = json.loads(json.dumps(found.as_dict()))
    assert everything["metrics"][3]["edits"][0]["difference"] == pytest.approx(bleu.preferences[0].difference)
    assert everything["left_out"] == {str(own.edit): own.left_out for own in found.edited}


def test_a_text_and_its_edited_form_are_centered_alike() -> None:
    spec = make_spec("twmd", centering="batch", centering_size=2)
    found = run_robustness(replace(STUDY, metrics=(spec,), resamples=0), [DATA], RunOptions())
    scores = found.measured[0].scores
    for row in range(0, 8, 2):
        both = slice(row, row + 2)
        alone = twmd_registry.scorer("twmd", centering="batch", centering_size=2).score(found.pairs.predictions[both], found.pairs.references[both])
        assert scores[both] == pytest.approx(alone.scores, abs=1e-5)


def test_tables_name_every_edit_and_say_what_is_undefined() -> None:
    found = run_robustness(replace(STUDY, metrics=(make_spec("sbert"), "chrf")), [DATA], RunOptions())
    tables = found.tables
    assert list(tables) == ["preferred", "difference", "ties"]
    for table in tables.values():
        assert table.header == ("edit", "meaning", "n", "left out", "sbert", "chrf")
        assert [row[0] for row in table.rows] == list(Edit)
        assert {row[0] for row in table.rows if row[1] == "kept"} == CONTROLS
        assert all(int(row[2]) + int(row[3]) == len(found.chosen.texts) for row in table.rows)
    for k, row in enumerate(tables["preferred"].rows):
        own = found.measured[0].preferences[k]
        between = own.preferred_interval
        limits = "" if own.n == 1 else f" ({between.low:.3f} .. {between.high:.3f})"
        assert row[4] == f"{own.preferred:.3f}{limits}"
    alone = replace(STUDY, metrics=(make_spec("sbert"),), resamples=0)
    quoteless = run_robustness(alone, [DATA._replace(predictions=[text.replace('"', "") for text in DATA.predictions])], RunOptions())
    row = next(row for row in quoteless.tables["preferred"].rows if row[0] == "quotes")
    assert row[2:] == ("0", "5", "-")
    assert "left out: 0 rated lower, 1 equal to their reference" in str(quoteless)


def test_one_name_is_one_study() -> None:
    changes: tuple[dict[str, object], ...] = (
        {"data": ("x@1",)},
        {"metrics": STUDY.metrics[:1]},
        {"metrics": STUDY.metrics[:3]},
        {"resamples": 3},
        {"seed": 1},
    )
    names = {STUDY.name, *(replace(STUDY, **change).name for change in changes)}  # type: ignore[arg-type]
    assert len(names) == 6
    assert all(name.startswith("robustness|data:") for name in names)
    with pytest.raises(SpecError, match="no metric to compare"):
        RobustnessStudy(("made@0",), ())


def test_texts_without_english_are_refused() -> None:
    foreign = DATA._replace(predictions=["дождь"] * 6, references=[f"снег {k}" for k in range(6)])
    with pytest.raises(InputError, match="no edit applies to any of 6 texts"):
        run_robustness(STUDY, [foreign], RunOptions())


@pytest.fixture
def wmt(tmp_path: Path) -> Path:
    path = tmp_path / "made.jsonl"
    lines = [{"lang": "xx-en", "candidate": text, "reference": reference, "score": 1.0} for text, reference in TEXTS]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {**lines[0], "score": None}]), encoding="utf-8")
    return path


def test_the_command_prints_and_writes(wmt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["robustness", "--data", f"wmt:{wmt}", "-m", "sbert", "sbert;layer=3", "bleu", "--set", "layer=4", "--resamples", "20", "-o", str(out)]
    assert main(command) == 0
    printed, said = capsys.readouterr()
    assert "made.jsonl: rows without a rating, or with a text too short, left out: 1 (row 7)." in said
    assert "robustness|data:made.jsonl@" in printed
    for layer in ("4", "3"):
        assert re.search(rf"^sbert layer={layer}: sbert\|.*\|layer:{layer}\|", printed, re.MULTILINE)
    assert {path.name for path in out.iterdir()} == {
        *(f"{name}.{suffix}" for name in ("preferred", "difference", "ties") for suffix in ("txt", "md", "tex", "tsv")),
        "robustness.json",
        "edits.csv",
    }
    everything = json.loads((out / "robustness.json").read_text(encoding="utf-8"))
    with (out / "edits.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["edit"] for row in rows} == set(Edit)
    for edit in everything["metrics"][0]["edits"]:
        own = [float(row["sbert layer=4"]) - float(row["sbert layer=4 edited"]) for row in rows if row["edit"] == edit["edit"]]
        assert len(own) == edit["n"]
        assert sum(own) / len(own) == pytest.approx(edit["difference"])
    for form in ("markdown", "tsv", "latex", "json"):
        assert main([*command[:5], "--resamples", "0", "--format", form]) == 0
        assert "contraction" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["-m", "sbrt"], "did you mean 'sbert'"),
        (["-m", "sbert;layr=3"], "layr"),
        (["-m", "sbert;layer=3,twmd"], "expected one metric with its keys, not 2"),
    ],
)
def test_the_command_refuses_what_is_no_metric(wmt: Path, given: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["robustness", "--data", f"wmt:{wmt}", *given]) != 0
    assert message in capsys.readouterr().err


def test_every_edit_applies_to_real_translations() -> None:
    data = [read_rated(f"wmt:{shared('data/wmt')}/wmt{year}.jsonl") for year in (15, 16)]
    chosen = choose_texts(data)
    assert len(chosen.texts) + chosen.low + chosen.same == sum(len(set(zip(one.group, one.references, strict=True))) for one in data)
    found = edit_texts(chosen, 12345)
    assert all(len(own.rows) >= 100 for own in found)
    pairs = lay_out(chosen, found)
    assert all(one != other for one, other in zip(pairs.predictions[::2], pairs.predictions[1::2], strict=True))
    assert pairs.references[::2] == pairs.references[1::2]
