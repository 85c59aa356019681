"""Distillation: a teacher metric rates pairs of texts, from which a student learns as from people's ratings."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from twmd_registry.engine.pairs import Segments
from twmd_registry.engine.scorer import Scorer, score_segments
from twmd_registry.engine.shared_passes import depends_on_neighbours
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.files.tables import Columns
from twmd_registry.judgments.rated import RatedSegments, join, read_table_rows, select
from twmd_registry.judgments.sets import DIGITS, content_of
from twmd_registry.progress import Progress
from twmd_registry.registry.paths import write_atomically
from twmd_registry.train.data import LEAST_SEGMENTS, TrainingData, check_readable, segments_of
from twmd_registry.train.edits import edit_pairs
from twmd_registry.train.trained_files import writing

EDITED = 4
"""One in four of the pairs that can be edited is edited."""
CHUNK = 8192
"""Pairs that are rated at once: their ratings are kept when a run is interrupted."""


def read_pairs(path: Path, columns: Columns = Columns()) -> RatedSegments:  # noqa: B008 (immutable)
    """Read pairs of texts from a table, with NaN for ratings; without a column ``group`` the file is one group."""
    rows = read_table_rows(path, quoted_tsv=columns.quoted_tsv)
    if not rows:
        raise FileError(f"{path} holds no pair.")
    predictions, references = map(list, zip(*(row.segment(columns) for row in rows), strict=True))
    groups = [row.label("group") if "group" in row.values else path.stem for row in rows]
    return RatedSegments(groups, predictions, references, np.full(len(rows), np.nan), 0)


class Distillation(NamedTuple):
    """Pairs of texts, with NaN for ratings, and the teacher that is to rate them; the `EDITS` to be added, with their
    margin in standard deviations of the ratings; and what opens a progress bar of the rating.
    """

    teacher: Scorer
    pairs: tuple[TrainingData, ...]
    edits: tuple[str, ...] = ()
    margin: float = 1.0
    bar: Callable[[], AbstractContextManager[Progress | None]] = nullcontext

    def check(self, *, any_language: bool = False) -> None:
        """Refuse a teacher that cannot rate the pairs; with `any_language` only warn of scripts that it cannot read."""
        specs = [member.requested for member in self.teacher.members]
        if other := next((spec for spec in specs if spec.against is not None), None):
            problem = f"this {other.metric} compares them with sources (against={other.against})"
            raise SpecError(f"a teacher rates predictions against references, and {problem}: give another teacher.")
        for spec in {spec.model: spec for spec in specs}.values():
            for source in self.pairs:
                check_readable(source, spec, any_language=any_language)

    def stand_in(self, seed: int) -> list[TrainingData]:
        """Return what `rate` does with row numbers for ratings: enough to check the groups before the teacher rates."""
        if small := next((source for source in self.pairs if len(source.rated.ratings) < LEAST_SEGMENTS), None):
            raise InputError(f"{small.name} holds a single pair, whose rating teaches nothing: add pairs.")
        rows = [data.rated._replace(ratings=np.arange(len(data.rated.ratings), dtype=float)) for data in self.pairs]
        pairs = [data._replace(rated=unrated) for data, unrated in zip(self.pairs, rows, strict=True)]
        return [add_edits(data, self.edits, self.margin, seed) for data in pairs]

    def rate(self, folder: Path, seed: int) -> list[TrainingData]:
        """Return the pairs with the teacher's ratings, kept in a folder until the training is done, and their edits."""
        with self.bar() as progress, self.teacher:
            rated = [_rate(self.teacher, data, folder, progress) for data in self.pairs]
        return [add_edits(data, self.edits, self.margin, seed) for data in rated]


def _rate(teacher: Scorer, data: TrainingData, folder: Path, progress: Progress | None) -> TrainingData:
    """Return pairs with a teacher's scores as ratings, which are read from and written to a folder in chunks."""
    signature, segments, number = teacher.signature, segments_of(data), len(data.rated.predictions)
    digest = hashlib.sha256(f"{signature}|{content_of(data.rated)}".encode()).hexdigest()[:DIGITS]
    size, ratings, seconds = number if depends_on_neighbours(teacher) else CHUNK, [], 0.0
    for start in range(0, number, size):
        rows = range(start, min(start + size, number))
        kept = folder / f"ratings-{digest}-{start}.safetensors"
        content = dict[str, np.ndarray]()
        with suppress(OSError, SafetensorError):  # not rated yet, or a damaged file: rate again
            content = load_file(kept)
        if not content:
            piece = Segments(segments.predictions[start : rows.stop], segments.references[start : rows.stop])
            began = time.monotonic()
            (scored,) = score_segments([teacher], piece, progress=progress, rows=rows)
            took = np.array(time.monotonic() - began)
            with writing(folder):
                content = {"ratings": np.array(scored.scores), "seconds": took}
                write_atomically(kept, save(content))
        elif progress:
            progress(len(rows))
        ratings.append(content["ratings"])
        seconds += float(content["seconds"])
    rated = data.rated._replace(ratings=np.concatenate(ratings))
    return data._replace(rated=rated, teacher=signature, minutes=seconds / 60)


def add_edits(data: TrainingData, kinds: Sequence[str], margin: float, seed: int) -> TrainingData:
    """Edit one in `EDITED` of the predictions that can be edited, and rate it `margin` standard deviations of all
    ratings below its pair: a teacher may overlook a changed number.
    """
    if not kinds:
        return data
    rated = data.rated
    references = [texts if isinstance(texts, str) else texts[0] for texts in rated.references]
    edits = edit_pairs(rated.predictions, references, kinds, seed)[::EDITED]
    rows = np.array([row for row, _ in edits], dtype=np.int64)
    below = select(rated, rows)
    lowered = below.ratings - margin * rated.ratings.std()
    edited = below._replace(predictions=[text for _, text in edits], ratings=lowered, dropped=0)
    name = f"{data.name} with edits ({', '.join(kinds)}; margin {margin:g})"
    return data._replace(name=name, rated=join(rated, edited))
