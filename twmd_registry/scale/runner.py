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
from typing import Any, NamedTuple

from twmd_registry.engine.pairs import check_whole_calls
from twmd_registry.engine.result import merge_hashes
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError
from twmd_registry.files.tables import Columns
from twmd_registry.messages import warn
from twmd_registry.progress import Progress, expect, split_progress
from twmd_registry.record.content import DATASET_FORMAT, digest_of, spec_keys
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.scale import partitions
from twmd_registry.scale.partitions import CorpusTotals, PartitionScorer, WorkerOptions, names_of
from twmd_registry.scale.plan import PART_ROWS, OutputFolder, ScalePlan, check_same, cut_into_parts, list_tables

PLAN, REJECTS, RECORD = "plan.json", "rejects.jsonl", "record.json"
_FORMAT_VERSION = 1
_LEFT = (".part", partitions.TRIES)
"""Suffixes of the files that killed processes leave."""
_MAX_WARNINGS = 10
"""Maximum number of warnings that are shown and recorded; the most common come first."""

RunParts = Callable[[PartitionScorer, Sequence[int]], Iterator[tuple[int, str]]]
"""Runs a scorer on parts; yields each part's number and result as soon as it is finished."""
StartWorkers = Callable[[], AbstractContextManager[tuple[RunParts, int]]]
"""Starts the workers and stops them at the end; yields a function that runs parts on them, and their number."""


class ScaleOptions(NamedTuple):
    """How files are scored; only `columns` changes the scores.

    Attributes:
        columns: The columns that hold texts, and whether cells of TSV are quoted.
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
    """The mean score of a data set by a metric; signature with the number of references, its keys as text, and hashes
    as in `ScoreSet`.

    Attributes:
        column: The column of the parts that holds the scores.
        sides: Means of precision, recall and F1 of a two-sided metric; empty for others.
        counts: As in `Counts`, summed over parts: a text in two parts counts twice among distinct texts.
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
    """The record of a finished run, ``record.json``; the parts hold the scores of rows.

    Attributes:
        created: Date and time in UTC, ISO 8601.
        inputs: The files: name without the folder that all have in common, bytes, rows.
        columns: The column of the predictions, those from which references were read, and whether TSV was quoted.
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
            if content.pop("sha256") == digest_of(content) and content.pop("format_version") == _FORMAT_VERSION:
                content |= {name: tuple(content[name]) for name in ("inputs", "environments")}
                content["metrics"] = tuple(
                    DatasetScore(**score | {"hashes": merge_hashes([score["hashes"]])}) for score in content["metrics"]
                )
                return cls(**{name: value for name, value in content.items() if name != "format"})
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
        hint = "remove it, and continue with --resume, which writes it again"
        raise FileError(f"{RECORD} is damaged, was edited, or is of another version: {hint}.")


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
    check_whole_calls(specs)
    step = math.lcm(*(spec.centering_size or 1 for spec in specs))  # every centering batch lies in a single part
    part_rows = math.ceil(manner.part_rows / step) * step
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
                    _run(replace(scorer, sums=True), run_parts, progress)
                scorer = replace(scorer, totals=_add_sums(folder, len(plan.parts)))
            with stage(plan.rows) as progress:
                summaries = _run(scorer, run_parts, progress)
        seconds = time.perf_counter() - started
        record = _make_record(plan, names_of(scorers), summaries, workers=number, seconds=seconds)
        _warn(record, specs)
        report(record)
        rejects = [partitions.rejects_name(summary["part"]) for summary in summaries if summary["rejected"]]
        if rejects:
            folder.write(REJECTS, b"".join(map(folder.read, rejects)))
        folder.write(RECORD, record.to_json().encode())
        _tidy(folder, (partitions.SUMS, *_LEFT, *rejects))
        return record


def _make_or_read_plan(folder: OutputFolder, requested: ScalePlan, *, resume: bool) -> ScalePlan:
    """Make a plan, or read that of an interrupted run."""
    existing = {name for name in folder.names() if not name.endswith(_LEFT)}
    if not existing or (existing == {PLAN} and not resume):  # no part was finished, of texts that were refused, say
        return cut_into_parts(requested)
    if not resume:
        raise FileError(f"{folder.url} is not empty: give an empty folder, or continue with --resume.")
    plan = ScalePlan.from_json(folder.read(PLAN).decode("utf-8", "replace"))
    check_same(plan, requested)
    _tidy(folder, _LEFT)
    return plan


def _tidy(folder: OutputFolder, suffixes: tuple[str, ...]) -> None:
    """Remove the files whose names have one of these suffixes."""
    for name in folder.names():
        if name.endswith(suffixes):
            folder.remove(name)


def _run(scorer: PartitionScorer, each: RunParts, progress: Progress | None) -> list[dict[str, Any]]:
    """Run a scorer on all parts; return their summaries in order."""
    summaries: dict[int, dict[str, Any]] = {}
    for part, content in each(scorer, range(len(scorer.plan.parts))):
        summaries[part] = json.loads(content)
        if progress:
            progress(sum(rows for _, _, rows, _ in scorer.plan.parts[part]))
    return [summaries[part] for part in sorted(summaries)]


def _add_sums(folder: OutputFolder, parts: int) -> CorpusTotals:
    """Add the sums of all parts, in their order, on which rounding depends."""
    totals: CorpusTotals = []
    for part in range(parts):
        more = partitions.read_sums(folder, part)
        if more is None:
            raise FileError(f"the sums of part {part} are missing or damaged: continue with --resume.")
        totals = [total + new for total, new in zip(totals, more, strict=True)] if totals and more else totals or more
    return totals


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
        columns=plan.columns._asdict() | {"references": references},
        part_rows=plan.part_rows,
        parts=len(plan.parts),
        rows=rows,
        rejected=rejected,
        texts=sha256("".join(summary["texts"] for summary in summaries).encode()).hexdigest(),
        metrics=tuple(
            _mean(*metric, rows) for metric in zip(plan.signatures, names, zip(*scored, strict=True), strict=True)
        ),
        warnings=dict(warnings.most_common(_MAX_WARNINGS)),
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
        hashes=merge_hashes(part["hashes"] for part in sums),
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
    for message, parts in record.warnings.items():
        warn(f"{message} (in {parts} of {record.parts} parts)" if record.parts > 1 else message)
