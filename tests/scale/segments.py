"""A small data set in the words of the tiny models, in every form that is read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests import tiny
from twmd_registry.engine.scorer import Scorer, load, score_with
from twmd_registry.scale.dataset import names_of

WORDS = [word for word in tiny.WORDS if word.isalpha()]

Segment = tuple[str, list[str]]

METRICS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("twmd", {"centering": "none"}),
    "corpus": ("bertscore_centered", {"centering": "corpus", "centering_side": "separate", "idf": "references"}),
    "idf": ("moverscore", {"centering": "none", "idf": "corpus", "ngram": 2}),
}
"""What a score may depend on: nothing else, or all rows in two ways."""


def draw_segments(number: int, seed: int = 3) -> list[Segment]:
    """Predictions, each with one to three references."""
    draw = np.random.default_rng(seed)

    def sentence() -> str:
        return " ".join(draw.choice(WORDS, draw.integers(2, 9)))

    return [(sentence(), [sentence() for _ in range(draw.integers(1, 4))]) for _ in range(number)]


def scorers(model: Path | str, *names: str) -> list[Scorer]:
    """Scorers of some metrics by a tiny model."""
    return [load(METRICS[name][0], model=str(model), layer=2, **METRICS[name][1]) for name in names or METRICS]


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write JSON lines; a text is a line as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_jsonl(path: Path, segments: list[Segment]) -> Path:
    return write_rows(path, [{"prediction": one, "references": several} for one, several in segments])


def write_csv(path: Path, segments: list[Segment]) -> Path:
    """Return one reference per row: CSV has no lists."""
    written = io.StringIO(newline="")
    csv.writer(written).writerows(
        [("id", "prediction", "reference"), *((i, one, several[0]) for i, (one, several) in enumerate(segments))]
    )
    path.write_text(written.getvalue(), encoding="utf-8", newline="")
    return path


def write_parquet(path: Path, segments: list[Segment], group: int = 4) -> Path:
    predictions, references = zip(*segments, strict=True)
    pq.write_table(
        pa.table({"id": range(len(segments)), "prediction": predictions, "references": references}),
        path,
        row_group_size=group,
    )
    return path


def assert_like_one_machine(rows: list[dict[str, Any]], own: list[Scorer], segments: list[Segment]) -> None:
    """Every segment has one row, with the score that a single machine gives."""
    found = {(row["prediction"], *(row.get("references") or row["reference"])): row for row in rows}
    keys = [(prediction, *references) for prediction, references in segments]
    assert len(rows) == len(segments)
    assert set(found) == set(keys)
    for scores, name in zip(score_with(own, *zip(*segments, strict=True)), names_of(own), strict=True):
        for column, values in ((name, scores.scores), (f"{name}_recall", scores.recall)):
            if values is not None:
                np.testing.assert_allclose([found[key][column] for key in keys], values, rtol=0, atol=1e-6)
