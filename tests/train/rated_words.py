"""Rated segments for tests, in the words of the tiny models."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from twmd_registry.engine.pairs import Segments
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.train.data import TrainingData

PLAIN = ["the", "a", "sat", "on", "mat", "ran", "over", "hill", "saw", "again"]
GOOD, BAD = ("rain", "today"), ("cat", "dog")
"""Words that decide a rating: a good word in the prediction adds a point, a bad word subtracts one."""


def rated_words(number: int, seed: int) -> RatedSegments:
    """Segments of two groups; a prediction has the words of its reference and two that decide the rating."""
    draw = random.Random(seed)
    predictions, references, ratings = [], [], []
    for _ in range(number):
        reference = [draw.choice(PLAIN) for _ in range(draw.randint(4, 8))]
        chosen = [draw.choice(GOOD + BAD) for _ in range(2)]
        predictions.append(" ".join([*reference, *chosen]))
        references.append(" ".join([*reference, "and", "it"]))
        ratings.append(sum(1.0 if word in GOOD else -1.0 for word in chosen) + draw.gauss(0, 0.1))
    return RatedSegments(["cs-en", "de-en"] * (number // 2), predictions, references, np.array(ratings), 0)


def named_words(number: int, seed: int) -> TrainingData:
    return TrainingData(f"words{seed}", rated_words(number, seed))


def segments(data: RatedSegments) -> Segments:
    return Segments(data.predictions, [[reference] for reference in data.references])


RUSSIAN = "\u043d\u0435\u0442 \u0434\u043e\u0436\u0434\u044f"


def write_words(path: Path, number: int, seed: int, *, russian: bool = False) -> str:
    """Write rated segments as a file of WMT, texts maybe in Cyrillic; return its name with the format."""
    data = rated_words(number, seed)
    if russian:
        data = data._replace(predictions=[RUSSIAN] * number, references=[RUSSIAN[:3]] * number)
    rows = zip(data.group, data.predictions, data.references, data.ratings.tolist(), strict=True)
    lines = [json.dumps({"lang": g, "candidate": p, "reference": r, "score": s}) for g, p, r, s in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"wmt:{path}"
