"""A new metric is one declaration, its aligner, two tables of presets, a module for `evaluate` and a card: shown on a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FILES = {
    "twmd_registry/registry/metrics/toy.py": """
from twmd_registry.registry.declaration import ENCODER_KEYS, TAIL_KEYS, Metric

METRIC = Metric(
    title="Toy",
    about="How similar the least similar words of two texts are.",
    formula="min_ij S_ij",
    keys=(*ENCODER_KEYS, *TAIL_KEYS),
    class_name="Toy",
    aligner="toy",
    two_sided=False,
    self_normalised=False,
    lowest=-1.0,
    highest=1.0,
    identical=None,
    citation="@misc{toy}",
)
""",
    "twmd_registry/align/toy.py": """
import torch



def toy(s, x, y, how):
    return torch.where(x.mask[:, :, None] & y.mask[:, None, :], s, 2.0).amin(dim=(1, 2))


def toy_plan(s, x, y, how):
    return torch.zeros_like(s)
""",
    "metrics/toy/toy.py": """
\"\"\"Toy: the least similar words.\"\"\"

from twmd_registry.plugins.evaluate.metric import RegistryMetric
from twmd_registry.registry.names import MetricName


class Toy(RegistryMetric):
    \"\"\"Toy as an `evaluate.Metric`.\"\"\"

    metric = MetricName.TOY
""",
}
PRESETS = """
[embedded.metrics.toy]
layer = 4
special = "all"
centering = "none"
provenance = "Chosen for this test."

[paper.metrics.toy]
special = "all"
centering = "none"
provenance = "Chosen for this test."
"""
PROGRAM = """
import evaluate
import twmd_registry
from twmd_registry.cli import main
from twmd_registry.plugins.sacrebleu.metric import METRICS

PREDICTIONS, REFERENCES = ["the cat sat on the mat"], ["a dog ran over the hill"]
found = twmd_registry.scorer("toy").score(PREDICTIONS, REFERENCES)
least = min(link for row in found.explain(0).similarities.tolist() for link in row)
assert abs(found.score - least) < 1e-6, (found.score, least)
assert twmd_registry.scorer(str(found.signature)).score(PREDICTIONS, REFERENCES) == found
result = evaluate.load("toy").compute(predictions=PREDICTIONS, references=REFERENCES)
assert abs(result["toy"] - found.score) < 1e-6
assert METRICS["toy"].__name__ == "Toy"
assert abs(METRICS["toy"]().corpus_score(PREDICTIONS, [REFERENCES]).score - 100 * found.score) < 1e-3
assert main(["explain", "toy"]) == 0
print(found.signature)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in ("twmd_registry", "metrics"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_metric_that_is_declared_works_in_every_face(copy: Path) -> None:
    for name, content in FILES.items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(content, encoding="utf-8")
    names = copy / "twmd_registry" / "registry" / "names.py"
    text, changed = re.subn(
        r'^    ENSEMBLE = "ensemble"$', '    ENSEMBLE = "ensemble"\n    TOY = "toy"', names.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert changed == 1
    names.write_text(text, encoding="utf-8")
    with (copy / "twmd_registry" / "registry" / "presets.toml").open("a", encoding="utf-8") as file:
        file.write(PRESETS)
    environment = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=copy, env=environment)
    assert done.returncode == 0, done.stderr
    assert "min_ij S_ij" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("toy|model:sentence-transformers/all-MiniLM-L6-v2@")
