"""``twmd setup selfcheck``: compare scores on this machine with published ones."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import TwmdError
from twmd_registry.messages import collect_warnings
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import spec_with_keys

TOLERANCE = 1e-5
"""Largest difference that hardware and library versions may cause in float32."""
SIDES = ("prediction", "reference")
GOLDEN = Path(str(resources.files("twmd_registry"))) / "data" / "selfcheck.json"


class CheckedSetting(NamedTuple):
    """A setting's largest difference from its published scores (infinite without a score), and the problem, if any."""

    name: str
    difference: float
    problem: str | None


def check(options: RunOptions | None = None, progress: Progress | None = None) -> list[CheckedSetting]:
    """Score the packaged pairs with every metric, also untuned where its default is tuned, and compare with the
    published scores.
    """
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    results = []
    expect(progress, len(golden["metrics"]))
    for name, published in golden["metrics"].items():
        worst, problem = float("inf"), None
        try:
            scores = score_pairs(golden["pairs"], name, options)
        except TwmdError as error:
            problem = str(error)
        else:
            worst = float(np.max(np.abs(np.array(scores.scores) - np.array(published["scores"]))))
            if str(scores.signature) != published["signature"]:
                problem = f"the signature is {scores.signature} instead of {published['signature']}"
            elif worst > TOLERANCE:
                problem = f"off by more than {TOLERANCE:g}"
        results.append(CheckedSetting(name, worst, problem))
        if progress is not None:
            progress(1)
    return results


def score_pairs(pairs: list[dict[str, str]], metric: str, options: RunOptions | None = None) -> ScoreSet:
    """Score pairs with a metric."""
    with collect_warnings():  # deliberately, one text is empty and one has unknown tokens
        return Scorer(spec_with_keys(metric), options).score(*([pair[side] for pair in pairs] for side in SIDES))
