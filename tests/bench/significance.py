"""Seconds that SacreBLEU's tests take once segments are scored: 10,000 samples, 3 systems, 3,000 segments.

Run by ``make bench``, or alone: ``python -m tests.bench.significance``.
"""

from __future__ import annotations

import time

import twmd_registry
from tests.bench.texts import synthetic_pairs
from twmd_registry.plugins.sacrebleu.compare import compare_systems
from twmd_registry.record.content import Resampling

SEGMENTS, SAMPLES, SEED = 3000, 10_000, 12345


def main() -> None:
    """Score once, then time every test."""
    predictions, references = synthetic_pairs(SEGMENTS)
    systems = [("a", predictions), ("b", synthetic_pairs(SEGMENTS, seed=8)[0]), ("c", references)]
    scorer = twmd_registry.scorer("twmd")
    started = time.perf_counter()
    scored = [(scorer, [scorer.score(own, references) for _, own in systems])]
    print(f"scoring {len(systems)} systems: {time.perf_counter() - started:.1f} s")
    requests = {
        "paired bootstrap": Resampling("bs", SAMPLES, 0, SEED),
        "paired approximate randomisation": Resampling("ar", SAMPLES, 0, SEED),
        "confidence intervals": Resampling(None, 0, SAMPLES, SEED),
    }
    for name, resampling in requests.items():
        started = time.perf_counter()
        compare_systems(systems, [[reference] for reference in references], scored, resampling=resampling)
        print(f"{name}, {SAMPLES} samples: {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
