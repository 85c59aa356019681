"""Other words for what a signature says: accepted when one is read, with a warning, and never written."""

from __future__ import annotations

from twmd_registry.registry.names import EMBEDDED_MODEL, Dtype, MetricName, Output

METRICS = {"cka": MetricName.WORDSET_CKA, "sts": MetricName.STSSCORE, "mover": MetricName.MOVERSCORE}
KEYS = {
    "T": "temperature",
    "iters": "iterations",
    "sweeps": "iterations",
    "norm": "normalize",
    "normalise": "normalize",
    "side": "centering_side",
    "size": "centering_size",
    "#": "nrefs",
    "refs": "nrefs",
}
VALUES: dict[tuple[str, str], str] = {
    ("model", "embedded"): EMBEDDED_MODEL,
    ("model", "all-MiniLM-L6-v2"): EMBEDDED_MODEL,
    ("output", "F1"): Output.F1,
    ("output", "F"): Output.F1,
    ("output", "P"): Output.PRECISION,
    ("output", "R"): Output.RECALL,
    ("dtype", "fp32"): Dtype.FLOAT32,
    ("dtype", "bf16"): Dtype.BFLOAT16,
    ("dtype", "fp16"): Dtype.FLOAT16,
}
"""(key, value as somebody wrote it) to the value."""
