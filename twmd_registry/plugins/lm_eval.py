"""Metrics of lm-evaluation-harness that keep the pairs of texts, and an aggregation that scores all of them at once.

Importing this module registers them, for a task's ``metric_list``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twmd_registry.engine.scorer import score, scorer
from twmd_registry.errors import InputError, MissingExtraError
from twmd_registry.registry.names import MetricName

try:
    from lm_eval import evaluator_utils
    from lm_eval.api.metrics import bootstrap_stderr, mean
    from lm_eval.api.registry import register_aggregation, register_metric
except ImportError as error:
    raise MissingExtraError("metrics for lm_eval need it: pip install 'twmd-registry[lm_eval]'") from error

AGGREGATION = "twmd_registry"
RESAMPLES = 1000  # of a standard error, at most; lm_eval's default of 100,000 takes longer than the scores


@dataclass
class PendingPair:
    """A pair, of which lm_eval asks for score or signature (`wanted`); `corpus_score` fills in their common results."""

    metric: str
    keys: Mapping[str, Any]
    prediction: str
    references: Sequence[str]
    results: dict[str, Any]
    wanted: str = "score"

    def __str__(self) -> str:
        """Return what is wanted: lm_eval writes it into its samples."""
        return str(self.results.get(self.wanted))

    def __radd__(self, _other: object) -> object:
        """Refuse: lm_eval takes the mean of whatever it has no aggregation for."""
        raise InputError(f"list what process_results gives: '- metric: {self.metric}' and '{self.metric}_signature'.")

    def __bool__(self) -> bool:
        """Refuse: lm_eval reduces several targets to whether any of them is true."""
        how = "process_results to !function twmd_registry.plugins.lm_eval.references, or to references_in(COLUMN)"
        raise InputError(f"lm_eval makes 0 or 1 of a score against several targets: set {how}.")


def _keep(metric: str, *, references: Sequence[Any], predictions: Sequence[str], **keys: Any) -> dict[str, Any]:
    """Return what lm_eval passes on to `corpus_score` of a prediction and its reference, or list of references."""
    reference = references[0]
    pair = PendingPair(metric, keys, predictions[0], [reference] if isinstance(reference, str) else list(reference), {})
    return {metric: pair, f"{metric}_signature": replace(pair, wanted="signature")}


def corpus_score(items: Sequence[PendingPair]) -> float | str:
    """Score all pairs of a task in one call, as `twmd_registry.score`; return the score or, for signatures, theirs."""
    first = items[0]
    if not first.results:
        scores = score([p.prediction for p in items], [p.references for p in items], first.metric, **first.keys)
        for pair, value in zip(items, scores.scores, strict=True):
            pair.results.update(score=value, signature=str(scores.signature))
    if first.wanted == "signature":
        return str(first)
    return float(mean([pair.results["score"] for pair in items]))


def references_in(column: str, metric: str = "twmd", **keys: Any) -> Callable[..., dict[str, Any]]:
    """Make a task's ``process_results``: it scores by a metric and keys against a column's references.

    The task's ``metric_list`` names METRIC and METRIC_signature. Data without the column raise an `InputError`, and
    impossible keys at once a `SpecError`.
    """
    scorer(metric, **keys)  # loads no model

    def process(document: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
        if column not in document:
            raise InputError(f"no column {column!r} to take references from; there are {', '.join(document)}.")
        return _keep(metric, references=[document[column]], predictions=results, **keys)

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
        if items[0].wanted == "signature"
        else bootstrap_stderr(mean, [pair.results["score"] for pair in items], draws)
    )


register_aggregation(AGGREGATION)(corpus_score)
for _name in map(str, MetricName):
    register_metric(metric=_name, higher_is_better=True, aggregation=AGGREGATION)(functools.partial(_keep, _name))
    # A signature in metric_list keeps nothing: its metric keeps it, or process_results does.
    register_metric(metric=f"{_name}_signature", higher_is_better=True, aggregation=AGGREGATION)(lambda **_: {})
evaluator_utils.stderr_for_metric = functools.partial(_stderr, evaluator_utils.stderr_for_metric)
