"""Tempered Word Mover Distance.

Words of the prediction are transported onto words of the reference by a tempered, balanced plan; the score is the
mean similarity along the plan, divided by what each text reaches against itself (Chen et al. 2020).
Higher is closer; a text scores 1.0 against itself; nothing promises that a score stays within [0, 1].
Precision averages over the prediction's words, recall over the reference's.

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("twmd")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["twmd"], 3)
    0.917
"""

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class TWMD(RegistryMetric):
    """Tempered Word Mover Distance as an `evaluate.Metric`."""

    metric = MetricName.TWMD
