"""Rated data by their names on the Hugging Face Hub, read with `datasets`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.rated.rows import Rated, Row, gather


class HubData(NamedTuple):
    """Where a data set is on the Hub, and what its columns are called.

    Attributes:
        repo: Its repository.
        config: Its configuration; None where there is but one.
        split: Which of its splits is read; of GLUE's STS-B and QQP the development set, because the test sets' ratings are not published.
        columns: The prediction, the reference and the rating.
        lowest: Smaller ratings stand for none (GLUE writes -1).
        group: The column of the groups; None where there are none.
        keep: Which rows belong to it.
    """

    repo: str
    config: str | None
    split: str
    columns: tuple[str, str, str]
    lowest: float = 0.0
    group: str | None = None
    keep: Callable[[Mapping[str, Any]], bool] = bool


_SENTENCES = ("sentence1", "sentence2", "label")

HUB: dict[str, HubData] = {
    "glue/stsb": HubData("nyu-mll/glue", "stsb", "validation", _SENTENCES),
    "glue/mrpc": HubData("nyu-mll/glue", "mrpc", "test", _SENTENCES),
    "glue/qqp": HubData("nyu-mll/glue", "qqp", "validation", ("question1", "question2", "label")),
    "mteb/stsbenchmark-sts": HubData("mteb/stsbenchmark-sts", None, "test", ("sentence1", "sentence2", "score")),
    "wmt22-zh-en-mqm": HubData(
        "RicardoRei/wmt-mqm-human-evaluation",
        None,
        "train",
        ("mt", "ref", "score"),
        lowest=-math.inf,
        group="system",
        keep=lambda row: row["lp"] == "zh-en" and str(row["year"]) == "2022" and row["system"] != "refA",
    ),
}
"""What can be read by name."""


def read_hub(name: str, split: str | None = None) -> Rated:
    """Read a data set from the Hub, or from its cache.

    Args:
        name: One of `HUB`.
        split: Another split than the one named there.

    Returns:
        Its rated rows. Rows without a text or a rating (GLUE's test sets have -1) are left out, and counted.

    Raises:
        FileError: Not a name of `HUB`, no network and not in the cache, without a column that is needed, or without a rated row.
    """
    if name not in HUB:
        raise FileError(f"no data set is called {name!r} here; expected one of {', '.join(HUB)}.")
    wanted = HUB[name]
    rows = (row for row in _load(name, wanted, split or wanted.split) if wanted.keep(row))
    try:
        read = [_read(row, wanted, name) for row in rows]
    except KeyError as error:
        raise FileError(f"{name} on the Hub has no column {error}; its form has changed.") from error
    kept = [row for row in read if row is not None]
    return gather(kept, len(read) - len(kept), f"{name}, split {split or wanted.split}")


def _load(name: str, wanted: HubData, split: str) -> Any:
    import datasets

    try:
        return datasets.load_dataset(wanted.repo, wanted.config, split=split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:  # no network, no such split, a damaged cache
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileError(f"cannot read {name} from the Hub: {first}") from error


def _read(row: Mapping[str, Any], wanted: HubData, name: str) -> Row | None:
    """One row; None where a text or the rating is missing."""
    prediction, reference, rating = (row[column] for column in wanted.columns)
    if not prediction or not reference or rating is None or not (math.isfinite(rating) and rating >= wanted.lowest):
        return None
    return Row(str(row[wanted.group]) if wanted.group else name, prediction, reference, float(rating))
