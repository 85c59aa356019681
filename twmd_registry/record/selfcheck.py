"""``twmd selfcheck``: compare this installation's scores with published ones."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import TwmdError, collect_warnings
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.paths import write_atomically
from twmd_registry.registry.spec import make_spec

TOLERANCE = 1e-5
"""Largest difference of a score: what may change with hardware and library versions in float32."""
GOLDEN = Path(str(resources.files("twmd_registry"))) / "data" / "selfcheck.json"


def check(
    options: RunOptions | None = None, progress: Progress | None = None
) -> list[tuple[MetricName, float, str | None]]:
    """Score the packaged pairs by every metric's default preset and compare with the published scores: by metric, the
    largest difference (infinite without a score) and the problem in words, if there is one.
    """
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    results = []
    expect(progress, len(golden["metrics"]))
    for name, published in golden["metrics"].items():
        worst, problem = float("inf"), None
        try:
            (scores,) = _score(golden["pairs"], [name], options)
        except TwmdError as error:
            problem = str(error)
        else:
            worst = float(np.max(np.abs(np.array(scores.scores) - np.array(published["scores"]))))
            if str(scores.signature) != published["signature"]:
                problem = f"another signature: {scores.signature} instead of {published['signature']}"
            elif worst > TOLERANCE:
                problem = f"off by more than {TOLERANCE:g}"
        results.append((MetricName(name), worst, problem))
        if progress is not None:
            progress(1)
    return results


def add_missing_scores(golden: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the golden file with scores of the metrics that had none, in the catalogue's order."""
    new = [str(metric) for metric in MetricName if metric not in golden["metrics"]]
    scored = zip(new, _score(golden["pairs"], new, None) if new else [], strict=True)
    known = golden["metrics"] | {
        metric: {"signature": str(scores.signature), "scores": [round(x, 7) for x in scores.scores]}
        for metric, scores in scored
    }
    return golden | {"metrics": {str(metric): known[metric] for metric in MetricName}}


def _score(pairs: list[dict[str, str]], metrics: list[str], options: RunOptions | None) -> list[ScoreSet]:
    scorers = [Scorer(make_spec(metric), options) for metric in metrics]
    with collect_warnings():  # one text is empty and one holds unknown tokens on purpose
        return score_all(scorers, [pair["prediction"] for pair in pairs], [pair["reference"] for pair in pairs])


if __name__ == "__main__":  # what `make goldens` runs
    content = add_missing_scores(json.loads(GOLDEN.read_text(encoding="utf-8")))
    write_atomically(GOLDEN, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
