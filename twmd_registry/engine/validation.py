"""The border: every row a user hands over is checked here, once, with its index, before anything is computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

from twmd_registry.errors import InputError


class Segments(NamedTuple):
    """Checked input.

    Attributes:
        predictions: One text per segment.
        references: One list of texts per segment, none of them empty.
    """

    predictions: list[str]
    references: list[list[str]]


def check_segments(predictions: Any, references: Any, *, first_row: int = 0) -> Segments:
    """Check predictions and references.

    Args:
        predictions: Texts, one per segment.
        references: One text per segment, or one list of texts per segment; lists may differ in length.
        first_row: Number of the first row, for messages about a later batch.

    Returns:
        The same texts, references always as lists.

    Raises:
        InputError: Not a list, empty, different numbers of rows, references that look transposed, a row that
            is not text, a mixture of texts and lists, an empty list, or text that is not valid Unicode.
    """
    predicted = _rows(predictions, "predictions")
    referred = _rows(references, "references")
    if len(predicted) != len(referred):
        raise InputError(_different_lengths(len(predicted), referred))
    if not predicted:
        raise InputError("there is nothing to score: predictions and references are empty.")
    for row, text in enumerate(predicted, first_row):
        _check_text(text, f"predictions[{row}]")
    listed = [not isinstance(entry, str) for entry in referred]
    checked = []
    for row, (entry, is_list) in enumerate(zip(referred, listed, strict=True), first_row):
        checked.append(_check_references(entry, row))
        if is_list is not listed[0]:
            kinds = ("a list", "a text") if is_list else ("a text", "a list")
            raise InputError(
                f"references[{row}] is {kinds[0]} but references[{first_row}] is {kinds[1]}: give all rows as "
                "texts or all as lists."
            )
    return Segments([_plain(text) for text in predicted], [[_plain(text) for text in texts] for texts in checked])


def _plain(text: str) -> str:
    """The characters themselves: a subclass (an Enum's member, say) may call itself something else by ``str()``."""
    return str.__str__(text)


def digest_of_texts(segments: Segments) -> str:
    """sha256 of some segments: of ``[predictions, references]`` as compact JSON in UTF-8, references always as
    lists.
    """
    return hashlib.sha256(json.dumps(list(segments), ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def _rows(values: Any, what: str) -> list[Any]:
    if not _is_list(values):
        raise InputError(f"{what} must be a list of texts, one per segment; got {_describe(values)}.")
    return list(values)


def _is_list(values: Any) -> bool:
    """Whether going through it gives its rows in order: not the letters of a text, the keys of a table, a set."""
    if isinstance(values, (str, bytes, Mapping, Set)) or hasattr(values, "columns"):
        return False
    return isinstance(values, Iterable) and getattr(values, "shape", (1,)) != ()


def _different_lengths(number: int, references: list[Any]) -> str:
    message = f"there are {number} predictions but {len(references)} references"
    lists = [entry for entry in references if isinstance(entry, (list, tuple))]
    if lists and len(lists) == len(references) and all(len(entry) == number for entry in lists):
        return (
            f"{message}: references look transposed. Give one list per prediction, [[ref1, ref2], ...], not one "
            "list per reference stream."
        )
    return f"{message}: give one entry per prediction (a text, or a list of texts)."


def _check_references(entry: Any, row: int) -> list[str]:
    """One row's texts; read once, for it may be a generator."""
    if isinstance(entry, str):
        _check_text(entry, f"references[{row}]")
        return [entry]
    if not _is_list(entry):
        raise InputError(f"references[{row}] must be a text or a list of texts; got {_describe(entry)}.")
    texts = list(entry)
    if not texts:
        raise InputError(f"references[{row}] is an empty list: every prediction needs at least one reference.")
    for k, text in enumerate(texts):
        _check_text(text, f"references[{row}][{k}]")
    return texts


def _check_text(text: Any, where: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{where} must be a text; got {_describe(text)}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} is not valid Unicode: lone surrogate {text[error.start]!a} at character {error.start}. "
            "Decode it again with the right encoding."
        ) from None


def _describe(value: Any) -> str:
    shown = " ".join(ascii(value).split())
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"
