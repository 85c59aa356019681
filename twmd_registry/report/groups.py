"""Groups of segments: by the length of the reference, and by how frequent its words are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.report.words import words

GROUPS = 4


class Group(NamedTuple):
    """Segments whose value lies in a range.

    Attributes:
        low: The least value in the group.
        high: The greatest.
        segments: Numbers of the segments, from 0.
    """

    low: float
    high: float
    segments: np.ndarray


def group_by(values: np.ndarray) -> list[Group]:
    """Split segments into up to `GROUPS` groups of about equal size; equal values stay together.

    Args:
        values: One per segment; a segment whose value is NaN is in no group. Shape (segments,).

    Returns:
        The groups by rising value; none is empty.
    """
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return []
    highest = np.unique(np.quantile(values[known], np.arange(1, GROUPS + 1) / GROUPS, method="lower"))
    group = np.searchsorted(highest, values[known])
    chosen = [known[group == k] for k in range(len(highest))]
    return [Group(float(values[own].min()), float(values[own].max()), own) for own in chosen]


def lengths(references: Sequence[Sequence[str]]) -> np.ndarray:
    """Count the words of every segment's first reference; shape (segments,)."""
    return np.array([len(words(own[0])) for own in references], dtype=np.float64)


def frequencies(references: Sequence[Sequence[str]]) -> np.ndarray:
    r"""Return how frequent the words of every segment's first reference are: :math:`\exp(\frac{1}{n} \sum_i \log c_i)`.

    :math:`c_i` is how often its i-th word occurs in all references of all segments.

    Args:
        references: Per segment its references.

    Returns:
        From 1; NaN where the first reference has no word. Shape (segments,).
    """
    split = [[words(text) for text in own] for own in references]
    counts = Counter(word for own in split for text in own for word in text)
    return np.array([np.exp(np.mean([np.log(counts[word]) for word in own[0]])) if own[0] else np.nan for own in split])
