"""Score a data set of files: plan parts, sum up what depends on all rows, score the parts, and write a record."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

from twmd_registry.engine.pairs import centering_step
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, InputError, TwmdError, warn
from twmd_registry.judgments.reader import Columns
from twmd_registry.progress import Progress, expect, split_progress
from twmd_registry.record.content import spec_keys
from twmd_registry.record.file import DATASET_FORMAT, digest_of
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.scale import partitions
from twmd_registry.scale.partitions import CorpusTotals, PartitionScorer, ReportRows, WorkerOptions, names_of
from twmd_registry.scale.plan import (
    PART_ROWS,
    OutputFolder,
    ScalePlan,
    align_part_rows,
    check_same,
    cut_into_parts,
    list_tables,
)

PLAN, TOTALS, REJECTS, RECORD = "plan.json", "totals.safetensors", "rejects.jsonl", "record.json"
_FORMAT_VERSION = 1
_LEFTOVER_SUFFIXES = (".part", partitions.TRIES)
"""Suffixes of the files that killed processes leave."""
_MAX_RECORDED_WARNINGS, _MAX_SHOWN_WARNINGS = 20, 5
"""Maximum numbers of warnings in a record and of warnings that are shown; the most common come first."""

RunParts = Callable[[PartitionScorer, Sequence[int]], Iterator[tuple[int, bytes]]]
"""Runs a scorer on parts; yields each part's number and result as soon as it is finished."""
StartWorkers = Callable[[], AbstractContextManager[tuple[RunParts, int]]]
"""Starts the workers and stops them at the end; yields a function that runs parts on them, and their number."""


class ScaleOptions(NamedTuple):
    """How files are scored; only `columns` changes the scores.

    Attributes:
        columns: The columns that hold texts.
        part_rows: Rows of a part; rounded up to whole centering batches.
        resume: Whether to continue an interrupted run.
        strict: Whether a row that cannot be scored ends the run.
        progress: Called with the number of rows done.
        scored: Called with the record before it is written, because writing may fail (a full disk).
    """

    columns: Columns = Columns()
    part_rows: int = PART_ROWS
    resume: bool = False
    strict: bool = False
    progress: Progress | None = None
    scored: Callable[[ScoredDataset], None] | None = None


@dataclass(frozen=True)
class DatasetScore:
    """The mean score of a data set by a metric; signature with the number of references, its keys as text.

    Attributes:
        column: The column of the parts that holds the scores.
        sides: Means of precision, recall and F1 of a two-sided metric; empty for others.
        counts: As in `Counts`, summed over parts: a text in two parts counts twice among distinct texts.
    """

    signature: str
    keys: dict[str, str]
    column: str
    score: float
    sides: dict[str, float]
    counts: dict[str, int]


@dataclass(frozen=True)
class ScoredDataset:
    """The record of a finished run, ``record.json``; the parts hold the scores of rows.

    Attributes:
        created: Date and time in UTC, ISO 8601.
        inputs: The files: name without the folder that all have in common, bytes, rows.
        columns: The column of the predictions, and those from which references were read.
        rows: Rows that were scored.
        rejected: Rows that could not be scored.
        texts: sha256 of the parts' digests of their texts, in order.
        warnings: Warnings, the most common first, each with the number of parts that gave it.
        environments: The different machines that scored.
        seconds: Wall time of the last run.
    """

    created: str
    inputs: tuple[dict[str, Any], ...]
    columns: dict[str, Any]
    part_rows: int
    parts: int
    rows: int
    rejected: int
    texts: str
    metrics: tuple[DatasetScore, ...]
    warnings: dict[str, int]
    environments: tuple[dict[str, str], ...]
    workers: int
    seconds: float

    def to_json(self) -> str:
        """Return the content of ``record.json``."""
        content: dict[str, Any] = {"format": DATASET_FORMAT, "format_version": _FORMAT_VERSION} | asdict(self)
        return json.dumps(content | {"sha256": digest_of(content)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> ScoredDataset:
        """Read a record; other or edited text is a `FileError`."""
        try:
            content = json.loads(text)
            if content["sha256"] != digest_of(content):
                hint = "remove it, and continue with --resume, which writes it again"
                raise FileError(f"{RECORD} was edited after it had been written: {hint}.")
            del content["sha256"]
            if (content.pop("format"), content.pop("format_version")) != (DATASET_FORMAT, _FORMAT_VERSION):
                raise FileError(f"{RECORD} was not written by this version of the package: give an empty folder.")
            lists = {name: tuple(content[name]) for name in ("inputs", "environments")}
            metrics = tuple(DatasetScore(**score) for score in content["metrics"])
            return cls(**{**content, **lists, "metrics": metrics})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FileError(f"{RECORD} is not a record that this package wrote: give an empty folder.") from error


def score_files(
    scorers: Sequence[Scorer],
    inputs: Sequence[str],
    output: str,
    manner: ScaleOptions | None = None,
    workers: WorkerOptions | None = None,
) -> ScoredDataset:
    """Score files by workers of Ray Data.

    Writes ``part-00000.parquet`` and so on (the row's number in the data set, its file, its row there, and the scores),
    ``record.json`` when all parts are finished, and ``rejects.jsonl`` if rows could not be scored. The scores are those
    of a single process that scores all rows in order, whatever the number of workers.

    Args:
        scorers: At least 1 scorer.
        inputs: Paths, patterns, folders, or URLs of them, of JSON lines, CSV, TSV or Parquet, also compressed by gzip
            or xz.
        output: The output folder, which every worker must see.
        manner: How files are scored.
        workers: The workers.

    Returns:
        The record, as it was written.

    Raises:
        FileError: A file cannot be read or written; the output folder is not empty, or in use.
        InputError: A row cannot be scored, and ``strict`` is set.
        SpecError: There is no scorer, or ``resume`` is set and the folder belongs to a run with other settings.
        ModelError: As for `Scorer.score`.
        MissingExtraError: Ray, or the package that reads a URL, is not installed.
        TwmdError: Workers died repeatedly.

    Warns:
        TwmdWarning: Rows were rejected; the warnings of the parts.
    """
    partitions.check_compared(scorers)
    partitions.import_ray()

    @contextlib.contextmanager
    def start_workers() -> Iterator[tuple[RunParts, int]]:
        with partitions.on_ray():
            number, gpus = partitions.share_resources(workers or WorkerOptions(), scorers[0].options.device)
            yield partial(partitions.run_parts, WorkerOptions(number, gpus)), number

    return score_parts(scorers, inputs, output, manner or ScaleOptions(), start_workers)


def score_parts(
    scorers: Sequence[Scorer], inputs: Sequence[str], output: str, manner: ScaleOptions, start_workers: StartWorkers
) -> ScoredDataset:
    """Score files as `score_files` does, by any workers; they are started after all checks."""
    started = time.perf_counter()
    specs = [member.requested for scorer in scorers for member in scorer.members]
    part_rows = align_part_rows(manner.part_rows, centering_step(specs))
    signatures = tuple(scorer.signature for scorer in scorers)
    for loaded in scorers:
        loaded.close()  # only the workers use models from here on
    requested_plan = ScalePlan(signatures, manner.columns, part_rows, list_tables(inputs))
    report = manner.scored or (lambda _: None)
    folder = OutputFolder(output)
    with folder.lock():
        plan = _make_or_read_plan(folder, requested_plan, resume=manner.resume)
        if folder.has(RECORD):
            record = ScoredDataset.from_json(folder.read(RECORD))
            report(record)
            return record
        needs_totals = any(spec.needs_corpus for spec in specs)
        expect(manner.progress, plan.rows)
        stage = split_progress(manner.progress, plan.rows, stages=1 + needs_totals)
        with start_workers() as (run_parts, number):
            folder.write(PLAN, plan.to_json().encode())
            scorer = PartitionScorer(plan, tuple(scorers), folder.url, manner.strict)
            if needs_totals:
                with stage(plan.rows) as progress:
                    totals_scorer = replace(scorer, sums=True, report=_by_part(progress))
                    scorer = replace(scorer, totals=_compute_totals(totals_scorer, folder, run_parts))
            with stage(plan.rows) as progress:
                summaries = _score(replace(scorer, report=_by_part(progress)), manner, run_parts)
        seconds = time.perf_counter() - started
        record = _make_record(plan, names_of(scorers), summaries, workers=number, seconds=seconds)
        _warn(record, specs)
        report(record)
        rejects = [partitions.rejects_name(summary["part"]) for summary in summaries if summary["rejected"]]
        if rejects:
            folder.write(REJECTS, b"".join(map(folder.read, rejects)))
        folder.write(RECORD, record.to_json().encode())
        _tidy(folder, {TOTALS, *rejects})
        return record


def _make_or_read_plan(folder: OutputFolder, asked: ScalePlan, *, resume: bool) -> ScalePlan:
    """Make a plan, or read that of an interrupted run."""
    existing = folder.names()
    if not resume and existing <= {PLAN}:  # no part was finished, of texts that were refused, say
        return cut_into_parts(asked)
    if not resume:
        raise FileError(f"{folder.url} is not empty: give an empty folder, or continue with --resume.")
    if PLAN in existing:
        plan = ScalePlan.from_json(folder.read(PLAN).decode("utf-8", "replace"))
        check_same(plan, asked)
        _tidy(folder, set())
        return plan
    if not all(name.endswith(_LEFTOVER_SUFFIXES) for name in existing):
        raise FileError(f"--resume: {folder.url} holds no {PLAN}, but other files: give an empty folder.")
    return cut_into_parts(asked)


def _tidy(folder: OutputFolder, names: set[str]) -> None:
    """Remove the named files, and the files that killed processes left behind."""
    for name in folder.names():
        if name in names or name.endswith(_LEFTOVER_SUFFIXES):
            folder.remove(name)


def _compute_totals(scorer: PartitionScorer, folder: OutputFolder, each: RunParts) -> CorpusTotals:
    """Compute the totals, added in the order of parts (rounding depends on it) and written after every part."""
    totals, done = partitions.read_totals(folder.read(TOTALS) if folder.has(TOTALS) else b"", len(scorer.plan.parts))
    missing = range(done, len(scorer.plan.parts))
    early: dict[int, CorpusTotals] = {}
    for part in range(done):
        _finish(scorer, part)
    for part, content in each(scorer, missing) if missing else ():
        _finish(scorer, part)
        early[part], whole = partitions.read_totals(content)
        if not whole:
            hint = "finished parts are kept: continue with --resume"
            raise TwmdError(f"the sums of part {part} were damaged on their way from the worker: {hint}.")
        while done in early:
            more = early.pop(done)
            totals = [own + new for own, new in zip(totals, more, strict=True)] if totals and more else totals or more
            done += 1
            folder.write(TOTALS, partitions.write_totals(totals, done))
    return totals


def _score(scorer: PartitionScorer, manner: ScaleOptions, each: RunParts) -> list[dict[str, Any]]:
    summaries: dict[int, dict[str, Any]] = {}
    for part, content in each(scorer, range(len(scorer.plan.parts))):
        summary = summaries[part] = json.loads(content)
        if manner.strict and summary["rejected"]:
            rejected = f"{summary['rejected']} rows of part {part} were rejected"
            raise InputError(f"{rejected} in the run that is resumed: see its rejects, or resume without strict.")
        _finish(scorer, part)
    return [summaries[part] for part in range(len(scorer.plan.parts))]


def _finish(scorer: PartitionScorer, part: int) -> None:
    """Report all rows of a part as done: also rejected rows, and parts that were finished before."""
    if scorer.report:
        scorer.report(part, sum(rows for _, _, rows, _ in scorer.plan.parts[part]))


def _by_part(progress: Progress | None) -> ReportRows | None:
    """Return a function that turns reports of parts into progress; a part may be done twice."""
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


def _make_record(
    plan: ScalePlan, names: Sequence[str], summaries: Sequence[dict[str, Any]], *, workers: int, seconds: float
) -> ScoredDataset:
    """Return the record of all parts, from their summaries in order; raise `FileError` if no row was scored."""
    rows, rejected = sum(summary["rows"] for summary in summaries), sum(summary["rejected"] for summary in summaries)
    if not rows:
        raise FileError(f"not one of {rejected} rows could be scored: see rejects.jsonl.")
    references = list(dict.fromkeys(name for summary in summaries for name in summary["references"]))
    environments = dict.fromkeys(json.dumps(summary["environment"]) for summary in summaries)
    warnings = Counter(message for summary in summaries for message in summary["warnings"])
    scored = [summary["metrics"] for summary in summaries if summary["metrics"]]
    return ScoredDataset(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        inputs=tuple({"name": name, "bytes": file[1], "rows": number} for file, name, number in plan.tables),
        columns={"prediction": plan.columns.prediction, "references": references},
        part_rows=plan.part_rows,
        parts=len(plan.parts),
        rows=rows,
        rejected=rejected,
        texts=sha256("".join(summary["texts"] for summary in summaries).encode()).hexdigest(),
        metrics=tuple(
            _mean(*metric, rows) for metric in zip(plan.signatures, names, zip(*scored, strict=True), strict=True)
        ),
        warnings=dict(warnings.most_common(_MAX_RECORDED_WARNINGS)),
        environments=tuple(map(json.loads, environments)),
        workers=workers,
        seconds=round(seconds, 3),
    )


def _mean(signature: str, name: str, sums: Sequence[dict[str, Any]], rows: int) -> DatasetScore:
    reference_counts = {part["nrefs"] for part in sums}
    whole = Signature(parse_signature(signature).spec, reference_counts.pop() if len(reference_counts) == 1 else "var")
    counts = Counter[str]()
    for part in sums:
        counts.update(part["counts"])
    return DatasetScore(
        signature=str(whole),
        keys=spec_keys(whole),
        column=name,
        score=math.fsum(part["score"] for part in sums) / rows,
        sides={side: math.fsum(part["sides"][side] for part in sums) / rows for side in sums[0]["sides"]},
        counts=dict(counts),
    )


def _warn(record: ScoredDataset, specs: Sequence[MetricSpec]) -> None:
    if record.rejected:
        batches = any(spec.centering_kind == "batch" for spec in specs)
        hint = "; their centering batches are that much smaller" if batches else ""
        total = record.rows + record.rejected
        warn(f"rows that could not be scored: {record.rejected} of {total}, see {REJECTS}{hint}.")
    for message, parts in list(record.warnings.items())[:_MAX_SHOWN_WARNINGS]:
        warn(f"{message} (in {parts} of {record.parts} parts)" if record.parts > 1 else message)
    if len(record.warnings) > _MAX_SHOWN_WARNINGS:
        warn(f"and {len(record.warnings) - _MAX_SHOWN_WARNINGS} more warnings, in {RECORD}.")
