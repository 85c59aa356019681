"""Scores of shared words and characters, as SacreBLEU computes them, to stand beside embedding metrics."""

from __future__ import annotations

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from twmd_registry.rated.rows import Rated


def sentence_bleu(rated: Rated) -> np.ndarray:
    """Sentence BLEU with its effective order (Papineni et al. 2002), from 0 to 1; shape (segments,)."""
    return _scores(BLEU(effective_order=True), rated)


def sentence_chrf(rated: Rated) -> np.ndarray:
    """chrF++ of each sentence: F2 of n-grams of 1 to 6 characters and of 1 and 2 words (Popovic 2017), from 0 to 1; shape (segments,)."""
    return _scores(CHRF(word_order=2), rated)


def _scores(metric: Metric, rated: Rated) -> np.ndarray:
    pairs = zip(rated.predictions, rated.references, strict=True)
    return np.array([metric.sentence_score(text, [one] if isinstance(one, str) else one).score / 100 for text, one in pairs])
