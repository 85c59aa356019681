"""A part of a data set: its rows are read, checked, scored by the engine and written, by workers of Ray Data."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from twmd_registry import errors
from twmd_registry.engine.backends import Backend, Scored
from twmd_registry.engine.pairs import Pairs, Segments, make_pairs
from twmd_registry.engine.pipeline import AllReduce, single_process
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, check_scorers, score_segments
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import FileError, InputError, ModelError, SpecError, TwmdError, missing_extra
from twmd_registry.files.tables import TableRow
from twmd_registry.messages import collect_warnings
from twmd_registry.progress import Stage
from twmd_registry.record.content import environment
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.scale.plan import OutputFolder, ScalePlan, open_table, part_name

CorpusTotals = list[np.ndarray]
"""Sums over a corpus, in the order in which scoring needs them; empty for no rows."""
ID = "id"
"""The input column that names a row; the parts contain it, too."""
MAX_TRIES = 3
"""The number of workers that may die while they score the same part."""
TRIES = ".tries"
"""Suffix of the file that counts the workers that began a part; it is removed when the part is done."""
SUMS = ".sums"
"""Suffix of the file of a part's `CorpusTotals`."""
_SUMMARY = b"twmd"
"""The key of a part's summary in the metadata of its Parquet file."""
_SHOWN = 500
"""Characters of a rejected row in ``rejects.jsonl``."""
_KEPT = "Finished parts are kept: continue with --resume."


class RowPlace(NamedTuple):
    """A row's number among all, its file, its number there (from 0), and its ``id`` or None: columns of the parts."""

    row: int
    file: str
    row_in_file: int
    id: str | None


@dataclass(frozen=True)
class PartitionScorer:
    """Does a pass over parts of a plan: a callable class for Ray Data's workers, which load models with the first part.

    Attributes:
        sums: Whether this is the first pass, which writes `CorpusTotals` of parts; otherwise parts are scored.
        totals: The totals of the corpus; None if no score depends on all rows, and in the first pass.
    """

    plan: ScalePlan
    scorers: tuple[Scorer, ...]
    folder: str
    strict: bool = False
    sums: bool = False
    totals: CorpusTotals | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Run the parts of a batch; an error becomes the name of its class, with its message as content."""
        results: dict[str, list[Any]] = {"part": [], "content": [], "failure": []}
        for part in map(int, batch["part"]):
            try:
                content, failure = self.run(part), ""
            except TwmdError as error:
                content, failure = str(error), type(error).__name__
            for column, value in zip(results.values(), (part, content, failure), strict=True):
                column.append(value)
        return results

    def run(self, part: int) -> str:
        """Write a part, or its sums, and return the summary of the part (JSON); what is written already is kept."""
        folder, note = OutputFolder(self.folder), f"{part_name(part)}{TRIES}"
        tries = int(folder.read(note)) if folder.has(note) else 0
        if tries >= MAX_TRIES:
            raise TwmdError(f"{tries} workers crashed on part {part} (killed, or out of memory). {_KEPT}")
        folder.write(note, str(tries + 1).encode())
        try:
            if not self.sums:
                return json.dumps(self._score(part, folder))
            if read_sums(folder, part) is None:
                self._sum(part, folder)
            return "{}"
        finally:
            folder.remove(note)

    def _sum(self, part: int, folder: OutputFolder) -> None:
        segments, places, _, _ = self._read(part)
        totals: CorpusTotals = []
        if places:
            self._check_models()
            pairs = self._number(make_pairs(segments), places, part)
            groups: dict[Hashable, list[Backend]] = {}
            for backend in (member.backend for scorer in self.scorers for member in scorer.members):
                groups.setdefault(backend.share_key, []).append(backend)
            for group in groups.values():
                group[0].sum_up(group, pairs, _collect(totals))
        from safetensors.numpy import save

        tensors = {str(i): np.ascontiguousarray(tensor) for i, tensor in enumerate(totals)}
        folder.write(f"{part_name(part)}{SUMS}", save(tensors))

    def _score(self, part: int, folder: OutputFolder) -> dict[str, Any]:
        finished = _read_summary(folder, part, self.plan.hash)
        if finished is not None:
            return finished
        segments, places, rejects, references = self._read(part)
        with collect_warnings() as held:
            scores = self._score_rows(segments, places, part) if places else []
        summary = {  # `texts` is empty, and so are `metrics`, where no row could be scored
            "plan": self.plan.hash,
            "part": part,
            "rows": len(places),
            "rejected": len(rejects),
            "texts": scores[0].texts if scores else "",
            "references": references,
            "metrics": [_sums(score) for score in scores],
            "warnings": held,
            "environment": environment(self.scorers[0].options.device),
        }
        if rejects:  # before the part: a finished part has its rejects
            folder.write(rejects_name(part), "".join(rejects).encode())
        folder.write(f"{part_name(part)}.parquet", _parquet(places, columns_of(self.scorers, scores), summary))
        return summary

    def _read(self, part: int) -> tuple[Segments, list[RowPlace], list[str], list[str]]:
        """Return the rows that can be scored and their places, rejects as JSON lines, and the reference columns."""
        segments, places, rejects, read = Segments([], []), list[RowPlace](), list[str](), dict[str, None]()
        row, columns = part * self.plan.part_rows, self.plan.columns
        for table, first, number, offset in self.plan.parts[part]:
            file, name, _ = self.plan.tables[table]
            with open_table(file[0], file, quoted_tsv=columns.quoted_tsv) as opened:
                raws = opened.read(first, number, offset, (*columns.wanted, ID))
            if len(raws) != number:
                raise FileError(f"{file[0]} has changed since its rows were counted: it has fewer of them.")
            for at, (raw, values) in enumerate(raws, first):
                place = RowPlace(row, name, at, None if isinstance(values, str) else _id_of(values))
                where = f"row {row + 1} ({name}, row {at + 1} there)"
                row += 1
                try:
                    if isinstance(values, str):
                        raise FileError(f"{where}: {values}.")  # noqa: TRY301 (as all other reasons)
                    table_row = TableRow(where, values, header=name if opened.header_row else None)
                    prediction, references = table_row.segment(columns)
                except FileError as error:
                    if self.strict:
                        raise InputError(str(error)) from error
                    reason = str(error).removeprefix(f"{where}: ").removesuffix(".")
                    shown = raw.decode("utf-8", "replace").strip("\r\n") or json.dumps(values, default=str)
                    named = {key: value for key, value in place._asdict().items() if value is not None}
                    rejects.append(json.dumps(named | {"reason": reason, "raw": shown[:_SHOWN]}) + "\n")
                    continue
                segments.predictions.append(prediction)
                segments.references.append(references)
                places.append(place)
                read |= dict.fromkeys(columns.references or table_row.usual_references())
        return segments, places, rejects, list(read)

    def _check_models(self) -> None:
        """Refuse a model that is not the plan's: every worker loads its own copy."""
        for scorer, planned in zip(self.scorers, self.plan.signatures, strict=True):
            check_signature(scorer, planned)

    def _score_rows(self, segments: Segments, places: Sequence[RowPlace], part: int) -> list[ScoreSet]:
        self._check_models()
        known = iter(self.totals or ())
        total: AllReduce = (lambda _mine: torch.from_numpy(next(known))) if self.totals else single_process

        def score_group(group: Sequence[Backend], pairs: Pairs, stage: Stage) -> Scored:
            return group[0].score_group(group, self._number(pairs, places, part), stage, total)

        rows = [place.row for place in places]
        return score_segments(self.scorers, segments, score_group=score_group, rows=rows)

    def _number(self, pairs: Pairs, places: Sequence[RowPlace], part: int) -> Pairs:
        """Set the numbers of segments to their rows: a rejected row leaves its place in a centering batch empty."""
        numbers = np.array([place.row for place in places], dtype=np.int64) - part * self.plan.part_rows
        return pairs._replace(segment=np.repeat(numbers, pairs.counts))


def check_compared(metrics: Sequence[Scorer | str]) -> list[Scorer]:
    """Return scorers of metrics; refuse one that compares with sources: rows hold references alone."""
    scorers = check_scorers(metrics)
    for scorer in scorers:
        check_needs_no_sources(scorer)
    return scorers


def check_signature(scorer: Scorer, wanted: object) -> None:
    """Refuse a scorer whose signature, with the model of this machine, is not `wanted`, by a `ModelError`."""
    if scorer.signature != wanted:
        hint = "install the same model and package on all"
        raise ModelError(f"this worker would score by {scorer.signature}, not by {wanted}: {hint}.")


def read_sums(folder: OutputFolder, part: int) -> CorpusTotals | None:
    """Read what the first pass wrote for a part; None if that is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    name = f"{part_name(part)}{SUMS}"
    try:
        tensors = load(folder.read(name)) if folder.has(name) else None
        return None if tensors is None else [tensors[str(i)] for i in range(len(tensors))]
    except (SafetensorError, LookupError, ValueError):
        return None


def _collect(into: CorpusTotals) -> AllReduce:
    """Return a reduction that stores the sums of this part."""

    def total(mine: Callable[[], Tensor]) -> Tensor:
        local = mine()
        into.append(local.cpu().numpy())
        return local

    return total


def _id_of(values: dict[str, Any]) -> str | None:
    """Return the ``id`` of a row as text, as a Parquet column has a single type."""
    value = values.get(ID)  # Parquet stores no lone surrogates
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def rejects_name(part: int) -> str:
    """Return the name of the file of a part's rejected rows; it exists until all parts are finished."""
    return f"{part_name(part)}.rejects.jsonl"


def names_of(scorers: Iterable[Scorer]) -> list[str]:
    """Return a column name for every scorer: its metric, numbered from the second of the same metric on."""
    metrics = [str(scorer.requested.metric) for scorer in scorers]
    times = [metrics[: i + 1].count(metric) for i, metric in enumerate(metrics)]
    return [metric if time == 1 else f"{metric}_{time}" for metric, time in zip(metrics, times, strict=True)]


def columns_of(scorers: Sequence[Scorer], scores: Sequence[ScoreSet]) -> dict[str, list[float]]:
    """Return scores as columns, ``NAME``, and ``NAME_SIDE`` of a two-sided metric; without scores, no rows."""
    columns: dict[str, list[float]] = {}
    for i, (name, scorer) in enumerate(zip(names_of(scorers), scorers, strict=True)):
        columns[name] = list(scores[i].scores) if scores else []
        for output in OUTPUTS if scorer.requested.output is not None else ():
            columns[f"{name}_{output}"] = list(getattr(scores[i], output)) if scores else []
    return columns


def _sums(scores: ScoreSet) -> dict[str, Any]:
    sides = {str(side): float(np.sum(values)) for side in OUTPUTS if (values := getattr(scores, side)) is not None}
    score, nrefs = float(np.sum(scores.scores)), scores.signature.nrefs or ""
    return {"nrefs": nrefs, "score": score, "sides": sides, "counts": scores.counts.as_dict(), "hashes": scores.hashes}


def _parquet(places: Sequence[RowPlace], scores: dict[str, list[float]], summary: dict[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    values = zip(*places, strict=True) if places else [()] * len(RowPlace._fields)
    types = (pa.int64(), pa.string(), pa.int64(), pa.string())
    columns = {name: pa.array(column, kind) for name, column, kind in zip(RowPlace._fields, values, types, strict=True)}
    columns |= {name: pa.array(column, pa.float64()) for name, column in scores.items()}
    table = pa.table(columns).replace_schema_metadata({_SUMMARY: json.dumps(summary).encode()})
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    return written.getvalue()


def _read_summary(folder: OutputFolder, part: int, plan: str) -> dict[str, Any] | None:
    """Return the summary of a finished part; None if it, or its rejects, are missing, damaged, or of another plan."""
    import pyarrow.parquet

    name = f"{part_name(part)}.parquet"
    if not folder.has(name):
        return None
    try:
        metadata = pyarrow.parquet.read_table(io.BytesIO(folder.read(name))).schema.metadata or {}
        summary: dict[str, Any] = json.loads(metadata[_SUMMARY])
        whole = not summary["rejected"] or folder.has(rejects_name(part))
        return summary if summary["plan"] == plan and whole else None
    except (FileError, OSError, ValueError, KeyError, TypeError):
        return None


_LOG_LEVEL = "RAY_BACKEND_LOG_LEVEL"
_MAX_BLOCKS = 4096
"""Upper bound on the blocks of the data set that holds the part numbers."""


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
        raise missing_extra("scoring on Ray needs more packages", "ray") from error
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

    With `tasks`, the number of batches, all workers start at once; else as rows arrive: without a row, Ray would wait.
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


def run_parts(workers: WorkerOptions, scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Score or count parts in workers; yield a part's number and result when it is finished, or raise its error."""
    ray = import_ray()
    blocks = min(len(parts), _MAX_BLOCKS)
    numbers = ray.data.from_items([{"part": part} for part in parts], override_num_blocks=blocks)
    crashes = (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
    arguments = tuple(getattr(scorer, field.name) for field in fields(scorer))
    options = {"tasks": len(parts), "batch_size": 1}
    try:
        for row in map_batches(numbers, PartitionScorer, arguments, workers=workers, **options).iter_rows():
            if row["failure"]:
                raise getattr(errors, row["failure"], TwmdError)(row["content"])
            yield int(row["part"]), row["content"]
    except crashes as error:
        why = f"killed, or out of memory; {type(error).__name__}"
        raise TwmdError(f"Ray has lost its workers ({why}). {_KEPT}") from error


@contextlib.contextmanager
def on_ray() -> Iterator[None]:
    """Use the Ray that this process is connected to, or start one until the end; Ray Data prints no progress."""
    ray = import_ray()
    begun = not ray.is_initialized()
    if begun:
        given = os.environ.get(_LOG_LEVEL)
        os.environ[_LOG_LEVEL] = given or "fatal"  # read by Ray's processes
        ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
        if given is None:
            del os.environ[_LOG_LEVEL]
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
