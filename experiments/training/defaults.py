"""Which packaged preset is a metric's default: the one that agrees best with human ratings on all development data.

The five kinds of data (`KINDS`) have equal weight. Of each, every n-th row is scored, at most `ROWS`. Its number is 100
times the mean of Pearson's r within groups. The preset with the highest mean over the five is the default. No test set
is used: WMT17, STS16, the tests of STS-B, MLQE-PE and MRPC, WMT22 and WMT23 are not read. The adapters were trained on
WMT15-16, as its column notes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.scorer import Scorer
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.tune import mean_correlations
from twmd_registry.progress import Progress

ROWS = 1500
"""Maximum number of scored rows per kind of data."""


class Kind(NamedTuple):
    """A kind of data: its sets in the data folder, and the suffix of the groups that count."""

    name: str
    sets: Sequence[str]
    ending: str = ""


KINDS = (
    Kind("WMT15-16 (trained on)", ("wmt:wmt/wmt15.jsonl", "wmt:wmt/wmt16.jsonl")),
    Kind("STS12-15", [f"sts:sts/STS{year}" for year in range(12, 16)]),
    Kind("MLQE dev, into English", ("mlqe:mlqe/dev.jsonl.xz",), "-en"),
    Kind("D2T", ("d2t:d2t/bagel.jsonl", "d2t:d2t/sfhotel.jsonl")),
    Kind("MRPC train", ("mrpc:mrpc/msr_paraphrase_train.txt",)),
)


def read_kind(kind: Kind, folder: Path) -> list[RatedSegments]:
    """Return the data sets of a kind, every n-th row of each, so all have at most `ROWS`."""
    sets = []
    for name in kind.sets:
        form, _, path = name.partition(":")
        rated = read_rated(f"{form}:{folder / path}")
        sets.append(select(rated, np.flatnonzero([group.endswith(kind.ending) for group in rated.group])))
    step = math.ceil(sum(len(rated.group) for rated in sets) / ROWS)
    return [select(rated, np.arange(0, len(rated.group), step)) for rated in sets]


def measure(scorers: Sequence[Scorer], kind: Kind, folder: Path, progress: Progress | None = None) -> np.ndarray:
    """Return 100 times every scorer's mean correlation over the groups of a kind of data, shape (scorers,)."""
    sets = read_kind(kind, folder)
    groups = [len(set(rated.group)) for rated in sets]
    correlations = [mean_correlations(scorers, rated, progress) for rated in sets]
    return np.asarray(100 * np.average(correlations, axis=0, weights=groups))
