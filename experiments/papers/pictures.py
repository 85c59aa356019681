"""Pictures of the papers: densities of scores by class, ROC curves, and curves with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from twmd_registry.report.figures import PANEL_INCHES, draw_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DENSITY_POINTS = 201
NORMAL_95 = 1.96
Curve: TypeAlias = Sequence[np.ndarray]
"""x, y and optionally the standard errors of y; shape (points,) each. NaN leaves a gap."""


def densities(classes: np.ndarray, scores: Mapping[str, np.ndarray], title: str, suffix: str) -> bytes:
    """Draw a Gaussian kernel density estimate, with Scott's bandwidth, of each class's scores; classes are 0 and 1."""
    from scipy.stats import gaussian_kde

    def panel(axes: Axes, name: str) -> None:
        for value, colour, label in ((0, "tab:orange", "negative"), (1, "tab:blue", "positive")):
            class_scores = scores[name][classes == value]
            # A line if all scores are equal.
            x, y = np.repeat(class_scores[:1], 2), np.array([0.0, 1.0])[: 2 * len(class_scores)]
            if len(class_scores) > 1 and np.ptp(class_scores) > 1e-9 * max(1.0, np.abs(class_scores).max()):
                margin = 0.1 * np.ptp(class_scores)
                x = np.linspace(class_scores.min() - margin, class_scores.max() + margin, DENSITY_POINTS)
                y = gaussian_kde(class_scores)(x)
            axes.fill_between(x, y, alpha=0.4, color=colour, label=label)
        axes.set(xlabel="score", ylabel="density")
        axes.legend(fontsize=7)

    return draw_panels(list(scores), panel, title, suffix)


def roc(rates: Mapping[str, tuple[np.ndarray, np.ndarray]], title: str, suffix: str) -> bytes:
    """Draw ROC curves (false and true positive rates by measure) in one panel, each labelled with its area."""
    from scipy.integrate import trapezoid

    def panel(axes: Axes, _name: str) -> None:
        for name, (false, true) in rates.items():
            axes.plot(false, true, label=f"{name} ({trapezoid(true, false):.3f})", linewidth=1)
        axes.plot((0, 1), (0, 1), color="black", linewidth=0.5)
        axes.set(xlabel="false positive rate", ylabel="true positive rate")
        axes.legend(title="AUC", fontsize=6, title_fontsize=7)

    return draw_panels([""], panel, title, suffix, inches=2 * PANEL_INCHES)


def curves(
    panels: Mapping[str, Mapping[str, Curve]], labels: tuple[str, str], title: str, suffix: str, logarithmic: str = ""
) -> bytes:
    """Draw curves by panel and name, with 95% bands (1.96 standard errors) if errors are known.

    All panels share the range of y. `labels` name x and y; `logarithmic` names axes: ``x``, ``y`` or both.
    """
    values = np.concatenate([y for named_curves in panels.values() for _, y, *_ in named_curves.values()])
    known = values[~np.isnan(values)]

    def panel(axes: Axes, name: str) -> None:
        for curve, (x, y, *errors) in panels[name].items():
            (line,) = axes.plot(x, y, ".-", linewidth=1, markersize=4, label=curve)
            for error in errors:
                ends = y - NORMAL_95 * error, y + NORMAL_95 * error
                axes.fill_between(x, *ends, alpha=0.3, color=line.get_color(), linewidth=0)
        scales = {f"{axis}scale": "log" if axis in logarithmic else "linear" for axis in "xy"}
        axes.set(xlabel=labels[0], ylabel=labels[1], **scales)
        if len(known) and np.ptp(known) > 0 and "y" not in logarithmic:
            margin = 0.05 * np.ptp(known)
            axes.set_ylim(known.min() - margin, known.max() + margin)
        axes.legend(fontsize=6)

    return draw_panels(list(panels), panel, title, suffix)
