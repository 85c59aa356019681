"""Texts of realistic length, made from a word list by a fixed seed: the same everywhere, nothing to download."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.conftest import SHARED

WORDS = [
    "the",
    "of",
    "to",
    "and",
    "in",
    "that",
    "for",
    "is",
    "on",
    "was",
    "with",
    "as",
    "by",
    "at",
    "from",
    "it",
    "be",
    "this",
    "have",
    "are",
    "not",
    "he",
    "she",
    "they",
    "we",
    "market",
    "city",
    "report",
    "water",
    "people",
    "company",
    "government",
    "minister",
    "system",
    "language",
    "evening",
    "mountain",
    "yesterday",
    "between",
    "several",
    "already",
    "against",
    "election",
    "technology",
    "international",
    "understanding",
    "approximately",
    "neighbourhood",
]
MEAN_WORDS, SPREAD = 22, 11


def synthetic_pairs(number: int, seed: int = 7) -> tuple[list[str], list[str]]:
    """Hypotheses and references with the lengths of news sentences; a hypothesis shares most words with its reference."""
    draw = random.Random(seed)
    predictions, references = [], []
    for i in range(number):
        length = max(3, min(70, round(draw.gauss(MEAN_WORDS, SPREAD))))
        reference = [draw.choice(WORDS) for _ in range(length)]
        prediction = [word if draw.random() < 0.8 else draw.choice(WORDS) for word in reference]
        references.append(" ".join([*reference, str(i), "."]))
        predictions.append(" ".join([*prediction, str(i), "."]))
    return predictions, references


def benchmark_pairs() -> tuple[str, list[str], list[str]]:
    """WMT17's 3,920 pairs where they are, else as many synthetic ones; and what they are called."""
    path: Path = SHARED / "data" / "wmt" / "wmt17.jsonl"
    if not path.exists():
        return "3,920 synthetic pairs", *synthetic_pairs(3920)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return "WMT17, 3,920 pairs", [row["candidate"] for row in rows], [row["reference"] for row in rows]
