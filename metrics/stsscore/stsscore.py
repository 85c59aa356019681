"""STSScore.

The similarity that a regression model, fine-tuned on rated sentence pairs, predicts: its output divided by 5, not
clipped (Herbold 2024), so values slightly above 1 or below 0 occur. The embedded model reads the texts
separately; a cross-encoder reads them together, and their order matters a little.

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("stsscore")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["stsscore"], 3)
    0.928
"""

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class Stsscore(RegistryMetric):
    """STSScore as an `evaluate.Metric`."""

    metric = MetricName.STSSCORE
