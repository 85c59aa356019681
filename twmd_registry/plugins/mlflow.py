"""Our metrics in MLflow: a scorer for GenAI evaluations, and a metric for classic ones."""

from __future__ import annotations

from typing import Any, Unpack

from twmd_registry.engine.alignment import Alignment
from twmd_registry.engine.scorer import load
from twmd_registry.engine.shared_passes import Batcher, check_needs_no_sources
from twmd_registry.errors import InputError, check_types, missing_extra
from twmd_registry.plugins import name_of
from twmd_registry.registry.options import MetricKeys

try:
    import mlflow
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.genai.scorers import scorer
    from mlflow.metrics import MetricValue, make_metric
except ImportError as error:
    raise missing_extra("scorers for MLflow need it", "mlflow") from error


EXPECTATION = "expected_response"
"""MLflow's name for an expectation."""


@check_types(name=str | None, reference=str)
def genai_scorer(
    metric: str = "twmd",
    preset: str | None = None,
    *,
    name: str | None = None,
    reference: str = EXPECTATION,
    **keys: Unpack[MetricKeys],
) -> Any:
    """Create a scorer for ``mlflow.genai.evaluate``, which scores every row's output against a reference in its
    expectations.

    Its `Feedback` has the score as value, the alignment as rationale and the signature as metadata. Rows that MLflow
    scores concurrently are encoded together.

    Args:
        metric: A metric or signature, as for `twmd_registry.load`.
        preset: A preset's name.
        name: The scores' name in the results, by default the metric's with its preset and changed keys
            (``twmd_layer_6``). MLflow averages all scores with the same name.
        reference: The expectation with a text or a list of texts.
        keys: Keys of the specification and run options. ``any_language`` defaults to true, because MLflow leaves
            refused rows out of the mean.

    Raises:
        SpecError: As for `twmd_registry.load`, or scores depend on the other rows (see `Batcher`).
    """
    batcher = Batcher(load(metric, preset, **{"any_language": True} | keys))
    name = name or name_of(batcher.scorer.requested, preset) + ("" if reference == EXPECTATION else f"_{reference}")

    def score(outputs: Any, expectations: dict[str, Any] | None) -> Feedback:
        if expectations is None or reference not in expectations:
            available = ", ".join(expectations or ()) or "none"
            raise InputError(f"no expectation {reference!r} to score against; the expectations are {available}.")
        scores = batcher.score(outputs, expectations[reference])
        return Feedback(
            value=scores.score,
            rationale=describe(scores.explain(0)) if batcher.scorer.requested.has_plan else None,
            metadata={"signature": str(scores.signature)},
            source=AssessmentSource(source_type="CODE", source_id=name),
        )

    return scorer(score, name=name, aggregations=["mean", "min", "max"])


def describe(alignment: Alignment) -> str:
    """Write an alignment in one line: every token of the prediction with the token that gets most of its mass.

    >>> from twmd_registry import score
    >>> describe(score(["it rains"], ["it is raining"], "bertscore_centered").explain(0))
    '[CLS] > [CLS] 1.00, it > it 0.67, rains > raining 0.83, [SEP] > [SEP] 0.70'
    """
    best_partners: dict[int, str] = {}
    for link in alignment.links():
        partner = f"{alignment.reference[link.reference]} {link.similarity:.2f}"
        best_partners.setdefault(link.hypothesis, f"{alignment.hypothesis[link.hypothesis]} > {partner}")
    return ", ".join(best_partners[number] for number in sorted(best_partners))


@check_types(name=str | None)
def classic_metric(
    metric: str = "twmd", preset: str | None = None, *, name: str | None = None, **keys: Unpack[MetricKeys]
) -> Any:
    """Create a metric for ``mlflow.models.evaluate``'s ``extra_metrics``. All rows are scored in one call.

    Logs per-row scores and their mean. Sets the signature as the run's tag ``twmd.signature.NAME``.

    Args:
        metric: As for `genai_scorer`.
        preset: A preset's name.
        name: As for `genai_scorer`. If two metrics have the same name, MLflow keeps the last.
        keys: Keys of the specification and run options.

    Raises:
        SpecError: As for `twmd_registry.load`.
    """
    metric_scorer = load(metric, preset, **keys)
    check_needs_no_sources(metric_scorer)
    name = name or name_of(metric_scorer.requested, preset)

    def evaluate(predictions: Any, targets: Any) -> MetricValue:
        scores = metric_scorer.score(predictions, targets)
        if mlflow.active_run():
            mlflow.set_tag(f"twmd.signature.{name}", str(scores.signature))
        return MetricValue(scores=list(scores.scores), aggregate_results={"mean": scores.score})

    return make_metric(eval_fn=evaluate, greater_is_better=True, name=name)
