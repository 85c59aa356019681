"""A data set of files, scored part by part: planned, summed up where scores depend on all rows, scored, recorded."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

from twmd_registry.engine.pairs import centering_step
from twmd_registry.engine.scorer import Scorer, check_scorers
from twmd_registry.errors import FileError, InputError, SpecError, warn
from twmd_registry.judgments.reader import Columns
from twmd_registry.progress import Progress, StageProgress, expect
from twmd_registry.registry.names import Centering
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.scale.dataset_record import RECORD, ScoredDataset, make_record
from twmd_registry.scale.partitions import TRIES, PartitionScorer, ReportRows, names_of, rejects_name
from twmd_registry.scale.plan import PART_ROWS, ScalePlan, align_part_rows, check_same, cut_into_parts, list_tables
from twmd_registry.scale.storage import OutputFolder
from twmd_registry.scale.totals import CorpusTotals, depend_on_corpus
from twmd_registry.scale.workers import RayWorkerPool, WorkerOptions, import_ray, on_ray

PLAN, TOTALS, REJECTS = "plan.json", "totals.safetensors", "rejects.jsonl"
_LEFT_OVER = (".part", TRIES)
"""Suffixes of half a file and of a count of tries: a process was killed."""
_SHOWN = 5
"""Warnings of the parts that are given."""

EachPart = Callable[[PartitionScorer, Sequence[int]], Iterator[tuple[int, bytes]]]
"""Does a pass over some parts; yields their numbers and results, in whatever order they are finished."""
StartWorkers = Callable[[], AbstractContextManager[tuple[EachPart, int]]]
"""Starts the workers, once it is known that there is something to do, and ends them; gives how many there are, too."""


class ScaleOptions(NamedTuple):
    """How files are scored; of these, only `columns` decides what.

    Attributes:
        columns: The columns that hold texts.
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

    Writes ``part-00000.parquet`` and so on (the row's number among all, its file, its number there, and the scores),
    ``record.json`` when all are finished, and ``rejects.jsonl`` where rows could not be scored. The scores are those
    that a single machine gives for all rows in order, however many workers there are.

    Args:
        scorers: At least one.
        inputs: Paths, patterns, folders, or URLs of them, of JSON lines, CSV, TSV or Parquet, also compressed by gzip
            or xz.
        output: A folder that every worker sees.
        manner: How files are scored.
        workers: The workers.

    Returns:
        The record, as it was written.

    Raises:
        FileError: A file cannot be read or written; the output folder is not empty, or in use.
        InputError: A row cannot be scored, and ``strict`` is set.
        SpecError: There is no scorer, or ``resume`` is set and the folder was begun with something else.
        ModelError: As for `Scorer.score`.
        MissingExtraError: Ray, or the package that reads a URL, is not installed.
        TwmdError: Workers died again and again.

    Warns:
        TwmdWarning: Rows were rejected; the warnings of the parts.
    """
    import_ray()

    @contextlib.contextmanager
    def start_workers() -> Iterator[tuple[EachPart, int]]:
        with on_ray():
            pool = RayWorkerPool(workers or WorkerOptions(), scorers[0].options.device)
            yield pool, pool.number

    return score_parts(scorers, inputs, output, manner or ScaleOptions(), start_workers)


def score_parts(
    scorers: Sequence[Scorer], inputs: Sequence[str], output: str, manner: ScaleOptions, start_workers: StartWorkers
) -> ScoredDataset:
    """Score files as `score_files` does, by any workers; they are not started for what can be refused without them."""
    check_scorers(scorers)
    started = time.perf_counter()
    specs = [member.requested for one in scorers for member in one.members]
    part_rows = align_part_rows(manner.part_rows, centering_step(specs))
    signatures = tuple(one.signature for one in scorers)
    for one in scorers:
        one.close()  # models are the workers'
    asked = ScalePlan(signatures, manner.columns, part_rows, list_tables(inputs))
    report = manner.scored or (lambda _: None)
    folder = OutputFolder(output)
    with folder.lock():
        plan = _begin(folder, asked, resume=manner.resume)
        if folder.has(RECORD):
            record = ScoredDataset.from_json(folder.read(RECORD))
            report(record)
            return record
        sums = depend_on_corpus(specs)
        expect(manner.progress, plan.rows)
        meter = StageProgress(manner.progress, plan.rows, stages=1 + sums)
        with start_workers() as (each, number):
            folder.write(PLAN, plan.to_json().encode())
            scorer = PartitionScorer(plan, tuple(scorers), folder.url, manner.strict)
            if sums:
                with meter.stage(plan.rows) as progress:
                    adder = replace(scorer, sums=True, report=_by_part(progress))
                    scorer = replace(scorer, totals=_sum_up(adder, folder, each))
            with meter.stage(plan.rows) as progress:
                summaries = _score(replace(scorer, report=_by_part(progress)), manner, each)
        seconds = time.perf_counter() - started
        record = make_record(plan, names_of(scorers), summaries, workers=number, seconds=seconds)
        _warn(record, specs)
        report(record)
        rejects = [rejects_name(one["part"]) for one in summaries if one["rejected"]]
        if rejects:
            folder.write(REJECTS, b"".join(map(folder.read, rejects)))
        folder.write(RECORD, record.to_json().encode())
        _tidy(folder, {TOTALS, *rejects})
        return record


def _begin(folder: OutputFolder, asked: ScalePlan, *, resume: bool) -> ScalePlan:
    """Make a plan, or go on by the one that is there."""
    there = folder.names()
    if there and not resume:
        raise FileError(f"{folder.url} is not empty: give an empty folder, or go on with it by --resume.")
    if PLAN in there:
        plan = ScalePlan.from_json(folder.read(PLAN).decode("utf-8", "replace"))
        check_same(plan, asked)
        _tidy(folder, set())
        return plan
    if not all(name.endswith(_LEFT_OVER) for name in there):
        raise FileError(f"--resume: {folder.url} holds no {PLAN}, but other files: give an empty folder.")
    return cut_into_parts(asked)


def _tidy(folder: OutputFolder, names: set[str]) -> None:
    """Remove files that are not needed any more, and those of processes that were killed."""
    for name in folder.names():
        if name in names or name.endswith(_LEFT_OVER):
            folder.remove(name)


def _sum_up(scorer: PartitionScorer, folder: OutputFolder, each: EachPart) -> CorpusTotals:
    """Do the first pass: totals are added up in the order of parts, and written after every part."""
    totals = CorpusTotals.from_bytes(folder.read(TOTALS)) if folder.has(TOTALS) else CorpusTotals([])
    missing = range(totals.parts, len(scorer.plan.parts))
    early: dict[int, CorpusTotals] = {}
    for part in range(totals.parts):
        _finish(scorer, part)
    for part, content in each(scorer, missing) if missing else ():
        _finish(scorer, part)
        early[part] = CorpusTotals.from_bytes(content)
        while totals.parts in early:
            totals = totals.plus(early.pop(totals.parts))
            folder.write(TOTALS, totals.to_bytes())
    return totals


def _score(scorer: PartitionScorer, manner: ScaleOptions, each: EachPart) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for part, content in each(scorer, range(len(scorer.plan.parts))):
        summary = found[part] = json.loads(content)
        if manner.strict and summary["rejected"]:
            rejected = f"{summary['rejected']} rows of part {part} were rejected"
            raise InputError(f"{rejected} by the run that this one goes on with: see its rejects.")
        _finish(scorer, part)
    return [found[part] for part in range(len(scorer.plan.parts))]


def _finish(scorer: PartitionScorer, part: int) -> None:
    """Report all rows of a part, with those that were rejected, and those of a part that was finished before."""
    if scorer.report:
        scorer.report(part, sum(one.rows for one in scorer.plan.parts[part]))


def _by_part(progress: Progress | None) -> ReportRows | None:
    """Return what turns the rows that are done of every part, which may be done again, into progress."""
    if progress is None:
        return None
    done, lock = dict[int, int](), Lock()

    def report(part: int, rows: int) -> None:
        with lock:  # reports of workers come by a thread
            more = rows - done.get(part, 0)
            if more > 0:
                done[part] = rows
                progress(more)

    return report


def _warn(record: ScoredDataset, specs: Sequence[MetricSpec]) -> None:
    if record.rejected:
        batches = any(spec.centering_kind is Centering.BATCH for spec in specs)
        hint = "; their centering batches are that much smaller" if batches else ""
        total = record.rows + record.rejected
        warn(f"rows that could not be scored: {record.rejected} of {total}, see {REJECTS}{hint}.")
    for message, parts in list(record.warnings.items())[:_SHOWN]:
        warn(f"{message} (in {parts} of {record.parts} parts)" if record.parts > 1 else message)
    if len(record.warnings) > _SHOWN:
        warn(f"and {len(record.warnings) - _SHOWN} warnings more, in {RECORD}.")


def check_independent(specs: Sequence[MetricSpec], where: str) -> None:
    """Refuse a specification by which a row's score depends on other rows.

    Raises:
        SpecError: There is one.
    """
    for spec in specs:
        if spec.centering_kind is Centering.BATCH or depend_on_corpus([spec]):
            centered = spec.centering_kind in {Centering.BATCH, Centering.CORPUS}
            what = f"centering={spec.centering}" if centered else f"idf={spec.idf}"
            hint = "use background or none, or score files (score_files)"
            raise SpecError(f"by {what} a row's score depends on other rows, and {where}: {hint}.")
