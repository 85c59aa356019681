"""Figures of curves: deterministic bytes, bands, gaps, and every label."""

from __future__ import annotations

import numpy as np
import pytest

from twmd_registry.report.curves import PlotAxis, PlotCurve, curves
from twmd_registry.report.figures import SUFFIXES

X = np.arange(4)
PANELS = {
    "plain": [PlotCurve("falling", X, np.array([0.9, 0.5, np.nan, 0.1]), np.array([0.1, 0.1, np.nan, 0.0]))],
    "centered": [PlotCurve("bare", X, np.array([-0.2, 0.1, 0.3, 0.4]))],
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_data_give_the_same_bytes(suffix: str) -> None:
    first, second = (curves(PANELS, PlotAxis("layer"), PlotAxis("cosine"), "title", suffix) for _ in range(2))
    assert first == second
    moved = {**PANELS, "plain": [PANELS["plain"][0]._replace(error=np.array([0.2, 0.1, np.nan, 0.0]))]}
    assert curves(moved, PlotAxis("layer"), PlotAxis("cosine"), "title", suffix) != first


def test_every_panel_and_curve_is_named() -> None:
    drawn = curves(PANELS, PlotAxis("temperature", logarithmic=True), PlotAxis("cosine"), "what it is", ".svg").decode()
    for words in ("what it is", "plain", "centered", "falling", "bare", "temperature", "cosine"):
        assert f">{words}<" in drawn
    assert drawn != curves(PANELS, PlotAxis("temperature"), PlotAxis("cosine"), "what it is", ".svg").decode()


def test_a_curve_of_nothing_is_an_empty_panel() -> None:
    nothing = {"none": [PlotCurve("undefined", X, np.full(4, np.nan), np.full(4, np.nan))]}
    assert curves(nothing, PlotAxis("layer"), PlotAxis("cosine"), "title", ".png").startswith(b"\x89PNG")
