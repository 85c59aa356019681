"""Expert ratings of WMT's systems (MQM), in the layout of mt-metrics-eval."""

from __future__ import annotations

import math
from pathlib import Path

from twmd_registry.errors import FileError
from twmd_registry.rated.rows import Rated, Row, gather, read_lines

UNRATED = "None"


def read_mqm(folder: Path, pair: str = "zh-en", reference: str = "refA") -> Rated:
    """Read segments of every rated system, grouped by system; higher ratings are better (MQM counts errors below 0).

    Args:
        folder: Holds ``references/PAIR.REFERENCE.txt``, ``system-outputs/PAIR/SYSTEM.txt`` (a line per segment) and
            ``human-scores/PAIR.mqm.seg.score`` (lines ``SYSTEM<TAB>SCORE``, a system's in the order of segments; ``None`` is unrated).
        pair: A language pair.
        reference: Which reference the systems are compared with; itself, where it was rated like a system, is left out.

    Raises:
        FileError: A file is missing, or has another number of lines than there are segments, or a line has another form.
    """
    references = read_lines(folder / "references" / f"{pair}.{reference}.txt")
    path = folder / "human-scores" / f"{pair}.mqm.seg.score"
    ratings: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        system, tab, rating = line.partition("\t")
        if not tab or not system:
            raise FileError(f"{path}, line {number}: expected SYSTEM<TAB>SCORE, got {line!r}.")
        ratings.setdefault(system, []).append(rating)
    rows, dropped = [], 0
    for system, own in ratings.items():
        if system == reference:
            continue
        outputs = read_lines(folder / "system-outputs" / pair / f"{system}.txt")
        if not len(outputs) == len(own) == len(references):
            raise FileError(f"{path}: {system} has {len(own)} ratings and {len(outputs)} lines of output; there are {len(references)} references.")
        for i, rating in enumerate(own):
            if rating == UNRATED:
                dropped += 1
            else:
                rows.append(Row(system, outputs[i], references[i], _number(rating, f"{path}, segment {i + 1} of {system}")))
    return gather(rows, dropped, path)


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise FileError(f"{where}: expected a number or {UNRATED}, not {text!r}.")
    return number
