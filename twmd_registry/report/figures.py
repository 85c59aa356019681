"""Figures of scores: against ratings, their densities by class, and as classifiers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from twmd_registry.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
COLUMNS = 3
CELL_INCHES = 2.6
POINTS = 201
"""Of a density's curve."""


def scatter(ratings: np.ndarray, scores: Mapping[str, np.ndarray], title: str, suffix: str) -> bytes:
    """Scores against ratings, with the diagonal from the lowest rating at 0 to the highest at 1.

    Args:
        ratings: Shape (N,).
        scores: By measure; shape (N,) each.
        title: Of the figure.
        suffix: Of `SUFFIXES`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    ends = float(ratings.min()), float(ratings.max())

    def panel(axes: Axes, name: str) -> None:
        axes.plot(ratings, scores[name], ".", markersize=2, alpha=0.4, color="tab:blue", rasterized=True)
        axes.plot(ends, (0, 1), color="black", linewidth=1)
        axes.set_xlabel("rating")
        axes.set_ylabel("score")

    return draw_panels(list(scores), panel, title, suffix)


def densities(classes: np.ndarray, scores: Mapping[str, np.ndarray], title: str, suffix: str) -> bytes:
    """The density of the scores in either class, by a Gaussian kernel of Scott's width.

    Args:
        classes: 0 or 1; shape (N,).
        scores: By measure; shape (N,) each.
        title: Of the figure.
        suffix: Of `SUFFIXES`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """

    def panel(axes: Axes, name: str) -> None:
        for value, colour, label in ((0, "tab:orange", "negative"), (1, "tab:blue", "positive")):
            x, y = density(scores[name][classes == value])
            axes.fill_between(x, y, alpha=0.4, color=colour, label=label)
        axes.set_xlabel("score")
        axes.set_ylabel("density")
        axes.legend(fontsize=7)

    return draw_panels(list(scores), panel, title, suffix)


def density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and heights of a density; a single line where all values are one number."""
    from scipy.stats import gaussian_kde

    if len(values) < 2 or np.ptp(values) <= 1e-9 * max(1.0, float(np.abs(values).max())):
        return np.array([values[0], values[0]]) if len(values) else np.zeros(2), np.array([0.0, 1.0])
    margin = 0.1 * float(np.ptp(values))
    x = np.linspace(values.min() - margin, values.max() + margin, POINTS)
    return x, gaussian_kde(values)(x)


def roc(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], title: str, suffix: str) -> bytes:
    """ROC curves in one panel, each with its area.

    Args:
        curves: By measure, shares of negatives and of positives; shape (points,) each.
        title: Of the figure.
        suffix: Of `SUFFIXES`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    from scipy.integrate import trapezoid

    def panel(axes: Axes, _name: str) -> None:
        for name, (false, true) in curves.items():
            axes.plot(false, true, label=f"{name} ({trapezoid(true, false):.3f})", linewidth=1)
        axes.plot((0, 1), (0, 1), color="black", linewidth=0.5)
        axes.set_xlabel("false positive rate")
        axes.set_ylabel("true positive rate")
        axes.legend(title="AUC", fontsize=6, title_fontsize=7)

    return draw_panels([""], panel, title, suffix, inches=2 * CELL_INCHES)


def as_csv(columns: Mapping[str, np.ndarray]) -> bytes:
    """The data of a figure: a header, then a row per segment, every number in full."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return file.getvalue().encode()


def require_matplotlib() -> None:
    """Say at once, and not after hours of scoring, that figures cannot be drawn.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: pip install 'twmd-registry[plots]'") from error


def draw_panels(
    names: list[str], panel: Callable[[Axes, str], None], title: str, suffix: str, inches: float = CELL_INCHES
) -> bytes:
    """Draw a panel per name, side by side; the same data give the same bytes.

    Args:
        names: Of the panels.
        panel: Draws the panel of a name.
        title: Of the figure.
        suffix: Of `SUFFIXES`.
        inches: Width and height of a panel.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    with mpl.rc_context():
        mpl.rcdefaults()  # what a user has set must not be seen in the bytes
        mpl.rcParams.update({"svg.hashsalt": "twmd", "svg.fonttype": "none", "font.size": 8})
        figure = Figure(figsize=(inches * columns, inches * rows), layout="constrained", dpi=150)
        figure.suptitle(title)
        for i, name in enumerate(names):
            axes = figure.add_subplot(rows, columns, i + 1)
            axes.set_title(name, fontsize=8)
            panel(axes, name)
        file = io.BytesIO()
        figure.savefig(
            file, format=suffix.removeprefix("."), metadata={"Date": None} if suffix == ".svg" else {"Software": None}
        )
    return file.getvalue()
