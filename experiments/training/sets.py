"""The adapters' rated sets, split into training, development (dev) and test parts, which were fixed before the first
run.

A document belongs to one part. WMT21's documents are blocks of ten segments; data-to-text's are all outputs for one
meaning. No training row has a text of a test set or of dev.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import regex

from twmd_registry.engine.scorer import Scorer, score_with
from twmd_registry.errors import SpecError
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.judgments.sets import read_rated
from twmd_registry.messages import menu
from twmd_registry.metaeval.correlation import correlate, make_estimator
from twmd_registry.registry.names import Against

BLOCK = 10
"""Segments per block that replaces a document."""
CLIPPED = 3.0
"""Limit of standardised ratings, so one omission in a good system's output does not count as ten errors."""

Part = Callable[[int], str]
"""The part of a document, by its number modulo ten."""


def tenth(number: int) -> str:
    """Keep every tenth document for dev."""
    return "dev" if number == BLOCK - 1 else "learn"


def halves(number: int) -> str:
    """Keep half of the documents as a test, and a fifth for dev."""
    return "test" if number < 5 else "dev" if number > 7 else "learn"


class RatedSet(NamedTuple):
    """A rated set: its name and file, the part of each document, and every how many rows one is used for training."""

    name: str
    file: str
    part: Part = lambda _: "learn"
    every: int = 1


def _dev(_: int) -> str:
    return "dev"


SETS = (
    RatedSet("wmt15", "wmt:wmt/wmt15.jsonl"),
    RatedSet("wmt16", "wmt:wmt/wmt16.jsonl", _dev),
    RatedSet("wmt21", "wmt:ratings/wmt21-mqm.jsonl.xz", tenth),
    RatedSet("wmt24", "wmt:ratings/wmt24-esa.jsonl.xz"),
    RatedSet("bio", "wmt:ratings/bio-mqm.jsonl.xz", tenth),
    RatedSet("mlqe", "mlqe:mlqe/train.jsonl.xz", every=4),
    RatedSet("mlqe-all", "mlqe:mlqe/train.jsonl.xz"),
    RatedSet("mlqe dev", "mlqe:mlqe/dev.jsonl.xz", _dev, every=4),
    RatedSet("stsb", "stsb:stsb/train.csv"),
    RatedSet("stsb dev", "stsb:stsb/dev.csv", _dev),
    RatedSet("mrpc", "mrpc:mrpc/msr_paraphrase_train.txt"),
    RatedSet("bagel", "d2t:d2t/bagel.jsonl", halves),
    RatedSet("sfhotel", "d2t:d2t/sfhotel.jsonl", halves),
    RatedSet("summeval", "summaries:summaries/summeval.jsonl.xz,rating=relevance", halves),
)
TESTS = (
    "wmt:wmt/wmt17.jsonl",
    "mlqe:mlqe/test.jsonl.xz",
    "stsb:stsb/test.csv",
    "mrpc:mrpc/msr_paraphrase_test.txt",
    "sts:sts/STS16",
    "mte:mte/wmt22,pair=zh-en",
    "mte:mte/wmt23,pair=en-de",
    "demetr:demetr.jsonl.xz",
)
KINDS = {
    "WMT16": ("wmt16",),
    "MLQE": ("mlqe dev",),
    "WMT21": ("wmt21",),
    "bio": ("bio",),
    "STS-B": ("stsb dev",),
    "D2T": ("bagel", "sfhotel"),
    "SummEval": ("summeval",),
}
"""The kinds of dev data, equally weighted, and their sets."""


def read_part(chosen: RatedSet, data: Path, part: str, into: str | None = None) -> RatedSegments:
    """Return the rows of a set's part, for translations only those `into` a language."""
    form, _, file = chosen.file.partition(":")
    rated = read_rated(f"{form}:{data / file}")
    rows = [
        row
        for row, (number, group) in enumerate(zip(_documents(rated), rated.group, strict=True))
        if chosen.part(number % BLOCK) == part and (into is None or "-" not in group or group.endswith(f"-{into}"))
    ]
    return select(rated, np.array(rows[:: chosen.every], dtype=np.int64))


def _documents(rated: RatedSegments) -> Iterator[int]:
    """Yield every row's document as a number that is the same in every run."""
    if rated.item is None:
        names = [" ".join(sorted({texts} if isinstance(texts, str) else set(texts))) for texts in rated.references]
    else:
        names = [str(int(item) // BLOCK) if item.isdigit() else item.rpartition(" ")[0] or item for item in rated.item]
    keys = [f"{group} {name}" for group, name in zip(rated.group, names, strict=True)]
    order = sorted(set(keys), key=lambda key: hashlib.sha256(key.encode()).digest())
    numbers = {key: number for number, key in enumerate(order)}
    yield from (numbers[key] for key in keys)


def fold(text: str) -> str:
    """Normalise a text: only letters and digits, in lower case."""
    return str(regex.sub(r"[^\p{L}\p{N}]", "", text.casefold()))


def held_out(data: Path, learned: Iterable[str] = (), *, sources: bool = False) -> set[str]:
    """Return the folded texts of all test parts, and of dev except for sets used entirely for training; sources on
    request.
    """
    tests = [read_rated(f"{form}:{data / file}") for form, _, file in (name.partition(":") for name in TESTS)]
    kept = [
        rated_set._replace(every=1) for rated_set in SETS if rated_set.name not in learned or has(rated_set, "learn")
    ]
    parts = [read_part(rated_set, data, part) for rated_set in kept for part in ("dev", "test") if has(rated_set, part)]
    return {
        fold(text) for rated in (*tests, *parts) for text in (*_texts(rated), *(rated.source or () if sources else ()))
    }


def has(rated_set: RatedSet, part: str) -> bool:
    """Return whether a set has documents in a part."""
    return part in map(rated_set.part, range(BLOCK))


def read_learned(
    names: Iterable[str], data: Path, into: str | None, against: Against | None = None
) -> dict[str, RatedSegments]:
    """Return the training rows of sets by name, with z-scores: the training part, or all rows of a set with only dev,
    without rows that have a held-out text. If a metric compares only with sources, they replace the references.
    """
    chosen = [_by_name(name) for name in names]
    texts = held_out(data, [rated_set.name for rated_set in chosen], sources=against is not None) if chosen else set()
    parts = {
        rated_set.name: read_part(rated_set, data, "learn" if has(rated_set, "learn") else "dev", into)
        for rated_set in chosen
    }
    if against == "source":
        parts = {name: _compared_with_sources(rated, name) for name, rated in parts.items()}
    return {name: standardise(without(rated, texts)) for name, rated in parts.items()}


def _compared_with_sources(rated: RatedSegments, name: str) -> RatedSegments:
    if rated.source is None:
        raise SpecError(f"{name} has no sources: leave it out, or train a metric that compares with references.")
    return rated._replace(references=rated.source)


def _by_name(name: str) -> RatedSet:
    by_name = {rated_set.name: rated_set for rated_set in SETS}
    if name not in by_name:
        raise SpecError(f"no set {name!r}; {menu(name, by_name)}.")
    return by_name[name]


def _texts(rated: RatedSegments) -> Iterator[str]:
    for pair in zip(rated.predictions, rated.references, strict=True):
        yield from _flat(*pair)


def _flat(prediction: str, references: str | Sequence[str]) -> list[str]:
    return [prediction, *([references] if isinstance(references, str) else references)]


def without(rated: RatedSegments, texts: set[str]) -> RatedSegments:
    """Return the rows whose references, prediction and source are not among the folded texts."""
    columns = rated.predictions, rated.references, rated.source or rated.predictions
    rows = enumerate(zip(*columns, strict=True))
    kept = [row for row, (*pair, source) in rows if texts.isdisjoint(map(fold, [*_flat(*pair), source]))]
    return select(rated, np.array(kept, dtype=np.int64))


def shorter(rated: RatedSegments, max_characters: int) -> RatedSegments:
    """Return the rows whose texts all have at most `max_characters` characters."""
    pairs = zip(rated.predictions, rated.references, strict=True)
    kept = [row for row, pair in enumerate(pairs) if max(map(len, _flat(*pair))) <= max_characters]
    return select(rated, np.array(kept, dtype=np.int64))


def standardise(rated: RatedSegments) -> RatedSegments:
    """Return segments with ratings as z-scores within each group, clipped at `CLIPPED`."""
    groups, z = np.array(rated.group), np.zeros(len(rated.ratings))
    for group in set(rated.group):
        ratings = rated.ratings[groups == group]
        z[groups == group] = (ratings - ratings.mean()) / (ratings.std() or 1.0)
    return rated._replace(ratings=z.clip(-CLIPPED, CLIPPED))


def add_rows(first: RatedSegments, second: RatedSegments) -> RatedSegments:
    """Concatenate segments with the same labels."""
    joined: dict[str, Any] = {
        name: [*column, *getattr(second, name)]
        for name, column in first._asdict().items()
        if isinstance(column, list) and name != "ratings"
    }
    return first._replace(**joined, ratings=np.r_[first.ratings, second.ratings], system_ratings=None)


def read_dev(data: Path, into: str | None) -> dict[str, list[RatedSegments]]:
    """Return the dev parts by kind."""
    parts = {kind: [read_part(_by_name(name), data, "dev", into) for name in names] for kind, names in KINDS.items()}
    return {kind: kept for kind, rated in parts.items() if (kept := [one for one in rated if one.predictions])}


def agreement(scorers: Sequence[Scorer], parts: Sequence[RatedSegments]) -> list[tuple[float, float]]:
    """Return, by metric, the mean over groups of Pearson's r and of pairwise accuracy with calibrated ties within
    segments (NaN if no segment has several systems), both x 100.
    """
    values: list[list[tuple[float, float]]] = [[] for _ in scorers]
    for rated in parts:
        groups = np.array(rated.group)
        for group in dict.fromkeys(rated.group):
            segments = select(rated, np.flatnonzero(groups == group))
            items = segments.item if segments.system and len(set(segments.system)) > 1 else None
            score_sets = score_with(scorers, segments.predictions, segments.references, segments.source)
            for results, scores in zip(values, score_sets, strict=True):
                r = correlate("pearson", scores.scores, segments.ratings)
                acc = _accuracy(scores.scores, segments.ratings, items)
                results.append((100 * r, 100 * acc))
    return [(float(np.mean([r for r, _ in results])), _mean_defined([acc for _, acc in results])) for results in values]


def _accuracy(scores: Sequence[float], ratings: np.ndarray, items: Sequence[str] | None) -> float:
    return make_estimator("acc_eq", ratings, items)(np.asarray(scores)).value if items else math.nan


def _mean_defined(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else math.nan
