"""One way to name rated data, wherever they are: in files of a known format, or on the Hugging Face Hub."""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, SpecError, menu
from twmd_registry.judgments import corpora
from twmd_registry.judgments.mt_metrics_eval import read_mt_metrics_eval
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, read_table

DIGITS = 12
FORMATS: dict[str, Callable[..., RatedSegments]] = {
    "wmt": corpora.read_wmt,
    "mlqe": corpora.read_mlqe,
    "sts": corpora.read_sts,
    "stsb": corpora.read_stsb,
    "mrpc": corpora.read_mrpc,
    "qqp": corpora.read_qqp,
    "mte": read_mt_metrics_eval,
    "d2t": corpora.read_data_to_text,
    "demetr": corpora.read_demetr,
    "summeval": corpora.read_summeval,
    "summaries": corpora.read_summaries,
    "tac": corpora.read_tac,
    "table": read_table,
}
"""Readers by the names of their formats; mte is the layout of mt-metrics-eval, d2t is data-to-text.

A reader takes a path and its keys. It drops rows that are not rated, counts them in a warning, and raises FileError,
with the row, for what has another form.
"""


def read_rated(text: str) -> RatedSegments:
    """Read rated data by a name of `HUB`, or ``FORMAT:PATH`` or ``FORMAT:PATH,key=value,...`` with one of `FORMATS`."""
    if text in HUB:
        return read_hub(text)
    read, path, keys = parse_name(text)
    _, *known = inspect.signature(read).parameters  # the first is the path
    unknown = next((key for key in keys if key not in known), None)
    if unknown is not None:
        hint = menu(unknown, known) if known else "this format takes none"
        raise SpecError(f"{text}: no key {unknown!r}; {hint}.")
    return read(path, **keys)


def is_rated_name(text: str) -> bool:
    """Return whether a word names rated data: on the Hub, or by one of `FORMATS` before a colon."""
    form, colon, _ = text.partition(":")
    return text in HUB or (bool(colon) and form in FORMATS)


def check_named(text: str) -> None:
    """Check that rated data exist, without reading them; argument and errors as for `read_rated`."""
    if text in HUB:
        return
    _, path, _ = parse_name(text)
    if not path.exists():
        raise FileError(f"{path}: {os.strerror(errno.ENOENT)}.")


def parse_name(text: str) -> tuple[Callable[..., RatedSegments], Path, dict[str, str]]:
    """Split the name of local data into reader, path and keys; raises SpecError, with the form, for another name."""
    form, colon, rest = text.partition(":")
    if not colon or form not in FORMATS:
        form, choices = (form, FORMATS) if colon else (text, [*HUB, *(f"{name}:PATH" for name in FORMATS)])
        expected = "FORMAT:PATH, as in table:ratings.csv,rating=score, or a data set on the Hub"
        raise SpecError(f"{text!r}: expected {expected}; {menu(form, choices)}.")
    parts = rest.split(",")
    keys: dict[str, str] = {}
    while len(parts) > 1 and "=" in parts[-1]:  # from the end: a path may hold commas
        key, _, value = parts.pop().partition("=")
        if key in keys or not value:
            raise SpecError(f"{text}: expected {key}=VALUE once.")
        keys[key] = value
    path = ",".join(parts)
    return FORMATS[form], Path(path).expanduser(), keys


def content_of(rated: RatedSegments) -> str:
    """Digest rated data: 12 hexadecimal digits of the sha256 of their groups, texts, ratings, items and systems.

    A text and a list that holds only this text are equal references; dropped rows do not count.
    """
    references = [[own] if isinstance(own, str) else list(own) for own in rated.references]
    ratings = [float(rating) + 0.0 for rating in rated.ratings]  # -0.0 + 0.0 is 0.0: the same rating
    content = [rated.group, rated.predictions, references, ratings, rated.item, rated.system]
    content += [sorted(rated.system_ratings.items())] if rated.system_ratings else []
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()[:DIGITS]


def title_of(text: str) -> str:
    """Return the name of data for reports, without a path, and what their groups are where that was chosen (``by``)."""
    if text in HUB:
        return text
    _, path, keys = parse_name(text)
    name = path.name if path.name.strip(".") else path.resolve().name
    return f"{name},by={keys['by']}" if "by" in keys else name


def read_all_rated(texts: Iterable[str]) -> dict[str, RatedSegments]:
    """Read several data sets as `read_rated`; raises SpecError where two are the same and would count twice."""
    data = {text: read_rated(text) for text in texts}
    first: dict[str, str] = {}
    for text, rated in data.items():
        if (same := first.setdefault(content_of(rated), text)) != text:
            raise SpecError(f"{same} and {text} hold the same rated texts: name them once.")
    return data


class HubData(NamedTuple):
    """Where a data set is on the Hub, and what its columns are called: prediction, reference and rating.

    Ratings below `lowest` stand for none (GLUE writes -1); with `several`, a row holds a list of predictions and the
    list of their ratings.
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
_DA = "RicardoRei/wmt-da-human-evaluation"
_WMT = HubData(_DA, None, "train", ("mt", "ref", "score"), lowest=-math.inf, group="lp", item="src")
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
        for rating in corpora.SUMMARY_RATINGS
    },
}


def read_hub(name: str) -> RatedSegments:
    """Read a data set from the Hub, or from its cache, by a name of `HUB`; rows without text or rating are left out."""
    wanted = HUB[name]
    prediction, _, rating = wanted.columns
    rows = list[Mapping[str, Any]]()
    try:
        for row in filter(wanted.keep, _load(name, wanted)):
            texts, ratings = (row[column] if wanted.several else [row[column]] for column in (prediction, rating))
            rows += [row | {prediction: text, rating: own} for text, own in zip(texts, ratings, strict=True)]
        read = [_read(row, number, wanted, name) for number, row in enumerate(rows, 1)]
    except KeyError as error:
        raise FileError(f"{name} on the Hub has no column {error}; its form has changed.") from error
    return gather(read, f"{name}, split {wanted.split}")


def _load(name: str, wanted: HubData) -> Any:
    import datasets

    try:
        return datasets.load_dataset(wanted.repo, wanted.config, split=wanted.split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:  # no network, or a damaged cache
        first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise FileError(
            f"cannot read {name} from the Hub: {first}. Where there is no network, get it elsewhere with "
            f"'hf download --repo-type dataset {wanted.repo}' and set HF_HUB_OFFLINE=1."
        ) from error


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
