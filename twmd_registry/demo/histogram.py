"""Distributions of scores as small pictures in a page's own colours; no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

BARS = 20
WIDTH, HEIGHT, FOOT = 320, 120, 18
"""In pixels; the last is the room for the numbers under the bars."""


class Bars(NamedTuple):
    """A histogram.

    Attributes:
        edges: Shape (bars + 1,), ascending.
        counts: Scores from an edge to the next; shape (bars,). Only the last bar has its upper edge.
    """

    edges: np.ndarray
    counts: np.ndarray


def bars(scores: Sequence[float]) -> Bars:
    """Count scores in `BARS` bars of the same width, from the lowest score to the highest; in one bar where all are one number.

    Args:
        scores: Finite numbers, at least one.

    >>> bars([0.5, 0.5]).counts
    array([2])
    """
    values = np.asarray(scores, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * max(1.0, abs(low), abs(high)):
        return Bars(np.array([low, high]), np.array([len(values)]))
    counts, edges = np.histogram(values, bins=BARS, range=(low, high))
    return Bars(edges, counts)


def histograms(scores: Mapping[str, Sequence[float]]) -> str:
    """Draw a histogram per metric, side by side as far as there is room.

    Args:
        scores: By name, finite numbers.
    """
    return f'<div class="twmd-histograms">{"".join(_figure(name, bars(values)) for name, values in scores.items())}</div>'


def _figure(name: str, found: Bars) -> str:
    """One histogram with its caption; a bar says what it stands for when pointed at."""
    width, most = WIDTH / len(found.counts), int(found.counts.max())
    drawn = "".join(
        f'<rect x="{i * width:.2f}" y="{HEIGHT * (1 - count / most):.2f}" width="{width - 1:.2f}" height="{HEIGHT * count / most:.2f}">'
        f"<title>{found.edges[i]:.4f} to {found.edges[i + 1]:.4f}: {count}</title></rect>"
        for i, count in enumerate(found.counts.tolist())
    )
    low, high = (f"{edge:.3f}" for edge in found.edges[[0, -1]])
    numbers = f'<text x="0" y="{HEIGHT + FOOT - 4}">{low}</text><text x="{WIDTH}" y="{HEIGHT + FOOT - 4}" text-anchor="end">{high}</text>'
    box = f'viewBox="0 0 {WIDTH} {HEIGHT + FOOT}" role="img" aria-label="distribution of {escape(name)}"'
    return f"<figure><figcaption>{escape(name)}: rows by score, up to {most} in a bar</figcaption><svg {box}>{drawn}{numbers}</svg></figure>"
