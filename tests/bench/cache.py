"""Seconds and bytes of scoring without a disk cache, with an empty one and with a full one, each in a process of its
own.

Run by ``make bench``, or alone: ``python -m tests.bench.cache``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

import twmd_registry
from tests.bench.texts import benchmark_pairs

ROOM = "4GB"
RUNS = (
    ("no cache", "twmd", 0),
    ("empty cache", "twmd", ROOM),
    ("full cache", "twmd", ROOM),
    ("full cache", "trwmd", ROOM),
)
"""What there is, the metric, and ``disk_cache``; in this order."""


def measure(home: str, metric: str, room: str) -> None:
    """Score in this process; print seconds, those of the processor, texts encoded and the sum of the scores. Loading is
    not counted."""
    os.environ["TWMD_HOME"] = home
    _, predictions, references = benchmark_pairs()
    with twmd_registry.scorer(metric, layer=4, disk_cache=room) as scorer:
        model = scorer.backend.model
        started, busy = time.perf_counter(), time.process_time()
        found = scorer.score(predictions, references)
        print(
            json.dumps(
                [time.perf_counter() - started, time.process_time() - busy, model.texts_encoded, sum(found.scores)]
            )
        )


def main() -> None:
    """Print the table."""
    name, predictions, references = benchmark_pairs()
    print(f"{name}, {len({*predictions, *references})} different texts; MiniLM to layer 4, float32")
    rows = []
    with tempfile.TemporaryDirectory() as home:
        for what, metric, room in RUNS:
            started = time.perf_counter()
            command = [sys.executable, "-m", "tests.bench.cache", home, metric, str(room)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            whole = time.perf_counter() - started
            seconds, busy, encoded, total = json.loads(done.stdout)
            print(f"{what}, {metric}: {seconds:.1f} s", flush=True)
            size = sum(path.stat().st_size for path in (Path(home) / "cache").glob("*"))
            rows.append(
                [
                    what,
                    metric,
                    f"{seconds:.1f}",
                    f"{busy:.1f}",
                    f"{whole:.1f}",
                    encoded,
                    f"{size / 1e6:.1f}",
                    repr(total),
                ]
            )
    headers = ["", "metric", "seconds", "CPU seconds", "whole process", "texts encoded", "MB on disk", "sum of scores"]
    print(tabulate(rows, headers=headers, disable_numparse=True))


if __name__ == "__main__":
    measure(*sys.argv[1:]) if len(sys.argv) > 1 else main()
