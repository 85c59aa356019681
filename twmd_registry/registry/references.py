"""Which references of a prediction count: one rule for files, Python, records and integrations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_BLANK = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\u2800\ufff9-\ufffb"
    # Unicode's Default_Ignorable_Code_Point: soft hyphens, joiners, marks of direction, variation selectors, fillers
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]*"
)
"""White space, control characters and invisible characters, which a tokenizer may turn into tokens."""


def is_blank(text: str) -> bool:
    r"""Return whether a text is empty or all its characters are invisible.

    >>> is_blank(" \u200b\ufeff"), is_blank("\u200b.")
    (True, False)
    """
    return _BLANK.fullmatch(text) is not None


def present_references(references: Iterable[Any]) -> list[Any]:
    """Return the references of one prediction, at least one, without missing ones.

    A blank text (`is_blank`) or an absent value (`is_absent`) is missing if there is another reference, because it pads
    streams and columns to equal length. If there is no other, the prediction has one empty reference.

    >>> present_references(["a cat", " ", None]), present_references([None])
    (['a cat'], [''])
    """
    candidates = list(references)
    present = [text for text in candidates if not is_absent(text) and not (isinstance(text, str) and is_blank(text))]
    return present or [next((text for text in candidates if isinstance(text, str)), "")]


def is_absent(value: Any) -> bool:
    """Return whether a value is None, or pandas' NaN or NA."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"  # noqa: PLR0124


def is_missing(value: Any) -> bool:
    """Return whether a cell contains no text: it is absent, or a list of absent values only."""
    return is_absent(value) or (isinstance(value, list | tuple) and bool(value) and all(map(is_absent, value)))
