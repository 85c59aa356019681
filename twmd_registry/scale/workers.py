"""Workers of Ray Data: actors with a set of scorers each, so that a worker loads a model once."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple

from twmd_registry import errors
from twmd_registry.errors import MissingExtraError, SpecError, TwmdError
from twmd_registry.scale.partitions import PartitionScorer, ReportRows

MISSING = "scoring on Ray needs more packages: pip install 'twmd-registry[ray]'"
_LOG_LEVEL_VARIABLE = "RAY_BACKEND_LOG_LEVEL"
_MAX_BLOCKS = 4096
"""Upper bound on the blocks of the data set that holds the part numbers."""
_REPORT_INTERVAL_S = 0.2
"""Seconds between two reports of a worker."""


class WorkerOptions(NamedTuple):
    """The workers of a run.

    Attributes:
        number: The number of workers; None for as many as there are GPUs, or CPUs if GPUs are not used.
        gpus: GPUs per worker, 0.5 for two that share a GPU; None for 1 if there are GPUs and the device is not the CPU.
    """

    number: int | None = None
    gpus: float | None = None


def import_ray() -> Any:
    """Import Ray with Ray Data, or raise a `MissingExtraError`."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError(MISSING) from error
    return ray


def share_resources(workers: WorkerOptions, device: str = "auto") -> tuple[int, float]:
    """Return the number of workers, and GPUs per worker, for a device as in `RunOptions`; SpecError if Ray has less."""
    resources = import_ray().cluster_resources()
    available = resources.get("GPU", 0.0)
    gpus = workers.gpus if workers.gpus is not None else float(available > 0 and device != "cpu")
    if gpus > available:
        raise SpecError(f"a worker would need {gpus:g} GPUs, but Ray has {available:g}: lower the GPUs per worker.")
    return workers.number or max(1, int(available / gpus if gpus else resources.get("CPU", 1.0))), gpus


def map_batches(
    dataset: Any,
    worker: type,
    arguments: tuple[Any, ...],
    *,
    workers: WorkerOptions,
    tasks: int | None = None,
    **options: Any,
) -> Any:
    """Map a data set of Ray Data lazily, with a pool of actors of a class.

    With `tasks`, the number of batches, all workers are started at once. Without it, they are started as rows arrive:
    for a data set without a row, Ray would wait forever for the second worker. `workers` come from `share_resources`.
    """
    number = min(workers.number or 1, tasks or workers.number or 1)
    return dataset.map_batches(
        worker,
        fn_constructor_args=arguments,
        compute=import_ray().data.ActorPoolStrategy(min_size=number if tasks else 1, max_size=number),
        num_cpus=1,
        num_gpus=workers.gpus or None,
        **options,
    )


def run_parts(workers: WorkerOptions, scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Score or count parts in workers; yield each part's number and result as soon as it is finished.

    A worker's error is raised here, by its class.
    """
    ray = import_ray()
    blocks = min(len(parts), _MAX_BLOCKS)
    numbers = ray.data.from_items([{"part": part} for part in parts], override_num_blocks=blocks)
    lost = (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
    try:
        with _forward_reports(scorer.report) as report:
            remote = replace(scorer, report=report)
            arguments = tuple(getattr(remote, field.name) for field in fields(remote))
            results = map_batches(numbers, PartitionScorer, arguments, workers=workers, tasks=len(parts), batch_size=1)
            for row in results.iter_rows():
                if row["failure"]:
                    raise getattr(errors, row["failure"], TwmdError)(row["content"].decode())
                yield int(row["part"]), row["content"]
    except lost as error:
        hint = "Finished parts are kept: continue with --resume."
        raise TwmdError(f"Ray has lost its workers ({type(error).__name__}). {hint}") from error


@contextlib.contextmanager
def _forward_reports(report: ReportRows | None) -> Iterator[ReportRows | None]:
    """Yield a function for workers; a thread of this process forwards its calls to `report`."""
    if report is None:
        yield None
        return
    from ray.exceptions import RayError
    from ray.util.queue import Empty, Queue

    queue, stopped = Queue(actor_options={"num_cpus": 0}), Event()

    def carry() -> None:
        with contextlib.suppress(RayError):  # a run continues without progress if its queue fails
            while not stopped.is_set():
                with contextlib.suppress(Empty):
                    report(*queue.get(timeout=_REPORT_INTERVAL_S))

    thread = Thread(target=carry, daemon=True)
    thread.start()
    try:
        yield partial(_send, queue, [0.0])
    finally:
        stopped.set()
        thread.join()
        queue.shutdown(force=True)


def _send(queue: Any, due: list[float], part: int, rows: int) -> None:
    """Send a report to a queue of Ray without waiting, but not more often than every `_REPORT_INTERVAL_S`."""
    now = time.monotonic()
    if now >= due[0]:
        due[0] = now + _REPORT_INTERVAL_S
        queue.actor.put_nowait.remote((part, rows))


@contextlib.contextmanager
def on_ray() -> Iterator[None]:
    """Use the Ray that this process is connected to, or connect to this machine's cluster, or start a cluster.

    At the end, Ray is shut down if it was started or connected by this function. Ray Data prints no progress.
    """
    ray = import_ray()
    begun = not ray.is_initialized()
    if begun:
        with contextlib.ExitStack() as quiet:
            if _LOG_LEVEL_VARIABLE not in os.environ:  # read by Ray's processes
                os.environ[_LOG_LEVEL_VARIABLE] = "fatal"
                quiet.callback(os.environ.pop, _LOG_LEVEL_VARIABLE)
            quiet.enter_context(drop_stderr_lines(b"Set ray log level"))  # printed where the log level is set
            ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])
        if begun:
            ray.shutdown()


@contextlib.contextmanager
def drop_stderr_lines(part: bytes) -> Iterator[None]:
    """Drop lines that contain `part` from the process's stderr; other lines are written at the end."""
    stderr = 2
    saved = os.dup(stderr)
    try:
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), stderr)
            try:
                yield
            finally:
                os.dup2(saved, stderr)
                held.seek(0)
                os.write(stderr, b"".join(line for line in held if part not in line))
    finally:
        os.close(saved)
