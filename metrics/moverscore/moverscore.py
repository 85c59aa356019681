"""MoverScore: the exact word mover similarity.

The best balanced transport plan between the words, or n-grams, of the two texts (Zhao et al. 2019, and Eq. 2 of Chen et
al. 2020), solved as a linear program. It is symmetric, and 1.0 for a text against itself. By default single tokens
move, and the cost C becomes the score 1 / (1 + C), in [1/3, 1]; with ``transform="linear"`` it is 1 - C, in [-1, 1].

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("moverscore")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["moverscore"], 3)
    0.896
"""

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class Moverscore(RegistryMetric):
    """MoverScore as an `evaluate.Metric`."""

    metric = MetricName.MOVERSCORE
