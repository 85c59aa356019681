"""Add score columns to a Ray data set with a pool of actors: in one pass, or two if scores depend on all rows."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twmd_registry import errors
from twmd_registry.engine.backend import Backend
from twmd_registry.engine.pairs import Segments, make_pairs
from twmd_registry.engine.pipeline import CorpusSums
from twmd_registry.engine.result import ScoreSet, merge_hashes
from twmd_registry.engine.scorer import Hooks, Scorer, check_scorers, group_by, load, score_segments
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import InputError, ModelError, SpecError, TwmdError, missing_extra
from twmd_registry.files.tables import USUAL_REFERENCES, Columns
from twmd_registry.messages import collect_warnings, no_column
from twmd_registry.record.content import environment
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.registry.signature import Signature
from twmd_registry.scale.inputs import PLACE, REJECTED, REJECTS, SUMMARY, check_row

Metrics = str | MetricSpec | Scorer | Sequence[str | MetricSpec | Scorer]
"""The metrics to score a data set by."""
_BATCH = 1000
"""Rows per batch."""
_RETRIES = 5
"""How often Ray retries the rows of a worker that died; its default is forever."""
_SUMS = "sums"


def import_ray() -> Any:
    """Import Ray with Ray Data, or raise a `MissingExtraError`."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise missing_extra("scoring on Ray needs more packages", "ray") from error
    return ray


def score_dataset(
    dataset: Any,
    metrics: Metrics,
    *,
    prediction: str = "prediction",
    reference: str | Sequence[str] | None = None,
    num_workers: int | None = None,
    num_gpus: float | None = None,
    strict: bool = True,
) -> Any:
    """Add scores to a data set: ``NAME``, and ``NAME_precision``, ``NAME_recall``, ``NAME_f1`` of a two-sided metric.

    The data set is scored when it is consumed, by actors with one model each. ``centering=corpus``, ``idf=corpus`` and
    ``idf=references`` need another pass over all rows, which runs immediately. Scores equal `Scorer.score`'s for all
    rows.

    Args:
        dataset: A `ray.data.Dataset`.
        metrics: A metric's name, a signature, a specification, a scorer, or several of them.
        prediction: The column of the predictions.
        reference: The column of the references (texts, or lists of texts), or several columns; defaults to
            ``references`` or ``reference``.
        num_workers: Maximum number of actors; defaults to Ray's number of GPUs, or else of CPUs.
        num_gpus: GPUs per actor, 0.5 if two share one; defaults to 1 if Ray has any.
        strict: Whether to raise an error for a row that cannot be scored. Otherwise its scores are null, and the column
            ``rejected`` has the reason.

    Returns:
        The data set with the new columns.

    Raises:
        InputError: It is not a Ray data set, lacks a column, has both default columns of references, or already has a
            column of scores. A bad row raises Ray's error when it is consumed.
        SpecError: No metric, one with ``centering=batch``, or Ray has fewer GPUs than an actor needs.
        ModelError: As for `Scorer.score`.
        MissingExtraError: As for `Scorer.score`, or Ray is not installed.
    """
    listed = [metrics] if isinstance(metrics, str | MetricSpec | Scorer) else metrics
    scorers = check_metrics([load(metric) if isinstance(metric, MetricSpec) else metric for metric in listed])
    if not isinstance(dataset, import_ray().data.Dataset):
        raise InputError(f"expected a ray.data.Dataset (ray.data.read_parquet, from_huggingface); got {type(dataset)}.")
    names = (reference,) if isinstance(reference, str) else tuple(reference or ())
    job = ScoringJob(scorers, Columns(prediction, names), strict=strict)
    check_columns(dataset.columns() or [], job)
    workers = choose_workers(num_workers, num_gpus, scorers[0].options.device)
    with job.workers_end():
        sums = sum_corpus([dataset], job, workers)
    return add_scores(dataset, job, sums, workers)


def check_metrics(metrics: Sequence[Scorer | str]) -> list[Scorer]:
    """Return the scorers of metrics; refuse metrics that need sources or the order of rows, which Ray does not keep."""
    scorers = check_scorers(metrics)
    for scorer in scorers:
        check_needs_no_sources(scorer)
        if any(member.requested.padding for member in scorer.members):
            raise SpecError("padding depends on the order of rows, which Ray does not keep: set padding=none.")
        if any(member.requested.centering.kind == "batch" for member in scorer.members):
            raise SpecError(
                "centering=batch depends on the order of rows, which Ray does not keep: set centering=corpus (all "
                "rows, in two passes), centering=background:FILE (twmd fit mean), or centering=none."
            )
    return scorers


class ScoringJob:
    """The scorers and columns of every worker, with the driver's signatures and hashes (see `ScoreSet`).

    Attributes:
        summarise: Whether to add the columns that `score_files` writes.
    """

    def __init__(
        self, scorers: Sequence[Scorer], columns: Columns, *, strict: bool = True, summarise: bool = False
    ) -> None:
        """Load the models to get their signatures."""
        self.scorers, self.columns, self.strict, self.summarise = scorers, columns, strict, summarise
        self.signatures = [scorer.signature for scorer in scorers]
        self.hashes = [merge_hashes(member.backend.hashes for member in scorer.members) for scorer in scorers]
        self._name = f"twmd-{uuid.uuid4().hex}"

    def name_worker(self) -> dict[str, str]:
        """Return Ray's arguments for a new actor: a name, by which it can be ended."""
        return {"name": f"{self._name}-{uuid.uuid4().hex}"}

    @contextlib.contextmanager
    def workers_end(self) -> Iterator[None]:
        """End the job's actors at the end: Ray keeps a failed run's, and their CPUs, as long as its error is held."""
        ray = import_ray()
        try:
            yield
        finally:
            with contextlib.suppress(ray.exceptions.RayError, RuntimeError, OSError):  # Ray itself has ended
                for name in ray.util.list_named_actors():
                    if name.startswith(self._name):
                        with contextlib.suppress(ValueError):  # the actor has ended meanwhile
                            ray.kill(ray.get_actor(name))

    def names(self) -> list[str]:
        """Return the columns of the scores."""
        return list(_columns_of(self.scorers, []))

    def read(self, batch: Any) -> tuple[Segments, list[int], list[str | None]]:
        """Return the rows of a batch (`pyarrow.Table`) that can be scored, their numbers, and for every row the reason
        why it cannot be scored, if any. Refuse a model that differs from the driver's, and with `strict` a bad row.
        """
        for scorer, signature in zip(self.scorers, self.signatures, strict=True):
            if scorer.signature != signature:
                hint = "install the same model and package on every machine"
                raise ModelError(f"this worker would score by {scorer.signature}, not by {signature}: {hint}.")
        text_columns = [name for name in self.columns.wanted if name in batch.column_names]
        known = batch[REJECTED].to_pylist() if REJECTED in batch.column_names else [None] * batch.num_rows
        predictions, references, rows, reasons = list[str](), list[list[str]](), list[int](), list[str | None](known)
        for row, values in enumerate(batch.select(text_columns).to_pylist()):
            found = check_row(values, self.columns) if reasons[row] is None else reasons[row]
            if isinstance(found, tuple):
                predictions.append(found[0])
                references.append(found[1])
                rows.append(row)
            elif self.strict:
                raise InputError(f"{found}.")
            else:
                reasons[row] = found
        return Segments(predictions, references), rows, reasons


def check_columns(present: Sequence[str], job: ScoringJob) -> None:
    """Refuse a data set that lacks a column of texts, or has a column that scores would replace."""
    columns = job.columns
    missing = [name for name in (columns.prediction, *columns.references) if name not in present]
    usual = [name for name in USUAL_REFERENCES if name in present]
    if not missing and not columns.references and not usual:
        missing = list(USUAL_REFERENCES)
    if missing:
        raise InputError(f"{no_column(missing, present)}.")
    if not columns.references and len(usual) > 1:
        raise InputError(f"the data set has columns {' and '.join(map(repr, usual))}: choose one with reference=NAME.")
    check_free(present, job)
    if REJECTED in present:
        raise InputError(f"the data set has a column {REJECTED!r}, where reasons are written: rename it.")


def check_free(present: Sequence[str], job: ScoringJob) -> None:
    """Refuse a data set with a column that scores would replace."""
    for name in job.names():
        if name in present:
            raise InputError(f"the data set already has a column {name!r}: rename it.")


def choose_workers(number: int | None, gpus: float | None, device: str) -> tuple[int, float]:
    """Return the maximum number of actors and the GPUs per actor; raise SpecError if Ray has fewer GPUs."""
    resources = import_ray().cluster_resources()
    available = resources.get("GPU", 0.0)
    share = gpus if gpus is not None else float(available > 0 and device != "cpu")
    if share > available:
        raise SpecError(f"every worker needs {share:g} GPUs, but Ray has {available:g}: lower --num-gpus.")
    return number or max(1, int(available / share if share else resources.get("CPU", 1.0))), share


def add_scores(dataset: Any, job: ScoringJob, sums: CorpusSums, workers: tuple[int, float]) -> Any:
    """Return the data set with columns of scores, which are computed when it is consumed."""
    return _map(dataset, _Score, job, (sums,), workers)


def sum_corpus(datasets: Sequence[Any], job: ScoringJob, workers: tuple[int, float]) -> CorpusSums:
    """Return the sums over all rows that scores depend on; without any, skip this pass over the data."""
    if not any(member.requested.needs_corpus for scorer in job.scorers for member in scorer.members):
        return {}
    sums, *others = [_map(dataset, _Sum, job, (), workers) for dataset in datasets]
    found = sums.union(*others).aggregate(_make_addition()) if others else sums.aggregate(_make_addition())
    if not found or found[_SUMS] is None:
        raise InputError("nothing to score: no row can be scored.")
    return _unpack(found[_SUMS])


def _map(dataset: Any, worker: type, job: ScoringJob, arguments: tuple[Any, ...], workers: tuple[int, float]) -> Any:
    from ray.util.annotations import RayDeprecationWarning

    number, gpus = workers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RayDeprecationWarning)  # the last two arguments are gone from Ray 2.64 on
        return dataset.map_batches(
            worker,
            fn_constructor_args=(job, *arguments),
            compute=import_ray().data.ActorPoolStrategy(min_size=1, max_size=number),
            num_cpus=1,
            num_gpus=gpus or None,
            batch_size=_BATCH,
            batch_format="pyarrow",
            max_task_retries=_RETRIES,
            ray_remote_args_fn=job.name_worker,
        )


@dataclass
class _Sum:
    """An actor of the first pass, which sums a batch."""

    job: ScoringJob

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa

        segments, rows, _ = self.job.read(batch) if batch.num_rows else (Segments([], []), [], [])
        sums: CorpusSums = {}
        if rows:
            backends = [member.backend for scorer in self.job.scorers for member in scorer.members]
            pairs = make_pairs(segments)
            for group in group_by(backends, lambda backend: backend.share_key):
                own = group[0].sum_corpus(group, pairs)
                sums |= {f"{_name_group(group)} {name}": values for name, values in own.items()}
        return pa.table({_SUMS: pa.array([_pack(sums)] if rows else [], pa.binary())})


def _name_group(group: Sequence[Backend]) -> str:
    return str(Signature(group[0].spec))


def _pack(sums: CorpusSums) -> bytes:
    from safetensors.torch import save

    return save({name: values.cpu().contiguous() for name, values in sums.items()})


def _unpack(content: bytes) -> CorpusSums:
    from safetensors.torch import load

    return load(content)


def _add(contents: Iterable[bytes]) -> bytes | None:
    total: CorpusSums = {}
    for content in contents:
        more = _unpack(content)
        total = {name: total[name] + values for name, values in more.items()} if total else more
    return _pack(total) if total else None


def _make_addition() -> Any:
    """Return a Ray aggregation that adds sums."""
    from ray.data.aggregate import AggregateFnV2

    class Addition(AggregateFnV2):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(_SUMS, lambda: None, on=_SUMS, ignore_nulls=True)

        def aggregate_block(self, block: Any) -> bytes | None:
            return _add(content for content in block[_SUMS].to_pylist() if content is not None)

        def combine(self, current_accumulator: bytes, new: bytes) -> bytes | None:
            return _add([current_accumulator, new])

    return Addition()


@dataclass
class _PartOfCorpus(Hooks):
    """Hooks of a batch, with the sums over all rows."""

    known_sums: CorpusSums

    def sums(self, group: Sequence[Backend]) -> CorpusSums:
        """Return a group's sums; none where no score needs any."""
        prefix = f"{_name_group(group)} "
        return {
            name.removeprefix(prefix): values for name, values in self.known_sums.items() if name.startswith(prefix)
        }


@dataclass
class _Score:
    """An actor of the last pass, which scores a batch."""

    job: ScoringJob
    sums: CorpusSums

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa

        if not batch.num_rows:
            return batch
        check_free(batch.column_names, self.job)
        segments, rows, reasons = self.job.read(batch)
        with collect_warnings() as held:
            scores = score_segments(self.job.scorers, segments, hooks=_PartOfCorpus(self.sums)) if rows else []
        for name, values in _columns_of(self.job.scorers, scores).items():
            column = np.full(batch.num_rows, np.nan)
            column[rows] = values
            gaps = np.ones(batch.num_rows, dtype=bool)
            gaps[rows] = False
            batch = batch.append_column(name, pa.array(column, pa.float64(), mask=gaps))
        if self.job.strict and not self.job.summarise:
            return batch
        if REJECTED in batch.column_names:
            batch = batch.drop_columns([REJECTED])
        batch = batch.append_column(REJECTED, pa.array(reasons, pa.string()))
        if self.job.summarise:
            summary = {
                "counts": [score.counts.as_dict() for score in scores],
                "nrefs": [score.signature.nrefs for score in scores],
                "warnings": held,
                "environment": environment(self.job.scorers[0].options.device),
            }
            summaries = [json.dumps(summary), *[None] * (batch.num_rows - 1)]
            batch = batch.append_column(SUMMARY, pa.array(summaries, pa.string()))
            places = [None if reason is None else REJECTS for reason in reasons]
            batch = batch.append_column(PLACE, pa.array(places, pa.string()))
        return batch


def names_of(scorers: Iterable[Scorer]) -> list[str]:
    """Return a column name per scorer: its metric, numbered from the second scorer of that metric on."""
    metrics = [str(scorer.requested.metric) for scorer in scorers]
    times = [metrics[: i + 1].count(metric) for i, metric in enumerate(metrics)]
    return [metric if time == 1 else f"{metric}_{time}" for metric, time in zip(metrics, times, strict=True)]


def _columns_of(scorers: Sequence[Scorer], scores: Sequence[ScoreSet]) -> dict[str, Sequence[float]]:
    """Return scores as columns: ``NAME``, and ``NAME_SIDE`` for a two-sided metric; empty without scores."""
    columns: dict[str, Sequence[float]] = {}
    for i, (name, scorer) in enumerate(zip(names_of(scorers), scorers, strict=True)):
        columns[name] = scores[i].scores if scores else []
        for output in OUTPUTS if scorer.requested.output is not None else ():
            columns[f"{name}_{output}"] = getattr(scores[i], output) if scores else []
    return columns


def raised_by_worker(error: BaseException) -> TwmdError | None:
    """Return the error of this package that a worker raised, whose class and message are in the text of Ray's error."""
    found = re.findall(r"twmd_registry\.errors\.(\w+): (.+)", str(error))
    return getattr(errors, found[-1][0])(found[-1][1]) if found else None
