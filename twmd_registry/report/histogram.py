"""Histograms as SVG inside a page: one per metric, an outline per system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

BINS = 30
ROUNDING = 1e-9
COLOURS = 6
"""Systems that have a colour of their own, ``--s0`` to ``--s5`` in the page's style; more of them differ by their
dashes.
"""
WIDTH, HEIGHT, TOP, BOTTOM, SIDE = 360, 150, 8, 18, 8
"""In the units of the drawing."""


def counts_by_bin(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Count values in `BINS` bins of equal width, from the lowest to the highest value of all.

    Args:
        values: Finite numbers by system; shape (N,) each.

    Returns:
        Counts, shape (systems, bins), and the bins' edges, shape (bins + 1,); bins from half below to half above where
        all values are one number but
        for rounding, which is too little for bins of a finite size.

    Raises:
        ValueError: There is no value.
    """
    pooled = np.concatenate(values)
    low, high = float(pooled.min()), float(pooled.max())
    rounding = high - low <= ROUNDING * max(1.0, abs(low), abs(high))
    edges = np.histogram_bin_edges(pooled, BINS, range=(low - 0.5, high + 0.5) if rounding else None)
    return np.array([np.histogram(own, edges)[0] for own in values]), edges


def histogram(values: Sequence[np.ndarray], label: str, digits: int) -> str:
    """Draw a histogram.

    Args:
        values: Finite numbers by system, at least one; shape (N,) each.
        label: What it shows, for those who cannot see it.
        digits: Digits of the numbers at its ends.

    Raises:
        ValueError: There is no value.
    """
    counts, edges = counts_by_bin(values)
    most = int(counts.max())
    low, high = (f"{edge:.{digits}f}" for edge in (edges[0], edges[-1]))
    lines = [
        f'<svg class="histogram" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">',
        f'<line class="axis" x1="{SIDE}" x2="{WIDTH - SIDE}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>',
        *(_outline(own, most, i) for i, own in enumerate(counts)),
        *_words(low, high, most),
    ]
    return "".join([*lines, "</svg>"])


def _outline(counts: np.ndarray, most: int, i: int) -> str:
    """The steps of one system."""
    step, height = (WIDTH - 2 * SIDE) / len(counts), HEIGHT - TOP - BOTTOM
    tops = [HEIGHT - BOTTOM - height * int(count) / most for count in counts]
    path = "".join(f"V{y:.1f}H{SIDE + step * (k + 1):.1f}" for k, y in enumerate(tops))
    return f'<path class="{line_style(i)}" d="M{SIDE} {HEIGHT - BOTTOM}{path}V{HEIGHT - BOTTOM}"/>'


def line_style(i: int) -> str:
    """The classes of a system's line: a colour, and dashes that tell it apart without one."""
    return f"line c{i % COLOURS} d{i % 4}"


def _words(low: str, high: str, most: int) -> Iterator[str]:
    y = HEIGHT - 4
    yield f'<text x="{SIDE}" y="{y}">{low}</text><text x="{WIDTH - SIDE}" y="{y}" text-anchor="end">{high}</text>'
    yield f'<text x="{WIDTH / 2}" y="{y}" text-anchor="middle">tallest bar: {most} score{"s" * (most != 1)}</text>'
