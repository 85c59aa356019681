"""Pairs per second of choosing among candidates: ``mbr``, calls of ``score`` for every pair, and bert_score in a loop.

Run by ``make bench``, or separately: ``python -m experiments bench mbr SEGMENTS CANDIDATES TRIALS``. Seconds are
processor time of all threads; with OMP_NUM_THREADS=1 every contestant has one thread. The contestants take turns in
every trial. Slow ones get a single segment, a new one in every trial, some with only 16 candidates.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from experiments.bench.contestants import Setting, bert_score
from experiments.bench.texts import WORDS, benchmark_pairs, machine, print_table
from twmd_registry import Scorer, load, mbr
from twmd_registry.models.files import embedded_folder

EXCHANGED = 0.15
"""Share of words in which a candidate differs from the text of its segment."""
Lists = list[list[str]]


def make_candidates(segments: int, number: int) -> tuple[str, Lists]:
    """Return the name of the texts, and candidates per segment: its reference with words exchanged."""
    name, _, references = benchmark_pairs(segments)
    draw = random.Random(0)

    def edit(text: str) -> str:
        return " ".join(draw.choice(WORDS) if draw.random() < EXCHANGED else word for word in text.split())

    return name, [[edit(text) for _ in range(number)] for text in references]


def call_for_every_pair(made: Scorer, lists: Lists) -> None:
    """Score every candidate against every candidate, in separate calls."""
    for texts in lists:
        for text in texts:
            for reference in texts:
                made.score([text], [reference])


def call_for_every_candidate(score: Callable[[list[str], list[str]], object], lists: Lists) -> None:
    """Score every candidate against all candidates, one call each."""
    for texts in lists:
        for text in texts:
            score([text] * len(texts), texts)


def call_for_every_segment(score: Callable[[list[str], list[str]], object], lists: Lists) -> None:
    """Score all pairs of a segment in one call."""
    for texts in lists:
        score([text for text in texts for _ in texts], texts * len(texts))


def main() -> None:
    """Measure all contestants in turn; print the table."""
    segments, number, trials = map(int, sys.argv[1:4] or (100, 64, 3))
    name, lists = make_candidates(segments, number)
    twmd, greedy = load("twmd"), load("bertscore_centered", layer=4, centering="none")
    regressor, peer = load("stsscore"), bert_score(Setting(str(embedded_folder()), 4, "cpu"))
    contestants: dict[str, tuple[Callable[[Lists], object], int, int]] = {
        "mbr, twmd": (partial(mbr, metric=twmd), segments, number),
        "mbr, bertscore_centered": (partial(mbr, metric=greedy), segments, number),
        "mbr, stsscore": (partial(mbr, metric=regressor), 1, 16),
        "score, a call per pair, twmd": (partial(call_for_every_pair, twmd), 1, 16),
        "bert_score, a call per candidate": (partial(call_for_every_candidate, peer), 1, number),
        "bert_score, a call per segment": (partial(call_for_every_segment, peer), 1, number),
    }
    print(f"{name}: {segments} segments of {number} candidates; ", end="")
    print(f"{machine()}, {torch.get_num_threads()} threads", flush=True)
    rates: dict[str, list[float]] = {contestant: [] for contestant in contestants}
    for trial in range(trials):
        for contestant, (run, most, width) in contestants.items():
            run([["it rains", "it is raining"]])  # loads the model
            own = [texts[:width] for texts in (lists if most == segments else [lists[trial % segments]])]
            start = time.process_time()
            run(own)
            rates[contestant].append(len(own) * width**2 / (time.process_time() - start))
            print(f"{contestant}: {rates[contestant][-1]:.0f} pairs/s", flush=True)
    medians = {contestant: statistics.median(own) for contestant, own in rates.items()}
    rows = [
        [contestant, f"{rate:.0f}", f"{number**2 / rate:.3f}", f"{medians['mbr, twmd'] / rate:.2f}"]
        for contestant, rate in medians.items()
    ]
    print_table(rows, ["", "pairs/s", "s per segment", "x mbr, twmd"])


if __name__ == "__main__":
    main()
