"""Scores as columns of a data set that a pipeline holds: Ray's, or that of `datasets`."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from twmd_registry.errors import InputError, ModelError, TwmdError, no_column
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.scale.engine import check_independent
from twmd_registry.scale.parts import columns_of
from twmd_registry.scale.workers import RayPool, Workers
from twmd_registry.scoring import Scorer, check_scorers, score_all, scorer_of

Metrics = MetricSpec | Scorer | Sequence[Scorer]
"""What a data set is scored by."""
_BATCH = 1000
"""Rows that are scored at once."""
_OWN: list[tuple[Any, _BatchScorer]] = []
"""In a process of ``num_proc``: the data set and its scorer. Empty elsewhere."""


def score_dataset(
    dataset: Any,
    metrics: Metrics,
    *,
    prediction: str = "prediction",
    reference: str = "reference",
    num_proc: int | None = None,
    workers: Workers | None = None,
) -> Any:
    """Add scores to a data set: the score under the metric's name, and ``NAME_precision``, ``NAME_recall``, ``NAME_f1`` of a two-sided metric.

    Scores are those of `Scorer.score` for all rows. A metric by which a row's score depends on other rows (``centering=batch``,
    ``centering=corpus``, ``idf=corpus``, ``idf=references``) needs rows that have an order and stay together: it scores a
    `datasets.Dataset` in one process, and is refused otherwise. Files can be scored by any metric: `twmd_registry.scale.engine.score_files`.

    Args:
        dataset: A `ray.data.Dataset`, which is scored when it is consumed, or a `datasets.Dataset`, which is scored now.
        metrics: A specification, a scorer, or several scorers.
        prediction: The column of the predictions.
        reference: The column of the references: texts, or lists of texts.
        num_proc: Processes that score a `datasets.Dataset`, each with a model of its own; this one alone if not given.
        workers: Who scores a `ray.data.Dataset`.

    Returns:
        The data set with more columns, of the kind that was given.

    Raises:
        InputError: It is neither kind, has no such column, or has a column of that name; of a Ray data set, rows are checked when it is consumed.
        SpecError: There is no metric, or one that depends on other rows where it cannot.
        ModelError: As for `Scorer.score`.
        TwmdError: A process died.
        MissingExtraError: As for `Scorer.score`, or Ray is not installed.

    Warns:
        TwmdWarning: As for `Scorer.score`, where this process scores.
    """
    scorers = _scorers(metrics)
    module = type(dataset).__module__
    if module.startswith("ray.data."):
        return _score_ray(dataset, scorers, (prediction, reference), workers or Workers())
    if module.startswith("datasets.") and hasattr(dataset, "add_column"):
        return _score_table(dataset, scorers, (prediction, reference), num_proc)
    raise InputError(f"expected a ray.data.Dataset or a datasets.Dataset; got {type(dataset).__name__}.")


def _scorers(metrics: Metrics) -> list[Scorer]:
    if isinstance(metrics, MetricSpec):
        return [scorer_of(metrics)]
    scorers = [metrics] if isinstance(metrics, Scorer) else list(metrics)
    check_scorers(scorers)
    return scorers


def _specs(scorers: Sequence[Scorer]) -> list[MetricSpec]:
    return [member.requested for one in scorers for member in one.members]


def _check_columns(there: Sequence[str], scorers: Sequence[Scorer], texts: tuple[str, str]) -> None:
    """Refuse a data set without these texts, or one whose columns the scores would replace.

    Raises:
        InputError: As said.
    """
    for name in texts:
        if name not in there:
            raise InputError(f"{no_column([name], there)}.")
    for name in columns_of(scorers, []):
        if name in there:
            raise InputError(f"the data set has a column {name!r} already: rename it.")


class _BatchScorer:
    """Scores rows in batches, wherever it is sent to."""

    def __init__(self, scorers: Sequence[Scorer], signatures: Sequence[str], texts: tuple[str, str]) -> None:
        self._scorers, self._signatures, self._texts = scorers, signatures, texts

    def score(self, batch: Any) -> dict[str, list[float]]:
        """The columns that a batch gets; the model must be the one that was found where this was made.

        Raises:
            ModelError: It is not.
        """
        found = score_all(self._scorers, *(batch[name] for name in self._texts))
        for one, wanted in zip(self._scorers, self._signatures, strict=True):
            if one.signature != wanted:
                raise ModelError(f"this worker would score by {one.signature}, not by {wanted}: install the same model and package on all.")
        return columns_of(self._scorers, found)

    def __call__(self, batch: Any) -> Any:
        """Add columns to a batch of Ray Data's, a `pyarrow.Table`."""
        import pyarrow as pa

        if batch.num_rows:
            for name, values in self.score({name: batch[name].to_pylist() for name in self._texts}).items():
                batch = batch.append_column(name, pa.array(values, pa.float64()))
        return batch


def _score_ray(dataset: Any, scorers: list[Scorer], texts: tuple[str, str], workers: Workers) -> Any:
    check_independent(_specs(scorers), "rows of a Ray data set come in any order")
    _check_columns(dataset.columns() or [], scorers, texts)
    pool = RayPool(workers, scorers[0].options.device)
    arguments = (scorers, [one.signature for one in scorers], texts)
    return pool.map(dataset, _BatchScorer, arguments, batch_size=_BATCH, batch_format="pyarrow")


def _score_table(dataset: Any, scorers: list[Scorer], texts: tuple[str, str], num_proc: int | None) -> Any:
    _check_columns(dataset.column_names, scorers, texts)
    if num_proc is None:
        columns = columns_of(scorers, score_all(scorers, *(list(dataset[name]) for name in texts)))
    else:
        check_independent(_specs(scorers), "several processes share the rows (num_proc)")
        batch = _BatchScorer(scorers, [one.signature for one in scorers], texts)
        columns = _score_apart(dataset.select_columns(list(texts)), batch, num_proc)
    for name, values in columns.items():
        dataset = dataset.add_column(name, values)
    return dataset


def _score_apart(dataset: Any, batch: _BatchScorer, processes: int) -> dict[str, list[float]]:
    """Score by processes that begin afresh: a copy of this one (which is what ``Dataset.map`` makes) stops for ever in torch, or in CUDA.

    Raises:
        TwmdError: A process died.
    """
    ranges = [range(first, min(first + _BATCH, len(dataset))) for first in range(0, len(dataset), _BATCH)]
    spawn = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_begin, initargs=(dataset, batch)) as pool:
            found = list(pool.map(_score_range, ranges))
    except BrokenProcessPool as error:
        how = 'a script that starts processes keeps its own work under if __name__ == "__main__"'
        raise TwmdError(f"a process of num_proc={processes} died: killed, out of memory, or never started ({how}).") from error
    return {name: [value for columns in found for value in columns[name]] for name in found[0]}


def _begin(dataset: Any, batch: _BatchScorer) -> None:
    """Keep what a process of ``num_proc`` works on."""
    _OWN.append((dataset, batch))


def _score_range(rows: range) -> dict[str, list[float]]:
    """Score some rows, in a process that was started for that."""
    ((dataset, batch),) = _OWN
    return batch.score(dataset[rows.start : rows.stop])
