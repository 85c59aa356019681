"""How agreement depends on settings, as pictures: layer by temperature, a panel per centering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twmd_registry.report.figures import draw_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SurfacePoint(NamedTuple):
    """One setting: a place in a panel, and its agreement.

    Attributes:
        panel: The centering.
        layer: The hidden state that was read.
        temperature: T; None for a metric without one.
        value: The agreement.
    """

    panel: str
    layer: int
    temperature: float | None
    value: float


def surface(points: Sequence[SurfacePoint], title: str, suffix: str) -> bytes:
    """Draw the best agreement at every layer and temperature, whatever else was tried; lines over layers where there is
    no temperature.

    Args:
        points: The settings.
        title: Of the figure.
        suffix: Of `twmd_registry.report.figures.SUFFIXES`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    values = [point.value for point in points]
    low, high = min(values), max(values)

    def panel(axes: Axes, name: str) -> None:
        own = [point for point in points if point.panel == name]
        layers = sorted({point.layer for point in own})
        temperatures = sorted({point.temperature for point in own if point.temperature is not None})
        axes.set_xlabel("layer")
        if not temperatures:
            axes.plot(layers, [_best(own, layer, None) for layer in layers], marker="o", color="tab:blue")
            margin = 0.05 * (high - low) or 0.01
            axes.set_ylim(low - margin, high + margin)
            axes.set_ylabel("Pearson r")
            return
        grid = np.array([[_best(own, layer, temperature) for layer in layers] for temperature in temperatures])
        axes.imshow(grid, origin="lower", aspect="auto", cmap="viridis", vmin=low, vmax=high)
        axes.set_xticks(range(len(layers)), [str(layer) for layer in layers])
        axes.set_yticks(range(len(temperatures)), [f"{temperature:g}" for temperature in temperatures], fontsize=7)
        axes.set_ylabel("T")
        row, column = np.unravel_index(np.nanargmax(grid), grid.shape)
        axes.text(
            float(column),
            float(row),
            f"{grid[row, column]:.3f}",
            ha="center",
            va="center",
            color="black",
            fontsize=7,
            backgroundcolor="white",
        )

    return draw_panels(list(dict.fromkeys(point.panel for point in points)), panel, title, suffix)


def _best(points: Sequence[SurfacePoint], layer: int, temperature: float | None) -> float:
    """The best of what was tried there; NaN, which is drawn as nothing, where nothing was."""
    return max(
        (point.value for point in points if (point.layer, point.temperature) == (layer, temperature)), default=math.nan
    )
