"""Tempered Relaxed Word Mover Distance.

Each word softly chooses partners in the other text, without the balance that transport requires (Chen et al. 2020).
At a low temperature this is BERTScore, at a high one mean pooling. Higher is closer; a text scores 1.0 against
itself; nothing promises that a score stays within [0, 1].

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("trwmd")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["trwmd"], 3)
    0.922
"""

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class TRWMD(RegistryMetric):
    """Tempered Relaxed Word Mover Distance as an `evaluate.Metric`."""

    metric = MetricName.TRWMD
