"""Add the scores of a new metric to the golden scores of `twmd setup selfcheck` (``make goldens``)."""

from __future__ import annotations

import json
from typing import Any

from twmd_registry.record.selfcheck import GOLDEN, score_pairs
from twmd_registry.registry.names import DEFAULT_PRESET, MetricName
from twmd_registry.registry.presets import default_preset


def is_tuned(metric: MetricName) -> bool:
    """Return whether a metric's default is tuned, so its untuned preset has scores of its own."""
    return default_preset(metric, None).name == DEFAULT_PRESET


def add_missing_scores(golden: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the golden file with scores of the metrics that had none, in the catalogue's order."""
    known = golden["metrics"]
    names = [*map(str, MetricName), *(f"{metric};preset=embedded" for metric in MetricName if is_tuned(metric))]
    for metric in set(names) - known.keys():
        scores = score_pairs(golden["pairs"], metric)
        rounded = [round(x, 7) for x in scores.scores]
        known |= {metric: {"signature": str(scores.signature), "scores": rounded}}
    return golden | {"metrics": {metric: known[metric] for metric in names}}


if __name__ == "__main__":
    content = add_missing_scores(json.loads(GOLDEN.read_text(encoding="utf-8")))
    GOLDEN.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
