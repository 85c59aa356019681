"""A picture as one HTML file: a table per side, no script, nothing from elsewhere, light or dark as the reader
likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from twmd_registry.report.picture_text import HEADINGS, AxisMarginals, label, marginals, shown, title

if TYPE_CHECKING:
    from twmd_registry.engine.result import Alignment

FEW = 16
"""Columns up to which amounts are written into the cells."""
READING = "<p>Rows are the hypothesis's tokens, columns the reference's; point at a cell to read it.</p>"
LIGHT = (
    "--page: #fff; --ink: #1a1a1a; --line: #d8d8d8; --more: 8 48 107; --less: 165 15 21; --strong: #fff; --share: "
    "#b8b8b8; --sum: #08306b;"
)
DARK = (
    "--page: #16181c; --ink: #e8e8e8; --line: #3a3d44; --more: 140 195 255; --less: 255 150 130; --strong: #101010; "
    "--share: #6b7078; --sum: #8cc3ff;"
)
"""Colours, as variables."""
TABLES = """
.plan { overflow: auto; max-height: 90vh; max-width: max-content; }
.plan table { border-collapse: separate; border-spacing: 0; font-size: 13px; }
.plan th { position: sticky; background: var(--page); font-weight: normal; white-space: pre; z-index: 1; }
.plan thead th { top: 0; vertical-align: bottom; padding: .2rem 0 .4rem; z-index: 2; }
.plan thead th span { writing-mode: vertical-rl; transform: rotate(180deg); }
.plan tbody th, .plan tfoot th { left: 0; text-align: right; padding: 0 .6rem 0 .2rem; }
.plan thead th:first-child { left: 0; z-index: 3; text-align: right; padding-right: .6rem; }
.plan td { min-width: 1.5rem; height: 1.5rem; padding: 0 .15rem; text-align: center;
  border-right: 1px solid var(--line); border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
.plan td, td.heat { background: rgb(var(--more) / var(--a, 0)); }
.plan td.n, td.heat.n { background: rgb(var(--less) / var(--a, 0)); }
.plan td.s, td.heat.s { color: var(--strong); }
.plan .share { --bar: var(--share); } .plan .sum { --bar: var(--sum); }
.plan tbody td.share, .plan tbody td.sum { min-width: 4.5rem; text-align: left; padding-left: .4rem; border-right: 0;
  background: linear-gradient(to bottom, transparent 72%, var(--bar) 72%) no-repeat left / var(--w) 100%; }
.plan tfoot td { height: 3.5rem; border-bottom: 0; background: linear-gradient(var(--bar), var(--bar)) no-repeat top / 80% var(--w); }
.plan tfoot td:empty.blank { background: none; border: 0; }
.key { display: inline-block; width: 9rem; height: .9rem; vertical-align: middle; border: 1px solid var(--line);
  background: linear-gradient(to right, rgb(var(--more) / 0), rgb(var(--more) / 1)); }
.key.n { background: linear-gradient(to right, rgb(var(--less) / 1), rgb(var(--less) / 0) 50%, rgb(var(--more) / 0) 50%, rgb(var(--more) / 1)); }
"""
"""What `panels` writes, wherever it stands."""
STYLE = f"""
:root {{ color-scheme: light dark; {LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}
body {{ margin: 1.5rem; background: var(--page); color: var(--ink); font: 15px/1.4 system-ui, sans-serif; }}{TABLES}"""
"""Of every page with alignments in it: colours, and what `panels` writes."""
ALONE = """
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
small { display: block; margin-top: 1.5rem; overflow-wrap: anywhere; }
"""
"""Of a page with one alignment and nothing else."""


def page(alignment: Alignment) -> str:
    """Write an alignment as a page of HTML.

    Args:
        alignment: What to show.
    """
    heading = escape(title(alignment))
    lines = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{heading}</title>\n<style>{STYLE}{ALONE}</style>\n</head>\n<body>\n<h1>{heading}</h1>",
        READING,
        *panels(alignment),
    ]
    return "\n".join([*lines, f"<small>{escape(str(alignment.signature))}</small>\n</body>\n</html>\n"])


def panels(alignment: Alignment, *, level: int = 2, least: float = 0.0) -> Iterator[str]:
    """Write a heading, a key and a table per side of an alignment, for a page that has `STYLE`.

    Args:
        alignment: What to show.
        level: Of the headings.
        least: Cells that carry less than this share of the greatest amount stay empty, which saves nine tenths of a
            page.
    """
    for side in alignment.sides:
        most = float(np.abs(alignment.plans[side]).max()) or 1.0
        yield f"<h{level}>{escape(HEADINGS[side])}</h{level}>"
        yield _key(alignment.plans[side], most)
        yield '<div class="plan" tabindex="0">\n<table>'
        yield from _table(alignment, side, most, least)
        yield "</table>\n</div>"


def _key(plan: np.ndarray, most: float) -> str:
    """What a side's colours mean."""
    low, kind = (f"\N{MINUS SIGN}{most:.3g}", "key n") if (plan < 0).any() else ("0", "key")
    return f'<p>Colour: what the plan carries between two tokens, {low} <span class="{kind}"></span> {most:.3g}</p>'


def _table(alignment: Alignment, side: str, most: float, least: float) -> Iterator[str]:
    """The rows of one side's table: tokens, cells, bars."""
    of_rows, of_columns = marginals(alignment, side)
    columns = len(alignment.reference)
    heads = "".join(
        f'<th scope="col" {_whole(token)}><span dir="auto">{escape(label(token))}</span></th>'
        for token in alignment.reference
    )
    sums = '<th scope="col">sum</th>' if of_rows.differ else ""
    corner = f"hypothesis ({len(alignment.hypothesis)}) \\ reference ({columns})"
    yield f'<thead><tr><th scope="col">{corner}</th>{heads}<th scope="col">share</th>{sums}</tr></thead>'
    yield "<tbody>"
    top = _longest(of_rows)
    for i, token in enumerate(alignment.hypothesis):
        cells = "".join(_cell(alignment, (side, i, j), most, least) for j in range(columns))
        bars = "".join(
            _bar(name, values[i], top, token, side="hypothesis", text=f"{values[i]:.4f}")
            for name, values in _drawn(of_rows)
        )
        yield f'<tr><th scope="row" {_whole(token)} dir="auto">{escape(label(token))}</th>{cells}{bars}</tr>'
    yield "</tbody>\n<tfoot>"
    top = _longest(of_columns)
    for name, values in _drawn(of_columns):
        bars = "".join(
            _bar(name, value, top, token, side="reference")
            for value, token in zip(values, alignment.reference, strict=True)
        )
        yield f'<tr><th scope="row">{name} (up to {top:.4f})</th>{bars}</tr>'
    yield "</tfoot>"


def _longest(bars: AxisMarginals) -> float:
    """What the longest bar stands for."""
    return float(max(abs(values).max() for _, values in _drawn(bars))) or 1.0


def _drawn(bars: AxisMarginals) -> list[tuple[str, np.ndarray]]:
    """What is shown along an axis: sums only where they are not the shares."""
    return [("share", bars.shares), ("sum", bars.sums)][: 2 if bars.differ else 1]


def _whole(token: str) -> str:
    """A title that shows a token unshortened."""
    return f'title="{escape(shown(token))}"'


def _cell(alignment: Alignment, where: tuple[str, int, int], most: float, least: float) -> str:
    """One cell, coloured by its amount and explained by its title."""
    side, i, j = where
    amount, cosine = float(alignment.plans[side][i, j]), float(alignment.similarities[i, j])
    share = abs(amount) / most
    if share < least:
        return "<td></td>"
    names = " ".join(["n"] * (amount < 0) + ["s"] * (share > 0.5))
    tokens = f"{escape(shown(alignment.hypothesis[i]))} → {escape(shown(alignment.reference[j]))}"
    kind = f' class="{names}"' if names else ""
    text = f"{amount:.3f}" if len(alignment.reference) <= FEW else "\N{MINUS SIGN}" if amount < 0 else ""
    return f'<td{kind} style="--a:{share:.3f}" title="{tokens}: {amount:.4g}, cosine {cosine:.4f}">{text}</td>'


def _bar(name: str, value: float, most: float, token: str, *, side: str, text: str = "") -> str:
    """A marginal's bar, as long as it is much of the longest."""
    length = max(float(value), 0.0) / most
    return f'<td class="{name}" style="--w:{length:.1%}" title="{side} {escape(shown(token))}: {name} {value:.4g}">{text}</td>'
