"""The pace of ``twmd score``, the baseline for the integrations."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path


def measure_command_line(folder: Path, predictions: list[str], references: list[str]) -> tuple[float, float, float]:
    """Return wall and processor seconds of ``twmd score``, without those of a single pair (start-up and loading), and
    the score.
    """
    first, start, _ = _score(folder, predictions[:1], references[:1])
    seconds, busy, score = _score(folder, predictions, references)
    return seconds - first, busy - start, score


def _score(folder: Path, predictions: list[str], references: list[str]) -> tuple[float, float, float]:
    for name, lines in (("ref.txt", references), ("system.txt", predictions)):
        (folder / name).write_text("\n".join(line.replace("\n", " ") for line in lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "twmd_registry.cli", "score", "ref.txt", "-i", "system.txt", "--record", "r.json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    record = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(record["seconds"]), busy, float(record["systems"][0]["results"][0]["score"])
