"""What is saved where encoded texts are kept: on disk, for runs in processes of their own without a disk cache, with an
empty one and with a full one; and in memory, for evaluations with the same references, as often happens in training.

Run by ``make bench``, or alone: ``python -m tests.bench.cache``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import twmd_registry
from tests.bench.texts import benchmark_pairs, measure_apart, print_table

ROOM = "4GB"
RUNS = (
    ("no cache", "twmd", 0),
    ("empty cache", "twmd", ROOM),
    ("full cache", "twmd", ROOM),
    ("full cache", "trwmd", ROOM),
)
"""What there is, the metric, and ``disk_cache``; in this order."""
KEEP = "1GB"
TOGETHER = (("twmd",), ("twmd", "trwmd", "bertscore_centered", "wordset_cka"))


def measure(home: str, metric: str, room: str) -> None:
    """Score in this process; print seconds, those of the processor, texts encoded and the sum of the scores. Loading is
    not counted."""
    os.environ["TWMD_HOME"] = home
    _, predictions, references = benchmark_pairs()
    with twmd_registry.scorer(metric, layer=4, disk_cache=room) as scorer:
        model = scorer.backend.model
        started, busy = time.perf_counter(), time.process_time()
        found = scorer.score(predictions, references)
        seconds = time.perf_counter() - started, time.process_time() - busy
    print(json.dumps([*seconds, model.texts_encoded, sum(found.scores)]))


def measure_references(metrics: tuple[str, ...], predictions: list[str], references: list[str]) -> None:
    """Print one line per evaluation; predictions change from one to the next, as those of a model in training do."""
    scorers = [twmd_registry.scorer(metric, keep_references=KEEP) for metric in metrics]
    encoder = scorers[0].backend.model
    for number in range(1, 4):
        changed, before = [f"{text} {number}" for text in predictions], encoder.texts_encoded
        started = time.perf_counter()
        twmd_registry.score_all(scorers, changed, references)
        seconds, encoded = time.perf_counter() - started, encoder.texts_encoded - before
        kept = f"{encoder.reference_cache.held_bytes / 1e6:.0f} MB of references kept"
        print(f"{', '.join(metrics)}: evaluation {number}: {seconds:.1f} s, {encoded} texts encoded, {kept}")
    for scorer in scorers:
        scorer.close()


def main() -> None:
    """Print the table of runs with a disk cache, and the evaluations of one metric and of several together."""
    name, predictions, references = benchmark_pairs()
    different = len({*predictions, *references}), len(set(references))
    print(f"{name}, {different[0]} different texts, {different[1]} references; MiniLM to layer 4, float32")
    rows = []
    with tempfile.TemporaryDirectory() as home:
        for what, metric, room in RUNS:
            started = time.perf_counter()
            seconds, busy, encoded, total = measure_apart("cache", home, metric, room)
            whole = time.perf_counter() - started
            print(f"{what}, {metric}: {seconds:.1f} s", flush=True)
            size = sum(path.stat().st_size for path in (Path(home) / "cache").glob("*"))
            numbers = [f"{number:.1f}" for number in (seconds, busy, whole)]
            rows.append([what, metric, *numbers, encoded, f"{size / 1e6:.1f}", repr(total)])
    headers = ["", "metric", "seconds", "CPU seconds", "whole process", "texts encoded", "MB on disk", "sum of scores"]
    print_table(rows, headers)
    for metrics in TOGETHER:
        measure_references(metrics, predictions, references)


if __name__ == "__main__":
    measure(*sys.argv[1:]) if len(sys.argv) > 1 else main()
