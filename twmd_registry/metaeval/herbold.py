"""The STSScore paper's analysis (Herbold 2024): how similarity measures agree with ratings and classes of four data sets.

Data with ratings (STS-B, WMT22) get Pearson's r and Spearman's rho; data with classes (MRPC, QQP) the mean and standard deviation of
either class, and the area under the ROC curve. Table 4 splits every data set at the median length of a pair, in characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import FileError, InputError
from twmd_registry.judgments.hub_data import read_hub
from twmd_registry.judgments.mt_metrics_eval import read_mt_metrics_eval
from twmd_registry.judgments.paraphrases import read_mrpc, read_qqp
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sts import read_stsb
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.metaeval.published import HERBOLD, HERBOLD_COLUMNS
from twmd_registry.metaeval.roc import area
from twmd_registry.metaeval.table import NOT_HERE, TextTable

OURS, THEIRS = "here", "paper"


class StsDataset(NamedTuple):
    """One of the paper's data sets.

    Attributes:
        read: Its reader.
        places: Where it is looked for below the data folder; the first that is there is taken.
        hub: Its name on the Hub (`twmd_registry.judgments.hub_data`).
        classes: Whether its ratings are two classes, 0 and 1.
    """

    read: Callable[[Path], RatedSegments]
    places: tuple[str, ...]
    hub: str
    classes: bool


SOURCES: dict[str, StsDataset] = {
    "STS-B": StsDataset(read_stsb, ("stsb/test.csv",), "mteb/stsbenchmark-sts", classes=False),
    "MRPC": StsDataset(read_mrpc, ("mrpc/msr_paraphrase_test.txt",), "glue/mrpc", classes=True),
    "QQP": StsDataset(read_qqp, ("qqp/quora_duplicate_questions.tsv", "qqp/train.tsv"), "glue/qqp", classes=True),
    "WMT22-ZH-EN": StsDataset(partial(read_mt_metrics_eval, pair="zh-en"), ("wmt22",), "wmt22-zh-en-mqm", classes=False),
}
"""In the paper's order. Of QQP the training data (from the Hub, GLUE's development set), because the test's labels are not published."""


def find_data(folder: Path | None, *, hub: bool = False) -> tuple[dict[str, RatedSegments], list[str]]:
    """Read the data sets that can be had.

    Args:
        folder: Where they are, each under one of its `StsDataset.places`; None for no folder.
        hub: Whether to read from the Hub what the folder does not have.

    Returns:
        The data by name, and what is missing, with the places where it was looked for.

    Raises:
        FileError: There is no such folder, it has none of them, or one is damaged.
    """
    if folder and not folder.is_dir():
        raise FileError(f"{folder} is not a folder; expected one that holds {', '.join(source.places[0] for source in SOURCES.values())}.")
    found, missing = {}, []
    for name, source in SOURCES.items():
        path = next((folder / place for place in source.places if (folder / place).exists()), None) if folder else None
        if path:
            found[name] = source.read(path)
            continue
        lacking = f"{name} (no {' or '.join(source.places)} in {folder})" if folder else name
        try:
            if hub:
                found[name] = read_hub(source.hub)
            else:
                missing.append(lacking)
        except FileError as error:
            missing.append(f"{lacking} ({error})")
    if not found:
        raise FileError(f"none of the data sets is here: {'; '.join(missing)}.")
    return found, missing


def cells(data: Mapping[str, RatedSegments], scores: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """A row of Tables 1 to 4: what one measure's scores of every data set come to.

    Args:
        data: The data sets.
        scores: By data set, a score per segment; a data set that is not here is left out.
    """
    found = dict.fromkeys(HERBOLD_COLUMNS, NOT_HERE)
    for name, own in scores.items():
        ratings = data[name].ratings
        if SOURCES[name].classes:
            found |= {f"{name} neg": _moments(own[ratings == 0]), f"{name} pos": _moments(own[ratings == 1])}
        else:
            found |= {f"{name} r": _correlation("pearson", own, ratings), f"{name} rho": _correlation("spearman", own, ratings)}
    return tuple(found.values())


def _moments(scores: np.ndarray) -> str:
    """Mean and sample standard deviation."""
    return f"{scores.mean():.2f} ({scores.std(ddof=1):.2f})" if len(scores) > 1 else NOT_HERE


def _correlation(statistic: str, scores: np.ndarray, ratings: np.ndarray) -> str:
    try:
        return f"{correlate(statistic, scores, ratings):.2f}"
    except InputError:
        return NOT_HERE


def table(name: str, data: Mapping[str, RatedSegments], rows: Mapping[str, Mapping[str, np.ndarray]]) -> TextTable:
    """Lay measures out beside the paper's numbers.

    Args:
        name: ``Table 1`` to ``Table 4``.
        data: The data sets.
        rows: By the paper's name of the row, or another, the scores by data set.
    """
    published, laid = HERBOLD[name], []
    for row in dict.fromkeys([*rows, *published]):
        if row in rows:
            laid.append((row, OURS, *cells(data, rows[row])))
        if row in published:
            laid.append((row, THEIRS, *published[row]))
    return TextTable(name, ("measure", "source", *HERBOLD_COLUMNS), laid)


def areas(data: Mapping[str, RatedSegments], rows: Mapping[str, Mapping[str, np.ndarray]]) -> TextTable:
    """The areas under the ROC curves, which the paper draws (Figure 4)."""
    names = [name for name in data if SOURCES[name].classes]
    laid = [(row, *(_area(scores[name], data[name].ratings == 1) for name in names)) for row, scores in rows.items()]
    return TextTable("AUC", ("measure", *names), laid)


def _area(scores: np.ndarray, positive: np.ndarray) -> str:
    return f"{area(scores, positive):.3f}" if 0 < positive.sum() < len(positive) else NOT_HERE


def halves(
    data: Mapping[str, RatedSegments], scores: Mapping[str, np.ndarray]
) -> tuple[dict[str, dict[str, RatedSegments]], dict[str, dict[str, np.ndarray]]]:
    """Split every data set at the median length of its pairs, the mean of both texts' characters.

    The paper does not say how it measures a pair; its median of STS-B comes out so (44), that of MRPC (116) does not (113).

    Returns:
        Data and scores by half (``Shorter``, ``Longer``: the median's own length is longer) and name.
    """
    split: dict[str, dict[str, RatedSegments]] = {"Shorter": {}, "Longer": {}}
    own: dict[str, dict[str, np.ndarray]] = {"Shorter": {}, "Longer": {}}
    for name, rated in data.items():
        lengths = pair_lengths(rated)
        longer = lengths >= np.median(lengths)
        for half, chosen in (("Shorter", ~longer), ("Longer", longer)):
            split[half][name] = select(rated, np.flatnonzero(chosen))
            own[half][name] = scores[name][chosen]
    return split, own


def pair_lengths(rated: RatedSegments) -> np.ndarray:
    """Characters of a pair's texts, their mean; shape (segments,)."""
    return np.array([(len(one) + len(other)) / 2 for one, other in zip(rated.predictions, rated.references, strict=True)])


def length_table(data: Mapping[str, RatedSegments], scores: Mapping[str, np.ndarray]) -> TextTable:
    """Table 4: STSScore on all pairs, the shorter and the longer ones."""
    split, own = halves(data, scores)
    laid = []
    for row in HERBOLD["Table 4"]:
        here = cells(data, scores) if row == "All" else cells(split[row], own[row])
        laid += [(row, OURS, *here), (row, THEIRS, *HERBOLD["Table 4"][row])]
    return TextTable("Table 4", ("measure", "source", *HERBOLD_COLUMNS), laid)
