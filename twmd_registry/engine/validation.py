"""Checks of predictions and references: every row once, with its number, before anything is computed."""

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
    for name, values in (("predictions", predictions), ("references", references)):
        if not _is_list(values):
            raise InputError(f"{name} must be a list of texts, one per segment; got {_describe(values)}.")
    predicted, referred = list(predictions), list(references)
    if len(predicted) != len(referred):
        raise InputError(_different_lengths(len(predicted), referred))
    if not predicted:
        raise InputError("there is nothing to score: predictions and references are empty.")
    checked = Segments([_check_text(text, f"predictions[{row}]") for row, text in enumerate(predicted, first_row)], [])
    for row, entry in enumerate(referred, first_row):
        where = f"references[{row}]"
        if not isinstance(entry, str) and not _is_list(entry):
            raise InputError(f"{where} must be a text or a list of texts; got {_describe(entry)}.")
        named = (
            [(entry, where)] if isinstance(entry, str) else [(text, f"{where}[{k}]") for k, text in enumerate(entry)]
        )
        texts = [_check_text(text, name) for text, name in named]
        if not texts:
            raise InputError(f"{where} is an empty list: every prediction needs at least one reference.")
        if isinstance(entry, str) is not isinstance(referred[0], str):
            kinds = ("a text", "a list") if isinstance(entry, str) else ("a list", "a text")
            raise InputError(
                f"{where} is {kinds[0]} but references[{first_row}] is {kinds[1]}: give all rows as texts or all as "
                "lists."
            )
        checked.references.append(texts)
    return checked


def digest_of_texts(segments: Segments) -> str:
    """Return sha256 of ``[predictions, references]`` as compact JSON in UTF-8, references always as lists."""
    return hashlib.sha256(json.dumps(list(segments), ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def _is_list(values: Any) -> bool:
    """Return whether iteration gives rows in order: not for a text, a table (its columns), a mapping or a set."""
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


def _check_text(text: Any, where: str) -> str:
    """Return the characters of a text: a subclass (a member of an Enum) may give others by ``str()``."""
    if not isinstance(text, str):
        raise InputError(f"{where} must be a text; got {_describe(text)}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} is not valid Unicode: lone surrogate {text[error.start]!a} at character {error.start}. "
            "Decode it again with the right encoding."
        ) from None
    return str.__str__(text)


def _describe(value: Any) -> str:
    shown = " ".join(ascii(value).split())
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"
