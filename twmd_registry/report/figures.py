"""Draw figures with matplotlib; return the file's bytes, equal for equal data. `suffix` is one of `SUFFIXES`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twmd_registry.errors import missing_extra
from twmd_registry.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
COLUMNS = 3
PANEL_INCHES = 2.6
CELL_INCHES = 0.3
"""Size of a matrix cell, enough for three digits."""


class SurfacePoint(NamedTuple):
    """The agreement of a setting. The temperature is None for metrics without one."""

    centering: str
    layer: int
    temperature: float | None
    agreement: float


def require_matplotlib(reason: str = "figures need matplotlib") -> None:
    """Raise MissingExtraError, with a reason, if matplotlib is missing. Call this before hours of scoring."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise missing_extra(reason, "plots") from error


@contextmanager
def plain_style(**settings: Any) -> Iterator[None]:
    """Draw with matplotlib's defaults and `settings`, ignoring the user's configuration."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        settings |= {"svg.hashsalt": "twmd", "svg.fonttype": "none", "pdf.fonttype": 42}
        mpl.rcParams.update(settings)  # type: ignore[arg-type]
        yield


def save_figure(figure: Figure, suffix: str, dpi: int = 150, **metadata: str) -> bytes:
    """Return a figure as a ``.png``, ``.svg`` or ``.pdf`` file without its date."""
    dates = {".svg": ["Date"], ".pdf": ["CreationDate", "Producer"]}.get(suffix, [])
    creator = {"Software" if suffix == ".png" else "Creator": f"twmd-registry {__version__}"}
    file = io.BytesIO()
    figure.savefig(file, format=suffix[1:], dpi=dpi, metadata=creator | metadata | dict.fromkeys(dates))
    return file.getvalue()


def draw_panels(
    names: Sequence[str], panel: Callable[[Axes, str], None], title: str, suffix: str, inches: float = PANEL_INCHES
) -> bytes:
    """Draw a panel per name in a grid; `panel` draws one, `inches` wide and high."""
    require_matplotlib()
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    with plain_style(**{"font.size": 8}):
        figure = Figure(figsize=(inches * columns, inches * rows), layout="constrained")
        figure.suptitle(title)
        for i, name in enumerate(names):
            axes = figure.add_subplot(rows, columns, i + 1)
            axes.set_title(name, fontsize=8)
            panel(axes, name)
        return save_figure(figure, suffix)


def scatter(
    ratings: np.ndarray,
    scores: Mapping[str, np.ndarray],
    title: str,
    suffix: str,
    *,
    label: str = "rating",
    line: bool = True,
) -> bytes:
    """Draw scores against ratings, labelled `label`; shape (N,) each. A line joins (lowest, 0) and (highest, 1)."""

    def panel(axes: Axes, name: str) -> None:
        axes.plot(ratings, scores[name], ".", markersize=2, alpha=0.4, color="tab:blue", rasterized=True)
        if line:
            axes.plot((ratings.min(), ratings.max()), (0, 1), color="black", linewidth=1)
        axes.set(xlabel=label, ylabel="score")

    return draw_panels(list(scores), panel, title, suffix)


def surface(points: Sequence[SurfacePoint], title: str, suffix: str) -> bytes:
    """Draw the best agreement by layer and temperature, or lines over layers; one panel per centering."""
    values = [point.agreement for point in points]
    low, high = min(values), max(values)

    def panel(axes: Axes, name: str) -> None:
        best: dict[tuple[float | None, int], float] = {}
        for point in points:
            if point.centering == name:
                place = point.temperature, point.layer
                best[place] = max(point.agreement, best.get(place, -math.inf))
        layers = sorted({layer for _, layer in best})
        temperatures = sorted({temperature for temperature, _ in best if temperature is not None})
        heights: Sequence[float | None] = temperatures or [None]
        grid = np.array([[best.get((t, layer), math.nan) for layer in layers] for t in heights])
        axes.set_xlabel("layer")
        if not temperatures:
            axes.plot(layers, grid[0], marker="o", color="tab:blue")
            margin = 0.05 * (high - low) or 0.01
            axes.set(ylim=(low - margin, high + margin), ylabel="Pearson r")
            return
        axes.imshow(grid, origin="lower", aspect="auto", cmap="viridis", vmin=low, vmax=high)
        axes.set_xticks(range(len(layers)), list(map(str, layers)))
        axes.set_yticks(range(len(temperatures)), [f"{t:g}" for t in temperatures], fontsize=7)
        axes.set_ylabel("T")
        row, column = np.unravel_index(np.nanargmax(grid), grid.shape)
        box: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "backgroundcolor": "white"}
        axes.text(float(column), float(row), f"{grid[row, column]:.3f}", **box)

    return draw_panels(list(dict.fromkeys(point.centering for point in points)), panel, title, suffix)


def matrices(panels: Mapping[str, np.ndarray], names: Sequence[str], title: str, suffix: str) -> bytes:
    """Draw the lower triangles of symmetric matrices, one per panel, with every number (0 to 100) in its cell."""

    def panel(axes: Axes, name: str) -> None:
        shown = np.where(np.tri(len(names), dtype=bool), panels[name], np.nan)
        axes.imshow(shown, cmap="Blues", vmin=0, vmax=100)
        axes.set_xticks(range(len(names)), list(names), rotation=45, ha="right", fontsize=6)
        axes.set_yticks(range(len(names)), list(names), fontsize=6)
        for i, j in np.argwhere(np.isfinite(shown)).tolist():
            colour = "white" if shown[i, j] > 60 else "black"
            axes.text(j, i, f"{shown[i, j]:.0f}", ha="center", va="center", fontsize=6, color=colour)

    return draw_panels(list(panels), panel, title, suffix, max(PANEL_INCHES, CELL_INCHES * len(names)))


def as_csv(header: Iterable[object], rows: Iterable[Iterable[object]]) -> bytes:
    """Return the data of a figure or study as CSV in full precision."""
    file = io.StringIO(newline="")
    csv.writer(file).writerows([header, *rows])
    return file.getvalue().encode()
