"""Figures of correlations of measures with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twmd_registry.report.figures import draw_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def matrices(panels: Mapping[str, np.ndarray], names: Sequence[str], title: str, suffix: str) -> bytes:
    """Draw the lower triangles of symmetric matrices, a panel each, every number written into its cell.

    Args:
        panels: By name, numbers from -100 to 100, NaN for an empty cell; shape (names, names). Those below 0 are as
            white as 0.
        names: Of rows and columns.
        title: Of the figure.
        suffix: Of `report.figures.SUFFIXES`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """

    def panel(axes: Axes, name: str) -> None:
        shown = np.where(np.tri(len(names), dtype=bool), panels[name], np.nan)
        axes.imshow(shown, cmap="Blues", vmin=0, vmax=100)
        axes.set_xticks(range(len(names)), list(names), rotation=45, ha="right", fontsize=6)
        axes.set_yticks(range(len(names)), list(names), fontsize=6)
        for i, j in np.argwhere(np.isfinite(shown)).tolist():
            axes.text(
                j,
                i,
                f"{shown[i, j]:.0f}",
                ha="center",
                va="center",
                fontsize=6,
                color="white" if shown[i, j] > 60 else "black",
            )

    return draw_panels(list(panels), panel, title, suffix)
