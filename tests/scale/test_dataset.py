"""Actors score batches as a single machine scores all rows. Without Ray, which tests/scale/test_ray.py starts."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, create_autospec

import pyarrow as pa
import pytest
from safetensors.torch import load as load_sums

from tests import tiny
from tests.conftest import Run
from tests.scale.segments import assert_like_one_machine, draw_segments, scorers, write_jsonl
from twmd_registry import load
from twmd_registry.comparison.cells import SystemScore
from twmd_registry.errors import InputError, MissingExtraError, ModelError, SpecError, TwmdError
from twmd_registry.files.tables import Columns
from twmd_registry.scale import ScoredDataset, dataset, runner, score_dataset
from twmd_registry.scale.dataset import ScoringJob

SEGMENTS = draw_segments(23)
ROWS = pa.table({"prediction": [one for one, _ in SEGMENTS], "references": [several for _, several in SEGMENTS]})


def score(job: ScoringJob, rows: pa.Table, size: int = 5) -> pa.Table:
    """Do both passes in batches of some rows, as Ray's actors do."""
    batches = [rows.slice(start, size) for start in range(0, rows.num_rows, size)]
    add_up = dataset._Sum(pickle.loads(pickle.dumps(job)))
    sums = [content for batch in batches for content in add_up(batch)["sums"].to_pylist()]
    actor = dataset._Score(job, load_sums(dataset.add_sums(sums)))
    return pa.concat_tables([actor(batch) for batch in batches])


def test_two_passes_over_batches_equal_one_machine_by_every_kind_of_metric(bert: str, tmp_path: Path) -> None:
    members = f"twmd;model={bert};layer=2;centering=corpus,2*sbert;model={bert};layer=1;centering=none"
    regressor = load("stsscore", model=str(tiny.save_regressor(tmp_path / "regressor")), scale=5)
    own = [*scorers(bert), load("ensemble", members=members), regressor]
    assert_like_one_machine(score(ScoringJob(own, Columns()), ROWS).to_pylist(), own, SEGMENTS)


def test_bad_row_is_an_error_or_has_its_reason(bert: str) -> None:
    bad = pa.table({"prediction": [None], "references": [["a cat"]]}, schema=ROWS.schema)
    own = scorers(bert, "corpus")
    rows = score(ScoringJob(own, Columns(), strict=False), pa.concat_tables([ROWS, bad])).to_pylist()
    assert_like_one_machine(rows[:-1], own, SEGMENTS)
    assert "expected a text" in rows[-1]["rejected"]
    assert rows[-1]["bertscore_centered"] is None
    with pytest.raises(InputError, match="expected a text"):
        score(ScoringJob(own, Columns()), bad)


def test_worker_with_another_model_is_refused(tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "model")
    job = ScoringJob(scorers(folder, "none"), Columns())
    for own in job.scorers:
        own.close()
    copy = pickle.loads(pickle.dumps(job))
    tiny.save_encoder("bert", folder, seed=1)
    with pytest.raises(ModelError, match="same model"):
        dataset._Score(copy, {})(ROWS)


def test_columns_that_do_not_fit_are_refused(bert: str) -> None:
    job = ScoringJob(scorers(bert, "none"), Columns())
    for names, word in [
        (["ours", "reference"], "prediction"),
        (["prediction"], "references"),
        (["prediction", "reference", "references"], "keep one"),
        (["prediction", "reference", "twmd_f1"], "rename"),
        (["prediction", "reference", "rejected"], "rename"),
    ]:
        with pytest.raises(InputError, match=word):
            dataset.check_columns(names, job)


def test_metrics_and_data_sets_that_cannot_be_scored_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = load("twmd", centering="batch")
    for metrics, word in [
        ([], "empty"),
        ([3], "expected a list"),
        (load("ensemble(twmd;against=both,sbert)"), "needs sources"),
        (batch, "centering=corpus"),
        (["sbert", batch], "centering=corpus"),
    ]:
        with pytest.raises(SpecError, match=word):
            score_dataset(object(), metrics)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"\[ray\]"):
        score_dataset(object(), "twmd")


def test_ray_of_a_cluster_is_joined_and_one_that_cannot_start_is_an_error() -> None:
    calls = list[dict[str, Any]]()

    def init(**options: Any) -> None:
        calls.append(options)
        if "num_cpus" in options:
            raise ValueError("connecting to an existing cluster, num_cpus must not be provided")

    runner._start(SimpleNamespace(init=init))
    assert ["num_cpus" in options for options in calls] == [True, False]
    assert all(options.get("address") is None for options in calls)  # "auto" joins the Ray of another run
    with pytest.raises(TwmdError, match="timed out"):
        runner._start(SimpleNamespace(init=Mock(side_effect=Exception("timed out"))))


def test_command_prints_scores_and_counts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = {"twmd": SystemScore(0.51239, {}, (), {}, signature="twmd|...")}
    record = ScoredDataset("", (), {}, rows=3, rejected=1, metrics=metric, warnings={}, environments=(), seconds=1)
    score_files = create_autospec(runner.score_files, return_value=record)
    monkeypatch.setattr(runner, "score_files", score_files)
    path = write_jsonl(tmp_path / "rows.jsonl", SEGMENTS)
    status, out, _ = run(f"score --engine ray -i {path} -o out --num-workers 2 --resume --prediction-column ours")
    assert (status, out) == (0, "twmd|... = 0.5124\nrows scored: 3, rejected: 1, in out\n")
    (_, files, output, columns), options = score_files.call_args
    assert (files, output, columns) == ([str(path)], "out", Columns("ours"))
    assert options == {"num_workers": 2, "num_gpus": None, "resume": True, "strict": False}
