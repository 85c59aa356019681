"""Distillation: a teacher metric rates pairs of texts, from which a student learns as from people's ratings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import FileError
from twmd_registry.judgments.rated import RatedSegments, join, read_table_rows, select
from twmd_registry.judgments.reader import Columns
from twmd_registry.judgments.sets import DIGITS, content_of
from twmd_registry.progress import Progress
from twmd_registry.registry.paths import write_atomically
from twmd_registry.train.data import TrainingData
from twmd_registry.train.edits import edit_pairs
from twmd_registry.train.trained_files import writing

EDITED = 4
"""One pair in four is edited."""


def read_pairs(path: Path, columns: Columns = Columns()) -> RatedSegments:  # noqa: B008 (immutable)
    """Read pairs of texts from a table, with NaN for ratings.

    A column ``group`` names groups (language pairs), in which a loss correlates scores; without it the file is one
    group.
    """
    rows = read_table_rows(path)
    if not rows:
        raise FileError(f"{path} holds no pair.")
    predictions, references = map(list, zip(*(row.segment(columns) for row in rows), strict=True))
    groups = [row.label("group") if "group" in row.values else path.stem for row in rows]
    return RatedSegments(groups, predictions, references, np.full(len(rows), np.nan), 0)


def rate_pairs(teacher: Scorer, data: TrainingData, folder: Path, *, progress: Progress | None = None) -> TrainingData:
    """Rate pairs by a teacher's scores, which are kept in a folder until training is done; those of an earlier,
    interrupted run are read again.
    """
    signature, pairs = teacher.signature, data.rated
    digest = hashlib.sha256(f"{signature}|{content_of(pairs)}".encode()).hexdigest()[:DIGITS]
    kept = folder / f"ratings-{digest}.safetensors"
    if kept.is_file():
        ratings = load_file(kept)["ratings"]
    else:
        scored = score_all([teacher], pairs.predictions, pairs.references, progress=progress)[0]
        ratings = np.array(scored.scores)
        with writing(folder):
            write_atomically(kept, save({"ratings": ratings}))
    return data._replace(rated=pairs._replace(ratings=ratings), teacher=signature)


def add_edits(data: TrainingData, kinds: Sequence[str], margin: float, seed: int) -> TrainingData:
    """Add edited predictions to rated pairs, rated below what they were made from.

    A teacher that overlooks a changed number cannot teach it: the rating of an edit is that of its pair less `margin`
    standard deviations of all ratings, whatever the teacher would say. One pair in `EDITED` is edited, if it can be, in
    ways that are named by `EDITS`.
    """
    rated = data.rated
    references = [own if isinstance(own, str) else own[0] for own in rated.references]
    edits = edit_pairs(rated.predictions, references, kinds, seed)[::EDITED]
    rows = np.array([row for row, _ in edits], dtype=np.int64)
    below = select(rated, rows)
    lowered = below.ratings - margin * rated.ratings.std()
    edited = below._replace(predictions=[text for _, text in edits], ratings=lowered, dropped=0)
    name = f"{data.name} with edits ({', '.join(kinds)}; margin {margin:g})"
    return data._replace(name=name, rated=join(rated, edited))
