"""On a local Ray with two workers, started once: the same scores whoever works, and whoever is killed."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.scale.segments import assert_like_one_machine, draw_segments, scorers, write_csv, write_jsonl, write_parquet
from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import InputError, SpecError
from twmd_registry.scale import ScaleOptions, WorkerOptions, score_dataset, score_files
from twmd_registry.scale.plan import LOCK

ray = pytest.importorskip("ray")

SEGMENTS = [(prediction, references[:1]) for prediction, references in draw_segments(23)]
"""With one reference each, which is what CSV can hold."""


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    # A folder of its own and with a short name: processes that test beside this one start a Ray, too, and names of
    # sockets are short.
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
            object_store_memory=1 << 27,
            _temp_dir=folder,
        )
        yield
        ray.shutdown()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return one file of each form."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", SEGMENTS[:5])
    write_csv(folder / "b.csv", SEGMENTS[5:14])
    write_parquet(folder / "c.parquet", SEGMENTS[14:])
    return folder


def deadly(own: Scorer, out: Path, note: Path) -> Scorer:
    """Return a scorer that once kills the process that it was sent to, in the middle of the run."""
    here = os.getpid()

    class Deadly(Scorer):  # local: Ray sends it whole
        @property
        def signature(self) -> str:
            if os.getpid() != here and not note.exists() and any(out.glob("part-*.parquet")):
                note.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return Scorer.signature.fget(self)  # type: ignore[attr-defined,no-any-return]

    return Deadly(own.requested)


def test_two_workers_equal_a_single_machine_even_if_a_worker_is_killed(bert: str, data: Path, tmp_path: Path) -> None:
    first, *others = scorers(bert, "none", "batch", "corpus")
    out, note = tmp_path / "out", tmp_path / "died"
    record = score_files(
        [deadly(first, out, note), *others],
        [f"file://{data}/*"],
        f"file://{out}",
        ScaleOptions(part_rows=6),
        WorkerOptions(2),
    )
    assert note.exists()
    assert (record.workers, record.parts, record.rows) == (2, 4, 23)
    assert_like_one_machine(out, [first, *others], SEGMENTS)


def test_ray_data_set_gets_columns(bert: str) -> None:
    predictions, references = zip(*draw_segments(9), strict=True)
    dataset = ray.data.from_items(
        [
            {"id": i, "ours": one, "theirs": list(many)}
            for i, (one, many) in enumerate(zip(predictions, references, strict=True))
        ]
    )
    own = scorers(bert, "none")
    with pytest.raises(SpecError, match=r"depends on other rows, and rows of a Ray data set come in any order: use"):
        score_dataset(dataset, scorers(bert, "batch"), prediction="ours", reference="theirs")
    with pytest.raises(InputError, match="no column 'prediction'; Choices: id, ours, theirs"):
        score_dataset(dataset, own)
    scored = score_dataset(dataset, own, prediction="ours", reference="theirs", workers=WorkerOptions(1))
    rows = sorted(scored.take_all(), key=lambda row: row["id"])
    (found,) = score_all(own, predictions, references)
    assert [row["ours"] for row in rows] == list(predictions)
    for column, values in (("twmd", found.scores), ("twmd_recall", found.recall)):
        np.testing.assert_allclose([row[column] for row in rows], np.array(values), rtol=0, atol=1e-5)


def test_ray_data_set_without_a_row_ends(bert: str) -> None:
    """Two workers: Ray would wait forever for the second one, if both were started at once."""
    dataset = ray.data.from_items([{"prediction": "a cat", "reference": "the cat"}]).filter(
        lambda row: row["prediction"] == ""
    )
    assert score_dataset(dataset, scorers(bert, "none"), workers=WorkerOptions(2)).take_all() == []


def test_more_gpus_than_ray_has_are_refused(bert: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"^a worker would need 1 GPUs, but Ray has 0: lower the GPUs per worker\.$"):
        score_files(scorers(bert, "none"), [str(data)], str(tmp_path / "out"), workers=WorkerOptions(1, gpus=1))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]
