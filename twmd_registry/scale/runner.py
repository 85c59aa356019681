"""Score files with Ray Data: read, score, write Parquet and a record; resume from Ray's checkpoints."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from twmd_registry import errors
from twmd_registry.engine.result import merge_hashes
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, SpecError, TwmdError
from twmd_registry.files.arrow import ROW, check_first_rows
from twmd_registry.files.storage import StoredFile, find_filesystem, list_tables
from twmd_registry.files.tables import Columns
from twmd_registry.messages import warn
from twmd_registry.record.dataset import SUMMARY, ScoredDataset, make_dataset_record
from twmd_registry.scale.dataset import (
    PLACE,
    REJECTS,
    ScoringJob,
    add_scores,
    check_metrics,
    columns_of,
    import_ray,
    make_pool,
    names_of,
    sum_corpus,
)

RECORD, SETTINGS = "record.json", "settings.json"
BLOCK_BYTES = 1 << 21
"""Rows scored and written together, about 7,000 news sentences. A dying worker loses at most these."""
SPARE_CPUS = 2
"""CPUs for readers and writers, in addition to the workers' CPUs, if Ray is started here."""


def score_files(
    metrics: Sequence[Scorer | str],
    files: Sequence[str],
    output: str,
    columns: Columns = Columns(),  # noqa: B008 (frozen)
    *,
    num_workers: int | None = None,
    num_gpus: float | None = None,
    resume: bool = False,
    strict: bool = False,
) -> ScoredDataset:
    """Score files on Ray: read them, `score_dataset`, and write Parquet.

    Args:
        metrics: Scorers, names of metrics, or signatures; at least one.
        files: Paths, patterns, folders or URLs of JSON lines and arrays, CSV, TSV or Parquet. Text files may be
            compressed with gzip or xz.
        output: The output folder, which every worker must reach. It gets Parquet files with all columns and the scores,
            rejected rows in ``_rejected/``, and at the end ``record.json``.
        columns: The columns that hold texts.
        num_workers: As for `score_dataset`.
        num_gpus: As for `score_dataset`.
        resume: Whether to resume an interrupted run from Ray's checkpoints, which are in ``OUTPUT.checkpoint``.
        strict: Whether to stop at a row that cannot be scored.

    Returns:
        The record.

    Raises:
        FileError: A file cannot be read or written; the output folder is not empty.
        InputError: No row can be scored or, with ``strict``, one cannot.
        SpecError: No scorer, one with ``centering=batch``, or ``resume`` is set and the folder belongs to a run
            with other settings.
        ModelError: As for `Scorer.score`.
        MissingExtraError: Ray, or the package that reads a URL, is not installed.
        TwmdError: Workers died repeatedly.

    Warns:
        TwmdWarning: Rows were rejected. Warnings of the batches are repeated.
    """
    started = time.perf_counter()
    scorers = check_metrics(metrics)
    import_ray()
    found = list_tables(files)
    check_first_rows(found, columns)
    job = ScoringJob(scorers, columns, strict, summarise=True)
    scored = []
    for name, scorer in zip(names_of(scorers), scorers, strict=True):
        hashes = merge_hashes(member.backend.hashes for member in scorer.members)
        scored.append((name, scorer.signature, hashes))
        scorer.close()  # from here on only workers use models
    folder = _Folder(output)
    settings = {"signatures": job.signatures, "columns": columns, "inputs": [file[2:] for file in found]}
    if not folder.prepare(json.dumps(settings, indent=1), resume=resume):
        with _on_ray(), job.workers_end():
            _run(job, found, folder, make_pool(num_workers, num_gpus, scorers[0].options.device))
    inputs = tuple({"name": file.path.rpartition("/")[2], "bytes": file.bytes} for file in found)
    tables = folder.tables([*columns_of(scorers), SUMMARY])
    record = make_dataset_record(scored, tables, started, inputs=inputs, columns=columns._asdict())
    folder.write(RECORD, record.to_json())
    folder.forget()
    if record.rejected:
        warn(f"rows that could not be scored: {record.rejected} of {record.rows + record.rejected}, see {REJECTS}.")
    for message, batches in record.warnings.items():
        warn(f"{message} (in {batches} batches)" if batches > 1 else message)
    return record


def _run(job: ScoringJob, found: Sequence[StoredFile], folder: _Folder, pool: dict[str, Any]) -> None:
    """Score and write all rows that no earlier run wrote."""
    from ray.data import DataContext
    from ray.data.checkpoint import CheckpointConfig
    from ray.exceptions import RayError

    from twmd_registry.scale.reader import read_files

    context = DataContext.get_current()
    before = context.enable_progress_bars, context.target_max_block_size
    context.enable_progress_bars, context.target_max_block_size = False, BLOCK_BYTES
    try:
        sums = sum_corpus(read_files(found, job.columns), job, pool)
        for dataset in read_files(found, job.columns):
            scored = add_scores(dataset, job, sums, pool)
            scored.context.checkpoint_config = CheckpointConfig(
                ROW, folder.checkpoint, override_filesystem=folder.filesystem, delete_checkpoint_on_success=False
            )
            scored.write_parquet(
                folder.path, filesystem=folder.filesystem, partition_cols=[PLACE], partitioning_flavor=None
            )
    except TwmdError:
        raise
    except (RayError, RuntimeError, ValueError, OSError) as error:
        raise _explain(error) from None
    finally:
        context.enable_progress_bars, context.target_max_block_size = before


def _explain(error: Exception) -> TwmdError:
    """Convert one of Ray's errors to this package's, whose class and message are in its text if a worker raised it."""
    from ray.exceptions import RayActorError

    if found := re.findall(r"twmd_registry\.errors\.(\w+): (.+)", str(error)):
        name, message = found[-1]
        return getattr(errors, name)(message)  # type: ignore[no-any-return]
    if isinstance(error, RayActorError):
        return TwmdError(
            "a worker died repeatedly while scoring the same rows: add memory, or look for a very long text, and "
            "continue with --resume."
        )
    reason = next((line for line in str(error).splitlines()[::-1] if line.strip()), type(error).__name__)
    return TwmdError(f"Ray could not finish ({type(error).__name__}: {reason}): continue with --resume.")


class _Folder:
    """The output folder, on any file system."""

    def __init__(self, url: str) -> None:
        from fsspec.implementations.arrow import ArrowFSWrapper

        self.url, (self.filesystem, self.path) = url, find_filesystem(url.rstrip("/") or url)
        self.checkpoint, self._fs = f"{self.path}.checkpoint", ArrowFSWrapper(self.filesystem)

    def tables(self, columns: list[str]) -> Iterator[tuple[Any, bool]]:
        """Yield columns of every Parquet file, and whether it has rejected rows."""
        from pyarrow.parquet import read_table

        for path in sorted(self._fs.find(self.path)):
            if path.endswith(".parquet"):
                table = read_table(path, columns=columns, filesystem=self.filesystem, partitioning=None)
                yield table, path.startswith(f"{self.path}/{REJECTS}/")

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        try:
            self._fs.makedirs(self.path, exist_ok=True)
            self._fs.pipe_file(f"{self.path}/{name}", text.encode())
        except OSError as error:
            raise FileError(f"cannot write {self.url}/{name}: {error.strerror or error}.") from error

    def prepare(self, settings: str, *, resume: bool) -> bool:
        """Write a run's settings, or compare them with the run to resume; return whether that is finished."""
        names = {path.removeprefix(f"{self.path}/") for path in self._fs.find(self.path)}
        if names and not resume:
            raise FileError(f"{self.url} is not empty: name an empty folder, or continue with --resume.")
        if names and SETTINGS not in names:
            raise FileError(f"{self.url} has no {SETTINGS}, so no run was started in it: name an empty folder.")
        if not names:
            self.forget()  # of a folder that was deleted
            self.write(SETTINGS, settings)
            return False
        before, now = json.loads(self._fs.cat_file(f"{self.path}/{SETTINGS}")), json.loads(settings)
        for name, what in (("signatures", "metrics"), ("columns", "columns"), ("inputs", "input files")):
            if before[name] != now[name]:
                raise SpecError(f"--resume: the {what} differ from {SETTINGS}: use the same, or name an empty folder.")
        return RECORD in names

    def forget(self) -> None:
        """Delete the checkpoints."""
        if self._fs.exists(self.checkpoint):
            self._fs.rm(self.checkpoint, recursive=True)


def _start(ray: Any) -> None:
    """Connect to ``RAY_ADDRESS`` or the cluster of ``ray start``; without either, start a Ray of our own."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # read by Ray's processes
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        with contextlib.suppress(ValueError):  # a cluster has its own number of CPUs
            # Not address="auto", which would join the Ray of another run on this machine, and end with it.
            ray.init(num_cpus=(os.cpu_count() or 1) + SPARE_CPUS, include_dashboard=False, **quiet)
            return
        ray.init(**quiet)
    except Exception as error:  # noqa: BLE001 (a timeout at the start is a plain Exception)
        raise TwmdError(f"Ray cannot be started or reached: {error}") from None


@contextlib.contextmanager
def _on_ray() -> Iterator[None]:
    """Use the Ray that this process is connected to, or a cluster's; otherwise start one and stop it at the end."""
    ray = import_ray()
    if ray.is_initialized():
        yield
        return
    _start(ray)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()
