"""The cost of a billion pairs on Ray, extrapolated from measured rates: the numbers of docs/large-data.md."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.scale.runner import BLOCK_BYTES

PAIRS = 1_000_000_000
HOUR = 3600
ENCODE_ON_CORE = 371 / 2
"""Pairs per second of a core with `twmd` (MiniLM to layer 4, float32); experiments/LOG.md, 2026-11-22."""
ENCODE_ON_GPU = 3920 / 0.1
"""Pairs per second that an H200 computes, tokenisation and other Python left out; experiments/LOG.md, 2026-11-26."""
TOKENISE, READ, WRITE = 7_054, 12_986, 528_528
"""Pairs per second of a core, of news sentences: tokenised, read from JSON lines with all checks, and written as
Parquet; processor time on two cores of a busy AMD EPYC; 2026-11-27.
"""
BYTES_IN, BYTES_IN_MEMORY, BYTES_OUT, BYTES_OF_ID = 332, 371, 162, 8
"""Bytes of a pair: in JSON lines, in Ray's object store with scores, in the output, and in a checkpoint in memory."""
FILTER_FACTOR = 1.5
"""Ray reserves this many times the checkpoint for every actor that skips rows of an earlier run."""


class Cluster(NamedTuple):
    """Workers that score, with their cores."""

    name: str
    cores: int
    gpus: int = 0
    workers_per_gpu: int = 1

    @property
    def pace(self) -> float:
        """Pairs per second of all workers. Workers share a GPU, and each tokenises on its own core."""
        if not self.gpus:
            return self.cores * ENCODE_ON_CORE
        return self.gpus * min(ENCODE_ON_GPU, self.workers_per_gpu * TOKENISE)


CLUSTERS = (
    Cluster("100 cores", 100),
    Cluster("8 GPUs, a worker each", 8, 8),
    Cluster("8 GPUs, 5 workers each", 40, 8, 5),
)


def main() -> None:
    """Print the table, and the costs that do not depend on the cluster."""
    print("| | hours | pairs/s | cores that read, write | MB/s through the object store |")
    print("| --- | --- | --- | --- | --- |")
    for cluster in CLUSTERS:
        pace = cluster.pace
        io_cores = pace / READ + pace / WRITE
        print(
            f"| {cluster.name} | {PAIRS / pace / HOUR:.1f} | {pace:,.0f} | {io_cores:.1f} | "
            f"{pace * BYTES_IN_MEMORY / 1e6:,.0f} |"
        )
    rows = BLOCK_BYTES / BYTES_IN_MEMORY
    print(f"input {PAIRS * BYTES_IN / 1e9:,.0f} GB, output {PAIRS * BYTES_OUT / 1e9:,.0f} GB")
    print(f"files of {rows:,.0f} rows: {PAIRS / rows:,.0f}, and as many checkpoints")
    ids = PAIRS * BYTES_OF_ID / 1e9
    print(f"--resume at the end: {ids:.0f} GB of numbers of rows, {ids * FILTER_FACTOR:.0f} GB for every filter")
    print(f"share of a core's time for tokens: {ENCODE_ON_CORE / TOKENISE:.1%}")


if __name__ == "__main__":
    main()
