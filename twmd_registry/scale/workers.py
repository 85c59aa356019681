"""Workers on Ray Data: actors with one set of scorers each, so that a model is loaded once per worker."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from threading import Event, Thread
from typing import Any, NamedTuple

from twmd_registry import errors
from twmd_registry.errors import MissingExtraError, SpecError, TwmdError
from twmd_registry.scale.partitions import PartitionScorer, ReportRows

MISSING = "scoring on Ray needs more packages: pip install 'twmd-registry[ray]'"
_LEVEL = "RAY_BACKEND_LOG_LEVEL"
_MOST_BLOCKS = 4096
"""Pieces of work that Ray Data keeps account of."""
_REPORT_S = 0.2
"""Seconds between two reports of a worker."""


class WorkerOptions(NamedTuple):
    """The workers of a run.

    Attributes:
        number: How many at once; None for as many as there are GPUs, or CPUs where GPUs are not used.
        gpus: GPUs for each, a half for two that share one; None for one where there are GPUs and the device is not the
            CPU.
    """

    number: int | None = None
    gpus: float | None = None


def import_ray() -> Any:
    """Import Ray with Ray Data.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError(MISSING) from error
    return ray


class RayWorkerPool:
    """Workers of Ray Data, on the Ray that this process is connected to."""

    def __init__(self, workers: WorkerOptions, device: str = "auto") -> None:
        """Share Ray's GPUs and CPUs among workers, for a device as in `RunOptions`.

        Raises:
            MissingExtraError: Ray is not installed.
            SpecError: More GPUs per worker than there are.
        """
        there = import_ray().cluster_resources()
        gpus = there.get("GPU", 0.0)
        self._gpus = workers.gpus if workers.gpus is not None else float(gpus > 0 and device != "cpu")
        if self._gpus > gpus:
            raise SpecError(f"a worker would need {self._gpus:g} GPUs, and Ray has {gpus:g} in all.")
        self.number = workers.number or max(1, int(gpus / self._gpus if self._gpus else there.get("CPU", 1.0)))

    def map(
        self, dataset: Any, worker: type, arguments: tuple[Any, ...], *, most: int | None = None, **how: Any
    ) -> Any:
        """Map a data set of Ray Data, when it is consumed, by `map_batches` of a class with its arguments.

        With `most`, the most workers there is work for, all are started at once. Without it, they are started as work
        comes in: of a data set without a row, Ray waits for ever for the second.
        """
        workers = min(self.number, most or self.number)
        return dataset.map_batches(
            worker,
            fn_constructor_args=arguments,
            compute=import_ray().data.ActorPoolStrategy(min_size=workers if most else 1, max_size=workers),
            num_cpus=1,
            num_gpus=self._gpus or None,
            **how,
        )

    def __call__(self, scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Do a pass over parts; yield their numbers and results, in whatever order they are finished.

        Raises:
            TwmdError: The error of a worker, of its class; or workers died again and again.
        """
        ray = import_ray()
        blocks = min(len(parts), _MOST_BLOCKS)
        numbers = ray.data.from_items([{"part": part} for part in parts], override_num_blocks=blocks)
        lost = (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
        try:
            with _carry_reports(scorer.report) as report:
                remote = replace(scorer, report=report)
                own = tuple(getattr(remote, field.name) for field in fields(remote))
                for row in self.map(numbers, PartitionScorer, own, most=len(parts), batch_size=1).iter_rows():
                    if row["failure"]:
                        raise getattr(errors, row["failure"], TwmdError)(row["content"].decode())
                    yield int(row["part"]), row["content"]
        except lost as error:
            hint = "Finished parts are kept: go on by --resume."
            raise TwmdError(f"Ray has lost its workers ({type(error).__name__}). {hint}") from error


class _Sender:
    """Sends a worker's reports to a queue of Ray, without waiting, and a few in a second only."""

    def __init__(self, queue: Any) -> None:
        self._queue, self._due = queue, 0.0

    def __call__(self, part: int, rows: int) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _REPORT_S
            self._queue.actor.put_nowait.remote((part, rows))


@contextlib.contextmanager
def _carry_reports(report: ReportRows | None) -> Iterator[ReportRows | None]:
    """Yield what a worker calls in its process so that `report` is called in this one, by a thread."""
    if report is None:
        yield None
        return
    from ray.exceptions import RayError
    from ray.util.queue import Empty, Queue

    queue, over = Queue(actor_options={"num_cpus": 0}), Event()

    def carry() -> None:
        with contextlib.suppress(RayError):  # without its queue, a run goes on without reports
            while not over.is_set():
                with contextlib.suppress(Empty):
                    report(*queue.get(timeout=_REPORT_S))

    thread = Thread(target=carry, daemon=True)
    thread.start()
    try:
        yield _Sender(queue)
    finally:
        over.set()
        thread.join()
        queue.shutdown(force=True)


@contextlib.contextmanager
def on_ray() -> Iterator[None]:
    """Use the Ray that this process is connected to, or connect to the cluster of this machine, or start one.

    At the end, only what was begun here is shut down. Ray Data shows no progress and no plans.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    ray = import_ray()
    begun = not ray.is_initialized()
    if begun:
        with contextlib.ExitStack() as quiet:
            if _LEVEL not in os.environ:  # which Ray's own processes read
                os.environ[_LEVEL] = "fatal"
                quiet.callback(os.environ.pop, _LEVEL)
            quiet.enter_context(without_lines(b"Set ray log level"))  # which is the answer to that
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
def without_lines(part: bytes) -> Iterator[None]:
    """Leave out lines with this part that a library writes to the process's stderr; the others follow at the end."""
    stderr = 2
    own = os.dup(stderr)
    try:
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), stderr)
            try:
                yield
            finally:
                os.dup2(own, stderr)
                held.seek(0)
                os.write(stderr, b"".join(line for line in held if part not in line))
    finally:
        os.close(own)
