"""Word-set CKA.

How similar the directions are that the words of the two texts span: linear kernel alignment of the two word sets
(Zhelezniak et al. 2019). It is symmetric, lies in [0, 1], and is 1.0 for a text against itself.

Examples:
    >>> import evaluate
    >>> import twmd_registry
    >>> metric = evaluate.load("wordset_cka")
    >>> result = metric.compute(predictions=["the cat sat on the mat"], references=[["a cat was sitting on the mat"]])
    >>> round(result["wordset_cka"], 3)
    0.9
"""

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class WordsetCKA(RegistryMetric):
    """Word-set CKA as an `evaluate.Metric`."""

    metric = MetricName.WORDSET_CKA
