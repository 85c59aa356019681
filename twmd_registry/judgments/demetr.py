"""DEMETR (Karpinska et al. 2022): translations, each before and after a small edit of a known kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from twmd_registry.errors import SpecError
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather
from twmd_registry.judgments.reader import read_content, read_rows

UNEDITED, EDITED = "unedited", "edited"


def read_demetr(path: Path, first: str | None = None) -> RatedSegments:
    """Read JSON lines with ``pert_name, id, mt_sent, pert_sent, eng_sent``.

    Args:
        path: The file.
        first: How many rows of every kind of edit are read, from the first; None for all.

    Returns:
        Two segments per row, rated 1 (``mt_sent``) and 0 (``pert_sent``), of one item; grouped by the kind of edit.

    Raises:
        FileError: The file is missing, empty, or a row has another form; names the row.
        SpecError: `first` is not a whole number from 1.
    """
    if first is not None and (not first.isdecimal() or int(first) < 1):
        raise SpecError(f"first={first}: expected a whole number from 1.")
    most = int(first) if first else None

    def pairs() -> Iterator[RatedRow]:
        read = Counter[str]()
        for row in read_rows(path, read_content(path), ".jsonl"):
            kind, item = row.label("pert_name"), row.label("id")
            read[kind] += 1
            if most is None or read[kind] <= most:
                reference = row.text("eng_sent")
                yield RatedRow(kind, row.text("mt_sent"), reference, 1.0, item, UNEDITED)
                yield RatedRow(kind, row.text("pert_sent"), reference, 0.0, item, EDITED)

    return gather(pairs(), path)
