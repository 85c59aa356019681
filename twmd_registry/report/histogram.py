"""Histograms of scores as SVG for an HTML page, with an outline per system."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twmd_registry.report.template import render

BINS = 30
ROUNDING = 1e-9
COLOURS = 6
"""Systems with a colour of their own, ``--s0`` to ``--s5`` in the page's style; more of them differ by their dashes."""
WIDTH, HEIGHT, TOP, BOTTOM, SIDE = 360, 150, 8, 18, 8
"""In the units of the drawing."""


def counts_by_bin(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Count finite values by system, shape (N,) each, in `BINS` bins from the lowest to the highest value of all.

    Where all values are equal but for rounding, the bins are from 0.5 below to 0.5 above them. Returns counts, shape
    (systems, bins), and edges, shape (bins + 1,).
    """
    pooled = np.concatenate(values)
    low, high = float(pooled.min()), float(pooled.max())
    equal = high - low <= ROUNDING * max(1.0, abs(low), abs(high))
    edges = np.histogram_bin_edges(pooled, BINS, range=(low - 0.5, high + 0.5) if equal else None)
    return np.array([np.histogram(own, edges)[0] for own in values]), edges


def histogram(values: Sequence[np.ndarray], label: str, digits: int) -> str:
    """Draw a histogram of finite values by system, at least one, as an SVG element.

    `label` describes it for readers who cannot see it; `digits` are of the numbers at its ends.
    """
    counts, edges = counts_by_bin(values)
    bottom, step = HEIGHT - BOTTOM, (WIDTH - 2 * SIDE) / BINS
    heights = bottom - (bottom - TOP) * counts / counts.max()
    outlines = [
        (line_style(i), "".join(f"V{y:.1f}H{SIDE + step * (k + 1):.1f}" for k, y in enumerate(own)))
        for i, own in enumerate(heights)
    ]
    low, high = (f"{end:.{digits}f}" for end in (edges[0], edges[-1]))
    size, most = (WIDTH, HEIGHT, bottom, SIDE), int(counts.max())
    return render("histogram.svg", size=size, label=label, low=low, high=high, most=most, outlines=outlines)


def line_style(i: int) -> str:
    """Return the CSS classes of a system's line: a colour, and dashes that differ without colours."""
    return f"line c{i % COLOURS} d{i % 4}"
