"""The rule that chooses a metric's default preset."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import twmd_registry
from experiments.training import defaults
from experiments.training.defaults import Kind, measure, read_kind


def test_every_nth_row_of_counted_groups_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"lang": lang, "candidate": "the cat sat here"[: 4 + number], "reference": "the cat sat here", "score": number}
        for lang in ("de-en", "en-de", "fi-en")
        for number in range(12)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(defaults, "ROWS", 9)
    kind = Kind("a", ("wmt:a.jsonl",), "-en")
    (rated,) = read_kind(kind, tmp_path)
    assert rated.group == ["de-en"] * 4 + ["fi-en"] * 4
    assert rated.ratings.tolist() == [0.0, 3.0, 6.0, 9.0] * 2
    scorers = [twmd_registry.load("twmd"), twmd_registry.load("sbert")]
    scores = [metric.score(rated.predictions[:4], rated.references[:4]).scores for metric in scorers]
    expected = [100 * np.corrcoef(values, [0, 3, 6, 9])[0, 1] for values in scores]
    assert measure(scorers, kind, tmp_path) == pytest.approx(expected, abs=1e-3)
