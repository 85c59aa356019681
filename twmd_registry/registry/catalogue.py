"""What every metric is: the keys it uses, what comes out, in which range, and whom to cite."""

from __future__ import annotations

from dataclasses import dataclass

from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.names import MetricName

TWMD_CITATION = """\
@inproceedings{chen2020tempered,
  title     = {Improving Text Generation Evaluation with Batch Centering and Tempered Word Mover Distance},
  author    = {Chen, Xi and Ding, Nan and Levinboim, Tomer and Soricut, Radu},
  booktitle = {Proceedings of the First Workshop on Evaluation and Comparison of NLP Systems (Eval4NLP)},
  year      = {2020}
}"""
MOVERSCORE_CITATION = """\
@inproceedings{zhao2019moverscore,
  title     = {{MoverScore}: Text Generation Evaluating with Contextualized Embeddings and Earth Mover Distance},
  author    = {Zhao, Wei and Peyrard, Maxime and Liu, Fei and Gao, Yang and Meyer, Christian M. and Eger, Steffen},
  booktitle = {Proceedings of EMNLP-IJCNLP},
  year      = {2019}
}"""
BERTSCORE_CITATION = """\
@inproceedings{zhang2020bertscore,
  title     = {{BERTScore}: Evaluating Text Generation with {BERT}},
  author    = {Zhang, Tianyi and Kishore, Varsha and Wu, Felix and Weinberger, Kilian Q. and Artzi, Yoav},
  booktitle = {International Conference on Learning Representations},
  year      = {2020}
}"""
CKA_CITATION = """\
@inproceedings{zhelezniak2019correlations,
  title     = {Correlations between Word Vector Sets},
  author    = {Zhelezniak, Vitalii and Shen, April and Busbridge, Daniel and Savkov, Aleksandar and Hammerla, Nils},
  booktitle = {Proceedings of EMNLP-IJCNLP},
  year      = {2019}
}"""
STSSCORE_CITATION = """\
@misc{herbold2024semantic,
  title  = {Semantic similarity prediction is better than other semantic similarity measures},
  author = {Herbold, Steffen},
  year   = {2024},
  note   = {Transactions on Machine Learning Research}
}"""
SBERT_CITATION = """\
@inproceedings{reimers2019sentence,
  title     = {Sentence-{BERT}: Sentence Embeddings using {Siamese} {BERT}-Networks},
  author    = {Reimers, Nils and Gurevych, Iryna},
  booktitle = {Proceedings of EMNLP-IJCNLP},
  year      = {2019}
}"""

_TOKEN_KEYS = ("special", "unknown", "subwords", "punctuation", "stopwords", "ngram", "idf")
_ENCODER_KEYS = ("model", "revision", "adapter", "layer", "aggregation", *_TOKEN_KEYS, "centering", "centering_size", "centering_side")
_TAIL_KEYS = ("baseline", "multiref", "truncation", "dtype")
_TEMPER_KEYS = ("temperature", "objective")


@dataclass(frozen=True)
class MetricFactSheet:
    """The facts about one metric that its documentation, its signature and its faces share.

    Attributes:
        title: Its name as the field writes it.
        about: What it measures, in one sentence.
        formula: C(X, Y), or the whole score, in the notation of the documentation.
        keys: The keys its specification uses, in signature order.
        two_sided: Whether it has precision, recall and F1.
        self_normalised: Whether Eq. 1 divides by a C(X, X) that is not 1 anyway.
        lowest: The least value that can occur, None when there is no bound.
        highest: The largest value that can occur, None when there is no bound.
        identical: The score of a text against itself, None when the model decides.
        citation: BibTeX.
    """

    title: str
    about: str
    formula: str
    keys: tuple[str, ...]
    two_sided: bool
    self_normalised: bool
    lowest: float | None
    highest: float | None
    identical: float | None
    citation: str

    @property
    def span(self) -> str:
        """Its range in words: ``-1 to 1``, or that it has no fixed bounds."""
        return "no fixed bounds" if self.lowest is None or self.highest is None else f"{self.lowest:g} to {self.highest:g}"


CATALOGUE: dict[MetricName, MetricFactSheet] = {
    MetricName.TWMD: MetricFactSheet(
        title="Tempered Word Mover Distance",
        about="How well the words of two texts can be transported onto each other, with a tempered, balanced plan.",
        formula="<pi, S>, pi = exp(S/T) after a few Sinkhorn sweeps, hypothesis marginals last (precision) or reference marginals last (recall)",
        keys=("output", *_ENCODER_KEYS, "temperature", "iterations", "objective", "normalize", *_TAIL_KEYS),
        two_sided=True,
        self_normalised=True,
        lowest=None,
        highest=None,
        identical=1.0,
        citation=TWMD_CITATION,
    ),
    MetricName.TRWMD: MetricFactSheet(
        title="Tempered Relaxed Word Mover Distance",
        about="How well each word finds soft partners in the other text; no balance between the partners is asked for.",
        formula="mean_i sum_j softmax_j(S_ij / T) S_ij",
        keys=("output", *_ENCODER_KEYS, *_TEMPER_KEYS, "normalize", *_TAIL_KEYS),
        two_sided=True,
        self_normalised=True,
        lowest=None,
        highest=None,
        identical=1.0,
        citation=TWMD_CITATION,
    ),
    MetricName.MOVERSCORE: MetricFactSheet(
        title="MoverScore",
        about="Exact word mover distance as a score: the best balanced transport plan between the words (or n-grams) of two texts.",
        formula="1 - EMD or 1 / (1 + EMD), EMD = min <pi, cost> over plans whose row and column sums are the tokens' weights",
        keys=(*_ENCODER_KEYS, "distance", "transform", *_TAIL_KEYS),
        two_sided=False,
        self_normalised=False,
        lowest=-3.0,
        highest=1.0,
        identical=1.0,
        citation=MOVERSCORE_CITATION,
    ),
    MetricName.BERTSCORE_CENTERED: MetricFactSheet(
        title="BERTScore on centered vectors",
        about="How similar each word is to its single best partner in the other text.",
        formula="mean_i max_j S_ij",
        keys=("output", *_ENCODER_KEYS, *_TAIL_KEYS),
        two_sided=True,
        self_normalised=False,
        lowest=-1.0,
        highest=1.0,
        identical=1.0,
        citation=BERTSCORE_CITATION,
    ),
    MetricName.WORDSET_CKA: MetricFactSheet(
        title="Word-set CKA",
        about="How alike the directions are that the words of two texts span (linear centered kernel alignment).",
        formula="sum_ij S_ij^2",
        keys=(*_ENCODER_KEYS, "normalize", *_TAIL_KEYS),
        two_sided=False,
        self_normalised=True,
        lowest=0.0,
        highest=1.0,
        identical=1.0,
        citation=CKA_CITATION,
    ),
    MetricName.STSSCORE: MetricFactSheet(
        title="STSScore",
        about="The semantic similarity that a regression model, fine-tuned on rated pairs, predicts for the two texts.",
        formula="logit / scale, not clipped unless clip=yes; with symmetric=yes the mean of both orders",
        keys=("model", "revision", "adapter", "scale", "first", "symmetric", "clip", *_TAIL_KEYS),
        two_sided=False,
        self_normalised=False,
        lowest=None,
        highest=None,
        identical=None,
        citation=STSSCORE_CITATION,
    ),
    MetricName.SBERT: MetricFactSheet(
        title="Mean-pooled cosine",
        about="The cosine between the mean word vectors of two texts.",
        formula="mean_ij S_ij",
        keys=(*_ENCODER_KEYS, "vectors", "normalize", *_TAIL_KEYS),
        two_sided=False,
        self_normalised=True,
        lowest=-1.0,
        highest=1.0,
        identical=1.0,
        citation=SBERT_CITATION,
    ),
    MetricName.ENSEMBLE: MetricFactSheet(
        title="Ensemble",
        about="The weighted mean of other metrics' scores of each segment, ensemble(stsscore,2*sbert): steadier than any of them.",
        formula="sum_k w_k score_k / sum_k w_k",
        keys=("members",),
        two_sided=False,
        self_normalised=False,
        lowest=None,
        highest=None,
        identical=None,
        citation=STSSCORE_CITATION,
    ),
}


def entry(metric: str) -> MetricFactSheet:
    """Look a metric up by name.

    Raises:
        SpecError: There is no such metric; the message lists those there are.
    """
    if not isinstance(metric, str) or metric not in set(MetricName):
        raise SpecError(f"there is no metric {metric!r}; {menu(str(metric), MetricName)}.")
    return CATALOGUE[MetricName(metric)]
