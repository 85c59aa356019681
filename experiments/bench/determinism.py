"""How much process settings change scores: ``python -m experiments bench determinism [OTHER_PYTHON ...]``.

Five presets score the first 200 pairs of WMT17, with a separate process per setting. The table has the largest
difference of a score from the first setting. Other interpreters, with other versions of Python and libraries, are
additional settings; this package must be installed there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

from experiments.bench.texts import benchmark_pairs, print_table

PAIRS = 200
METRICS = (
    ("twmd", "embedded"),
    ("twmd", "embedded-tuned"),
    ("moverscore", "embedded"),
    ("stsscore", "embedded"),
    ("twmd", "multilingual"),
)
"""Metrics and presets."""
SETTINGS = {
    "1 thread": "torch.set_num_threads(1)",
    "2 threads": "torch.set_num_threads(2)",
    "float32_matmul_precision highest": "torch.set_float32_matmul_precision('highest')",
    "float32_matmul_precision high": "torch.set_float32_matmul_precision('high')",
    "float32_matmul_precision medium": "torch.set_float32_matmul_precision('medium')",
    "without oneDNN": "torch.backends.mkldnn.enabled = False",
    "oneDNN without AVX-512": "",
    "MKL without AVX-512": "",
}
"""Code to run first, by setting; scores are compared with the first setting's."""
ENVIRONMENT = {
    "oneDNN without AVX-512": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "MKL without AVX-512": {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
SCORE = """
import json, sys, torch, numpy, transformers
{first}
from twmd_registry import score_all, load
given = json.load(sys.stdin)
found = [score_all([load(metric, preset)], *given["texts"])[0].scores for metric, preset in given["metrics"]]
versions = [sys.version.split()[0], torch.__version__, transformers.__version__, numpy.__version__]
print(json.dumps({{"scores": found, "versions": versions}}))
"""


def score(python: str, first: str, environment: dict[str, str], given: str) -> tuple[np.ndarray, list[str]]:
    """Return the scores of every metric in one process, and the versions of Python, torch, transformers and numpy."""
    command = [python, "-W", "ignore", "-c", SCORE.format(first=first)]
    done = subprocess.run(
        command, input=given, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | environment
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    return np.array(answer["scores"]), answer["versions"]


def main() -> None:
    """Print the table."""
    name, *texts = benchmark_pairs(PAIRS)
    given = json.dumps({"texts": texts, "metrics": METRICS})
    rows: list[list[str]] = []
    baseline: np.ndarray | None = None
    runs = [(sys.executable, setting) for setting in SETTINGS] + [(python, "1 thread") for python in sys.argv[1:]]
    for python, setting in runs:
        scores, versions = score(python, SETTINGS[setting], ENVIRONMENT.get(setting, {}), given)
        if baseline is None:
            baseline = scores
            print(f"{name}; Python {versions[0]}, torch {versions[1]}, transformers {versions[2]}, numpy {versions[3]}")
        what = (
            setting if python == sys.executable else "Python {}, torch {}, transformers {}, numpy {}".format(*versions)
        )
        rows.append([what, *(f"{difference:.1e}" for difference in np.abs(scores - baseline).max(axis=1))])
        print(rows[-1], flush=True)
    print_table(rows, ["largest difference of a score", *map(", ".join, METRICS)], "md")


if __name__ == "__main__":
    main()
