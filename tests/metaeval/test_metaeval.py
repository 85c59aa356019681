from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests import tiny
from tests.conftest import shared
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.tune import GRID, settings, tune
from twmd_registry.rated.wmt import read_wmt
from twmd_registry.registry.options import RunOptions
from twmd_registry.scoring import Scorer


def write_rated(path: Path, rows: list[tuple[str, str, str, object]]) -> Path:
    lines = [json.dumps(dict(zip(("lang", "candidate", "reference", "score"), row, strict=True))) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


ROWS: list[tuple[str, str, str, object]] = [
    ("de-en", "the cat sat", "a cat sat", 0.5),
    ("de-en", "it ran", "the dog ran", 0.1),
    ("de-en", "we saw it", "we saw it again", 0.9),
    ("fi-en", "the hill", "a dog over the hill", -0.3),
    ("fi-en", "rain today", "rain today", 1.2),
    ("fi-en", "on the mat", "in the rain", -0.9),
    ("fi-en", "x", "the dog", 0.0),
]


def test_rows_with_fewer_than_two_characters_are_dropped_and_counted(tmp_path: Path) -> None:
    with pytest.warns(TwmdWarning, match=r"wmt.jsonl: .* left out: 1 \(line 7\)\.$"):
        rated = read_wmt(write_rated(tmp_path / "wmt.jsonl", ROWS))
    assert (len(rated.predictions), rated.dropped) == (6, 1)
    assert rated.group == ["de-en"] * 3 + ["fi-en"] * 3
    assert rated.ratings.tolist() == [0.5, 0.1, 0.9, -0.3, 1.2, -0.9]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not json", "expected a JSON object"),
        ('{"lang": "x"}', "no column 'candidate'"),
        ('{"lang": "x", "candidate": "aa", "reference": "bb"}', "no column 'score'"),
        ('{"lang": "x", "candidate": "aa", "reference": "bb", "score": "high"}', "score: expected a rating, a finite number, not 'high'"),
        ("[1]", "expected a JSON object, not"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = write_rated(tmp_path / "wmt.jsonl", ROWS[:2])
    path.write_text(path.read_text(encoding="utf-8") + line, encoding="utf-8")
    with pytest.raises(FileError, match=f"line 3(, )?:? ?{words}"):
        read_wmt(path)


def test_missing_and_empty_files_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        read_wmt(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(FileError, match="holds no rated segment"):
        read_wmt(tmp_path / "empty.jsonl")


def test_tuning_weighs_data_sets_by_size_and_puts_the_best_first(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "bert")
    data = [read_wmt(write_rated(tmp_path / "a.jsonl", ROWS)), read_wmt(write_rated(tmp_path / "b.jsonl", ROWS[:3]))]
    specs = [spec for spec in settings("trwmd", str(folder), [1, 2]) if spec.background is None and spec.centering != "background"]
    trials = tune(specs[::40], data, RunOptions())
    assert [trial.pearson for trial in trials] == sorted((trial.pearson for trial in trials), reverse=True)
    best = trials[0]
    parts = []
    for rated in data:
        scores = Scorer(best.spec).score(rated.predictions, rated.references).scores
        names, values = np.array(rated.group), np.array(scores)
        parts.append(np.mean([correlate("pearson", values[names == name], rated.ratings[names == name]) for name in set(rated.group)]))
    assert best.pearson == pytest.approx((6 * parts[0] + 3 * parts[1]) / 9, abs=1e-6)


def test_the_grid_holds_every_combination_of_keys_the_metric_uses() -> None:
    assert len(list(settings("moverscore", "a/b", [1, 2]))) == 2 * 3 * len(GRID["centering"])
    assert len(set(settings("twmd", "a/b", [1]))) == 3 * len(GRID["centering"]) * len(GRID["temperature"])
    assert len(list(settings("bertscore_centered", "a/b", [1]))) == 4 * len(GRID["centering"])
    assert len(list(settings("sbert", "a/b", [1]))) == 3 * (2 * len(GRID["centering"]) - 1)
    with pytest.raises(SpecError, match="nothing to tune|has no layer"):
        list(settings("stsscore", "a/b", [1]))


def test_the_public_data_reads_as_described() -> None:
    for year, rows in ((15, 1991), (16, 3353)):
        rated = read_wmt(shared(f"data/wmt/wmt{year}.jsonl"))
        assert len(rated.predictions) + rated.dropped == rows
        assert np.isfinite(rated.ratings).all()
