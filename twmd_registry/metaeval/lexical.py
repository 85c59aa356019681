"""Scores of shared words and characters, as SacreBLEU computes them, to stand beside embedding metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from twmd_registry.judgments.rated import RatedSegments

LEXICAL: dict[str, Callable[[], Metric]] = {
    "bleu": lambda: BLEU(effective_order=True),
    "chrf": CHRF,
    "chrf++": lambda: CHRF(word_order=2),
}
"""Sentence BLEU with its effective order (Papineni et al. 2002); chrF, the F2 of n-grams of 1 to 6 characters (Popovic 2015); and chrF++, of 1 and 2
words besides (Popovic 2017)."""


class LexicalScores(NamedTuple):
    """What a metric of SacreBLEU says of some segments.

    Attributes:
        scores: From 0 to 1; shape (segments,).
        signature: SacreBLEU's, with the metric's name.
    """

    scores: np.ndarray
    signature: str


def score_lexically(name: str, rated: RatedSegments) -> LexicalScores:
    """Score every segment by a metric of SacreBLEU.

    Args:
        name: One of `LEXICAL`.
        rated: The segments.
    """
    metric = LEXICAL[name]()
    references = _references(rated)
    scores = [
        metric.sentence_score(text, own).score / 100 for text, own in zip(rated.predictions, references, strict=True)
    ]
    streams = [[own[k] if k < len(own) else None for own in references] for k in range(max(map(len, references)))]
    metric.corpus_score(rated.predictions, streams)  # type: ignore[arg-type]  # SacreBLEU signs what a corpus was scored by
    return LexicalScores(np.array(scores), f"{name}|{metric.get_signature().format()}")


def _references(rated: RatedSegments) -> list[list[str]]:
    return [[one] if isinstance(one, str) else list(one) for one in rated.references]
