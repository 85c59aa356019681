"""Figures of numbers: deterministic bytes, bands, gaps, and every label."""

from __future__ import annotations

import numpy as np

from twmd_registry.report.figures import Curve, curves, densities, surface

X, LABELS = np.arange(4), ("layer", "cosine")
PANELS: dict[str, dict[str, Curve]] = {
    "plain": {"falling": (X, np.array([0.9, 0.5, np.nan, 0.1]), np.array([0.1, 0.1, np.nan, 0.0]))},
    "centered": {"bare": (X, np.array([-0.2, 0.1, 0.3, 0.4]))},
}


def test_same_data_give_the_same_bytes() -> None:
    first, second = (curves(PANELS, LABELS, "title", ".svg") for _ in range(2))
    assert first == second
    x, y, _ = PANELS["plain"]["falling"]
    assert curves({**PANELS, "plain": {"falling": (x, y, 0 * x + 0.2)}}, LABELS, "title", ".svg") != first


def test_panels_curves_and_axes_are_labelled() -> None:
    drawn = curves(PANELS, ("temperature", "cosine"), "the title", ".svg", "x").decode()
    for words in ("the title", "plain", "centered", "falling", "bare", "temperature", "cosine"):
        assert f">{words}<" in drawn
    assert drawn != curves(PANELS, ("temperature", "cosine"), "the title", ".svg").decode()


def test_undefined_curve_is_an_empty_panel() -> None:
    undefined = {"none": {"undefined": (X, np.full(4, np.nan), np.full(4, np.nan))}}
    assert curves(undefined, LABELS, "title", ".png").startswith(b"\x89PNG")


def test_density_of_equal_or_missing_scores_is_drawn() -> None:
    drawn = densities(np.array([0, 0, 0]), {"equal": np.full(3, 0.5)}, "title", ".svg").decode()
    assert ">negative<" in drawn


def test_surface_shows_the_best_setting() -> None:
    points = [("none", 1, 0.1, 0.2), ("none", 1, 0.1, 0.731), ("none", 2, 0.2, 0.5), ("batch", 1, None, 0.4)]
    drawn = surface(points, "title", ".svg").decode()
    assert ">0.731<" in drawn
    assert ">Pearson r<" in drawn
