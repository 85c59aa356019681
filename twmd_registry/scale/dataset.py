"""Scores as columns of a data set of Ray Data or of `datasets`."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from twmd_registry.engine.scorer import Scorer, load, score_all
from twmd_registry.engine.shared_passes import depends_on_neighbours
from twmd_registry.errors import InputError, SpecError
from twmd_registry.files.tables import USUAL_REFERENCES
from twmd_registry.messages import no_column
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.scale.partitions import (
    WorkerOptions,
    check_compared,
    check_signature,
    columns_of,
    map_batches,
    share_resources,
)

Metrics = str | MetricSpec | Scorer | Sequence[Scorer]
"""The metrics of a data set."""
_BATCH = 1000
"""Rows that are scored at once."""
_OWN: list[tuple[Any, _BatchScorer]] = []
"""The data set and its scorer, in a process of ``num_proc``."""


def score_dataset(
    dataset: Any,
    metrics: Metrics,
    *,
    prediction: str = "prediction",
    reference: str | None = None,
    num_proc: int | None = None,
    workers: WorkerOptions | None = None,
) -> Any:
    """Add scores to a data set: ``NAME``, and ``NAME_precision``, ``NAME_recall``, ``NAME_f1`` of a two-sided metric.

    Scores are those of `Scorer.score` for all rows. A metric by which a row's score depends on other rows
    (``centering=batch``, ``centering=corpus``, ``idf=corpus``, ``idf=references``) scores a `datasets.Dataset` in one
    process, and is refused otherwise; `twmd_registry.scale.score_files` takes any metric.

    Args:
        dataset: A `ray.data.Dataset`, scored when it is consumed, or a `datasets.Dataset`, scored now.
        metrics: A metric's name, a signature, a specification, a scorer, or several scorers.
        prediction: The column of the predictions.
        reference: The column of the references: texts, or lists of texts; ``references`` or ``reference`` if not given.
        num_proc: Processes that score a `datasets.Dataset`, each with a model of its own; this one alone if not given.
            They import the calling script, so its code belongs under ``if __name__ == "__main__":``.
        workers: The workers for a `ray.data.Dataset`.

    Returns:
        The data set with more columns, of the kind that was given.

    Raises:
        InputError: The data set is of another kind, lacks a column, has both usual columns of references, or already
            has a column of scores. A bad row of a Ray data set raises Ray's error when it is consumed.
        SpecError: There is no metric, or one that depends on other rows where it cannot.
        ModelError: As for `Scorer.score`.
        BrokenProcessPool: A process of `num_proc` died.
        MissingExtraError: As for `Scorer.score`, or Ray is not installed.

    Warns:
        TwmdWarning: As for `Scorer.score`, where this process scores.
    """
    metrics = load(metrics) if isinstance(metrics, str | MetricSpec) else metrics
    scorers = check_compared(list(metrics) if isinstance(metrics, Iterable) else [metrics])
    module, kind = type(dataset).__module__, type(dataset).__name__
    if module.startswith("ray.data."):
        return _score_ray(dataset, scorers, (prediction, reference), workers or WorkerOptions())
    if module.startswith("datasets.") and kind == "Dataset":
        return _score_table(dataset, scorers, (prediction, reference), num_proc)
    raise InputError(f"expected a ray.data.Dataset or a datasets.Dataset; got {kind}.")


def _check_independent(scorers: Sequence[Scorer], where: str) -> None:
    """Refuse a metric by which a row's score depends on other rows."""
    if any(map(depends_on_neighbours, scorers)):
        keys = "centering=batch and corpus, and idf=corpus and references"
        hint = "use background or none, or score files (score_files)"
        raise SpecError(f"by {keys} a row's score depends on other rows, and {where}: {hint}.")


def _find_texts(there: Sequence[str], scorers: Sequence[Scorer], texts: tuple[str, str | None]) -> tuple[str, str]:
    """Return the columns of predictions and references; refuse columns that the scores would replace."""
    prediction, reference = texts
    columns = []
    for names in ((prediction,), USUAL_REFERENCES if reference is None else (reference,)):
        here = [name for name in names if name in there]
        if not here:
            raise InputError(f"{no_column(names, there)}.")
        if len(here) > 1:
            raise InputError(f"the data set has columns {' and '.join(map(repr, here))}: choose by reference=NAME.")
        columns += here
    for name in columns_of(scorers, []):
        if name in there:
            raise InputError(f"the data set has a column {name!r} already: rename it.")
    return columns[0], columns[1]


class _BatchScorer:
    """Scores rows in batches, in this process or another."""

    def __init__(self, scorers: Sequence[Scorer], signatures: Sequence[str], texts: tuple[str, str]) -> None:
        self._scorers, self._signatures, self._texts = scorers, signatures, texts

    def score(self, batch: Any) -> dict[str, list[float]]:
        """Return the columns of a batch; refuse another model than that of the process that made this object."""
        scores = score_all(self._scorers, *(batch[name] for name in self._texts))
        for given, wanted in zip(self._scorers, self._signatures, strict=True):
            check_signature(given, wanted)
        return columns_of(self._scorers, scores)

    def __call__(self, batch: Any) -> Any:
        """Add columns to a batch of Ray Data's, a `pyarrow.Table`."""
        import pyarrow as pa

        if batch.num_rows:
            for name, values in self.score({name: batch[name].to_pylist() for name in self._texts}).items():
                batch = batch.append_column(name, pa.array(values, pa.float64()))
        return batch


def _score_ray(dataset: Any, scorers: list[Scorer], texts: tuple[str, str | None], workers: WorkerOptions) -> Any:
    _check_independent(scorers, "rows of a Ray data set come in any order")
    columns = _find_texts(dataset.columns() or [], scorers, texts)
    arguments = (scorers, [given.signature for given in scorers], columns)
    shared = WorkerOptions(*share_resources(workers, scorers[0].options.device))
    return map_batches(dataset, _BatchScorer, arguments, workers=shared, batch_size=_BATCH, batch_format="pyarrow")


def _score_table(dataset: Any, scorers: list[Scorer], texts: tuple[str, str | None], num_proc: int | None) -> Any:
    names = _find_texts(dataset.column_names, scorers, texts)
    plain = dataset.with_format(None)  # a format may hide columns, or make tensors of them
    if num_proc is None or not len(dataset):
        columns = columns_of(scorers, score_all(scorers, *(list(plain[name]) for name in names)))
    else:
        _check_independent(scorers, "several processes share the rows (num_proc)")
        batch = _BatchScorer(scorers, [given.signature for given in scorers], names)
        columns = _score_apart(plain.select_columns(list(names)), batch, num_proc)
    for name, values in columns.items():
        dataset = dataset.add_column(name, values)
    return dataset


def _score_apart(dataset: Any, batch: _BatchScorer, processes: int) -> dict[str, list[float]]:
    """Score by spawned processes: forks, which ``Dataset.map`` uses, deadlock in torch or CUDA."""
    ranges = [range(first, min(first + _BATCH, len(dataset))) for first in range(0, len(dataset), _BATCH)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_begin, initargs=(dataset, batch)) as pool:
        parts = list(pool.map(_score_range, ranges))
    return {name: [value for columns in parts for value in columns[name]] for name in parts[0]}


def _begin(dataset: Any, batch: _BatchScorer) -> None:
    """Store the data set and the scorer in a process of ``num_proc``."""
    _OWN.append((dataset, batch))


def _score_range(rows: range) -> dict[str, list[float]]:
    """Score a range of rows, in a process of ``num_proc``."""
    ((dataset, batch),) = _OWN
    return batch.score(dataset[rows.start : rows.stop])
