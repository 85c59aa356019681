"""A picture by matplotlib: all places are computed in inches from the upper left corner, so that nothing meets
anything.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from twmd_registry.errors import warn
from twmd_registry.report import picture_text
from twmd_registry.report.picture_text import (
    BASE_FONT,
    BOX,
    HEADINGS,
    AxisMarginals,
    label,
    marginals,
    title,
    unseen,
    wide,
)
from twmd_registry.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from twmd_registry.engine.result import Alignment

POINTS = 72
"""Points of an inch."""
MARGIN = 0.25
GAP = 0.07
BAR = 0.55
"""Length of the longest marginal bar."""
KEY_WIDTH, KEY_HEIGHT = 2.6, 0.6
HEADING, NAME, SMALL = 9.0, 8.0, 7.0
"""Sizes of fonts in points."""
SHARE, SUM = "#b8b8b8", "#08306b"
"""Of the marginal bars: far apart in grey, too."""
COLOUR, SUMS = "colour: what the plan carries between two tokens", "what the plan's rows or columns sum to"
PIXELS = 40_000_000
"""Of the largest PNG, about."""


@dataclass(frozen=True)
class _FigureSheet:
    """A figure on which everything is placed in inches from the upper left corner.

    Attributes:
        figure: What is drawn on.
        width: Of the figure.
        height: Of the figure.
    """

    figure: Figure
    width: float
    height: float

    def text(self, x: float, y: float, content: str, size: float, **how: Any) -> None:
        """Write, from the left and below `y` if `how` does not say otherwise; dollars are dollars."""
        where = {"ha": "left", "va": "top"} | how
        self.figure.text(x / self.width, 1 - y / self.height, content, fontsize=size, parse_math=False, **where)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """A field without frame and ticks."""
        axes = self.figure.add_axes(
            (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        )
        axes.set_axis_off()
        return axes


@dataclass(frozen=True)
class _TokenLabels:
    """All labels, ready to be drawn.

    Attributes:
        rows: Of the hypothesis.
        columns: Of the reference.
        families: Fonts that have their characters.
        row_width: Inches that the longest of `rows` takes, at a size of one point.
        column_width: Likewise, of `columns`.
    """

    rows: list[str]
    columns: list[str]
    families: list[str]
    row_width: float
    column_width: float


@dataclass(frozen=True)
class _ColourScale:
    """What colours and bars mean in one panel.

    Attributes:
        low: Least that a cell can show: 0, or minus `high` when the plan has negative amounts.
        high: Most.
        map: Name of the colour map.
        rows: Ends of the axis of the rows' bars.
        columns: Likewise, of the columns'.
    """

    low: float
    high: float
    map: str
    rows: tuple[float, float]
    columns: tuple[float, float]


@dataclass(frozen=True)
class _Layout:
    """Sizes in inches, of a panel from its upper left corner.

    Attributes:
        cell: Edge of a cell.
        font: Points of the tokens' font.
        left: Where the heat map begins.
        top: Where it begins.
        panel: Width and height of a panel.
        beside: Whether panels stand side by side.
    """

    cell: float
    font: float
    left: float
    top: float
    panel: tuple[float, float]
    beside: bool


def plot(alignment: Alignment, suffix: str) -> bytes:
    """Draw an alignment as a PNG or an SVG.

    Args:
        alignment: What to draw.
        suffix: ``.png`` or ``.svg``.
    """
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph|Matplotlib currently does not support")
        figure = make_figure(alignment, suffix)
        out = BytesIO()
        if suffix == ".svg":
            made = {
                "Date": None,
                "Creator": f"twmd-registry {__version__}",
                "Title": title(alignment),
                "Description": str(alignment.signature),
            }
            figure.savefig(out, format="svg", metadata=made)
        else:
            made = {
                "Software": f"twmd-registry {__version__}",
                "Title": title(alignment),
                "Description": str(alignment.signature),
            }
            width, height = figure.get_size_inches()
            figure.savefig(
                out, format="png", dpi=max(100, min(170, int(math.sqrt(PIXELS / (width * height))))), metadata=made
            )
    return out.getvalue()


def make_figure(alignment: Alignment, suffix: str) -> Figure:
    """Draw on a figure that is as large as it takes; call it within ``rc_context``.

    Args:
        alignment: What to draw.
        suffix: ``.png`` or ``.svg``.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mpl.rcdefaults()
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "twmd-registry", "text.hinting": "none"})
    words = _words(alignment, png=suffix == ".png")
    mpl.rcParams["font.family"] = words.families
    layout = _layout(words, [HEADINGS[side] for side in alignment.sides])
    panels = len(alignment.sides)
    across, down = (panels, 1) if layout.beside else (1, panels)
    width = 2 * MARGIN + max(across * layout.panel[0], _width([title(alignment)], HEADING + 2))
    small = _wrapped(str(alignment.signature), width - 2 * MARGIN)
    body = MARGIN + 0.35 + down * layout.panel[1]
    notes = body + 0.45
    height = notes + 0.13 * len(small) + MARGIN
    sheet = _FigureSheet(Figure(figsize=(width, height), facecolor="white"), width, height)
    FigureCanvasAgg(sheet.figure)
    sheet.text(MARGIN, MARGIN, title(alignment), HEADING + 2)
    for number, side in enumerate(alignment.sides):
        x, y = (number * layout.panel[0], 0.0) if layout.beside else (0.0, number * layout.panel[1])
        _panel(sheet, alignment, side, words, layout, corner=(MARGIN + x, MARGIN + 0.35 + y))
    sums = any(bars.differ for side in alignment.sides for bars in marginals(alignment, side))
    _legend(sheet, MARGIN, body, sums=sums)
    for number, line in enumerate(small):
        sheet.text(MARGIN, notes + 0.13 * number, line, SMALL, color="#404040")
    return sheet.figure


def _words(alignment: Alignment, *, png: bool) -> _TokenLabels:
    """Label everything; where we choose the fonts, characters that none has become boxes and are warned of."""
    rows, columns = list(map(label, alignment.hypothesis)), list(map(label, alignment.reference))
    families, missing = picture_text.families({*"".join(rows + columns)} | {BOX})
    seen = {c for c in missing if not unseen(c)}
    measured = str.maketrans({c: ("—" if wide(c) else "m") if c in seen else "" for c in missing})
    widths = [
        _width([text.translate(measured) for text in texts], POINTS, families) / POINTS for texts in (rows, columns)
    ]
    if png:
        boxes = str.maketrans({c: BOX if c in seen else "" for c in missing})
        rows, columns = [text.translate(boxes) for text in rows], [text.translate(boxes) for text in columns]
        if seen:
            warn(picture_text.lacking(seen))
    return _TokenLabels(rows, columns, families if png else [*families, "sans-serif"], *widths)


def _width(texts: list[str], size: float, families: list[str] | None = None) -> float:
    """Inches that the longest text takes."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    untyped: Any = RendererAgg
    renderer = untyped(1, 1, POINTS)
    font = FontProperties(family=families or [BASE_FONT], size=size)
    return (
        max(float(renderer.get_text_width_height_descent(text, font, ismath=False)[0]) for text in texts)
        * 1.05
        / POINTS
    )


def _wrapped(signature: str, width: float) -> list[str]:
    """A signature in lines no longer than `width`, broken after its bars if it can be."""
    lines = [""]
    for field in signature.replace("|", "|\0").split("\0"):
        if lines[-1] and _width([lines[-1] + field], SMALL) > width:
            lines.append("")
        for character in field:
            if _width([lines[-1] + character], SMALL) > width:
                lines.append("")
            lines[-1] += character
    return lines


def _scale(alignment: Alignment, side: str) -> _ColourScale:
    """Find what a panel's colours and bars have to show."""
    plan, bars = alignment.plans[side], marginals(alignment, side)
    most, negative = float(np.abs(plan).max()) or 1.0, bool((plan < 0).any())
    rows, columns = map(_ends, bars)
    return _ColourScale(-most if negative else 0.0, most, "RdBu" if negative else "Blues", rows, columns)


def _ends(bars: AxisMarginals) -> tuple[float, float]:
    """The least and the most that an axis has to show, 0 among it."""
    values = np.concatenate([bars.shares, bars.sums])
    return min(0.0, float(values.min())), max(0.0, float(values.max())) or 1.0


def _number(value: float, digits: int) -> str:
    """A number as it stands at an axis."""
    return f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def _layout(words: _TokenLabels, headings: list[str]) -> _Layout:
    """Size everything by the number of tokens and the longest of their labels."""
    rows, columns = len(words.rows), len(words.columns)
    cell = min(0.5, max(0.14, 5 / max(rows, columns)))
    font = min(10.0, cell * POINTS * 0.66)
    left = 0.22 + max(words.row_width * font, 0.4) + GAP
    top = 0.5 + words.column_width * font + GAP
    width = max(left + columns * cell + GAP + BAR, _width(headings, HEADING), _width([COLOUR], SMALL) + 1) + MARGIN
    height = top + rows * cell + GAP + BAR + KEY_HEIGHT + MARGIN
    beside, below = (
        abs(math.log(len(headings) * width / height / 1.4)),
        abs(math.log(width / height / len(headings) / 1.4)),
    )
    return _Layout(cell, font, left, top, (width, height), beside <= below)


def _panel(
    sheet: _FigureSheet,
    alignment: Alignment,
    side: str,
    words: _TokenLabels,
    layout: _Layout,
    *,
    corner: tuple[float, float],
) -> None:
    """One side: heading, heat map with its labels, bars along both axes."""
    x, y = corner
    scale, (rows, columns) = _scale(alignment, side), alignment.plans[side].shape
    left, top, width, height = x + layout.left, y + layout.top, columns * layout.cell, rows * layout.cell
    sheet.text(x, y, HEADINGS[side], HEADING)
    sheet.text(left, y + 0.25, f"reference ({columns})", NAME, color="#404040")
    sheet.text(x, top, f"hypothesis ({rows})", NAME, color="#404040", rotation=90, va="top")
    for number, token in enumerate(words.rows):
        sheet.text(left - GAP, top + (number + 0.5) * layout.cell, token, layout.font, ha="right", va="center")
    for number, token in enumerate(words.columns):
        where = {"rotation": 90, "rotation_mode": "anchor", "va": "center"}
        sheet.text(left + (number + 0.5) * layout.cell, top - GAP, token, layout.font, **where)
    _heat(sheet.axes(left, top, width, height), alignment.plans[side], scale, layout.cell)
    of_rows, of_columns = marginals(alignment, side)
    right, below = left + width + GAP, top + height + GAP
    _bars(sheet.axes(right, top, BAR, height), of_rows, scale, upright=False)
    _bars(sheet.axes(left, below, width, BAR), of_columns, scale, upright=True)
    low, high = (_number(end, 2) for end in scale.rows)
    sheet.text(right, below if scale.rows[0] else top - 0.03, low, SMALL, va="top" if scale.rows[0] else "bottom")
    sheet.text(right + BAR, top - 0.03, high, SMALL, ha="right", va="bottom")
    low, high = (_number(end, 2) for end in scale.columns)
    sheet.text(left - 0.05, below, low, SMALL, ha="right")
    sheet.text(left - 0.05, below + BAR, high, SMALL, ha="right", va="bottom")
    _key(sheet, scale, x, below + BAR + 0.15)


def _heat(axes: Axes, plan: np.ndarray, scale: _ColourScale, cell: float) -> None:
    """Cells, as dark as they carry much; a dash in those that carry less than nothing."""
    rows, columns = plan.shape
    axes.imshow(
        plan,
        cmap=scale.map,
        vmin=scale.low,
        vmax=scale.high,
        aspect="auto",
        interpolation="none",
        extent=(0, columns, rows, 0),
    )
    thin: dict[str, Any] = {"colors": "#d0d0d0", "linewidths": 0.5 if cell > 0.2 else 0.25}
    axes.hlines(range(rows + 1), 0, columns, clip_on=False, **thin)
    axes.vlines(range(columns + 1), 0, rows, clip_on=False, **thin)
    for strong, colour in ((False, "#202020"), (True, "white")):
        i, j = np.nonzero((plan < 0) & ((plan < 0.6 * scale.low) == strong))
        axes.plot(j + 0.5, i + 0.5, "_", color=colour, markersize=cell * POINTS * 0.4)
    axes.set(xlim=(0, columns), ylim=(rows, 0))


def _bars(axes: Axes, bars: AxisMarginals, scale: _ColourScale, *, upright: bool) -> None:
    """Shares along an axis, and beside each the plan's sum if they differ; bars grow away from the heat map."""
    draw = axes.bar if upright else axes.barh
    number = np.arange(len(bars.shares))
    thick = 0.4 if bars.differ else 0.8
    draw(number + (0.3 if bars.differ else 0.5), bars.shares, thick, color=SHARE)
    if bars.differ:
        draw(number + 0.7, bars.sums, thick, color=SUM)
    (axes.axhline if upright else axes.axvline)(0, color="#808080", linewidth=0.5)
    if upright:
        axes.set(xlim=(0, len(number)), ylim=scale.columns[::-1])
    else:
        axes.set(xlim=scale.rows, ylim=(len(number), 0))


def _key(sheet: _FigureSheet, scale: _ColourScale, x: float, y: float) -> None:
    """What a panel's colours mean."""
    bar = sheet.axes(x, y + 0.17, KEY_WIDTH, 0.13)
    bar.imshow(np.linspace(scale.low, scale.high, 256)[None], cmap=scale.map, aspect="auto", extent=(0, 1, 0, 1))
    bar.plot([0, 1, 1, 0, 0], [0, 0, 1, 1, 0], color="#808080", linewidth=0.5, clip_on=False)
    sheet.text(x, y, COLOUR + (" (dash: negative)" if scale.low < 0 else ""), SMALL)
    for share, align in ((0.0, "left"), (0.5, "center"), (1.0, "right")):
        sheet.text(
            x + share * KEY_WIDTH, y + 0.33, _number(scale.low + share * (scale.high - scale.low), 3), SMALL, ha=align
        )


def _legend(sheet: _FigureSheet, x: float, y: float, *, sums: bool) -> None:
    """What the bars along the axes mean."""
    entries = (
        [(SHARE, "tokens' shares"), (SUM, f"{SUMS}, where it differs")]
        if sums
        else [(SHARE, f"tokens' shares: {SUMS}")]
    )
    for number, (colour, meaning) in enumerate(entries):
        sheet.axes(x, y + 0.18 * number + 0.01, 0.13, 0.1).axvspan(0, 1, color=colour)
        sheet.text(x + 0.19, y + 0.18 * number, meaning, SMALL)
