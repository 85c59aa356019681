"""A year of SemEval's semantic textual similarity (Agirre et al. 2012 to 2016): pairs of sentences rated from 0 to 5."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.errors import FileError, warn
from twmd_registry.judgments.fields import read_rating
from twmd_registry.judgments.rows import RatedRow, RatedSegments, SkippedRow, gather, read_lines
from twmd_registry.judgments.stsb import HIGHEST

SENTENCES, RATINGS = "STS.input.", "STS.gs."


def read_sts(folder: Path) -> RatedSegments:
    """Read the rated pairs of a year, grouped by subset.

    Pairs without a rating are dropped, and counted. A subset of which only one of the two files is there (STS13's SMT is
    distributed without its sentences) is left out, named and counted.

    Args:
        folder: Holds ``STS.input.SUBSET.txt`` (two tab-separated sentences per line) and ``STS.gs.SUBSET.txt`` (a rating per line; empty is
            unrated).

    Raises:
        FileError: The folder or its files are missing, two files of a subset differ in length, or a line has another form; names the line.
    """
    sentences, ratings = _find(folder, SENTENCES), _find(folder, RATINGS)
    rows: list[RatedRow | SkippedRow] = []
    for subset in sorted(sentences.keys() | ratings.keys()):
        if subset in sentences and subset in ratings:
            rows += _read_subset(subset, sentences[subset], ratings[subset])
            continue
        lines = len(read_lines(sentences.get(subset) or ratings[subset]))
        warn(f"{folder}: {subset} has no {RATINGS if subset in sentences else SENTENCES}{subset}.txt; left out with its {lines} lines.")
        rows += [SkippedRow(f"{subset}, line {number}", subset) for number in range(1, lines + 1)]
    return gather(rows, folder)


def _find(folder: Path, prefix: str) -> dict[str, Path]:
    """Files of one kind, by subset."""
    found = {path.name.removeprefix(prefix).removesuffix(".txt"): path for path in folder.glob(f"{prefix}*.txt")}
    if not found:
        raise FileError(f"{folder} holds no {prefix}SUBSET.txt; expected the folder of a year of STS.")
    return found


def _read_subset(subset: str, sentences: Path, ratings: Path) -> list[RatedRow | SkippedRow]:
    """A subset's lines."""
    pairs, rated = read_lines(sentences), read_lines(ratings)
    if len(pairs) != len(rated):
        raise FileError(f"{ratings} has {len(rated)} lines, and {sentences.name} {len(pairs)}; expected as many.")
    rows: list[RatedRow | SkippedRow] = []
    for number, (pair, rating) in enumerate(zip(pairs, rated, strict=True), 1):
        first, tab, second = pair.partition("\t")
        if not tab or "\t" in second:
            raise FileError(f"{sentences}, line {number}: expected two sentences with a tab between them, got {pair!r}.")
        value = read_rating(rating, f"{ratings}, line {number}", 0, HIGHEST) if rating.strip() else None
        rows.append(SkippedRow(f"{subset}, line {number}", subset) if value is None else RatedRow(subset, first, second, value))
    return rows
