"""Who scores the parts: actors on Ray Data, each with one set of scorers, so that a model is loaded once per worker."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from twmd_registry import errors
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, MissingExtraError, SpecError, TwmdError
from twmd_registry.scale.partitions import PartitionScorer
from twmd_registry.scale.plan import ScalePlan
from twmd_registry.scale.storage import OutputFolder
from twmd_registry.scale.totals import CorpusTotals

MISSING = "scoring on Ray needs more packages: pip install 'twmd-registry[ray]'"
_MOST_BLOCKS = 4096
"""Pieces of work that Ray Data keeps account of."""
MOST_TRIES = 3
"""How many workers may die over one part."""
_STDERR = 2
"""The file descriptor."""
_GREETING = b"Set ray log level"
"""What Ray answers to being asked to say nothing."""
TRIES = ".tries"
"""What a note ends in that says how many workers have begun a part; it is gone when the part is done."""


class Pass(StrEnum):
    """What is done with a part."""

    SUM = "sum"
    SCORE = "score"


@dataclass(frozen=True)
class PartitionTask:
    """What every worker is told.

    Attributes:
        what: What to do with parts.
        plan: The plan.
        scorers: Of its metrics; a worker gets copies, which load their models by themselves.
        folder: Where parts are written.
        strict: Whether a row that cannot be scored is an error.
        totals: What depends on all rows, once it is known.
    """

    what: Pass
    plan: ScalePlan
    scorers: tuple[Scorer, ...]
    folder: str
    strict: bool = False
    totals: CorpusTotals | None = None


class PartitionResult(NamedTuple):
    """What comes back of a part.

    Attributes:
        part: Its number.
        content: What was found.
        failure: The name of the error's class, when there was one; `content` is then its text.
    """

    part: int
    content: bytes
    failure: str = ""

    def result(self) -> bytes:
        """What was found.

        Raises:
            TwmdError: The error of the worker, of its class.
        """
        if self.failure:
            raise getattr(errors, self.failure, TwmdError)(self.content.decode())
        return self.content


class WorkerOptions(NamedTuple):
    """Who works.

    Attributes:
        number: How many at once; None for as many as there are GPUs, or CPUs where GPUs are not used.
        gpus: GPUs for each, a half for two that share one; None for one where there are GPUs and the device is not the CPU.
    """

    number: int | None = None
    gpus: float | None = None


def do_part(scorer: PartitionScorer, task: PartitionTask, number: int) -> PartitionResult:
    """Do what a task says with one part; what goes wrong is part of the answer, so that its message arrives as it was written."""
    part = task.plan.parts[number]
    try:
        content = scorer.sum_up(part).to_bytes() if task.what is Pass.SUM else scorer.score(part).to_json().encode()
    except TwmdError as error:
        return PartitionResult(number, str(error).encode(), type(error).__name__)
    return PartitionResult(number, content)


class PartitionWorker:
    """A worker of Ray Data: parts' numbers in, answers out."""

    def __init__(self, task: PartitionTask) -> None:
        """Remember the task; a model is loaded with the first part, so that its errors are answers."""
        self._task, self._folder = task, OutputFolder(task.folder)
        self._scorer = PartitionScorer(task.plan, task.scorers, self._folder, strict=task.strict, totals=task.totals)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Do the parts of a batch."""
        answers = [self._try(int(number)) for number in batch["part"]]
        return {name: [getattr(one, name) for one in answers] for name in PartitionResult._fields}

    def _try(self, number: int) -> PartitionResult:
        """Do one part, unless it has cost several workers their lives (by its memory, say): Ray Data starts new ones for ever."""
        note = f"{self._task.plan.parts[number].name}{TRIES}"
        try:
            tries = int(self._folder.read(note)) if self._folder.has(note) else 0
            self._folder.write(note, str(tries + 1).encode())
        except FileError as error:
            return PartitionResult(number, str(error).encode(), type(error).__name__)
        if tries >= MOST_TRIES:
            what = f"{tries} workers died over part {number} (killed, or out of memory). Finished parts are kept: go on by --resume."
            return PartitionResult(number, what.encode(), TwmdError.__name__)
        answer = do_part(self._scorer, self._task, number)
        self._folder.remove(note)
        return answer


def here(task: PartitionTask, parts: Sequence[int]) -> Iterator[PartitionResult]:
    """Do parts in this process, one after another."""
    scorer = PartitionScorer(task.plan, task.scorers, OutputFolder(task.folder), strict=task.strict, totals=task.totals)
    yield from (do_part(scorer, task, number) for number in parts)


def import_ray() -> Any:
    """Ray with Ray Data.

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
    """Workers of Ray Data, on the Ray that runs already or on one that is started for them."""

    def __init__(self, workers: WorkerOptions, device: str = "auto") -> None:
        """Find out what there is.

        Args:
            workers: Who works.
            device: The device as in `RunOptions`.

        Raises:
            MissingExtraError: Ray is not installed.
            SpecError: More GPUs per worker than there are.
        """
        ray = import_ray()
        there = ray.cluster_resources()
        gpus = there.get("GPU", 0.0)
        self._gpus = workers.gpus if workers.gpus is not None else float(gpus > 0 and device != "cpu")
        if self._gpus > gpus:
            raise SpecError(f"a worker would need {self._gpus:g} GPUs, and Ray has {gpus:g} in all.")
        self.number = workers.number or max(1, int(gpus / self._gpus if self._gpus else there.get("CPU", 1.0)))

    def map(self, dataset: Any, worker: type, arguments: tuple[Any, ...], *, most: int | None = None, **how: Any) -> Any:
        """A data set mapped by workers, when it is consumed.

        Args:
            dataset: Of Ray Data.
            worker: The class of the workers, one object of which each process makes.
            arguments: What it is made with.
            most: Most workers there is work for, all of which are started; if not given, they are started as work comes in: of a data set
                without a row, Ray waits for ever for the second.
            how: More arguments for `map_batches`.
        """
        ray = import_ray()
        workers = min(self.number, most or self.number)
        return dataset.map_batches(
            worker,
            fn_constructor_args=arguments,
            compute=ray.data.ActorPoolStrategy(min_size=workers if most else 1, max_size=workers),
            num_cpus=1,
            num_gpus=self._gpus or None,
            **how,
        )

    def __call__(self, task: PartitionTask, parts: Sequence[int]) -> Iterator[PartitionResult]:
        """Do parts, in whatever order they are finished.

        Raises:
            TwmdError: Workers died again and again.
        """
        ray = import_ray()
        numbers = ray.data.from_items([{"part": number} for number in parts], override_num_blocks=min(len(parts), _MOST_BLOCKS))
        answers = self.map(numbers, PartitionWorker, (task,), most=len(parts), batch_size=1)
        try:
            for row in answers.iter_rows():
                yield PartitionResult(int(row["part"]), row["content"], row["failure"])
        except (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
            raise TwmdError(f"Ray has lost its workers ({type(error).__name__}). Finished parts are kept: go on by --resume.") from error


@contextlib.contextmanager
def on_ray() -> Iterator[None]:
    """Use the Ray that this process is connected to, or connect to the cluster of this machine, or start one; end only what was begun here.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    ray = import_ray()
    begun = not ray.is_initialized()
    if begun:
        with _level_of_backend("fatal"), without_lines(_GREETING):
            ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        with _quiet(ray):
            yield
    finally:
        if begun:
            ray.shutdown()


@contextlib.contextmanager
def _level_of_backend(level: str) -> Iterator[None]:
    """What Ray's own processes and the library beneath write to stderr; read from the environment when Ray starts."""
    name = "RAY_BACKEND_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ.setdefault(name, level)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


@contextlib.contextmanager
def without_lines(part: bytes) -> Iterator[None]:
    """Leave out the lines with this part that a library writes to the process's stderr, past Python's; the others follow at the end."""
    own = os.dup(_STDERR)
    try:
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), _STDERR)
            try:
                yield
            finally:
                os.dup2(own, _STDERR)
                held.seek(0)
                os.write(_STDERR, b"".join(line for line in held if part not in line))
    finally:
        os.close(own)


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Without Ray Data's progress and plans."""
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])
