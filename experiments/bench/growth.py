"""How time and memory grow with the number of pairs: ``python -m experiments bench growth 1000 10000 100000 1000000``.

Hidden state 0 is read, so no layer of the encoder runs, and only the other stages are measured.
"""

from __future__ import annotations

import json
import sys
import time

from experiments.bench.contestants import peak_megabytes
from experiments.bench.texts import measure_apart, synthetic_pairs
from twmd_registry.engine.scorer import Scorer
from twmd_registry.registry.spec import make_spec

LAYER = 0
SIZES = (1_000, 10_000, 100_000, 1_000_000)
ONE = "--one"


def measure(number: int) -> None:
    """Score pairs of distinct texts with batch centering, and print seconds and megabytes as JSON."""
    predictions, references = synthetic_pairs(number)
    scorer = Scorer(make_spec("twmd", layer=LAYER, centering="batch", centering_size=32))
    scorer.score(predictions[:32], references[:32])
    texts, start = peak_megabytes("cpu"), time.perf_counter()
    scorer.score(predictions, references)
    print(json.dumps([time.perf_counter() - start, texts, peak_megabytes("cpu")]))


def main() -> None:
    """Measure every size in a separate process, and print its row."""
    headers = ("pairs", "seconds", "ms per pair", "MB before", "peak MB")
    print(*(f"{name:>11}" for name in headers), flush=True)
    for number in map(int, sys.argv[1:] or SIZES):
        seconds, texts, peak = measure_apart("growth", ONE, number)
        row = f"{number:,}", f"{seconds:.1f}", f"{1000 * seconds / number:.2f}", f"{texts:.0f}", f"{peak:.0f}"
        print(*(f"{cell:>11}" for cell in row), flush=True)


if __name__ == "__main__":
    measure(int(sys.argv[2])) if ONE in sys.argv else main()
