"""Add score columns to a Ray data set with a pool of actors: in one pass, or two if scores depend on all rows."""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from twmd_registry.engine.backend import Backend
from twmd_registry.engine.pairs import Segments, make_pairs
from twmd_registry.engine.pipeline import CorpusSums
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Hooks, Scorer, check_scorers, group_by, load, score_segments
from twmd_registry.engine.shared_passes import check_needs_no_sources
from twmd_registry.errors import InputError, ModelError, SpecError, missing_extra
from twmd_registry.files.arrow import ADDED, REJECTED, THE_ROW, check_row
from twmd_registry.files.tables import Columns
from twmd_registry.messages import collect_warnings
from twmd_registry.record.dataset import SUMMARY, summarise
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.registry.signature import Signature

Metrics = str | MetricSpec | Scorer | Sequence[str | MetricSpec | Scorer]
"""The metrics to score a data set by."""
PLACE = "batch_place"
"""The column of `score_files` with the folder of rejected rows, which becomes part of the path."""
REJECTS = "_rejected"
"""The folder of rejected rows in the output folder; readers of Parquet skip names that start with ``_``."""
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
        num_workers: Maximum number of actors; by default Ray starts as many as it has GPUs, or else CPUs.
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
    job = ScoringJob(scorers, Columns(prediction, names), strict)
    check_columns(dataset.columns() or [], job)
    pool = make_pool(num_workers, num_gpus, scorers[0].options.device)
    with job.workers_end():
        sums = sum_corpus([dataset], job, pool)
    return add_scores(dataset, job, sums, pool)


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


@dataclass
class ScoringJob:
    """What every worker needs: the scorers, with the driver's signatures, and the columns.

    Attributes:
        scorers: The scorers.
        columns: The columns with texts.
        strict: Whether a row that cannot be scored is an error.
        summarise: Whether to add the columns that `score_files` writes.
        signatures: The scorers' signatures.
    """

    scorers: Sequence[Scorer]
    columns: Columns
    strict: bool = True
    summarise: bool = False
    signatures: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Load the models to get their signatures."""
        self.signatures = [scorer.signature for scorer in self.scorers]
        self._name = f"twmd-{uuid.uuid4().hex}"

    def name_worker(self) -> dict[str, str]:
        """Return Ray's arguments for a new actor: a name, by which it can be ended."""
        return {"name": f"{self._name}-{uuid.uuid4().hex}"}

    @contextlib.contextmanager
    def workers_end(self) -> Iterator[None]:
        """End the job's actors at the end of the block.

        Ray keeps a failed run's actors, and their CPUs, as long as its error is referenced.
        """
        ray = import_ray()
        try:
            yield
        finally:
            with contextlib.suppress(ray.exceptions.RayError, RuntimeError, OSError):  # Ray itself has ended
                for name in ray.util.list_named_actors():
                    if name.startswith(self._name):
                        with contextlib.suppress(ValueError):  # the actor has ended meanwhile
                            ray.kill(ray.get_actor(name))

    def read(self, batch: Any) -> tuple[Segments, list[int], list[str | None]]:
        """Return the rows of a batch (`pyarrow.Table`) that can be scored, their numbers, and for every row the reason
        why it cannot be scored, if any. Refuse a model that differs from the driver's, and with `strict` a bad row.
        """
        for scorer, signature in zip(self.scorers, self.signatures, strict=True):
            if scorer.signature != signature:
                hint = "install the same model and package on every machine"
                raise ModelError(f"this worker would score by {scorer.signature}, not by {signature}: {hint}.")
        texts = batch.select([name for name in self.columns.wanted if name in batch.column_names]).to_pylist()
        known = batch[REJECTED].to_pylist() if REJECTED in batch.column_names else [None] * batch.num_rows
        predictions, references, rows, reasons = list[str](), list[list[str]](), list[int](), list[str | None](known)
        for row, values in enumerate(texts):
            found = reasons[row] or check_row(values, self.columns)
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
    check_free(present, job, REJECTED)
    reason = check_row({name: "a text" for name in present if name not in ADDED}, job.columns)
    if isinstance(reason, str):
        raise InputError(f"{reason.partition(THE_ROW)[0]}.")


def check_free(present: Sequence[str], job: ScoringJob, *others: str) -> None:
    """Refuse a data set with a column that scores, or other new columns, would replace."""
    for name in (*columns_of(job.scorers), *others):
        if name in present:
            raise InputError(f"the data set already has a column {name!r}: rename it.")


def make_pool(number: int | None, gpus: float | None, device: str) -> dict[str, Any]:
    """Return Ray's arguments for a pool of actors; raise SpecError if Ray has fewer GPUs than one needs."""
    ray = import_ray()
    available = ray.cluster_resources().get("GPU", 0.0)
    share = gpus if gpus is not None else float(available > 0 and device != "cpu")
    if share > available:
        raise SpecError(f"every worker needs {share:g} GPUs, but Ray has {available:g}: lower --num-gpus.")
    strategy = ray.data.ActorPoolStrategy(min_size=1, max_size=number)
    return {"compute": strategy, "num_cpus": 1, "num_gpus": share or None}


def add_scores(dataset: Any, job: ScoringJob, sums: CorpusSums, pool: dict[str, Any]) -> Any:
    """Return the data set with columns of scores, which are computed when it is consumed."""
    return _map(dataset, _Score, (job, sums), pool)


def sum_corpus(datasets: Sequence[Any], job: ScoringJob, pool: dict[str, Any]) -> CorpusSums:
    """Return the sums over all rows that scores depend on; without any, skip this pass over the data."""
    if not any(member.requested.needs_corpus for scorer in job.scorers for member in scorer.members):
        return {}
    from ray.data.aggregate import AggregateFnV2
    from safetensors.torch import load

    class Addition(AggregateFnV2):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(_SUMS, lambda: add_sums([]), on=_SUMS, ignore_nulls=True)

        def aggregate_block(self, block: Any) -> bytes:
            return add_sums(block[_SUMS].to_pylist())

        def combine(self, current_accumulator: bytes, new: bytes) -> bytes:
            return add_sums([current_accumulator, new])

    first, *others = [_map(dataset, _Sum, (job,), pool) for dataset in datasets]
    sums = load((first.union(*others) if others else first).aggregate(Addition())[_SUMS])
    if not sums:
        raise InputError("nothing to score: no row can be scored.")
    return sums


def _map(dataset: Any, worker: type, arguments: tuple[Any, ...], pool: dict[str, Any]) -> Any:
    from ray.util.annotations import RayDeprecationWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RayDeprecationWarning)  # Ray 2.64 drops this argument and ray_remote_args_fn
        return dataset.map_batches(
            worker,
            fn_constructor_args=arguments,
            ray_remote_args_fn=arguments[0].name_worker,
            batch_size=_BATCH,
            batch_format="pyarrow",
            max_task_retries=_RETRIES,
            **pool,
        )


@dataclass
class _Sum:
    """An actor of the first pass, which sums a batch."""

    job: ScoringJob

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa
        from safetensors.torch import save

        segments, rows, _ = self.job.read(batch)
        sums: CorpusSums = {}
        if rows:
            backends = [member.backend for scorer in self.job.scorers for member in scorer.members]
            pairs = make_pairs(segments)
            for group in group_by(backends, lambda backend: backend.share_key):
                own = group[0].sum_corpus(group, pairs)
                sums |= {_name_group(group) + name: values.cpu().contiguous() for name, values in own.items()}
        return pa.table({_SUMS: pa.array([save(sums)], pa.binary())})


def add_sums(contents: Iterable[bytes]) -> bytes:
    """Add the sums of batches, which are written as safetensors, by name."""
    from safetensors.torch import load, save

    total: CorpusSums = {}
    for content in contents:
        for name, values in load(content).items():
            total[name] = total[name] + values if name in total else values
    return save(total)


def _name_group(group: Sequence[Backend]) -> str:
    return f"{Signature(group[0].spec)} "


@dataclass
class _PartOfCorpus(Hooks):
    """Hooks of a batch, with the sums over all rows."""

    known_sums: CorpusSums

    def sums(self, group: Sequence[Backend]) -> CorpusSums:
        """Return a group's sums; none where no score needs any."""
        prefix = _name_group(group)
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

        check_free(batch.column_names, self.job, SUMMARY, PLACE)
        segments, rows, reasons = self.job.read(batch)
        with collect_warnings() as held:
            scores = score_segments(self.job.scorers, segments, hooks=_PartOfCorpus(self.sums)) if rows else []
        places: list[int | None] = [None] * batch.num_rows
        for place, row in enumerate(rows):
            places[row] = place
        added = {
            name: pa.array(values, pa.float64()).take(pa.array(places, pa.int64()))
            for name, values in columns_of(self.job.scorers, scores).items()
        }
        if self.job.summarise or not self.job.strict:
            added[REJECTED] = pa.array(reasons, pa.string())
        if self.job.summarise:
            summary = summarise(scores, held, self.job.scorers[0].options.device)
            summaries = [summary if row == 0 else None for row in range(batch.num_rows)]
            folders = [None if reason is None else REJECTS for reason in reasons]
            added |= {SUMMARY: pa.array(summaries, pa.string()), PLACE: pa.array(folders, pa.string())}
        return pa.table(dict(zip(batch.column_names, batch.columns, strict=True)) | added)


def names_of(scorers: Iterable[Scorer]) -> list[str]:
    """Return a column name per scorer: its metric, numbered from the second scorer of that metric on."""
    metrics = [str(scorer.requested.metric) for scorer in scorers]
    times = [metrics[: i + 1].count(metric) for i, metric in enumerate(metrics)]
    return [metric if time == 1 else f"{metric}_{time}" for metric, time in zip(metrics, times, strict=True)]


def columns_of(scorers: Sequence[Scorer], scores: Sequence[ScoreSet] = ()) -> dict[str, Sequence[float]]:
    """Return scores as columns: ``NAME``, and ``NAME_SIDE`` for a two-sided metric; empty without scores."""
    columns: dict[str, Sequence[float]] = {}
    for i, (name, scorer) in enumerate(zip(names_of(scorers), scorers, strict=True)):
        columns[name] = scores[i].scores if scores else []
        for output in OUTPUTS if scorer.requested.output is not None else ():
            columns[f"{name}_{output}"] = getattr(scores[i], output) if scores else []
    return columns
