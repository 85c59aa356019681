"""Robustness: how challenge sets are read and paired, and what is measured on them."""

from __future__ import annotations

import csv
import json
import lzma
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from tests.conftest import shared
from twmd_registry.cli import main
from twmd_registry.errors import InputError, SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.study import TIE, pair_up, prefer, run_robustness
from twmd_registry.registry.options import RunOptions

TEXTS = [
    ("The old mill is near Lund.", "The old mill is not near Lund."),
    ("It rained on Friday.", "It rained."),
    ("We saw a heron.", "We saw a stork."),
]


def write_demetr(path: Path, rows: int = 3) -> Path:
    lines = [
        {
            "pert_name": kind,
            "id": i,
            "mt_sent": text,
            "pert_sent": edited,
            "eng_sent": f"{text[:-1]} today.",
            "severity": "minor",
        }
        for kind in ("negation", "dropped")
        for i, (text, edited) in enumerate(TEXTS[:rows])
    ]
    path.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return path


def test_demetr_gives_two_segments_of_each_row(tmp_path: Path) -> None:
    rated = read_rated(f"demetr:{write_demetr(tmp_path / 'demetr.jsonl.xz')},first=2")
    assert rated.group == ["negation"] * 4 + ["dropped"] * 4
    assert rated.predictions[:4] == [*TEXTS[0], *TEXTS[1]]
    assert rated.item is not None
    assert rated.item[:4] == ["0", "0", "1", "1"]
    assert rated.ratings.tolist() == [1.0, 0.0] * 4


@pytest.mark.parametrize("first", ["0", "x", "-1"])
def test_demetr_refuses_an_impossible_number_of_rows(tmp_path: Path, first: str) -> None:
    with pytest.raises(SpecError, match="expected a whole number from 1"):
        read_rated(f"demetr:{write_demetr(tmp_path / 'demetr.jsonl.xz')},first={first}")


def test_better_rated_text_of_a_pair_comes_first_whatever_the_order() -> None:
    data = RatedSegments(
        ["a", "b", "a", "b"],
        ["w1", "b2", "b1", "w2"],
        ["r1", "r2", "r1", "r2"],
        np.array([1.0, 9.0, 2.0, 3.0]),
        0,
        ["x", "x", "x", "x"],
    )
    pairs = pair_up([data])
    assert (pairs.group, pairs.predictions) == (["a", "a", "b", "b"], ["b1", "w1", "b2", "w2"])


@pytest.mark.parametrize(
    ("ratings", "item", "words"),
    [
        ([1.0, 1.0], ["x", "x"], "has 2 segments: expected two with different ratings"),
        ([1.0, 2.0], ["x", "y"], "has 1 segments"),
        ([1.0, 2.0], None, "needs pairs"),
    ],
)
def test_data_without_pairs_are_refused(ratings: list[float], item: list[str] | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        pair_up([RatedSegments(["a", "a"], ["p", "q"], ["r", "r"], np.array(ratings), 0, item)])


def test_preference_is_the_share_of_better_texts_that_score_higher() -> None:
    rng = np.random.default_rng(0)
    better, worse = rng.normal(size=200), rng.normal(size=200)
    worse[:20] = better[:20] + TIE / 2
    found = prefer(better, worse, resamples=200, seed=1)
    expected = np.mean([0.5 if abs(b - w) <= TIE else float(b > w) for b, w in zip(better, worse, strict=True)])
    assert (found.n, found.ties) == (200, 20)
    assert found.preferred == pytest.approx(expected)
    assert found.difference == pytest.approx(np.mean(better - worse))
    low, high = found.preferred_interval
    assert low is not None
    assert high is not None
    assert low < expected < high
    assert (
        1.5
        < (high - low)
        / (2 * np.std([0.5 if abs(b - w) <= TIE else b > w for b, w in zip(better, worse, strict=True)]) / np.sqrt(200))
        < 2.5
    )


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match="better"):
        prefer(np.array([np.nan]), np.array([0.0]), resamples=0, seed=0)


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_command_prints_and_writes_what_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = f"demetr:{write_demetr(tmp_path / 'demetr.jsonl.xz')}"
    assert (
        main(
            ["robustness", "--data", data, "-m", "twmd", "chrf", "-q", "-o", str(tmp_path / "out"), "--format", "json"]
        )
        == 0
    )
    printed = json.loads(capsys.readouterr().out)
    assert [one["label"] for one in printed["metrics"]] == ["twmd", "chrf"]
    references = [f"{text[:-1]} today." for text, _ in TEXTS]
    scorer = twmd_registry.scorer("twmd")
    better, worse = (scorer.score([pair[side] for pair in TEXTS], references).scores for side in (0, 1))
    own = printed["metrics"][0]["edits"]["negation"]
    assert own["difference"] == pytest.approx(np.mean(np.subtract(better, worse)), abs=1e-6)
    assert own["preferred"] == np.mean(np.subtract(better, worse) > 0)
    with (tmp_path / "out" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert float(rows[0]["twmd better"]) == pytest.approx(better[0], abs=1e-6)
    lines = (tmp_path / "out" / "preferred.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["edit", "negation", "dropped", "average"]


def test_study_is_named_by_data_metrics_resamples_and_seed() -> None:
    data = RatedSegments(["a", "a"], ["p", "q"], ["p", "p"], np.array([1.0, 0.0]), 0, ["x", "x"])
    found = run_robustness({"made@0": data}, ["chrf"], RunOptions(), resamples=0, seed=7)
    assert found.name == f"robustness|data:made@0|metrics:chrf|bs:0|seed:7|version:{twmd_registry.__version__}"
    assert found.preferences[0]["a"].preferred == 1.0


def test_demetr_as_published_is_read_whole() -> None:
    rated = read_rated(f"demetr:{shared('data/demetr.jsonl.xz')},first=3")
    pairs = pair_up([rated])
    assert len(pairs.predictions) == 35 * 3 * 2
    assert pairs.ratings.tolist() == [1.0, 0.0] * (35 * 3)
