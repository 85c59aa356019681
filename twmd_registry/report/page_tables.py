"""The parts of a report's page that are there without its script: tables, histograms, correlations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np

from twmd_registry.comparison import Cell, Column, Comparison
from twmd_registry.errors import visible
from twmd_registry.notices import about_small_samples
from twmd_registry.report.histogram import histogram, line_style
from twmd_registry.report.remarkable import segment_scores
from twmd_registry.report.table import SIGNIFICANT, lines_of_test, number

UNDEFINED = "undefined"


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Write a table in a box of its own, which scrolls when it is too wide; every row is headed by its first cell.

    Args:
        head: What stands over the columns, as text.
        rows: The cells, as text.
        caption: What it shows, as text.
    """
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(text)}</td>" for text in others)}</tr>' for first, *others in rows
    )
    return _boxed(f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>", caption)


def _boxed(inside: str, caption: str) -> str:
    label = escape(caption)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><caption>{label}</caption>{inside}</table></div>'


def systems_table(comparison: Comparison, remarks: Sequence[str] = ()) -> str:
    """Corpus scores with their intervals, and what the test says.

    Args:
        comparison: The scores, with bootstrap intervals where there are several segments.
        remarks: Sentences that a reader of the scores needs.
    """
    rows = [[visible(name), *(_corpus_score(column, column.cells[i]) for column in comparison.columns)] for i, name in enumerate(comparison.systems)]
    rows[0][0] += " (baseline)" if len(rows) > 1 else ""
    caption = "score, then mean ± half the width of the bootstrap's 95%" if _has_intervals(comparison) else "score"
    table = html_table(["system", *(column.name for column in comparison.columns)], rows, caption)
    return "\n".join([table, *(f'<p class="note">{escape(visible(text))}</p>' for text in (*_notes(comparison), *remarks))])


def _has_intervals(comparison: Comparison) -> bool:
    return comparison.columns[0].cells[0].ci is not None


def _notes(comparison: Comparison) -> Iterator[str]:
    if comparison.test:
        yield " ".join(lines_of_test(comparison.test, comparison.systems[0]))
    small = about_small_samples({"": len(comparison.columns[0].cells[0].segments)})
    if small and _has_intervals(comparison):
        yield small
    errors = [column.name for column in comparison.columns if column.errors]
    if errors:
        yield f"{', '.join(errors)} counts errors: less is better."
    if any(column.hundred for column in comparison.columns):
        yield f"To 100: {', '.join(column.name for column in comparison.columns if column.hundred)}. The others: to 1."


def _corpus_score(column: Column, cell: Cell) -> str:
    lines = [shown(column, cell.score)]
    if cell.mean is not None and cell.ci is not None:
        lines.append(f"{shown(column, cell.mean)} ± {shown(column, cell.ci)}")
    if cell.p_value is not None:
        lines[0] += "*" if cell.p_value < SIGNIFICANT else ""
        lines.append(f"p = {cell.p_value:.4f}")
    return "\n".join(lines)


def digits_of(column: Column) -> int:
    """Digits after the point that a metric's numbers are shown with: as many as `twmd score` shows."""
    return len(number(column, 0.0).partition(".")[2])


def shown(column: Column, value: float) -> str:
    """A score as `twmd score` shows it; what is not finite is said in a word."""
    return number(column, value) if np.isfinite(value) else UNDEFINED


def distributions(comparison: Comparison) -> str:
    """A histogram and the quartiles of every metric's segment scores."""
    legend = " ".join(f"<span>{_sample(i)}{escape(visible(name))}</span>" for i, name in enumerate(comparison.systems))
    figures = "\n".join(_distribution(column, comparison.systems) for column in comparison.columns)
    return f'<p>{legend}</p>\n<div class="grid">\n{figures}\n</div>'


def _sample(i: int) -> str:
    """A piece of a system's line."""
    return f'<svg class="legend" viewBox="0 0 32 10" aria-hidden="true"><path class="{line_style(i)}" d="M0 5H32"/></svg>'


def _distribution(column: Column, systems: Sequence[str]) -> str:
    known = [own[np.isfinite(own)] for own in segment_scores(column)]
    missing = sum(len(cell.segments) for cell in column.cells) - sum(map(len, known))
    label = f"histogram of {column.name} over segments"
    drawing = histogram(known, label, digits_of(column)) if any(map(len, known)) else f"<p>{UNDEFINED}: no segment has a score.</p>"
    note = f'<p class="note">Scores that are {UNDEFINED} and left out: {missing}.</p>' if missing else ""
    rows = [[visible(name), *_quartiles(column, own)] for name, own in zip(systems, known, strict=True)]
    table = html_table(["system", "lowest", "25%", "median", "75%", "highest"], rows, f"quartiles of {column.name}")
    return f"<figure><figcaption>{escape(column.name)}</figcaption>{drawing}{note}{table}</figure>"


def _quartiles(column: Column, values: np.ndarray) -> list[str]:
    if not len(values):
        return [UNDEFINED] * 5
    return [shown(column, value) for value in np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()]


def correlation_tables(correlations: Mapping[str, np.ndarray], comparison: Comparison) -> str:
    """A matrix per statistic, coloured by its numbers.

    Args:
        correlations: By the statistic's name, of every metric with every other, from -1 to 1, NaN where undefined; shape (metrics, metrics) each.
        comparison: The scores.
    """
    systems = len(comparison.systems)
    scores = systems * len(comparison.columns[0].cells[0].segments)
    of = "" if systems == 1 else f", those of the {systems} systems together"
    about = f"Over {scores} score{'s' * (scores != 1)} of segments{of}. Undefined where a metric gives one number to all, or there are fewer than 3."
    errors = [column.name for column in comparison.columns if column.errors]
    sign = f" {', '.join(errors)} counts errors, so that its correlations with the others are negative where they agree." if errors else ""
    tables = "\n".join(f"<div>{_matrix(name, values, [column.name for column in comparison.columns])}</div>" for name, values in correlations.items())
    return f'<p class="note">{escape(about + sign)}</p>\n<div class="grid">\n{tables}\n</div>'


def _matrix(statistic: str, values: np.ndarray, names: Sequence[str]) -> str:
    heads = "".join(f'<th scope="col">{escape(name).replace("_", "_<wbr>")}</th>' for name in names)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(map(_coloured, own))}</tr>' for name, own in zip(names, values.tolist(), strict=True)
    )
    return _boxed(f'<thead><tr><th scope="col">metric</th>{heads}</tr></thead><tbody>{rows}</tbody>', statistic.capitalize())


def _coloured(value: float) -> str:
    if not np.isfinite(value):
        return f'<td class="undefined">{UNDEFINED}</td>'
    names = " ".join(["heat", *["n"] * (value < 0), *["s"] * (abs(value) > 0.5)])
    return f'<td class="{names}" style="--a:{abs(value):.2f}">{value:.3f}</td>'
