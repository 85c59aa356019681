"""A new metric is one declaration, its aligner, a table of presets, a module for `evaluate` and a card's text; a new
key is one declaration and the stage that reads it: shown on a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FILES = {
    "twmd_registry/registry/metrics/toy.py": """
from twmd_registry.registry.metrics import ENCODER_KEYS, TAIL_KEYS, Metric

METRIC = Metric(
    title="Toy",
    about="How similar the least similar words of two texts are.",
    formula="min_ij S_ij",
    keys=(*ENCODER_KEYS, "toughness", *TAIL_KEYS),
    class_name="Toy",
    aligner="toy",
    two_sided=False,
    lowest=-1.0,
    highest=1.0,
    identical=None,
    citation="@misc{toy}",
)
""",
    "twmd_registry/align/toy.py": """
import torch


def toy(s, x, y, spec):
    return torch.where(x.mask[:, :, None] & y.mask[:, None, :], s, 2.0).amin(dim=(1, 2)) - (spec.toughness or 1.0)


def toy_plan(s, x, y, spec):
    return torch.zeros_like(s)
""",
    "metrics/toy/toy.py": """
\"\"\"Toy: the least similar words.\"\"\"

from twmd_registry.plugins.evaluate import RegistryMetric
from twmd_registry.registry.names import MetricName


class Toy(RegistryMetric):
    \"\"\"Toy as an `evaluate.Metric`.\"\"\"

    metric = MetricName.TOY
""",
    "twmd_registry/data/cards/toy.toml": """
emoji = "🧸"
color_from = "gray"
color_to = "gray"
headline = "The least similar words."
description = "For this test."
range_note = ""
reading = "Low for most texts."
limitations = ["It is a toy."]
further = []
papers = []

[scores]
unrelated = 0.1
words = 0.2
best = 1.0
partial = 0.5
worst = 0.1
misled = 0.3
""",
}
EDITS: dict[str, tuple[str, ...]] = {
    "twmd_registry/registry/names.py": ('    ENSEMBLE = "ensemble"\n', '    ENSEMBLE = "ensemble"\n    TOY = "toy"\n'),
    # A key is one declaration, in the order of the signature, its types for editors, and the stage that reads it.
    "twmd_registry/registry/keys.py": (
        '    _key("temperature", "t",',
        (
            '    _key("toughness", "tg", "what the toy subtracts", "a number from 1e-6 to 1e6", _scale, neutral=1.0),\n'
            '    _key("temperature", "t",'
        ),
        "    temperature: float | None\n",
        "    toughness: float | None\n    temperature: float | None\n",
    ),
    "twmd_registry/registry/metric_spec.py": (
        "    temperature: float | None\n",
        "    toughness: float | None\n    temperature: float | None\n",
    ),
}
"""By file, texts and their replacements."""
PRESETS = """
[embedded.metrics.toy]
layer = 4
special = "all"
centering = "none"
provenance = "Chosen for this test."
"""
PROGRAM = """
import evaluate
import twmd_registry
from twmd_registry.cli import main
from twmd_registry.demo.space import write_card
from twmd_registry.models.files import embedded_folder
from twmd_registry.plugins.sacrebleu import METRICS
from twmd_registry.plugins.torchmetrics import Toy

PREDICTIONS, REFERENCES = ["the cat sat on the mat"], ["a dog ran over the hill"]
score = twmd_registry.load("toy").score(PREDICTIONS, REFERENCES)
least = min(link for row in score.explain(0).similarities.tolist() for link in row)
assert abs(score.score - (least - 1)) < 1e-6, (score.score, least)
tougher = twmd_registry.load("toy", toughness=0.5).score(PREDICTIONS, REFERENCES)
assert abs(tougher.score - score.score - 0.5) < 1e-6
assert "|toughness:0.5|" in str(tougher.signature) and "toughness" not in str(score.signature)
assert main(["score", "ref.txt", "-i", "ref.txt", "-m", "toy", "--set", "toughness=0.5"]) == 0
assert twmd_registry.load(str(score.signature)).score(PREDICTIONS, REFERENCES) == score
result = evaluate.load("toy").compute(predictions=PREDICTIONS, references=REFERENCES)
assert abs(result["toy"] - score.score) < 1e-6
assert METRICS["toy"].__name__ == "Toy"
assert abs(METRICS["toy"]().corpus_score(PREDICTIONS, [REFERENCES]).score - 100 * score.score) < 1e-3
toy = Toy(toughness=0.5)
toy.update(PREDICTIONS, REFERENCES)
assert abs(toy.compute().item() - tougher.score) < 1e-6
card = write_card("toy")
assert "min_ij S_ij" in card and "It is a toy." in card
assert twmd_registry.load("toy", model=str(embedded_folder().parent), layer=4).requested.centering.kind == "batch"
assert main(["explain", "-m", "toy", "--full"]) == 0
print(score.signature)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in ("twmd_registry", "metrics"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_declared_metric_and_key_work_in_every_interface(copy: Path) -> None:
    for name, content in FILES.items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(content, encoding="utf-8")
    for name, edits in EDITS.items():
        text = (copy / name).read_text(encoding="utf-8")
        for before, after in zip(edits[::2], edits[1::2], strict=True):
            assert text.count(before) == 1, name
            text = text.replace(before, after)
        (copy / name).write_text(text, encoding="utf-8")
    with (copy / "twmd_registry" / "registry" / "presets.toml").open("a", encoding="utf-8") as file:
        file.write(PRESETS)
    (copy / "ref.txt").write_text("a dog\n", encoding="utf-8")
    environment, command = os.environ | {"PYTHONPATH": str(copy)}, [sys.executable, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=copy, env=environment)
    assert done.returncode == 0, done.stderr
    assert "min_ij S_ij" in done.stdout
    assert "what the toy subtracts" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("toy|model:sentence-transformers/all-MiniLM-L6-v2@")
