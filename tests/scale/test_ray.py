"""On a local Ray, started once: nothing is lost or doubled when workers are killed and a run is continued."""

from __future__ import annotations

import gzip
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.scale.segments import assert_like_one_machine, draw_segments, scorers, write_jsonl, write_parquet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, InputError, SpecError, TwmdError, TwmdWarning
from twmd_registry.files.storage import list_tables
from twmd_registry.files.tables import Columns
from twmd_registry.scale import score_dataset, score_files
from twmd_registry.scale.runner import SPARE_CPUS

ray = pytest.importorskip("ray")

from twmd_registry.scale.reader import read_files  # noqa: E402 (needs Ray)

SEGMENTS = draw_segments(23)
MODEL = "embedded"  # a worker loads it without transformers
PATIENCE = 120


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level="ERROR", log_to_driver=False)
        yield
        ray.shutdown()
        return
    # A folder of its own and with a short name: processes that test beside this one start a Ray, too, and names of
    # sockets are short.
    with (
        tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_worker_niceness", "0")  # Ray's workers, of niceness 15, would wait for all other tests
        ray.init(
            num_cpus=1 + SPARE_CPUS,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
            object_store_memory=1 << 27,
            _temp_dir=folder,
        )
        yield
        ray.shutdown()


def deadly(own: Scorer, notes: Path, out: Path, fatal: int) -> Scorer:
    """Return a scorer that kills the process that it is sent to at a batch, once something is written."""
    here = os.getpid()
    notes.mkdir()

    class Deadly(Scorer):  # local: Ray sends it whole
        @property
        def signature(self) -> str:
            if os.getpid() != here:
                batch = len(list(notes.iterdir()))
                (notes / str(batch)).touch()
                if batch == fatal:
                    end = time.monotonic() + PATIENCE
                    while not list(out.glob("*.parquet")) and time.monotonic() < end:
                        time.sleep(0.05)
                    os.kill(os.getpid(), signal.SIGKILL)
            return Scorer.signature.fget(self)  # type: ignore[attr-defined,no-any-return]

    return Deadly(own.requested)


def test_run_that_failed_three_times_loses_and_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that may not die ends the first run, a bad row the second, a damaged file the third."""
    data, out, notes, own = tmp_path / "data", tmp_path / "out", tmp_path / "notes", scorers(MODEL, "none")
    data.mkdir()
    write_jsonl(data / "a.jsonl", SEGMENTS[:9])
    write_jsonl(data / "b.jsonl", [*SEGMENTS[9:], ("bad", [])])
    torn = write_jsonl(tmp_path / "torn.jsonl", SEGMENTS * 80)
    (tmp_path / "torn.jsonl.gz").write_bytes(gzip.compress(torn.read_bytes())[:-8])
    monkeypatch.setattr("twmd_registry.scale.dataset._BATCH", 9)
    with monkeypatch.context() as patch:
        patch.setattr("twmd_registry.scale.dataset._RETRIES", 0)
        with pytest.raises(TwmdError, match="died"):
            score_files([deadly(own[0], tmp_path / "first", out, 1)], [str(data)], str(out), num_workers=1)
    assert 0 < sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet")) < len(SEGMENTS)
    with pytest.raises(InputError, match="empty list of references"):
        score_files(own, [str(data)], f"file://{out}", strict=True, num_workers=1, resume=True)
    with pytest.raises(FileError, match=r"cannot read .*torn\.jsonl\.gz"):
        score_files(own, [f"{torn}.gz"], str(tmp_path / "none"), num_workers=1)
    with pytest.raises(FileError, match="not empty"):
        score_files(own, [str(data)], str(out))
    with pytest.raises(SpecError, match="metrics differ"):
        score_files(scorers(MODEL, "idf"), [str(data)], str(out), resume=True)
    with pytest.warns(TwmdWarning, match="could not be scored: 1 of 24"):
        record = score_files([deadly(own[0], notes, out, 0)], [str(data)], str(out), resume=True, num_workers=1)
    assert len(list(notes.iterdir())) > 1  # a worker died, and its rows were scored again
    rows = pq.read_table(sorted(out.glob("*.parquet"))).to_pylist()
    assert_like_one_machine(rows, own, SEGMENTS)
    (rejected,) = pq.read_table(sorted((out / "_rejected").glob("*.parquet")), partitioning=None).to_pylist()
    assert "empty list of references" in rejected["rejected"]
    assert (record.rows, record.rejected, [file["name"] for file in record.inputs]) == (23, 1, ["a.jsonl", "b.jsonl"])
    ((column, metric),) = record.metrics.items()
    assert abs(metric.score - sum(row["twmd"] for row in rows) / 23) < 1e-9
    assert (column, metric.counts["segments"], "nrefs:var" in metric.signature) == ("twmd", 23, True)
    assert json.loads((out / "record.json").read_text(encoding="utf-8")) == json.loads(record.to_json())
    assert not (tmp_path / "out.checkpoint").exists()
    with pytest.warns(TwmdWarning, match="could not be scored"):
        assert score_files(own, [str(data)], str(out), resume=True).metrics == record.metrics


@pytest.mark.filterwarnings("error::DeprecationWarning:twmd_registry.scale.dataset")
def test_ray_data_set_has_columns_after_two_passes(tmp_path: Path) -> None:
    files = [write_jsonl(tmp_path / "a.jsonl", SEGMENTS[:1]), write_parquet(tmp_path / "b.parquet", SEGMENTS)]
    _, dataset = read_files(list_tables([str(file) for file in files]), Columns())  # one of text, one of Parquet
    dataset = dataset.rename_columns({"prediction": "ours", "references": "theirs"})
    own = scorers(MODEL, "corpus", "idf")
    with pytest.raises(InputError, match="no column 'prediction'"):
        score_dataset(dataset, own)
    with pytest.raises(SpecError, match="Ray has 0"):
        score_dataset(dataset, own, prediction="ours", reference="theirs", num_gpus=1)
    scored = score_dataset(dataset, own, prediction="ours", reference="theirs", num_workers=1)
    rows = scored.take_all()
    assert sorted(row["id"] for row in rows) == list(range(23))
    assert_like_one_machine(
        [row | {"prediction": row["ours"], "reference": row["theirs"]} for row in rows], own, SEGMENTS
    )
