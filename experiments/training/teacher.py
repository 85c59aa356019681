"""A teacher metric rates pairs of texts, and a student learns from the table as from human ratings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.training.edits import edit_pairs
from twmd_registry.engine.pairs import Segments, check_segments
from twmd_registry.engine.scorer import Scorer, score_segments
from twmd_registry.engine.shared_passes import depends_on_neighbours
from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.tables import Columns
from twmd_registry.judgments.rated import RatedSegments, read_table_rows, select
from twmd_registry.judgments.sets import content_of
from twmd_registry.progress import Progress
from twmd_registry.registry.paths import write_file

EDITED = 4
"""One editable pair in this many is edited."""
CHUNK = 8192
"""Pairs that are rated at once; an interrupted run keeps the ratings of whole chunks."""


def join(first: RatedSegments, second: RatedSegments) -> RatedSegments:
    """Concatenate two data sets, without items and systems."""
    return RatedSegments(
        first.group + second.group,
        first.predictions + second.predictions,
        [*first.references, *second.references],
        np.r_[first.ratings, second.ratings],
        first.dropped + second.dropped,
    )


def read_pairs(path: Path, columns: Columns = Columns()) -> RatedSegments:  # noqa: B008 (immutable)
    """Read pairs of texts from a table, with NaN for ratings; without a column ``group`` the file is one group."""
    rows = read_table_rows(path, quoted_tsv=columns.quoted_tsv)
    if not rows:
        raise FileError(f"{path} contains no pair.")
    predictions, references = map(list, zip(*(row.segment(columns) for row in rows), strict=True))
    groups = [row.label("group") if "group" in row.values else path.stem for row in rows]
    return RatedSegments(groups, predictions, references, np.full(len(rows), np.nan), 0)


def check_teacher(teacher: Scorer) -> None:
    """Raise SpecError for a teacher that compares predictions with their sources."""
    specs = [member.requested for member in teacher.members]
    if other := next((spec for spec in specs if spec.against is not None), None):
        problem = f"this {other.metric} compares them with sources (against={other.against})"
        raise SpecError(f"a teacher rates predictions against references, and {problem}: give another teacher.")


def rate(teacher: Scorer, pairs: RatedSegments, part: Path, progress: Progress | None = None) -> RatedSegments:
    """Return pairs with a teacher's scores as ratings.

    Args:
        teacher: Any metric that compares predictions with references.
        pairs: Pairs of texts, whose ratings are replaced.
        part: A file with the ratings of whole chunks, one line each, from which an interrupted run resumes. It is
            removed at the end, and ignored if it belongs to another teacher or other pairs.
        progress: Called with the number of pairs that were rated.
    """
    total = len(pairs.predictions)
    size = total if depends_on_neighbours(teacher) else CHUNK
    digest = hashlib.sha256(f"{teacher.signature}|{content_of(pairs)}|{size}".encode()).hexdigest()
    chunks, segments = _read_chunks(part, digest), check_segments(pairs.predictions, pairs.references)
    for start in range(0, total, size):
        rows = range(start, min(start + size, total))
        if start // size < len(chunks):
            if progress:
                progress(len(rows))
            continue
        chunk = Segments(segments.predictions[start : rows.stop], segments.references[start : rows.stop])
        (scored,) = score_segments([teacher], chunk, progress=progress, rows=rows)
        chunks.append(list(scored.scores))
        write_file(part, "".join(f"{json.dumps(line)}\n" for line in [digest, *chunks]).encode())
    part.unlink(missing_ok=True)
    return pairs._replace(ratings=np.concatenate(chunks))


def _read_chunks(part: Path, digest: str) -> list[list[float]]:
    if not part.is_file():
        return []
    first, *chunks = map(json.loads, part.read_text(encoding="utf-8").splitlines())
    return chunks if first == digest else []


def add_edits(rated: RatedSegments, kinds: Sequence[str], margin: float, seed: int) -> RatedSegments:
    """Edit one in `EDITED` of the editable predictions, and rate it `margin` standard deviations of all ratings below
    its pair, because a teacher may overlook a changed number.
    """
    references = [texts if isinstance(texts, str) else texts[0] for texts in rated.references]
    edits = edit_pairs(rated.predictions, references, kinds, seed)[::EDITED]
    below = select(rated, np.array([row for row, _ in edits], dtype=np.int64))
    lowered = below.ratings - margin * rated.ratings.std()
    return join(rated, below._replace(predictions=[text for _, text in edits], ratings=lowered, dropped=0))


def table_text(rated: RatedSegments) -> str:
    """Write rated pairs as JSON lines, as ``table:FILE`` reads them."""
    columns = zip(rated.group, rated.predictions, rated.references, rated.ratings.tolist(), strict=True)
    names = ("group", "prediction", "references", "rating")
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in columns]
    for row in rows:
        row["references"] = [row["references"]] if isinstance(row["references"], str) else row["references"]
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
