"""Seconds of a first and of later evaluations with the same references, which are kept encoded: as often happens in
training.

Run by ``make bench``, or alone: ``python -m tests.bench.references``.
"""

from __future__ import annotations

import time

import twmd_registry
from tests.bench.texts import benchmark_pairs

KEEP = "1GB"
TOGETHER = (("twmd",), ("twmd", "trwmd", "bertscore_centered", "wordset_cka"))


def measure(metrics: tuple[str, ...], predictions: list[str], references: list[str]) -> None:
    """Print one line per evaluation; predictions change from one to the next, as those of a model in training do."""
    scorers = [twmd_registry.scorer(metric, keep_references=KEEP) for metric in metrics]
    encoder = scorers[0].backend.model
    for number in range(1, 4):
        changed, before = [f"{text} {number}" for text in predictions], encoder.texts_encoded
        started = time.perf_counter()
        twmd_registry.score_all(scorers, changed, references)
        seconds, encoded = time.perf_counter() - started, encoder.texts_encoded - before
        kept = f"{encoder.references.held_bytes / 1e6:.0f} MB of references kept"
        print(f"{', '.join(metrics)}: evaluation {number}: {seconds:.1f} s, {encoded} texts encoded, {kept}")
    for scorer in scorers:
        scorer.close()


def main() -> None:
    """Measure one metric, and several together."""
    name, predictions, references = benchmark_pairs()
    print(f"{name}, {len(set(references))} different references")
    for metrics in TOGETHER:
        measure(metrics, predictions, references)


if __name__ == "__main__":
    main()
