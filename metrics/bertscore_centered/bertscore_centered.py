"""BERTScore on centered vectors.

Each word is compared with its most similar word in the other text (Zhang et al. 2020), on vectors from which a mean
has been subtracted (Chen et al. 2020), so unrelated texts score lower. Scores lie in [-1, 1]; a text scores
1.0 against itself.

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("bertscore_centered")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["bertscore_centered"], 3)
    0.891
"""

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class BertscoreCentered(RegistryMetric):
    """BERTScore on centered vectors as an `evaluate.Metric`."""

    metric = MetricName.BERTSCORE_CENTERED
