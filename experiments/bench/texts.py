"""Texts of realistic length, generated from a word list with a fixed seed, so they are the same everywhere without a
download; and functions that all benchmarks share.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twmd_registry.comparison.text_table import write_table

SHARED = Path(__file__).resolve().parents[3] / "shared"
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
PAIRS = 3920
"""Of WMT17."""
EDITED = 0.1
"""Share of words exchanged in repeated pairs."""


def synthetic_pairs(number: int, seed: int = 7) -> tuple[list[str], list[str]]:
    """Return hypotheses and references as long as news sentences; a hypothesis shares most words with its reference."""
    draw = random.Random(seed)
    predictions, references = [], []
    for i in range(number):
        length = max(3, min(70, round(draw.gauss(MEAN_WORDS, SPREAD))))
        reference = [draw.choice(WORDS) for _ in range(length)]
        prediction = [word if draw.random() < 0.8 else draw.choice(WORDS) for word in reference]
        references.append(" ".join([*reference, str(i), "."]))
        predictions.append(" ".join([*prediction, str(i), "."]))
    return predictions, references


def benchmark_pairs(number: int = PAIRS) -> tuple[str, list[str], list[str]]:
    """Return WMT17's pairs if available, otherwise synthetic ones, and their name.

    If more are requested than exist, they are repeated with a few words exchanged, so no text occurs twice.
    """
    path: Path = SHARED / "data" / "wmt" / "wmt17.jsonl"
    if not path.exists():
        return f"{number:,} synthetic pairs", *synthetic_pairs(number)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    pairs = [(str(row["candidate"]), str(row["reference"])) for row in rows]
    draw = random.Random(number)
    chosen = [pairs[i] if i < len(pairs) else _edited(*pairs[i % len(pairs)], i, draw) for i in range(number)]
    predictions, references = map(list, zip(*chosen, strict=True))
    return (
        f"WMT17, {number:,} pairs" + (", repeated with other words" if number > len(pairs) else ""),
        predictions,
        references,
    )


def _edited(prediction: str, reference: str, number: int, draw: random.Random) -> tuple[str, str]:
    """Return the same pair with one word in ten exchanged, and a number that makes it unique."""

    def edit(text: str) -> str:
        return " ".join(
            [*(word if draw.random() > EDITED else draw.choice(WORDS) for word in text.split()), str(number)]
        )

    return edit(prediction), edit(reference)


def machine() -> str:
    """Return the processor, its cores, and the version of torch."""
    import torch

    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"


def print_table(rows: Sequence[Sequence[object]], headers: Sequence[str], form: str = "txt") -> None:
    print(write_table(headers, rows, form, ["left", *["right"] * (len(headers) - 1)]))


def measure_apart(module: str, *arguments: object, **environment: str) -> Any:
    """Run a module of this folder in a separate process; return its last line, which is JSON."""
    command = [sys.executable, "-m", f"experiments.bench.{module}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[2:])} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])
