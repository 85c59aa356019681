"""Ensemble.

The weighted mean of several metrics' scores of each segment (Herbold 2024, A.2). Default: STSScore, BERTScore F1
rescaled with a baseline, and S-BERT; `members` replaces them, with optional weights and keys.

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("ensemble", members="2*twmd,sbert;layer=6")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["ensemble"], 3)
    0.925
"""

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class Ensemble(RegistryMetric):
    """The mean of several metrics as an `evaluate.Metric`."""

    metric = MetricName.ENSEMBLE
