"""MoverScore, similarity form.

The exact word mover similarity (Zhao et al. 2019, in the form of Chen et al. 2020, Eq. 2): the best balanced
transport plan between the words of the two texts, solved as a linear program. It is symmetric, lies in [-1, 1], and is
1.0 for a text against itself.

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("moverscore")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["moverscore"], 3)
    0.849
"""

from twmd_registry.plugins.evaluate.metric import RegistryMetric
from twmd_registry.registry.names import MetricName


class Moverscore(RegistryMetric):
    """MoverScore, similarity form as an `evaluate.Metric`."""

    metric = MetricName.MOVERSCORE
