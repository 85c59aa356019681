"""Texts and scorers of the tests of both caches, and the number of texts that a call encodes."""

from __future__ import annotations

from typing import Any

import numpy as np

import twmd_registry
from twmd_registry.encode.store import CachedText, TextKey
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.tensors import TextTokens

PREDICTIONS = ["the cat sat", "a dog ran over the hill", "it"]
REFERENCES = [["the cat sat on the mat", "a cat sat"], ["a dog ran"], ["it ran again", "the dog", "we saw it"]]
PAIRS = PREDICTIONS, REFERENCES
DIFFERENT, DIFFERENT_REFERENCES = 9, 6
"""Different texts in `PAIRS`, and in their references alone."""
ROOM = "10MB"


def metric(model: str, name: str = "twmd", **keys: Any) -> Scorer:
    return twmd_registry.scorer(name, **{"model": model, "layer": 2, "centering": "none", **keys})


def score_and_count(
    scorer: Scorer, predictions: Any = PREDICTIONS, references: Any = REFERENCES
) -> tuple[ScoreSet, int]:
    """Score texts; return the scores, and the number of texts that were encoded for them."""
    before = scorer.backend.model.texts_encoded
    return scorer.score(predictions, references), scorer.backend.model.texts_encoded - before


def key(text: str) -> TextKey:
    return "model", (1,), None, None, text


def some_text(tokens: int) -> CachedText:
    special, ids, codes = (np.zeros(tokens, dtype) for dtype in (np.uint8, np.int64, np.int64))
    facts = TextTokens(special, ids, codes, empty=False, truncated=False, unknown=False)
    return np.zeros((1, tokens, 4), np.float32), facts
