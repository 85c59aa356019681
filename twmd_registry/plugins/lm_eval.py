"""Metrics for lm-evaluation-harness that keep text pairs, and an aggregation that scores all of them together.

Importing this module registers them for a task's ``metric_list``.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from twmd_registry.engine.pairs import check_segments
from twmd_registry.engine.scorer import load, score
from twmd_registry.engine.shared_passes import check_keeps_rows
from twmd_registry.errors import InputError, check_types, missing_extra
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import MetricKeys

try:
    from lm_eval import evaluator_utils
    from lm_eval.api.metrics import bootstrap_stderr, mean
    from lm_eval.api.registry import register_aggregation, register_metric
    from lm_eval.api.task import ConfigurableTask
except ImportError as error:
    raise missing_extra("metrics for lm_eval need it", "lm_eval") from error

AGGREGATION = "twmd_registry"
RESAMPLES = 1000  # maximum for a standard error; lm_eval's default of 100,000 takes longer than scoring


@dataclass
class PendingPair:
    """A pair of which lm_eval reads the score or signature (`field`). `corpus_score` fills in the shared results."""

    metric: str
    keys: Mapping[str, Any]
    prediction: str
    references: Sequence[str]
    results: dict[str, Any]
    field: str = "score"
    name: str = ""

    def __str__(self) -> str:
        """Return the field, which lm_eval writes into its samples."""
        return str(self.results.get(self.field))

    def __radd__(self, _other: object) -> object:
        """Raise InputError: lm_eval averages anything without an aggregation."""
        raise InputError(f"list the results of process_results: '- metric: {self.name}' and '{self.name}_signature'.")

    def __bool__(self) -> bool:
        """Raise InputError: lm_eval reduces several targets to whether any of them is true."""
        how = "process_results to !function twmd_registry.plugins.lm_eval.references, or to references_in(COLUMN)"
        raise InputError(f"lm_eval turns a score against several targets into 0 or 1: set {how}.")


def _keep(
    name: str, metric: str, prediction: str, reference: Any, *, where: str, keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what lm_eval passes on to `corpus_score` for a prediction and its reference or list of references."""
    try:
        (prediction,), (references,), _ = check_segments([prediction], [reference])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    pair = PendingPair(metric, keys, prediction, references, {}, name=name)
    return {name: pair, f"{name}_signature": replace(pair, field="signature")}


def _keep_target(
    metric: str, *, references: Sequence[Any], predictions: Sequence[str], **keys: Unpack[MetricKeys]
) -> dict[str, Any]:
    """Keep a pair. Called for the ``metric_list`` of a task."""
    inside = sys._getframe(1).f_locals  # noqa: SLF001 (lm_eval converts targets to texts before it passes them on)
    task, document = inside.get("self"), inside.get("doc")
    if isinstance(task, ConfigurableTask) and isinstance(document, Mapping):
        where = f"document {str(dict(document))[:60]}"
        if sum(entry["metric"] == metric for entry in task.config.metric_list or ()) > 1:
            how = "let process_results call references_in(COLUMN, METRIC, name=NAME, ...) for each"
            raise InputError(f"metric_list has {metric} twice, but lm_eval keeps only the last one: {how}.")
        _check_target(task, document, where)
    return _keep(metric, metric, predictions[0], references[0], where="target", keys=keys)


def _check_target(task: ConfigurableTask, document: Mapping[str, Any], where: str) -> None:
    """Raise `InputError` for a target that is or contains a null of the document, which lm_eval writes as "None"."""
    target, configured = task.doc_to_target(document), task.config.doc_to_target
    # A template may write a list, which lm_eval then parses.
    is_template = isinstance(configured, str) and configured not in document
    is_text = isinstance(target, str | int) or (isinstance(target, float) and math.isfinite(target))
    if not (is_text or task.multiple_target or (is_template and isinstance(target, list))):
        raise InputError(f"{where}: the target must be a text; got {type(target).__name__} {str(target)[:40]}.")
    if is_template and "None" in str(target) and _NULL in str(task.doc_to_target(_replace_nulls(dict(document)))):
        raise InputError(f"{where}: the target contains a null of the document: {str(target)[:40]!r}.")


_NULL = "\N{OBJECT REPLACEMENT CHARACTER}null"


def _replace_nulls(value: Any) -> Any:
    """Return a JSON value with `_NULL` in place of every null."""
    if isinstance(value, Mapping):
        return {key: _replace_nulls(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nulls(entry) for entry in value]
    return _NULL if value is None else value


def corpus_score(items: Sequence[PendingPair]) -> float | str:
    """Score all pairs of a task in one call, like `twmd_registry.score`; return the score or the signature."""
    first = items[0]
    if not first.results:
        scores = score([p.prediction for p in items], [p.references for p in items], first.metric, **first.keys)
        for pair, value in zip(items, scores.scores, strict=True):
            pair.results.update(score=value, signature=str(scores.signature))
    if first.field == "signature":
        return str(first)
    return float(mean([pair.results["score"] for pair in items]))


@check_types(column=str, name=str | None)
def references_in(
    column: str, metric: str = "twmd", *, name: str | None = None, **keys: Unpack[MetricKeys]
) -> Callable[..., dict[str, Any]]:
    """Create a task's ``process_results``, which scores with a metric and keys against a column of references.

    The task's ``metric_list`` names `name` (by default the metric) and NAME_signature. A name that is not a metric's
    needs ``aggregation: twmd_registry`` and ``higher_is_better: true``. A null is an empty text. Raises InputError for
    data without the column, or with anything but texts or lists of texts in it, and SpecError first for impossible
    keys.
    """
    check_keeps_rows(load(metric, **keys))  # loads no model

    def process(document: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
        if column not in document:
            raise InputError(f"no column {column!r} for references; the columns are {', '.join(document)}.")
        where = f"column {column!r} of document {str(dict(document))[:60]}"
        return _keep(name or metric, metric, results[0], document[column], where=where, keys=keys)

    return process


references = references_in("references")
"""`references_in` for the column ``references`` and twmd."""


def _stderr(original: Callable[..., Any], metric: Any, bootstrap_iters: int) -> Any:
    """Return lm_eval's standard error; for ours its bootstrap, which lm_eval reserves for its own metrics."""
    if metric is not corpus_score or bootstrap_iters <= 0:
        return original(metric, bootstrap_iters)
    draws = min(bootstrap_iters, RESAMPLES)

    def stderr(items: Sequence[PendingPair]) -> Any:
        if items[0].field == "signature":
            return "N/A"
        return bootstrap_stderr(mean, [pair.results["score"] for pair in items], draws)

    return stderr


register_aggregation(AGGREGATION)(corpus_score)
for _name in map(str, MetricName):
    register_metric(metric=_name, higher_is_better=True, aggregation=AGGREGATION)(
        functools.partial(_keep_target, _name)
    )
    # A signature in metric_list keeps nothing, because its metric or process_results keeps it.
    register_metric(metric=f"{_name}_signature", higher_is_better=True, aggregation=AGGREGATION)(lambda **_: {})
evaluator_utils.stderr_for_metric = functools.partial(_stderr, evaluator_utils.stderr_for_metric)
