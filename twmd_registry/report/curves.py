"""Figures of numbers that change with a layer, a temperature or a number of sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twmd_registry.report.figures import draw_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NORMAL_95 = 1.96


class PlotCurve(NamedTuple):
    """One curve.

    Attributes:
        name: What it is of.
        x: Shape (points,).
        y: Likewise; NaN leaves a gap.
        error: Standard errors, likewise; None where there are none.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    error: np.ndarray | None = None


class PlotAxis(NamedTuple):
    """An axis: what it says, and whether it is logarithmic."""

    label: str
    logarithmic: bool = False


def curves(panels: Mapping[str, Sequence[PlotCurve]], x: PlotAxis, y: PlotAxis, title: str, suffix: str) -> bytes:
    """Draw curves, a panel per name, with bands of 95% (1.96 standard errors) where errors are known.

    Args:
        panels: By name, what is in a panel; all panels share the range of y.
        x: The axis of what is varied.
        y: The axis of what is measured.
        title: Of the figure.
        suffix: Of `report.figures.SUFFIXES`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    low, high = _range([curve for own in panels.values() for curve in own])

    def panel(axes: Axes, name: str) -> None:
        for curve in panels[name]:
            (line,) = axes.plot(curve.x, curve.y, ".-", linewidth=1, markersize=4, label=curve.name)
            if curve.error is not None:
                half = NORMAL_95 * curve.error
                axes.fill_between(
                    curve.x, curve.y - half, curve.y + half, alpha=0.3, color=line.get_color(), linewidth=0
                )
        axes.set(
            xlabel=x.label,
            ylabel=y.label,
            xscale="log" if x.logarithmic else "linear",
            yscale="log" if y.logarithmic else "linear",
        )
        if low < high and not y.logarithmic:
            margin = 0.05 * (high - low)
            axes.set_ylim(low - margin, high + margin)
        axes.legend(fontsize=6)

    return draw_panels(list(panels), panel, title, suffix)


def _range(every: Sequence[PlotCurve]) -> tuple[float, float]:
    """The lowest and the highest number; (0, 0) where there is none."""
    values = np.concatenate([curve.y for curve in every])
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
