"""Metrics of lm-evaluation-harness that keep the pairs of texts, and an aggregation that scores all of them at once.

Importing this module registers them, for a task's ``metric_list``.
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
from twmd_registry.errors import InputError, missing_extra
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
RESAMPLES = 1000  # of a standard error, at most; lm_eval's default of 100,000 takes longer than the scores


@dataclass
class PendingPair:
    """A pair; lm_eval asks for its score or signature (`field`); `corpus_score` fills in their common results."""

    metric: str
    keys: Mapping[str, Any]
    prediction: str
    references: Sequence[str]
    results: dict[str, Any]
    field: str = "score"
    name: str = ""

    def __str__(self) -> str:
        """Return the field: lm_eval writes it into its samples."""
        return str(self.results.get(self.field))

    def __radd__(self, _other: object) -> object:
        """Refuse: lm_eval takes the mean of whatever it has no aggregation for."""
        raise InputError(f"list what process_results gives: '- metric: {self.name}' and '{self.name}_signature'.")

    def __bool__(self) -> bool:
        """Refuse: lm_eval reduces several targets to whether any of them is true."""
        how = "process_results to !function twmd_registry.plugins.lm_eval.references, or to references_in(COLUMN)"
        raise InputError(f"lm_eval makes 0 or 1 of a score against several targets: set {how}.")


def _keep(
    name: str, metric: str, prediction: str, reference: Any, *, where: str, keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what lm_eval passes on to `corpus_score` of a prediction and its reference, or list of references."""
    try:
        (prediction,), (references,), _ = check_segments([prediction], [reference])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    pair = PendingPair(metric, keys, prediction, references, {}, name=name)
    return {name: pair, f"{name}_signature": replace(pair, field="signature")}


def _keep_target(
    metric: str, *, references: Sequence[Any], predictions: Sequence[str], **keys: Unpack[MetricKeys]
) -> dict[str, Any]:
    """Keep a pair for the ``metric_list`` of a task, which calls this function."""
    inside = sys._getframe(1).f_locals  # noqa: SLF001 (lm_eval turns targets into texts before it passes them on)
    task, document = inside.get("self"), inside.get("doc")
    if isinstance(task, ConfigurableTask) and isinstance(document, Mapping):
        where = f"document {str(dict(document))[:60]}"
        if sum(entry["metric"] == metric for entry in task.config.metric_list or ()) > 1:
            how = "make process_results of references_in(COLUMN, METRIC, name=NAME, ...), one after the other"
            raise InputError(f"metric_list has {metric} twice, and lm_eval keeps the last one: {how}.")
        _check_target(task, document, where)
    return _keep(metric, metric, predictions[0], references[0], where="target", keys=keys)


def _check_target(task: ConfigurableTask, document: Mapping[str, Any], where: str) -> None:
    """Raise `InputError` for a target that is, or holds, a null of the document, which lm_eval writes as "None"."""
    target, configured = task.doc_to_target(document), task.config.doc_to_target
    is_template = (
        isinstance(configured, str) and configured not in document
    )  # it may write a list that it then reads as one
    is_text = isinstance(target, str | int) or (isinstance(target, float) and math.isfinite(target))
    if not (is_text or task.multiple_target or (is_template and isinstance(target, list))):
        raise InputError(f"{where}: the target must be a text; got {type(target).__name__} {str(target)[:40]}.")
    if is_template and "None" in str(target) and _NULL in str(task.doc_to_target(_replace_nulls(dict(document)))):
        raise InputError(f"{where}: the target has a null of the document: {str(target)[:40]!r}.")


_NULL = "\N{OBJECT REPLACEMENT CHARACTER}null"


def _replace_nulls(value: Any) -> Any:
    """Return a value of JSON with `_NULL` for every null."""
    if isinstance(value, Mapping):
        return {key: _replace_nulls(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nulls(entry) for entry in value]
    return _NULL if value is None else value


def corpus_score(items: Sequence[PendingPair]) -> float | str:
    """Score all pairs of a task in one call, as `twmd_registry.score`; return the score or, for signatures, theirs."""
    first = items[0]
    if not first.results:
        scores = score([p.prediction for p in items], [p.references for p in items], first.metric, **first.keys)
        for pair, value in zip(items, scores.scores, strict=True):
            pair.results.update(score=value, signature=str(scores.signature))
    if first.field == "signature":
        return str(first)
    return float(mean([pair.results["score"] for pair in items]))


def references_in(
    column: str, metric: str = "twmd", *, name: str | None = None, **keys: Unpack[MetricKeys]
) -> Callable[..., dict[str, Any]]:
    """Make a task's ``process_results``: it scores by a metric and keys against a column's references.

    The task's ``metric_list`` names `name`, by default METRIC, and NAME_signature; another name than a metric's needs
    ``aggregation: twmd_registry`` and ``higher_is_better: true``. Data without the column, or with anything but a text
    or a list of texts in it, raise an `InputError`, and impossible keys at once a `SpecError`. A null is an empty text.
    """
    load(metric, **keys)  # loads no model

    def process(document: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
        if column not in document:
            raise InputError(f"no column {column!r} to take references from; there are {', '.join(document)}.")
        where = f"column {column!r} of document {str(dict(document))[:60]}"
        return _keep(name or metric, metric, results[0], document[column], where=where, keys=keys)

    return process


references = references_in("references")
"""`references_in` of the column ``references``, for twmd."""


def _stderr(original: Callable[..., Any], metric: Any, bootstrap_iters: int) -> Any:
    """Return lm_eval's standard error; for ours its bootstrap, which it has for metrics of its own only."""
    if metric is not corpus_score or bootstrap_iters <= 0:
        return original(metric, bootstrap_iters)
    draws = min(bootstrap_iters, RESAMPLES)
    return lambda items: (
        "N/A"
        if items[0].field == "signature"
        else bootstrap_stderr(mean, [pair.results["score"] for pair in items], draws)
    )


register_aggregation(AGGREGATION)(corpus_score)
for _name in map(str, MetricName):
    register_metric(metric=_name, higher_is_better=True, aggregation=AGGREGATION)(
        functools.partial(_keep_target, _name)
    )
    # A signature in metric_list keeps nothing: its metric keeps it, or process_results does.
    register_metric(metric=f"{_name}_signature", higher_is_better=True, aggregation=AGGREGATION)(lambda **_: {})
evaluator_utils.stderr_for_metric = functools.partial(_stderr, evaluator_utils.stderr_for_metric)
