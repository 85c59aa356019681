"""Rated data by their names on the Hugging Face Hub, read with `datasets`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, menu
from twmd_registry.judgments.generation import SUMMARY_RATINGS
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather


class HubData(NamedTuple):
    """Where a data set is on the Hub, and what its columns are called.

    Attributes:
        config: Its configuration; None where the repository has a single configuration.
        split: Of GLUE's STS-B and QQP the development set: the ratings of the test sets are not published.
        columns: The prediction, the reference and the rating.
        lowest: Smaller ratings stand for none (GLUE writes -1).
        item: The column that says what a row is a version of.
        keep: Which rows belong to it.
        several: Whether a row holds a list of predictions and the list of their ratings.
    """

    repo: str
    config: str | None
    split: str
    columns: tuple[str, str, str]
    lowest: float = 0.0
    group: str | None = None
    item: str | None = None
    system: str | None = None
    keep: Callable[[Mapping[str, Any]], bool] = bool
    several: bool = False


def _into_english(year: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda row: row["lp"].endswith("-en") and str(row["year"]) == year


_SENTENCES = ("sentence1", "sentence2", "label")
_WMT = HubData(
    "RicardoRei/wmt-da-human-evaluation",
    None,
    "train",
    ("mt", "ref", "score"),
    lowest=-math.inf,
    group="lp",
    item="src",
)
"""Ratings of translations; direct assessments are z-scores."""
HUB: dict[str, HubData] = {
    "glue/stsb": HubData("nyu-mll/glue", "stsb", "validation", _SENTENCES),
    "glue/mrpc": HubData("nyu-mll/glue", "mrpc", "test", _SENTENCES),
    "glue/qqp": HubData("nyu-mll/glue", "qqp", "validation", ("question1", "question2", "label")),
    "mteb/stsbenchmark-sts": HubData("mteb/stsbenchmark-sts", None, "test", ("sentence1", "sentence2", "score")),
    "wmt22-zh-en-mqm": _WMT._replace(
        repo="RicardoRei/wmt-mqm-human-evaluation",
        system="system",
        keep=lambda row: row["lp"] == "zh-en" and str(row["year"]) == "2022" and row["system"] != "refA",
    ),
    **{f"wmt{year}-to-en-da": _WMT._replace(keep=_into_english(f"20{year}")) for year in range(17, 23)},
    **{
        f"mteb/sts{year}-sts": HubData(f"mteb/sts{year}-sts", None, "test", ("sentence1", "sentence2", "score"))
        for year in range(12, 17)
    },
    **{
        f"mteb/summeval/{rating}": HubData(
            "mteb/summeval", None, "test", ("machine_summaries", "human_summaries", rating), item="id", several=True
        )
        for rating in SUMMARY_RATINGS
    },
}
"""What can be read by name."""


def read_hub(name: str, split: str | None = None) -> RatedSegments:
    """Read a data set from the Hub, or from its cache, by a name of `HUB`; rows without text or rating are left out.

    Raises FileError for another name, without network and cache, a column that is needed, or a rated row.
    """
    if name not in HUB:
        raise FileError(f"no data set is called {name!r} here; {menu(name, HUB)}.")
    wanted = HUB[name]
    rows = (row for row in _load(name, wanted, split or wanted.split) if wanted.keep(row))
    try:
        single = (row for whole in rows for row in _unfold(whole, wanted, name))
        read = [_read(row, number, wanted, name) for number, row in enumerate(single, 1)]
    except KeyError as error:
        raise FileError(f"{name} on the Hub has no column {error}; its form has changed.") from error
    return gather(read, f"{name}, split {split or wanted.split}")


def _load(name: str, wanted: HubData, split: str) -> Any:
    import datasets

    client = logging.getLogger("huggingface_hub")
    before = client.level
    client.setLevel(logging.ERROR)  # or every try without a network is a line
    try:
        return datasets.load_dataset(wanted.repo, wanted.config, split=split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:  # no network, or a damaged cache
        first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise FileError(
            f"cannot read {name} from the Hub: {first}. Where there is no network, get it elsewhere with "
            f"'hf download --repo-type dataset {wanted.repo}' and set HF_HUB_OFFLINE=1."
        ) from error
    finally:
        client.setLevel(before)


def _unfold(row: Mapping[str, Any], wanted: HubData, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield a row per prediction."""
    if not wanted.several:
        yield row
        return
    prediction, _, rating = wanted.columns
    if len(row[prediction]) != len(row[rating]):
        raise FileError(f"{name} on the Hub has a row of {len(row[prediction])} texts and {len(row[rating])} ratings.")
    for text, value in zip(row[prediction], row[rating], strict=True):
        yield {**row, prediction: text, rating: value}


def _read(row: Mapping[str, Any], number: int, wanted: HubData, name: str) -> RatedRow:
    """Read a row; it is left out where a text or the rating is missing."""
    prediction, reference, rating = (row[column] for column in wanted.columns)  # GLUE's test sets have rating -1
    if not prediction or not reference or rating is None or not (math.isfinite(rating) and rating >= wanted.lowest):
        return RatedRow(place=f"rated text {number}")
    columns = wanted.group, wanted.item, wanted.system
    group, item, system = (str(row[column]) if column else None for column in columns)
    if group and item:
        item = f"{group}:{item}"  # the same sentence may be a source in two language pairs
    return RatedRow(group or name, prediction, reference, float(rating), item, system)
