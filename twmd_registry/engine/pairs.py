"""From a user's texts to pairs: check every row, number distinct texts, and cut the pairs into chunks of bounded
size.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import compress, pairwise
from typing import Any, NamedTuple, overload

import numpy as np

from twmd_registry.errors import InputError, shown
from twmd_registry.messages import listed, warn
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import CATALOGUE
from twmd_registry.registry.names import Against
from twmd_registry.registry.references import is_absent, is_missing, present_references

BYTES_PER_TOKEN = 3
"""A low estimate (English has 4 to 5), because chunks are cut before texts are tokenised."""
COPIES_FACTOR = 4
"""A chunk has a copy of a text's vectors for every step (segments that stay together, such as a centering batch) that
contains the text. All copies in a chunk have at most this many times its maximum number of distinct tokens.
"""

_HASHED = 10_000
"""Rows that are hashed together."""


class Segments(NamedTuple):
    """Checked input."""

    predictions: list[str]  # One text per segment
    references: Sequence[list[str]]  # One list of texts per segment; all empty if sources replace them
    sources: list[str] | None = None  # The source text of every segment; None if unknown


class _SingleReferences(Sequence[list[str]]):
    """Lists of a single text, created on access because a million lists take 72 MB."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, segment: int) -> list[str]: ...
    @overload
    def __getitem__(self, segment: slice) -> list[list[str]]: ...
    def __getitem__(self, segment: int | slice) -> list[str] | list[list[str]]:
        return [[text] for text in self._texts[segment]] if isinstance(segment, slice) else [self._texts[segment]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self[:] == other[:]

    __hash__ = None  # type: ignore[assignment]  # as a list


def check_segments(
    predictions: Any, references: Any, sources: Any = None, *, first_row: int = 0, drop_missing: bool = False
) -> Segments:
    """Check the texts of a call; return references as lists without missing ones (`present_references`).

    With sources, references may be None. With `drop_missing`, rows that lack a text are left out, with a warning.

    Raises:
        InputError: Names the first invalid row, counted from `first_row`, or describes how the lists differ.
    """
    if drop_missing:
        texts = {"predictions": predictions, "references": references, "sources": sources}
        predictions, references, sources = _drop_missing(texts, first_row).values()
    predicted = check_rows(predictions, "predictions", first_row=first_row)
    checked_sources = None if sources is None else check_sources(sources, len(predicted))
    if references is None and checked_sources is None:
        raise InputError("no references: pass them, or pass sources to a metric that reads sources.")
    if references is None and predicted:
        return Segments(predicted, [[] for _ in predicted], checked_sources)
    if references is None:
        raise InputError("nothing to score: predictions and sources are empty.")
    _warn_of_columns(references, len(predicted))
    referred = check_rows(references, "references", first_row=first_row, nested=True, optional=True)
    if len(predicted) != len(referred):
        raise InputError(_different_lengths(len(predicted), referred))
    if not predicted:
        raise InputError("nothing to score: predictions and references are empty.")
    first = next((row for row, entry in enumerate(referred) if entry is not None), 0)
    for row, entry in enumerate(referred, first_row):
        if not entry and isinstance(entry, list):
            raise InputError(f"references[{row}] is an empty list: every prediction needs at least one reference.")
        if entry is not None and isinstance(entry, str) is not isinstance(referred[first], str):
            kinds = ("a text", "a list") if isinstance(entry, str) else ("a list", "a text")
            other = f"references[{first_row + first}] is {kinds[1]}"
            raise InputError(f"references[{row}] is {kinds[0]} but {other}: pass all rows as texts or all as lists.")
    lists: Sequence[list[str]]
    if isinstance(referred[first], str):
        lists = _SingleReferences(["" if entry is None else entry for entry in referred])
    else:
        lists = [present_references(entry or [None]) for entry in referred]
    return Segments(predicted, lists, checked_sources)


def _drop_missing(texts: dict[str, Any], first_row: int) -> dict[str, Any]:
    """Leave out the rows that have no prediction, no reference or no source; warn about their numbers."""
    sides = {
        name: check_rows(rows, name, nested=name == "references", optional=True)
        for name, rows in texts.items()
        if rows is not None
    }
    if len({*map(len, sides.values())}) > 1:
        return texts | sides  # the caller reports the problem
    rows = list(zip(*sides.values(), strict=True))
    missing = [row for row, values in enumerate(rows) if any(map(is_missing, values))]
    if not missing:
        return texts | sides
    if len(missing) == len(rows):
        raise InputError(f"nothing to score: each of the {len(rows)} rows lacks a text.")
    numbers = listed(row + first_row for row in missing)
    warn(f"left out {len(missing)} of {len(rows)} rows, which lack a text (counted from 0): {numbers}.")
    kept = (values for values in rows if not any(map(is_missing, values)))
    return texts | dict(zip(sides, map(list, zip(*kept, strict=True)), strict=True))


def digest_of_texts(segments: Segments, *, sources: bool = False) -> str:
    """Return the sha256 of ``[predictions, references]`` as compact JSON in UTF-8, with references as lists; with
    `sources`, if scores depend on them, of ``[predictions, references, sources]``.
    """
    digest = hashlib.sha256()
    sides: list[Sequence[Any]] = [segments.predictions, segments.references]
    sides += [segments.sources] if sources and segments.sources else []
    for number, side in enumerate(sides):
        for start in range(0, len(side), _HASHED):
            rows = json.dumps(side[start : start + _HASHED], ensure_ascii=False, separators=(",", ":"))[1:-1]
            digest.update(f"{',' if start else ',[' if number else '[['}{rows}".encode())
        digest.update(b"]")
    digest.update(b"]")
    return digest.hexdigest()


def check_candidates(candidates: Any) -> list[list[str]]:
    """Return checked lists of candidates; raise InputError, with the row, for an invalid one."""
    rows = check_rows(candidates, "candidates", nested=True)
    for row, entry in enumerate(rows):
        if not entry or isinstance(entry, str):
            got = f"the text {_describe(entry)}" if entry else "an empty list"
            raise InputError(f"candidates[{row}] is {got}: pass a list of at least one text per segment.")
    if not rows:
        raise InputError("nothing to choose from: candidates is empty.")
    return rows


def check_sources(sources: Any, segments: int) -> list[str]:
    """Return the checked sources; raise InputError unless they are one text per segment."""
    texts = check_rows(sources, "sources")
    if len(texts) != segments:
        raise InputError(f"{len(texts)} sources for {segments} segments: pass one per segment.")
    return texts


def check_rows(
    values: Any, name: str, *, first_row: int = 0, nested: bool = False, optional: bool = False
) -> list[Any]:
    """Return checked texts, or lists of texts if `nested`, as plain strings. ``str()`` of a subclass, such as an Enum
    member, may return a different text. With `optional`, None is a missing text.
    """
    expected = "a text or a list of texts" if name.endswith("]") else "a list of texts, one per segment"
    rows: list[Any] = []
    missing = dict[int, Any]()
    for row, entry in enumerate(map(plain, check_ordered(values, name, expected)), first_row):
        where = f"{name}[{row}]"
        if is_absent(entry):
            rows.append(None)
            missing[row] = entry
            continue
        if nested and not isinstance(entry, str):
            rows.append(check_rows(entry, where, optional=optional))
            continue
        if not isinstance(entry, str):
            raise InputError(f"{where} must be a text; got {_describe(entry)}.")
        try:
            entry.encode("utf-8")
        except UnicodeEncodeError as error:
            lone = f"lone surrogate {entry[error.start]!a} at character {error.start}"
            raise InputError(f"{where} is not valid Unicode: {lone}. Decode it with the right encoding.") from None
        rows.append(str.__str__(entry))
    if missing and not optional:
        first, *others = missing
        also = f"; other rows without a text: {listed(others)}" if others else ""
        can_drop = name in {"predictions", "sources"}
        hint = f"Fill in what is missing{', or leave these rows out by drop_missing=True' if can_drop else ''}"
        raise InputError(f"{name}[{first}] must be a text; got {_describe(missing[first])}{also}. {hint}.")
    return rows


def check_ordered(values: Any, name: str, expected: str) -> Iterable[Any]:
    """Return values that iterate over rows in order; raise InputError for others, such as a text, a mapping, a set, or
    a table, which iterates over its columns.
    """
    values = plain(values)
    unordered = isinstance(values, (str, bytes, Mapping, Set)) or hasattr(values, "columns")
    if unordered or not isinstance(values, Iterable):
        raise InputError(f"{name} must be {expected}; got {_describe(values)}.")
    return values


def _warn_of_columns(references: Any, segments: int) -> None:
    """Warn about a square list of tuples, because torch's default collation transposes lists of references."""
    rows = references if isinstance(references, list) else []
    if segments > 1 and len(rows) == segments and all(isinstance(row, tuple) and len(row) == segments for row in rows):
        made = f"{segments} tuples of {segments} texts, as torch's default collation makes from lists"
        remedy = "Give DataLoader collate_fn=twmd_registry.plugins.torchmetrics.collate_rows"
        warn(f"references are {made}: then they are transposed. {remedy}. If they are right, make the tuples lists.")


def plain(value: Any) -> Any:
    """Convert a scalar of pyarrow or numpy to a Python value; return anything else unchanged."""
    if hasattr(value, "as_py"):
        return value.as_py()
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _different_lengths(number: int, references: list[Any]) -> str:
    message = f"there are {number} predictions but {len(references)} references"
    lists = [entry for entry in references if isinstance(entry, list)]
    if lists and len(lists) == len(references) and all(len(entry) == number for entry in lists):
        expected = "one list per prediction, [[ref1, ref2], ...], not one list per reference stream"
        return f"{message}: references look transposed. Give {expected}."
    return f"{message}: pass one entry per prediction (a text, or a list of texts)."


def _describe(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {' '.join(shown(value, 40).split())}"


class Pairs(NamedTuple):
    """All pairs of a hypothesis (a prediction) and a reference or source."""

    texts: list[str]  # Distinct
    hyp: np.ndarray  # The hypothesis of each pair, an index into `texts`; shape (pairs,)
    ref: np.ndarray  # The reference of each pair, likewise
    # The segment of every pair, ascending, possibly with gaps (unreadable rows); shape (pairs,)
    segment: np.ndarray
    counts: np.ndarray  # References of every segment; shape (segments,)
    starts: np.ndarray  # The first pair of every segment; shape (segments,)
    against: Against = "reference"  # What `ref` contains: ``reference`` or ``source``


def make_pairs(segments: Segments, spec: MetricSpec | None = None) -> Pairs:
    """Pair each prediction with its references, or with its source (``against=source``), in data order.

    Raises:
        InputError: References or sources that the specification needs are missing.
    """
    against: Against = "reference"
    references = segments.references
    if spec and spec.against == "source":
        if segments.sources is None:
            remedy = "pass sources, one per prediction (sources=, --src FILE, or a column source)"
            raise InputError(f"{spec.metric} compares predictions with their sources (against=source): {remedy}.")
        against, references = "source", _SingleReferences(segments.sources)
    elif spec and not all(references):
        other = ", or set against=source and pass sources" if "against" in CATALOGUE[spec.metric].keys else ""
        raise InputError(f"{spec.metric} compares predictions with references: pass them{other}.")
    counts = np.fromiter(map(len, references), np.int32, len(references))
    rows = zip(segments.predictions, references, strict=True)
    texts, numbers = _number_texts((text for row in rows for text in (row[0], *row[1])), len(counts) + counts.sum())
    segment = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    starts = np.cumsum(counts, dtype=np.int32) - counts
    places: np.ndarray = starts + np.arange(len(counts), dtype=np.int32)  # indices of the predictions among all texts
    return Pairs(texts, numbers[places][segment], np.delete(numbers, places), segment, counts, starts, against)


def _number_texts(occurrences: Iterable[str], length: int) -> tuple[list[str], np.ndarray]:
    """Return distinct texts in the order of their first occurrences, and the index of each occurrence.

    Sorts hashes, because a dict would take four times the memory.
    """
    texts = np.fromiter(occurrences, object, length)
    order = np.argsort(np.fromiter(map(hash, texts), np.int64, length), kind="stable")
    grouped = texts[order]
    # If two texts have the same hash, a text may begin several groups and is then scored more than once.
    begins = np.r_[np.ones(min(1, length), dtype=bool), grouped[1:] != grouped[:-1]]
    del grouped
    first = order[begins]
    is_first = np.zeros(length, dtype=bool)
    is_first[first] = True
    distinct = list(compress(texts, is_first))
    del texts
    number_of_group = (np.cumsum(is_first, dtype=np.int32) - 1)[first]
    del first
    groups, numbers = np.cumsum(begins), np.empty(length, dtype=np.int32)
    groups -= 1
    numbers[order] = number_of_group[groups]
    return distinct, numbers


def take_share(pairs: Pairs, number: int, shares: int, step: int) -> tuple[Pairs, np.ndarray]:
    """Cut the pairs into shares of similar size; return share `number` and the indices of its texts.

    Shares end at multiples of `step` segments, so centering batches are not split. The cuts depend only on the number
    of segments, so a reference keeps its share between calls. With more shares than segments, some are empty.
    """
    steps = math.ceil(len(pairs.counts) / step)
    first, last = (min(steps * k // shares * step, len(pairs.counts)) for k in (number, number + 1))
    starts = np.r_[pairs.starts, len(pairs.hyp)]
    here = slice(int(starts[first]), int(starts[last]))
    texts, inverse = np.unique(np.r_[pairs.hyp[here], pairs.ref[here]], return_inverse=True)
    hyp, ref = np.split(inverse, 2)
    share = pairs._replace(
        texts=[pairs.texts[i] for i in texts],
        hyp=hyp,
        ref=ref,
        segment=pairs.segment[here] - first,
        counts=pairs.counts[first:last],
        starts=pairs.starts[first:last] - here.start,
    )
    return share, texts


def plan_chunks(
    pairs: Pairs, limit: int | None, max_tokens: int, step: int
) -> tuple[list[slice], dict[int, list[int]]]:
    """Cut the pairs into consecutive chunks of at most `max_tokens` tokens in distinct texts (a single step may have
    more).

    Tokens are overestimated from bytes, up to `limit` per text. Chunks end at multiples of `step` segments, so
    centering batches are not split. Returns slices over pairs, and the chunks of each text that is in several.
    """
    tokens = array("i", (len(text.encode("utf-8")) // BYTES_PER_TOKEN + 2 for text in pairs.texts))
    if limit is not None:
        tokens = array("i", (min(number, limit) for number in tokens))
    bounds = np.r_[np.flatnonzero(np.diff(pairs.segment // step, prepend=-1)), len(pairs.hyp)]
    chunks: list[slice] = []
    first, uses = array("i", [-1]) * len(tokens), dict[int, list[int]]()
    begin, held, copied, seen = 0, 0, 0, set[int]()
    for start, stop in pairwise(memoryview(bounds)):  # yields Python's integers without a list of them
        texts = set(pairs.hyp[start:stop].tolist()) | set(pairs.ref[start:stop].tolist())
        step_tokens, new_tokens = (sum(tokens[text] for text in group) for group in (texts, texts - seen))
        is_full = held + new_tokens > max_tokens or copied + step_tokens > COPIES_FACTOR * max_tokens
        if held and is_full:
            chunks.append(slice(begin, start))
            begin, held, copied, seen = start, 0, 0, set()
        held += sum(tokens[text] for text in texts - seen)
        copied += step_tokens
        for text in texts - seen:
            if first[text] < 0:
                first[text] = len(chunks)
            else:
                uses.setdefault(text, [first[text]]).append(len(chunks))
        seen |= texts
    if len(pairs.hyp):
        chunks.append(slice(begin, len(pairs.hyp)))
    return chunks, uses
