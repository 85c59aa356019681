"""Draw an alignment as one heat map per side, in HTML, PNG, SVG or PDF."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from twmd_registry.engine.alignment import HEADINGS, against_of, heat_map_variables, label
from twmd_registry.errors import InputError, SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.paths import write_file
from twmd_registry.report.figures import plain_style, require_matplotlib, save_figure
from twmd_registry.template import render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from twmd_registry.engine.alignment import Alignment

SUFFIXES = (".png", ".svg", ".pdf", ".html")
MAX_TOKENS = 200
"""Maximum tokens per side of a legible picture."""
READING = "<p>Rows are the hypothesis's tokens, columns the other text's; hover over a cell to see its value.</p>"
BAR = 0.55
"""Length of the longest marginal bar in inches."""
PIXELS = 40_000_000
"""Approximate maximum number of pixels of a PNG."""
BASE_FONT = "DejaVu Sans"
"""A font that matplotlib includes."""
_UNFIT = ("Last Resort", "STIX", "cm", "DejaVu Sans Display", "DejaVu Serif Display")
"""Prefixes of the names of fonts without ordinary letters."""


def draw(alignment: Alignment, path: Path) -> None:
    """Draw an alignment to a file. Equal alignments and fonts yield equal bytes."""
    check_picture_file(path)
    check_drawable(alignment)
    suffix = path.suffix.lower()
    if suffix == ".html":
        about = {"title": title(alignment), "reading": READING, "signature": str(alignment.signature)}
        content = render("alignment_page.html", **heat_map_variables(alignment), **about).encode()
    else:
        content = _plot(alignment, suffix)
    write_file(path, content)


def check_picture_file(path: Path) -> None:
    """Raise SpecError for an unknown suffix, and MissingExtraError if it needs matplotlib and that is missing."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise SpecError(f"{path}: unknown suffix {path.suffix!r} for a picture; {menu(suffix, SUFFIXES)}.")
    if suffix != ".html":
        require_matplotlib(f"a picture as {suffix} needs matplotlib (.html needs nothing)")


def check_drawable(alignment: Alignment, max_tokens: int = MAX_TOKENS) -> None:
    """Raise InputError if a text has no tokens, and SpecError if it has more than `max_tokens`."""
    rows, columns = len(alignment.hypothesis), len(alignment.reference)
    if not rows or not columns:
        side = against_of(alignment) if rows else "hypothesis"
        raise InputError(f"nothing to draw: the {side} has no tokens.")
    if max(rows, columns) > max_tokens:
        more = f"'twmd align' draws up to {MAX_TOKENS}" if max_tokens < MAX_TOKENS else "explain(i) returns the data"
        raise SpecError(f"{rows} and {columns} tokens: pictures show at most {max_tokens} per side; {more}.")


def title(alignment: Alignment) -> str:
    """Return a picture's title: metric, output and score."""
    spec = alignment.signature.spec
    output = f", {spec.output.replace('f1', 'F1')}" if spec.output else ""
    return f"{spec.metric}{output}: {alignment.score:.4f}"


def _plot(alignment: Alignment, suffix: str) -> bytes:
    ignored = "Matplotlib currently does not support" + "|Glyph" * (suffix == ".svg")  # a browser has more fonts
    with plain_style(**{"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=ignored)
        figure = make_figure(alignment)
        width, height = figure.get_size_inches()
        dpi = max(100, min(170, int(math.sqrt(PIXELS / (width * height)))))
        about = "Subject" if suffix == ".pdf" else "Description"
        return save_figure(figure, suffix, dpi, **{"Title": title(alignment), about: str(alignment.signature)})


def make_figure(alignment: Alignment) -> Figure:
    """Draw an alignment on a figure that fits its tokens; call this inside `plain_style`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows, columns = (list(map(label, tokens)) for tokens in (alignment.hypothesis, alignment.reference))
    mpl.rcParams["font.family"] = [*find_fonts({c for text in (*rows, *columns) for c in text}), "sans-serif"]
    cell = min(0.5, max(0.14, 5 / max(len(rows), len(columns))))
    mpl.rcParams["font.size"] = font = min(10.0, cell * 72 * 0.66)
    left, above = (max(map(cell_len, labels)) * font * 0.7 / 72 for labels in (rows, columns))
    size = (left + len(columns) * cell + BAR + 0.8, above + len(rows) * cell + BAR + 1.3)
    width, height = max(size[0], 3.6), size[1]
    across, down = (len(alignment.sides), 1) if width < 1.5 * height else (1, len(alignment.sides))
    fields = str(alignment.signature).replace("|", "| ")  # lines break after a bar
    signature = textwrap.wrap(fields, int(across * width * 16), break_on_hyphens=False)
    figure = Figure(figsize=(across * width, down * height + 0.8 + 0.13 * len(signature)), layout="constrained")
    figure.suptitle(title(alignment), fontsize=11)
    figure.supxlabel("\n".join(signature).replace("| ", "|"), x=0.01, ha="left", fontsize=7)
    panels = figure.subfigures(down, across, squeeze=False).ravel()
    for side, panel in zip(alignment.sides, panels, strict=True):
        _draw_side(panel, alignment, side, (rows, columns), cell)
    return figure


def _draw_side(panel: SubFigure, alignment: Alignment, side: str, labels: Sequence[list[str]], cell: float) -> None:
    """Draw one side: heading, heat map, marginal bars along both axes, colour bar."""
    plan = alignment.plans[side]
    (rows, columns), most, negative = plan.shape, float(np.abs(plan).max()) or 1.0, bool((plan < 0).any())
    panel.suptitle(HEADINGS[side].format(against=against_of(alignment)).replace(", ", ",\n"), fontsize=9)
    ratios = {"width_ratios": (columns * cell, BAR), "height_ratios": (rows * cell, BAR)}
    (heat, right), (below, corner) = panel.subplots(2, 2, gridspec_kw=ratios)
    corner.set_axis_off()
    cmap = "RdBu" if negative else "Blues"
    image = heat.imshow(plan, cmap=cmap, vmin=-most if negative else 0.0, vmax=most, aspect="auto")
    i, j = np.nonzero(plan < 0)
    dashes = np.where(plan[i, j] < -0.6 * most, "white", "#202020").tolist()
    heat.scatter(j, i, marker="_", s=(cell * 29) ** 2, color=dashes, linewidth=1)
    heat.set_xticks(range(columns), labels[1], rotation=90)
    heat.set_yticks(range(rows), labels[0])
    heat.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    grid: dict[str, Any] = {"colors": "#d0d0d0", "linewidths": 0.5 if cell > 0.2 else 0.25}
    heat.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, **grid)
    heat.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, **grid)
    heat.set_xlabel(f"{against_of(alignment)} ({columns})", fontsize=8)
    heat.xaxis.set_label_position("top")
    heat.set_ylabel(f"hypothesis ({rows})", fontsize=8)
    _draw_bars(right, plan.sum(1), upright=False)
    _draw_bars(below, plan.sum(0), upright=True)
    key = panel.colorbar(image, ax=(heat, right, below, corner), location="bottom", shrink=0.8, fraction=0.03)
    key.set_label("amount between two tokens" + "\n(dash: negative)" * negative, fontsize=7)
    key.ax.tick_params(labelsize=7)
    key.set_ticks([image.norm.vmin, most], labels=[f"{end:.2g}" for end in (image.norm.vmin, most)])


def _draw_bars(axes: Axes, sums: np.ndarray, *, upright: bool) -> None:
    """Draw the plan's sums along one axis as bars that grow away from the heat map."""
    (axes.bar if upright else axes.barh)(np.arange(len(sums)), sums, 0.8, color="#08306b")
    axes.set_axis_off()
    ends, along = (min(sums.min(), 0.0), max(sums.max(), 0.0) or 1.0), (-0.5, len(sums) - 0.5)
    axes.set(xlim=along if upright else ends, ylim=ends[::-1] if upright else along[::-1])
    x, y, vertical = (-0.02, 0.0, "bottom") if upright else (1.0, -0.02, "top")
    axes.text(x, y, f"{ends[1]:.2g}", transform=axes.transAxes, fontsize=7, ha="right", va=vertical)


def find_fonts(characters: Iterable[str]) -> list[str]:
    """Find installed fonts for characters, the most general first. For characters without a font matplotlib warns."""
    names, missing = [BASE_FONT], set(characters) - _characters(BASE_FONT)
    for name in _installed_fonts() if missing else ():
        if missing & _characters(name):
            names.append(name)
            missing -= _characters(name)
    return names


def _installed_fonts() -> list[str]:
    """Return the families of regular fonts, Noto first."""
    from matplotlib.font_manager import fontManager

    regular = [font for font in fontManager.ttflist if font.style == "normal" and font.weight in (400, "normal")]
    names = {font.name for font in regular if not font.name.startswith(_UNFIT)}
    return sorted(names, key=lambda name: (not name.startswith("Noto"), name))


@lru_cache(maxsize=4096)
def _characters(family: str) -> frozenset[str]:
    """Return a font family's characters; none if its file cannot be read."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    try:
        file = findfont(FontProperties(family=[family]), fallback_to_default=False)
        return frozenset(map(chr, FT2Font(file).get_charmap()))
    except (OSError, RuntimeError, ValueError):
        return frozenset()
