"""A data set of files, scored part by part: planned, summed up where scores depend on all rows, scored, recorded."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from twmd_registry.engine.chunking import centering_step
from twmd_registry.engine.scorer import Scorer, check_scorers
from twmd_registry.errors import FileError, InputError, SpecError, warn
from twmd_registry.judgments.fields import Columns
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Centering
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.scale.partitions import PartitionSummary, names_of, rejects_name
from twmd_registry.scale.plan import PART_ROWS, ScalePlan, ScaleRequest, align_part_rows, check_same, list_files, make_plan
from twmd_registry.scale.record import RECORD, ScoredDataset, make_record
from twmd_registry.scale.storage import OutputFolder
from twmd_registry.scale.totals import CorpusTotals, depend_on_corpus
from twmd_registry.scale.workers import TRIES, PartitionResult, PartitionTask, Pass, RayWorkerPool, WorkerOptions, import_ray, on_ray

PLAN, TOTALS, REJECTS = "plan.json", "totals.safetensors", "rejects.jsonl"
_SHOWN = 5
"""Warnings of the parts that are given."""

Each = Callable[[PartitionTask, Sequence[int]], Iterator[PartitionResult]]
"""Does some parts, in whatever order they are finished."""


class WorkerPool(NamedTuple):
    """Who does the parts.

    Attributes:
        each: Does some.
        number: How many work at once, for the record.
    """

    each: Each
    number: int = 1


Call = Callable[[], AbstractContextManager[WorkerPool]]
"""Calls a crew together, once it is known that there is something to do, and sends it home at the end."""


class ScaleOptions(NamedTuple):
    """How files are scored; of these, only `columns` decides what.

    Attributes:
        columns: Where texts stand.
        part_rows: Rows of a part, about.
        resume: Whether to go on with an output folder.
        strict: Whether a row that cannot be scored ends the run.
        progress: Called with the number of rows done.
        scored: Called with the record before it is written, which may fail (a full disk).
    """

    columns: Columns = Columns()
    part_rows: int = PART_ROWS
    resume: bool = False
    strict: bool = False
    progress: Progress | None = None
    scored: Callable[[ScoredDataset], None] | None = None


def score_files(
    scorers: Sequence[Scorer],
    inputs: Sequence[str],
    output: str,
    manner: ScaleOptions | None = None,
    workers: WorkerOptions | None = None,
) -> ScoredDataset:
    """Score files by workers of Ray Data.

    Writes ``part-00000.parquet`` and so on (the row's number among all, its file, its number there, and the scores), ``record.json`` when all
    are finished, and ``rejects.jsonl`` where rows could not be scored. The scores are those that a single machine gives for all rows in
    order, however many workers there are.

    Args:
        scorers: At least one.
        inputs: Paths, patterns, folders, or URLs of them, of JSON lines, CSV, TSV or Parquet.
        output: A folder that every worker sees.
        manner: How.
        workers: Who works.

    Returns:
        The record, as it was written.

    Raises:
        FileError: A file cannot be read or written; the output folder is not empty, or in use.
        InputError: A row cannot be scored, and ``strict`` is set.
        SpecError: There is no scorer, or ``resume`` is set and the folder was begun with something else.
        ModelError: As for `Scorer.score`.
        MissingExtraError: Ray, or what reads a URL, is not installed.
        TwmdError: Workers died again and again.

    Warns:
        TwmdWarning: Rows were rejected; what the parts had to say.
    """
    import_ray()

    @contextlib.contextmanager
    def on_workers() -> Iterator[WorkerPool]:
        with on_ray():
            pool = RayWorkerPool(workers or WorkerOptions(), scorers[0].options.device)
            yield WorkerPool(pool, pool.number)

    return score_parts(scorers, inputs, output, manner or ScaleOptions(), call=on_workers)


def score_parts(scorers: Sequence[Scorer], inputs: Sequence[str], output: str, manner: ScaleOptions, *, call: Call) -> ScoredDataset:
    """Score files by whatever does the parts.

    Args:
        scorers: As for `score_files`.
        inputs: Likewise.
        output: Likewise.
        manner: Likewise.
        call: Calls those together who do the parts; not called for what can be refused without them.

    Returns:
        The record, as it was written.

    Raises:
        TwmdError: As for `score_files`.
    """
    check_scorers(scorers)
    started = time.perf_counter()
    specs = [member.requested for one in scorers for member in one.members]
    part_rows = align_part_rows(manner.part_rows, centering_step(specs))
    signatures = tuple(one.signature for one in scorers)
    for one in scorers:
        one.close()  # models are the workers'
    asked = ScaleRequest(signatures, manner.columns, part_rows, tuple(list_files(inputs)))
    folder = OutputFolder(output)
    with folder.lock():
        plan = _begin(folder, asked, resume=manner.resume)
        if folder.has(RECORD):
            record = ScoredDataset.from_json(folder.read(RECORD))
            if manner.scored:
                manner.scored(record)
            return record
        with call() as crew:
            folder.write(PLAN, plan.to_json().encode())
            totals = _sum_up(plan, tuple(scorers), folder, manner, crew.each) if depend_on_corpus(specs) else None
            task = PartitionTask(Pass.SCORE, plan, tuple(scorers), folder.url, manner.strict, totals)
            summaries = _score(task, manner, crew.each)
        record = make_record(plan, names_of(scorers), summaries, workers=crew.number, seconds=time.perf_counter() - started)
        _warn(record, specs)
        if manner.scored:
            manner.scored(record)
        _gather_rejects(folder, plan, summaries)
        folder.write(RECORD, record.to_json().encode())
        _tidy(folder, {TOTALS, *(rejects_name(part) for part in plan.parts)})
        return record


def _begin(folder: OutputFolder, asked: ScaleRequest, *, resume: bool) -> ScalePlan:
    """Make a plan, or go on by the one that is there."""
    there = folder.names()
    if there and not resume:
        raise FileError(f"{folder.url} is not empty: give an empty folder, or go on with it by --resume.")
    if PLAN in there:
        plan = ScalePlan.from_json(folder.read(PLAN).decode("utf-8", "replace"))
        check_same(plan, asked)
        _tidy(folder, set())
        return plan
    if there - {name for name in there if _is_partial(name)}:
        raise FileError(f"--resume: {folder.url} holds no {PLAN}, but other files: give an empty folder.")
    return make_plan(asked)


def _is_partial(name: str) -> bool:
    """Whether a process that was killed left it behind: half a file, or a note."""
    return name.endswith((".part", TRIES))


def _tidy(folder: OutputFolder, names: set[str]) -> None:
    """Remove files that are not needed any more, and what processes that were killed left behind."""
    for name in folder.names():
        if name in names or _is_partial(name):
            folder.remove(name)


def _sum_up(plan: ScalePlan, scorers: tuple[Scorer, ...], folder: OutputFolder, manner: ScaleOptions, each: Each) -> CorpusTotals:
    """The first pass: what depends on all rows, added up in the order of parts and written down after every one."""
    totals = CorpusTotals.from_bytes(folder.read(TOTALS)) if folder.has(TOTALS) else CorpusTotals([])
    missing = range(totals.parts, len(plan.parts))
    early: dict[int, CorpusTotals] = {}
    for answer in each(PartitionTask(Pass.SUM, plan, scorers, folder.url, manner.strict), missing) if missing else ():
        early[answer.part] = CorpusTotals.from_bytes(answer.result())
        while totals.parts in early:
            totals = totals.plus(early.pop(totals.parts))
            folder.write(TOTALS, totals.to_bytes())
    return totals


def _score(task: PartitionTask, manner: ScaleOptions, each: Each) -> list[PartitionSummary]:
    found: dict[int, PartitionSummary] = {}
    expect(manner.progress, task.plan.rows)
    for answer in each(task, range(len(task.plan.parts))):
        summary = found[answer.part] = PartitionSummary.from_json(answer.result())
        if manner.strict and summary.rejected:
            raise InputError(f"{summary.rejected} rows of part {summary.part} were rejected by the run that this one goes on with: see its rejects.")
        if manner.progress:
            manner.progress(summary.rows + summary.rejected)
    return [found[part.number] for part in task.plan.parts]


def _gather_rejects(folder: OutputFolder, plan: ScalePlan, summaries: Sequence[PartitionSummary]) -> None:
    """One file of all rejected rows, in their order."""
    names = [rejects_name(part) for part, summary in zip(plan.parts, summaries, strict=True) if summary.rejected]
    if names:
        folder.write(REJECTS, b"".join(folder.read(name) for name in names))


def _warn(record: ScoredDataset, specs: Sequence[MetricSpec]) -> None:
    if record.rejected:
        batches = any(spec.centering_kind is Centering.BATCH for spec in specs)
        where = "; their centering batches are that much smaller" if batches else ""
        warn(f"rows that could not be scored: {record.rejected} of {record.rows + record.rejected}, see {REJECTS}{where}.")
    for message, parts in list(record.warnings.items())[:_SHOWN]:
        warn(f"{message} (in {parts} of {record.parts} parts)" if record.parts > 1 else message)
    if len(record.warnings) > _SHOWN:
        warn(f"and {len(record.warnings) - _SHOWN} warnings more, in {RECORD}.")


def dependent_spec(specs: Sequence[MetricSpec]) -> MetricSpec | None:
    """The first specification by which a row's score depends on other rows; None where none does."""
    return next((spec for spec in specs if spec.centering_kind is Centering.BATCH or depend_on_corpus([spec])), None)


def check_independent(specs: Sequence[MetricSpec], where: str) -> None:
    """Refuse a specification by which a row's score depends on other rows.

    Raises:
        SpecError: There is one.
    """
    spec = dependent_spec(specs)
    if spec is not None:
        what = f"centering={spec.centering}" if spec.centering_kind in {Centering.BATCH, Centering.CORPUS} else f"idf={spec.idf}"
        raise SpecError(f"by {what} a row's score depends on other rows, and {where}: use background or none, or score files (score_files).")
