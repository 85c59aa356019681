"""The protocols of the papers: how scores of WMT and of STS12-16 become the numbers of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import FileError, warn
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sts import read_sts
from twmd_registry.judgments.wmt import read_wmt
from twmd_registry.metaeval.group_correlation import measure_groups
from twmd_registry.metaeval.herbold import pair_lengths
from twmd_registry.metaeval.reproduce.rows import PaperTable
from twmd_registry.progress import Progress, expect

YEARS = ("STS12", "STS13", "STS14", "STS15", "STS16")
AVERAGE = "Avg."
"""The column of an average, the last of a table."""


class ColumnValues(NamedTuple):
    """What some scorers' agreement with people comes to, as a table prints it.

    Attributes:
        segments: By column, how many segments it is measured on.
        values: 100 times the correlations, NaN where one is undefined; shape (scorers, columns, statistics).
    """

    segments: dict[str, int]
    values: np.ndarray


def read_data(table: PaperTable, folder: Path) -> list[RatedSegments]:
    """Read what a table needs: a year of WMT, or all five of STS.

    Args:
        table: The table.
        folder: Holds ``wmt/wmt17.jsonl`` or ``wmt/wmt18.jsonl``, and ``sts/STS12`` to ``sts/STS16``.

    Raises:
        FileError: Something is missing (names it) or damaged.

    Warns:
        TwmdWarning: Rows were dropped: a text too short (WMT), not rated (STS).
    """
    if table.year:
        return read_years([table.year], folder)
    return read_sets([f"sts/{year}" for year in YEARS], read_sts, folder)


def read_years(years: Sequence[int], folder: Path) -> list[RatedSegments]:
    """Read years of WMT; raises and warns as `read_sets`.

    Args:
        years: Of two digits.
        folder: Holds ``wmt/wmt15.jsonl`` and so on.
    """
    return read_sets([f"wmt/wmt{year}.jsonl" for year in years], read_wmt, folder)


def read_sets(names: Sequence[str], read: Callable[[Path], RatedSegments], folder: Path) -> list[RatedSegments]:
    """Read sets of a folder.

    Args:
        names: Their places in it.
        read: Their reader.
        folder: The folder of the rated data.

    Raises:
        FileError: One is missing (names it) or damaged.

    Warns:
        TwmdWarning: Rows were dropped.
    """
    if missing := [name for name in names if not (folder / name).exists()]:
        raise FileError(f"expected {', '.join(missing)} in {folder}; not there.")
    return [read(folder / name) for name in names]


def groups_of(rated: RatedSegments, wanted: Sequence[str], name: str) -> RatedSegments:
    """The language pairs of a table.

    Args:
        rated: A year of WMT.
        wanted: The language pairs.
        name: Of the year, for the messages.

    Raises:
        FileError: One has no row.

    Warns:
        TwmdWarning: There are others, which are left out.
    """
    if missing := [pair for pair in wanted if pair not in rated.group]:
        raise FileError(f"{name} has no row of {', '.join(missing)}: the table's language pairs are {', '.join(wanted)}.")
    chosen = np.flatnonzero(np.isin(rated.group, wanted))
    if len(chosen) < len(rated.group):
        others = sorted(set(rated.group) - set(wanted))
        warn(f"{name}: language pairs that the table does not have, left out: {', '.join(others)} ({len(rated.group) - len(chosen)} rows).")
    return select(rated, chosen)


def in_order(found: ColumnValues, columns: Sequence[str]) -> np.ndarray:
    """Our numbers in the order of a paper's columns."""
    here = list(found.segments)
    return found.values[:, [here.index(column) for column in columns]]


def wmt(scorers: Sequence[Scorer], data: Sequence[RatedSegments], statistics: Sequence[str], progress: Progress | None = None) -> ColumnValues:
    """WMT: correlations per language pair in the data's order, then their plain mean, which is undefined where one of them is.

    Args:
        scorers: Who scores.
        data: One year.
        statistics: As for `measure_groups`.
        progress: As for `measure_groups`.
    """
    (rated,) = data
    expect(progress, len(rated.ratings))
    found = measure_groups(scorers, rated, statistics, progress)
    values = 100 * found.values
    return ColumnValues(found.segments | {AVERAGE: len(rated.ratings)}, np.concatenate([values, values.mean(axis=1, keepdims=True)], axis=1))


def sts(scorers: Sequence[Scorer], data: Sequence[RatedSegments], statistics: Sequence[str], progress: Progress | None = None) -> ColumnValues:
    """STS12-16: correlations per subset, their mean weighted by size within a year, the plain mean of the years.

    Pairs are batched by length within a subset (the mean of both texts' characters; how the authors measured it is not known here).

    Args:
        scorers: Who scores.
        data: The years.
        statistics: As for `measure_groups`.
        progress: As for `measure_groups`.
    """
    years = []
    expect(progress, sum(len(rated.ratings) for rated in data))
    for rated in data:
        found = measure_groups(scorers, by_length(rated), statistics, progress)
        years.append(np.average(100 * found.values, axis=1, weights=list(found.segments.values())))
    return ColumnValues({AVERAGE: sum(len(rated.ratings) for rated in data)}, np.mean(years, axis=0)[:, None])


def by_length(rated: RatedSegments) -> RatedSegments:
    """The same pairs, the shortest first: the order in which those of STS are batched."""
    return select(rated, np.argsort(pair_lengths(rated), kind="stable"))
