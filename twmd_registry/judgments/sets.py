"""Names of rated data, in files of a known format or on the Hugging Face Hub."""

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

from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.tables import TABLE_SUFFIXES, TableRow, form_of
from twmd_registry.judgments import corpora
from twmd_registry.judgments.mt_metrics_eval import read_mt_metrics_eval
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, read_table
from twmd_registry.messages import menu
from twmd_registry.registry.paths import is_there

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
"""Readers by format; mte is the layout of mt-metrics-eval, d2t is data-to-text.

A reader takes a path and keys. It drops unrated rows with a warning, and raises FileError, with the row, for a
malformed file.
"""


def read_rated(text: str) -> RatedSegments:
    """Read rated data by a name of `HUB`, or by ``FORMAT:PATH,key=value,...`` with one of `FORMATS`."""
    if text in HUB:
        return read_hub(text)
    read, path, keys = parse_name(text)
    _, *known = inspect.signature(read).parameters  # without the path
    unknown = next((key for key in keys if key not in known), None)
    if unknown is not None:
        hint = menu(unknown, known) if known else "this format takes none"
        raise SpecError(f"{text}: no key {unknown!r}; {hint}.")
    check_named(text)
    return read(path, **keys)


def check_named(text: str) -> None:
    """Check that rated data exist without reading them; argument and errors as for `read_rated`."""
    if text in HUB:
        return
    if not is_there(path := parse_name(text).path):
        raise FileError(f"{path}: {os.strerror(errno.ENOENT)}.")


class DataName(NamedTuple):
    """The parts of a name of local data."""

    read: Callable[..., RatedSegments]
    path: Path
    keys: dict[str, str]


def parse_name(text: str) -> DataName:
    """Split the name of local data into reader, path and keys; raise SpecError for any other name."""
    form, colon, rest = text.partition(":")
    file = text.partition(",")[0]
    if form not in FORMATS and form_of(file) in TABLE_SUFFIXES and (not colon or is_there(file)):
        form, colon, rest = "table", ":", text
    if not colon or form not in FORMATS:
        form, choices = (form, FORMATS) if colon else (text, [*HUB, *(f"{name}:PATH" for name in FORMATS)])
        expected = "FORMAT:PATH, as in table:ratings.csv,rating=score, or a data set on the Hub"
        raise SpecError(f"{text!r}: expected {expected}; {menu(form, choices)}.")
    parts = rest.split(",")
    keys: dict[str, str] = {}
    while len(parts) > 1 and "=" in parts[-1]:  # from the end, because a path may contain commas
        key, _, value = parts.pop().partition("=")
        if key in keys or not value:
            raise SpecError(f"{text}: expected {key}=VALUE once.")
        keys[key] = value
    path = ",".join(parts)
    return DataName(FORMATS[form], Path(os.path.expanduser(path)), keys)  # noqa: PTH111 (Path's raises for an unknown user)


def content_of(rated: RatedSegments) -> str:
    """Digest rated data: 12 hexadecimal digits of the sha256 of groups, texts, ratings, items and systems.

    A text equals a list of only this text. Dropped rows do not count.
    """
    references = [[texts] if isinstance(texts, str) else list(texts) for texts in rated.references]
    ratings = [float(rating) + 0.0 for rating in rated.ratings]  # turns -0.0 into 0.0
    content = [rated.group, rated.predictions, references, ratings, rated.item, rated.system]
    content += [sorted(rated.system_ratings.items())] if rated.system_ratings else []
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()[:DIGITS]


def title_of(text: str) -> str:
    """Return the name of data for reports, without its folder, and their grouping if ``by`` was chosen."""
    if text in HUB:
        return text
    _, path, keys = parse_name(text)
    name = path.name if path.name.strip(".") else path.resolve().name
    return f"{name},by={keys['by']}" if "by" in keys else name


def read_all_rated(texts: Iterable[str]) -> dict[str, RatedSegments]:
    """Read several data sets; raise SpecError for a duplicate, which would count twice."""
    data = {text: read_rated(text) for text in texts}
    first: dict[str, str] = {}
    for text, rated in data.items():
        if (same := first.setdefault(content_of(rated), text)) != text:
            raise SpecError(f"{same} and {text} contain the same rated texts: pass only one of them.")
    return data


def _into_english(year: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda row: row["lp"].endswith("-en") and str(row["year"]) == year


_SENTENCES, _QUESTIONS = ("sentence1", "sentence2", "label"), ("question1", "question2", "label")
_SUMMARIES = {"repo": "mteb/summeval", "item": "id", "several": True}
_DA = "RicardoRei/wmt-da-human-evaluation"
_WMT = {"columns": ("mt", "ref", "score"), "split": "train", "lowest": -math.inf, "group": "lp", "item": "src"}
"""Ratings of translations. Direct assessments are z-scores."""
HUB: dict[str, dict[str, Any]] = {
    "glue/stsb": {"repo": "nyu-mll/glue", "config": "stsb", "split": "validation", "columns": _SENTENCES},
    "glue/mrpc": {"repo": "nyu-mll/glue", "config": "mrpc", "columns": _SENTENCES},
    "glue/qqp": {"repo": "nyu-mll/glue", "config": "qqp", "split": "validation", "columns": _QUESTIONS},
    "wmt22-zh-en-mqm": _WMT
    | {
        "repo": "RicardoRei/wmt-mqm-human-evaluation",
        "system": "system",
        "keep": lambda row: row["lp"] == "zh-en" and str(row["year"]) == "2022" and row["system"] != "refA",
    },
    **{f"wmt{year}-to-en-da": _WMT | {"repo": _DA, "keep": _into_english(f"20{year}")} for year in range(17, 23)},
    **{
        f"mteb/{name}-sts": {"repo": f"mteb/{name}-sts", "columns": ("sentence1", "sentence2", "score")}
        for name in ("stsbenchmark", *(f"sts{year}" for year in range(12, 17)))
    },
    **{
        f"mteb/summeval/{rating}": _SUMMARIES | {"columns": ("machine_summaries", "human_summaries", rating)}
        for rating in corpora.SUMMARY_RATINGS
    },
}
"""Data sets on the Hub: the columns of prediction, reference and rating, and possibly group, item and system.

`keep` selects rows. Ratings below `lowest` (0) mean unrated. With `several`, rows have lists of texts and ratings.
"""


def read_hub(name: str) -> RatedSegments:
    """Read a data set of `HUB` from the Hub or its cache; rows without text or rating are left out."""
    labels = HUB[name]
    (prediction, reference, rating), has_lists = labels["columns"], "several" in labels
    lowest, split = labels.get("lowest", 0.0), labels.get("split", "test")
    read = list[RatedRow]()
    try:
        for row in filter(labels.get("keep"), _load(name, labels["repo"], labels.get("config"), split)):
            texts, ratings = (row[column] if has_lists else [row[column]] for column in (prediction, rating))
            for text, value in zip(texts, ratings, strict=True):
                rated = RatedRow(place=f"rated text {len(read) + 1}")
                # A row without a text or rating is left out.
                number = TableRow(f"{name}, {rated.place}", {rating: value}).rating(rating)
                if text and row[reference] and number is not None and number >= lowest:
                    group, item, system = (str(row[labels[role]]) if role in labels else None for role in _ROLES)
                    if group and item:
                        item = f"{group}:{item}"  # a sentence may be a source in two language pairs
                    rated = RatedRow(group or name, text, row[reference], number, item, system)
                read.append(rated)
    except KeyError as error:
        raise FileError(f"{name} on the Hub has no column {error}; its format has changed.") from error
    return gather(read, f"{name}, split {split}")


_ROLES = ("group", "item", "system")


def _load(name: str, repo: str, config: str | None, split: str) -> Any:
    import datasets

    try:
        return datasets.load_dataset(repo, config, split=split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:  # no network, or a damaged cache
        first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        hint = f"download it elsewhere with 'hf download --repo-type dataset {repo}' and set HF_HUB_OFFLINE=1"
        raise FileError(f"cannot read {name} from the Hub: {first}. Without a network, {hint}.") from error
