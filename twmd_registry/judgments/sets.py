"""One way to name rated data, wherever they are."""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from twmd_registry.errors import FileError, SpecError, menu
from twmd_registry.judgments.generation import read_data_to_text, read_summaries, read_summeval, read_tac
from twmd_registry.judgments.hub_data import HUB, read_hub
from twmd_registry.judgments.rated import RatedSegments, read_table
from twmd_registry.judgments.reader import TABLE_SUFFIXES, form_of
from twmd_registry.judgments.sentence_pairs import read_mrpc, read_qqp, read_sts, read_stsb
from twmd_registry.judgments.translations import read_demetr, read_mlqe, read_mt_metrics_eval, read_wmt

DIGITS = 12
"""Of a digest, as in fingerprints of models."""
FORMATS: dict[str, Callable[..., RatedSegments]] = {
    "wmt": read_wmt,
    "mlqe": read_mlqe,
    "sts": read_sts,
    "stsb": read_stsb,
    "mrpc": read_mrpc,
    "qqp": read_qqp,
    "mte": read_mt_metrics_eval,
    "d2t": read_data_to_text,
    "demetr": read_demetr,
    "summeval": read_summeval,
    "summaries": read_summaries,
    "tac": read_tac,
    "table": read_table,
}
"""Readers by the names of their formats; mte is the layout of mt-metrics-eval, d2t is data-to-text.

A reader takes a path and its keys. It drops rows that are not rated, counts them in a warning, and raises FileError,
with the row, for what has another form.
"""


def read_rated(text: str) -> RatedSegments:
    """Read rated data by a name of `HUB`, or ``FORMAT:PATH`` or ``FORMAT:PATH,key=value,...`` with one of `FORMATS`.

    Raises SpecError for a name of another form, with suggestions, and FileError where what is named cannot be read.
    """
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
        raise SpecError(_no_format(text))
    parts = rest.split(",")
    keys: dict[str, str] = {}
    while len(parts) > 1 and "=" in parts[-1]:  # from the end: a path may hold commas
        key, _, value = parts.pop().partition("=")
        if key in keys or not value:
            raise SpecError(f"{text}: expected {key}=VALUE once.")
        keys[key] = value
    path = ",".join(parts)
    if not path:
        raise SpecError(f"{text}: expected a path, as in table:ratings.csv,rating=score.")
    return FORMATS[form], Path(path).expanduser(), keys


def _no_format(text: str) -> str:
    """Return the error message for a name without a valid format."""
    if not text:
        return "no data: expected FORMAT:PATH, as in table:ratings.csv,rating=score."
    form, colon, _ = text.partition(":")
    path = Path(text.partition(",")[0])
    if colon and not path.exists():
        return f"no format {form!r}; {menu(form, FORMATS)}."
    if path.exists() or form_of(path.name) in TABLE_SUFFIXES:
        example = text if form_of(path.name) in TABLE_SUFFIXES else "ratings.csv"
        return f"{text}: expected FORMAT:PATH, as in table:{example}; the formats are {', '.join(FORMATS)}."
    choices = [*HUB, *(f"{name}:PATH" for name in FORMATS)]
    return f"{text!r} is neither FORMAT:PATH nor a data set on the Hub; {menu(text, choices)}."


def content_of(rated: RatedSegments) -> str:
    """Digest rated data: 12 hexadecimal digits of the sha256 of their groups, texts, ratings, items and systems.

    Ratings of systems belong to it where there are any. A text and a list that holds only this text are equal
    references; dropped rows do not count.
    """
    references = [[own] if isinstance(own, str) else list(own) for own in rated.references]
    ratings = [float(rating) + 0.0 for rating in rated.ratings]  # -0.0 + 0.0 is 0.0: the same rating
    content = [rated.group, rated.predictions, references, ratings, rated.item, rated.system]
    content += [sorted(rated.system_ratings.items())] if rated.system_ratings else []
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()[:DIGITS]


def title_of(text: str) -> str:
    """Return the name of data for reports: their name on the Hub, or the file's or folder's without its path, and what
    their groups are where that was chosen (``by``).
    """
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
