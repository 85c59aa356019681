"""Score files with Ray Data: read, score, write Parquet and a record; resume from Ray's checkpoints."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, InputError, SpecError, TwmdError
from twmd_registry.files.tables import Columns
from twmd_registry.messages import warn
from twmd_registry.record.content import DATASET_FORMAT, digest_of, spec_keys
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.scale.dataset import (
    ScoringJob,
    add_scores,
    check_metrics,
    choose_workers,
    import_ray,
    names_of,
    raised_by_worker,
    sum_corpus,
)
from twmd_registry.scale.inputs import (
    PLACE,
    REJECTS,
    ROW,
    SUMMARY,
    InputFile,
    check_first_rows,
    find_filesystem,
    list_files,
    short_names,
)

RECORD, SETTINGS = "record.json", "settings.json"
_FORMAT_VERSION = 1
BLOCK_BYTES = 1 << 21
"""Rows scored and written together, about 7,000 news sentences. A dying worker loses at most these."""
SPARE_CPUS = 2
"""CPUs for readers and writers, in addition to the workers' CPUs, if Ray is started here."""
_MAX_WARNINGS = 10
"""Maximum number of warnings that are shown and recorded; the most common come first."""
_LOG_LEVEL = "RAY_BACKEND_LOG_LEVEL"


@dataclass(frozen=True)
class DatasetScore:
    """The mean score of a data set by one metric.

    Attributes:
        signature: The signature, with the number of references.
        keys: Its keys, as text.
        hashes: As in `ScoreSet`.
        column: The output column with the scores.
        score: The mean score.
        sides: Mean precision, recall and F1 of a two-sided metric; empty for others.
        counts: As in `Counts`, summed over batches. A text in two batches counts as two distinct texts.
    """

    signature: str
    keys: dict[str, str]
    hashes: dict[str, tuple[str, ...]]
    column: str
    score: float
    sides: dict[str, float]
    counts: dict[str, int]


@dataclass(frozen=True)
class ScoredDataset:
    """The record of a finished run, ``record.json``. The Parquet files in its folder hold every row's scores.

    Attributes:
        created: Date and time in UTC, ISO 8601.
        inputs: The files, with name (without their common folder) and bytes.
        columns: The columns of the predictions and the references, and whether TSV was quoted.
        rows: Rows that were scored.
        rejected: Rows that could not be scored.
        metrics: The mean scores by metric.
        warnings: Warnings with their number of batches, the most common first.
        environments: The distinct environments of the workers.
        seconds: Wall time of the last run.
    """

    created: str
    inputs: tuple[dict[str, Any], ...]
    columns: dict[str, Any]
    rows: int
    rejected: int
    metrics: tuple[DatasetScore, ...]
    warnings: dict[str, int]
    environments: tuple[dict[str, str], ...]
    seconds: float

    def to_json(self) -> str:
        """Return the content of ``record.json``."""
        content: dict[str, Any] = {"format": DATASET_FORMAT, "format_version": _FORMAT_VERSION} | asdict(self)
        return json.dumps(content | {"sha256": digest_of(content)}, indent=1, ensure_ascii=False) + "\n"


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
        FileError: A file cannot be read or written; the output folder is not empty, or in use.
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
    found = list_files(files)
    check_first_rows(found, columns)
    job = ScoringJob(scorers, columns, strict=strict, summarise=True)
    for loaded in scorers:
        loaded.close()  # from here on only workers use models
    with _Folder(output) as folder:
        settings = {"signatures": job.signatures, "columns": columns, "inputs": [file[2:] for file in found]}
        if not folder.prepare(json.dumps(settings, indent=1), resume=resume):
            with _on_ray():
                _run(job, found, folder, choose_workers(num_workers, num_gpus, scorers[0].options.device))
        record = _make_record(job, found, folder, time.perf_counter() - started)
        folder.write(RECORD, record.to_json())
        folder.forget()
    _warn(record)
    return record


def _run(job: ScoringJob, found: Sequence[InputFile], folder: _Folder, workers: tuple[int, float]) -> None:
    """Score and write all rows that no earlier run wrote."""
    from ray.exceptions import RayError

    try:
        with job.workers_end():
            _write_scores(job, found, folder, workers)
    except (RayError, RuntimeError, ValueError, OSError) as error:
        raise _explain(error) from None


def _write_scores(job: ScoringJob, found: Sequence[InputFile], folder: _Folder, workers: tuple[int, float]) -> None:
    from ray.data.checkpoint import CheckpointConfig

    from twmd_registry.scale.reader import read_files

    checkpoint = CheckpointConfig(
        ROW, folder.checkpoint, override_filesystem=folder.filesystem, delete_checkpoint_on_success=False
    )
    totals = sum_corpus(read_files(found, job.columns), job, workers)
    for dataset in read_files(found, job.columns):
        scored = add_scores(dataset, job, totals, workers)
        scored.context.checkpoint_config = checkpoint
        scored.write_parquet(
            folder.path, filesystem=folder.filesystem, partition_cols=[PLACE], partitioning_flavor=None
        )


def _explain(error: Exception) -> TwmdError:
    """Convert one of Ray's errors to this package's."""
    from ray.exceptions import RayActorError

    if cause := raised_by_worker(error):
        return cause
    if isinstance(error, RayActorError):
        return TwmdError(
            "a worker died repeatedly while scoring the same rows: add memory, or look for a very long text, and "
            "continue with --resume."
        )
    reason = next((line for line in str(error).splitlines()[::-1] if line.strip()), type(error).__name__)
    return TwmdError(f"Ray could not finish ({type(error).__name__}: {reason}): continue with --resume.")


class _Folder:
    """The output folder, on any file system. A local folder is locked."""

    def __init__(self, url: str) -> None:
        self.url, (self.filesystem, self.path) = url, find_filesystem(url.rstrip("/") or url)
        self.checkpoint = f"{self.path}.checkpoint"
        self._held = contextlib.ExitStack()

    def __enter__(self) -> _Folder:
        import filelock

        try:
            self.filesystem.create_dir(self.path, recursive=True)
            if self.filesystem.type_name == "local":
                self._held.enter_context(filelock.FileLock(f"{self.path}/.lock", blocking=False))
        except OSError as error:
            reason = "another run is using it: wait for it" if isinstance(error, filelock.Timeout) else error
            raise FileError(f"cannot write {self.url}: {reason}.") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def files(self) -> list[str]:
        """Return the paths of all files, sorted."""
        from pyarrow.fs import FileSelector, FileType

        found = self.filesystem.get_file_info(FileSelector(self.path, recursive=True))
        return sorted(file.path for file in found if file.type == FileType.File and file.base_name != ".lock")

    def read(self, name: str) -> str:
        """Return the text of a file."""
        with self.filesystem.open_input_stream(f"{self.path}/{name}") as file:
            return str(file.read().decode())

    def write(self, name: str, text: str) -> None:
        """Write a file under a temporary name first, so it is never half-written."""
        part = f"{self.path}/{name}.part"
        try:
            with self.filesystem.open_output_stream(part) as file:
                file.write(text.encode())
            self.filesystem.move(part, f"{self.path}/{name}")
        except OSError as error:
            hint = "free some space, and continue with --resume"
            raise FileError(f"cannot write {self.url}/{name}: {error.strerror or error}: {hint}.") from error

    def prepare(self, settings: str, *, resume: bool) -> bool:
        """Write a run's settings, or compare them with the run to resume; return whether that is finished."""
        names = {path.removeprefix(f"{self.path}/") for path in self.files()}
        if names - {SETTINGS} and not resume:
            raise FileError(f"{self.url} is not empty: name an empty folder, or continue with --resume.")
        if names and SETTINGS not in names:
            raise FileError(f"{self.url} has no {SETTINGS}, so no run was started in it: name an empty folder.")
        if not names - {SETTINGS}:  # nothing was written yet, or the folder was deleted
            self.forget()
            self.write(SETTINGS, settings)
        before, now = json.loads(self.read(SETTINGS)), json.loads(settings)
        for name, what in (("signatures", "metrics"), ("columns", "columns"), ("inputs", "input files")):
            if before[name] != now[name]:
                raise SpecError(f"--resume: the {what} differ from {SETTINGS}: use the same, or name an empty folder.")
        return RECORD in names

    def forget(self) -> None:
        """Delete the checkpoints."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.checkpoint)


def _start(ray: Any) -> None:
    """Connect to ``RAY_ADDRESS`` or the cluster of ``ray start``; without either, start a Ray of our own."""
    log_level = os.environ.get(_LOG_LEVEL)
    os.environ[_LOG_LEVEL] = log_level or "fatal"  # read by Ray's processes
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        with contextlib.suppress(ValueError):  # a cluster has its own number of CPUs
            # Not address="auto", which would join the Ray of another run on this machine, and end with it.
            ray.init(num_cpus=(os.cpu_count() or 1) + SPARE_CPUS, include_dashboard=False, **quiet)
            return
        ray.init(**quiet)
    except Exception as error:  # noqa: BLE001 (a timeout at the start is a plain Exception)
        raise TwmdError(f"Ray cannot be started or reached: {error}") from None
    finally:
        if log_level is None:
            del os.environ[_LOG_LEVEL]


@contextlib.contextmanager
def _on_ray() -> Iterator[None]:
    """Use the Ray that this process is connected to, or a cluster's; otherwise start one and stop it at the end."""
    ray = import_ray()
    begun = not ray.is_initialized()
    if begun:
        _start(ray)
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, context.target_max_block_size, logger.level
    context.enable_progress_bars, context.target_max_block_size = False, BLOCK_BYTES
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars, context.target_max_block_size, _ = before
        logger.setLevel(before[2])
        if begun:
            ray.shutdown()


def _make_record(job: ScoringJob, found: Sequence[InputFile], folder: _Folder, seconds: float) -> ScoredDataset:
    """Return the record of the output folder; raise InputError if no row was scored."""
    import pyarrow.dataset

    names, columns, rows, rejected = names_of(job.scorers), job.names(), 0, 0
    sums, messages, environments = Counter[str](), Counter[str](), dict[str, None]()
    counts, numbers = [Counter[str]() for _ in names], [set[Any]() for _ in names]
    for path in folder.files():
        if not path.endswith(".parquet"):
            continue
        table = pyarrow.dataset.dataset([path], filesystem=folder.filesystem).to_table(columns=[*columns, SUMMARY])
        for summary in map(json.loads, table[SUMMARY].drop_null().to_pylist()):
            messages.update(summary["warnings"])
            environments[json.dumps(summary["environment"])] = None
            for i, nrefs in enumerate(summary["nrefs"]):
                counts[i].update(summary["counts"][i])
                numbers[i].add(nrefs)
        if path.startswith(f"{folder.path}/{REJECTS}/"):
            rejected += table.num_rows
        else:
            rows += table.num_rows
            sums.update({name: float(table[name].to_numpy().sum()) for name in columns})
    if not rows:
        raise InputError(f"none of {rejected} rows could be scored: see {REJECTS} in {folder.url}.")
    metrics = []
    for i, name in enumerate(names):
        whole = Signature(parse_signature(job.signatures[i]).spec, numbers[i].pop() if len(numbers[i]) == 1 else "var")
        sides = {str(side): sums[f"{name}_{side}"] / rows for side in OUTPUTS if f"{name}_{side}" in columns}
        mean = sums[name] / rows
        metrics.append(DatasetScore(str(whole), spec_keys(whole), job.hashes[i], name, mean, sides, dict(counts[i])))
    return ScoredDataset(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        inputs=tuple({"name": name, "bytes": file.bytes} for name, file in zip(short_names(found), found, strict=True)),
        columns=job.columns._asdict(),
        rows=rows,
        rejected=rejected,
        metrics=tuple(metrics),
        warnings=dict(messages.most_common(_MAX_WARNINGS)),
        environments=tuple(map(json.loads, environments)),
        seconds=round(seconds, 3),
    )


def _warn(record: ScoredDataset) -> None:
    if record.rejected:
        total = record.rows + record.rejected
        warn(f"rows that could not be scored: {record.rejected} of {total}, see {REJECTS}.")
    for message, batches in record.warnings.items():
        warn(f"{message} (in {batches} batches)" if batches > 1 else message)
