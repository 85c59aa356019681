"""Pairs per second of the Ray engine on local files, and the time for a billion pairs at that pace."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from experiments.bench.texts import machine, synthetic_pairs
from twmd_registry.scale import ScoredDataset, score_files

PAIRS = 10_000
BILLION = 1_000_000_000
HOUR = 3600


def write_pairs(path: Path, number: int) -> None:
    """Write synthetic pairs as long as news sentences, as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for prediction, reference in zip(*synthetic_pairs(number), strict=True):
            file.write(json.dumps({"prediction": prediction, "reference": reference}) + "\n")


def run(number: int, workers: int) -> ScoredDataset:
    """Score pairs with twmd's default preset; the time includes starting Ray and workers and loading models."""
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder) / "pairs.jsonl", number)
        return score_files(["twmd"], [f"{folder}/pairs.jsonl"], f"{folder}/out", num_workers=workers)


def main() -> None:
    """Measure two sizes: their difference gives the pace without the start-up time."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count() or 1
    small, large = run(PAIRS // 5, workers), run(PAIRS, workers)
    pace = (large.rows - small.rows) / (large.seconds - small.seconds)
    print(f"{machine()}; {workers} workers of one thread; {large.environments[0]['device']}")
    print(*(metric.signature for metric in large.metrics.values()))
    print(
        f"{small.rows:,} pairs: {small.seconds:.1f} s; {large.rows:,} pairs: {large.seconds:.1f} s; start "
        f"{large.seconds - large.rows / pace:.1f} s"
    )
    print(
        f"{pace:.0f} pairs/s, {pace / workers:.0f} per worker; a billion pairs: "
        f"{BILLION / (pace / workers) / HOUR:,.0f} hours of one worker"
    )


if __name__ == "__main__":
    main()
