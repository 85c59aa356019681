"""Which references of a prediction count: one rule for files, Python, records and every integration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def present_references(references: Iterable[Any]) -> list[Any]:
    """Return the references of one prediction, at least one, without those that are missing.

    A blank text or an absent value (`is_absent`) is missing where there is another reference; it is how streams and
    columns of equal length are filled up. If there is no other, the prediction has one empty reference.

    >>> present_references(["a cat", " ", None]), present_references([None])
    (['a cat'], [''])
    """
    every = list(references)
    present = [text for text in every if not is_absent(text) and not (isinstance(text, str) and not text.strip())]
    return present or [next((text for text in every if isinstance(text, str)), "")]


def is_absent(value: Any) -> bool:
    """Return whether a value stands for nothing: None, or pandas' NaN and NA."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"  # noqa: PLR0124
