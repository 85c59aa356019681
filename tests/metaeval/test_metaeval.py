from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from tests import tiny
from tests.conftest import shared
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.judgments.wmt import read_wmt
from twmd_registry.metaeval import tune as module
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.tune import GRID, MOST_SETTINGS, estimate_seconds, settings, spread, tune
from twmd_registry.registry.options import RunOptions


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
    with pytest.warns(TwmdWarning, match=r"wmt.jsonl: .* left out: 1 \(row 7\)\.$"):
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
        (
            '{"lang": "x", "candidate": "aa", "reference": "bb", "score": "high"}',
            "score: expected a rating, a finite number, not 'high'",
        ),
        ("[1]", "expected a JSON object, not"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = write_rated(tmp_path / "wmt.jsonl", ROWS[:2])
    path.write_text(path.read_text(encoding="utf-8") + line, encoding="utf-8")
    with pytest.raises(FileError, match=f"row 3(, )?:? ?{words}"):
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
    specs = [
        spec
        for spec in settings("trwmd", str(folder), [1, 2])
        if spec.background is None and spec.centering != "background"
    ]
    trials = tune(specs[::40], data, RunOptions())
    assert [trial.pearson for trial in trials] == sorted((trial.pearson for trial in trials), reverse=True)
    best = trials[0]
    parts = []
    for rated in data:
        scores = Scorer(best.spec).score(rated.predictions, rated.references).scores
        names, values = np.array(rated.group), np.array(scores)
        parts.append(
            np.mean(
                [correlate("pearson", values[names == name], rated.ratings[names == name]) for name in set(rated.group)]
            )
        )
    assert best.pearson == pytest.approx((6 * parts[0] + 3 * parts[1]) / 9, abs=1e-6)


def test_the_grid_holds_every_combination_of_keys_the_metric_uses() -> None:
    assert len(list(settings("moverscore", "a/b", [1, 2]))) == 2 * 3 * len(GRID["centering"])
    assert len(set(settings("twmd", "a/b", [1]))) == 3 * len(GRID["centering"]) * len(GRID["temperature"])
    assert len(list(settings("bertscore_centered", "a/b", [1]))) == 4 * len(GRID["centering"])
    assert len(list(settings("sbert", "a/b", [1]))) == 3 * (2 * len(GRID["centering"]) - 1)
    with pytest.raises(SpecError, match="nothing to tune|has no layer"):
        list(settings("stsscore", "a/b", [1]))


TUNABLE = ("twmd", "trwmd", "moverscore", "bertscore_centered", "wordset_cka", "sbert")


@pytest.mark.parametrize("metric", TUNABLE)
@pytest.mark.parametrize(
    ("depth", "most"), [(6, MOST_SETTINGS), (24, MOST_SETTINGS), (24, MOST_SETTINGS // len(TUNABLE)), (6, 5)]
)
def test_a_limit_takes_layers_and_temperatures_before_other_keys(metric: str, depth: int, most: int) -> None:
    layers = range(1, depth + 1)
    everything, found = list(settings(metric, "a/b", layers)), list(settings(metric, "a/b", layers, most=most))
    assert 0 < len(found) <= most
    assert set(found) <= set(everything)
    if most >= MOST_SETTINGS:
        for name in ("special", "centering", "vectors"):
            assert {getattr(spec, name) for spec in found} == {getattr(spec, name) for spec in everything}
        assert len({spec.layer for spec in found}) >= 3
    whole = list(settings(metric, "a/b", [2, 3], {"temperature": [0.1], "centering": ["none"]}, most=MOST_SETTINGS))
    assert whole == list(settings(metric, "a/b", [2, 3], {"temperature": [0.1], "centering": ["none"]}))


def test_layers_that_were_asked_for_are_all_tried() -> None:
    found = list(settings("twmd", "a/b", range(1, 25), most=MOST_SETTINGS, kept=["layer"]))
    assert {spec.layer for spec in found} == set(range(1, 25))
    assert len(found) <= MOST_SETTINGS


def test_values_are_spread_away_from_the_ends() -> None:
    assert spread(range(1, 25), 4) == [4, 10, 16, 22]
    assert spread("abc", 5) == ["a", "b", "c"]
    assert spread([], 3) == []


def test_time_is_estimated_from_what_few_settings_take_on_few_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rated = read_wmt(write_rated(tmp_path / "a.jsonl", ROWS * 50))
    scorers = [Scorer(spec) for spec in settings("trwmd", str(tmp_path), [1], {"centering": ["none"]})]
    clock = [0.0]
    calls: list[tuple[int, int]] = []

    def score_all(few: list[Scorer], predictions: list[str], references: list[list[str]]) -> None:
        assert all(isinstance(one, list) for one in references)
        calls.append((len(few), len(predictions)))
        clock[0] += len(predictions) * (2.0 + 0.5 * len(few))  # encoding, and half a second a setting

    monkeypatch.setattr(module, "score_all", score_all)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    seconds = estimate_seconds(scorers, [rated, rated])
    assert len(scorers) == 36
    assert calls == [(8, 64), (1, 64), (8, 64)]
    assert seconds == pytest.approx(2 * len(rated.ratings) * (2.0 + 0.5 * len(scorers)))


def test_tuning_reports_every_segment_once_and_announces_once(tmp_path: Path) -> None:
    folder = str(tiny.save_encoder("bert", tmp_path / "bert"))
    data = [
        read_wmt(write_rated(tmp_path / "a.jsonl", ROWS * 2)),
        read_wmt(write_rated(tmp_path / "b.jsonl", ROWS[:3])),
    ]
    specs = list(settings("trwmd", folder, [1], {"centering": ["none"], "temperature": [0.1, 0.2]}))
    done: list[int] = []
    announced: list[float] = []
    tune(specs, data, RunOptions(), done.append, announced.append)
    assert sum(done) == sum(len(rated.ratings) for rated in data) == 6 * 2 + 3
    assert len(announced) == 1
    assert announced[0] > 0


def test_the_public_data_reads_as_described() -> None:
    for year, rows in ((15, 1991), (16, 3353)):
        rated = read_wmt(shared(f"data/wmt/wmt{year}.jsonl"))
        assert len(rated.predictions) + rated.dropped == rows
        assert np.isfinite(rated.ratings).all()
