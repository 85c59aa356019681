"""The parts of a report's page that are there without its script: tables, histograms, correlations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import combinations

import numpy as np

from twmd_registry.engine.input_warnings import describe_small_samples
from twmd_registry.errors import visible
from twmd_registry.record.content import MetricColumn, SystemComparison, SystemScore
from twmd_registry.report.groups import Group, frequencies, group_by, lengths
from twmd_registry.report.highlights import segment_scores
from twmd_registry.report.histogram import histogram, line_style
from twmd_registry.report.table import SIGNIFICANT, lines_of_test, number

UNDEFINED = "undefined"


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Write a table in a box of its own, which scrolls when it is too wide; every row is headed by its first cell.

    Args:
        head: What stands over the columns, as text; from a line break on it is smaller.
        rows: The cells, as text.
        caption: What it shows, as text.
    """
    heads = "".join(map(_head, head))
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(text)}</td>" for text in others)}</tr>'
        for first, *others in rows
    )
    return _boxed(f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>", caption)


def _head(text: str) -> str:
    name, _, detail = text.partition("\n")
    return f'<th scope="col">{escape(name).replace("_", "_<wbr>")}{f" <small>{escape(detail)}</small>" if detail else ""}</th>'


def direction(column: MetricColumn) -> str:
    """Say which scores of a metric are better."""
    return "↓ lower is better" if column.errors else "↑ higher is better"


def _metric_heads(comparison: SystemComparison) -> list[str]:
    return [f"{column.name}\n{direction(column)}" for column in comparison.columns]


def _boxed(inside: str, caption: str) -> str:
    label = escape(caption)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><caption><span>{label}</span></caption>{inside}</table></div>'


def systems_table(comparison: SystemComparison, remarks: Sequence[str] = ()) -> str:
    """Corpus scores with their intervals, and what the test says.

    Args:
        comparison: The scores, with bootstrap intervals where there are several segments.
        remarks: Sentences that a reader of the scores needs.
    """
    rows = [
        [visible(name), *(_corpus_score(column, column.cells[i]) for column in comparison.columns)]
        for i, name in enumerate(comparison.systems)
    ]
    rows[0][0] += " (baseline)" if len(rows) > 1 else ""
    caption = "corpus scores"
    if _has_intervals(comparison):
        caption += "; below each, the mean of the bootstrap resamples ± half the width of their 95% interval"
    table = html_table(["system", *_metric_heads(comparison)], rows, caption)
    return "\n".join(
        [table, *(f'<p class="note">{escape(visible(text))}</p>' for text in (*_notes(comparison), *remarks))]
    )


def _has_intervals(comparison: SystemComparison) -> bool:
    return comparison.columns[0].cells[0].ci is not None


def _notes(comparison: SystemComparison) -> Iterator[str]:
    if comparison.resampling and comparison.resampling.test:
        yield " ".join(lines_of_test(comparison.resampling, comparison.systems[0]))
    small = describe_small_samples({"": len(comparison.columns[0].cells[0].segments)})
    if small and _has_intervals(comparison):
        yield small
    hundred = [column.name for column in comparison.columns if column.hundred]
    if hundred:
        yield f"Scores on a scale to 100: {', '.join(hundred)}. All other scores are on a scale to 1."


def _corpus_score(column: MetricColumn, cell: SystemScore) -> str:
    lines = [shown(column, cell.score)]
    if cell.mean is not None and cell.ci is not None:
        lines.append(f"{shown(column, cell.mean)} ± {shown(column, cell.ci)}")
    if cell.p_value is not None:
        lines[0] += "*" if cell.p_value < SIGNIFICANT else ""
        lines.append(f"p = {cell.p_value:.4f}")
    return "\n".join(lines)


def differences_table(comparison: SystemComparison) -> str:
    """Write the difference between any two systems by every metric, with its bootstrap interval.

    Args:
        comparison: The scores. Without resamples in their cells there are no intervals, and the table is left out.
    """
    resampling = comparison.resampling
    if resampling is None or not comparison.columns[0].cells[0].resampled:
        return ""
    names = list(map(visible, comparison.systems))
    pairs = list(combinations(range(len(names)), 2))
    rows = [
        [f"{names[i]} minus {names[j]}", *(_difference(column, i, j) for column in comparison.columns)]
        for i, j in pairs
    ]
    caption = "differences between the scores of two systems; below each, its 95% interval"
    note = (
        f"An interval holds the middle 95% of the differences over the {resampling.samples} resamples of the paired "
        "bootstrap. "
        "A resample scores both systems on the same segments. † marks an interval that does not contain 0."
    )
    table = html_table(["systems", *_metric_heads(comparison)], rows, caption)
    return f'<div id="differences">{table}<p class="note">{escape(note)}</p></div>'


def _difference(column: MetricColumn, i: int, j: int) -> str:
    """One metric's score of system i minus that of system j."""
    first, second = column.cells[i], column.cells[j]
    low, high = np.quantile(np.subtract(first.resampled, second.resampled), (0.025, 0.975)).tolist()
    mark = "†" if low > 0 or high < 0 else ""
    return f"{shown(column, first.score - second.score)}{mark}\n{shown(column, low)} to {shown(column, high)}"


def group_tables(comparison: SystemComparison, references: Sequence[Sequence[str]]) -> str:
    """Write mean scores of groups of segments: by the length of the reference, and by the frequency of its words.

    Args:
        comparison: The scores, of every segment.
        references: Per segment its references.
    """
    about = (
        "Segments are split into up to four groups of about equal size: by the number of words of the first reference, "
        "and by the frequency of these words, the geometric mean of how often each of them occurs in all references. "
        "Words are in lower case and without punctuation; in scripts without blanks, a word is a character. "
        "The tables show means of segment scores. Undefined scores are left out. A segment without a word has "
        "no frequency."
    )
    if any(column.hundred for column in comparison.columns):
        about += " For SacreBLEU's metrics, the mean of segment scores is not the corpus score."
    by_length = [(_range(group, "word", 0), group) for group in group_by(lengths(references))]
    by_frequency = [(_range(group, "time", 1), group) for group in group_by(frequencies(references))]
    tables = [
        f"<div>{_group_table(column, comparison.systems, groups, what)}</div>"
        for column in comparison.columns
        for what, groups in (
            ("length of the reference", by_length),
            ("frequency of the reference's words", by_frequency),
        )
        if groups
    ]
    return f'<p class="note">{escape(about)}</p>\n<div class="grid">\n{"".join(tables)}\n</div>'


def _range(group: Group, unit: str, digits: int) -> str:
    low, high = (f"{value:.{digits}f}" for value in (group.low, group.high))
    number = len(group.segments)
    values = f"{low} to {high}" if low != high else low
    return f"{values} {unit}{'s' * (values != '1')}\n{number} segment{'s' * (number != 1)}"


def _group_table(column: MetricColumn, systems: Sequence[str], groups: Sequence[tuple[str, Group]], what: str) -> str:
    scores = segment_scores(column)
    rows = [
        [visible(name), *(_mean(column, own[group.segments]) for _, group in groups)]
        for name, own in zip(systems, scores, strict=True)
    ]
    return html_table(
        ["system", *(head for head, _ in groups)], rows, f"mean {column.name} ({direction(column)}) by {what}"
    )


def _mean(column: MetricColumn, scores: np.ndarray) -> str:
    known = scores[np.isfinite(scores)]
    return shown(column, float(known.mean())) if len(known) else UNDEFINED


def digits_of(column: MetricColumn) -> int:
    """Digits after the point that a metric's numbers are shown with: as many as `twmd score` shows."""
    return len(number(column, 0.0).partition(".")[2])


def shown(column: MetricColumn, value: float) -> str:
    """A score as `twmd score` shows it; what is not finite is said in a word."""
    return number(column, value) if np.isfinite(value) else UNDEFINED


def distributions(comparison: SystemComparison) -> str:
    """A histogram and the quartiles of every metric's segment scores."""
    legend = " ".join(f"<span>{_sample(i)}{escape(visible(name))}</span>" for i, name in enumerate(comparison.systems))
    figures = "\n".join(_distribution(column, comparison.systems) for column in comparison.columns)
    return f'<p>{legend}</p>\n<div class="grid">\n{figures}\n</div>'


def _sample(i: int) -> str:
    """A piece of a system's line."""
    return (
        f'<svg class="legend" viewBox="0 0 32 10" aria-hidden="true"><path class="{line_style(i)}" d="M0 5H32"/></svg>'
    )


def _distribution(column: MetricColumn, systems: Sequence[str]) -> str:
    known = [own[np.isfinite(own)] for own in segment_scores(column)]
    missing = sum(len(cell.segments) for cell in column.cells) - sum(map(len, known))
    label = f"histogram of the segment scores by {column.name}"
    drawing = (
        histogram(known, label, digits_of(column))
        if any(map(len, known))
        else f"<p>{UNDEFINED}: no segment has a score.</p>"
    )
    note = f'<p class="note">Left out: {missing} {UNDEFINED} score{"s" * (missing != 1)}.</p>' if missing else ""
    rows = [[visible(name), *_quartiles(column, own)] for name, own in zip(systems, known, strict=True)]
    table = html_table(
        ["system", "lowest", "25%", "median", "75%", "highest"],
        rows,
        f"quartiles of the segment scores by {column.name}",
    )
    return (
        f"<figure><figcaption>{escape(column.name)} "
        f"<small>{direction(column)}</small></figcaption>{drawing}{note}{table}</figure>"
    )


def _quartiles(column: MetricColumn, values: np.ndarray) -> list[str]:
    if not len(values):
        return [UNDEFINED] * 5
    return [shown(column, value) for value in np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()]


def correlation_tables(correlations: Mapping[str, np.ndarray], comparison: SystemComparison) -> str:
    """A matrix per statistic, coloured by its numbers.

    Args:
        correlations: By the statistic's name, of every metric with every other, from -1 to 1, NaN where undefined;
            shape (metrics, metrics) each.
        comparison: The scores.
    """
    systems = len(comparison.systems)
    scores = systems * len(comparison.columns[0].cells[0].segments)
    of = "" if systems == 1 else f" of all {systems} systems together"
    about = (
        f"Correlations of two metrics over {scores} segment score{'s' * (scores != 1)}{of}. "
        "They are undefined where a metric gives the same score to every segment, and for fewer than 3 scores."
    )
    errors = [column.name for column in comparison.columns if column.errors]
    lower = (
        f" Lower scores by {', '.join(errors)} are better: a negative correlation with another metric means agreement."
    )
    sign = lower if errors else ""
    tables = "\n".join(f"<div>{_matrix(name, values, comparison)}</div>" for name, values in correlations.items())
    return f'<p class="note">{escape(about + sign)}</p>\n<div class="grid">\n{tables}\n</div>'


def _matrix(statistic: str, values: np.ndarray, comparison: SystemComparison) -> str:
    names = [column.name for column in comparison.columns]
    heads = "".join(map(_head, _metric_heads(comparison)))
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(map(_coloured, own))}</tr>'
        for name, own in zip(names, values.tolist(), strict=True)
    )
    return _boxed(
        f'<thead><tr><th scope="col">metric</th>{heads}</tr></thead><tbody>{rows}</tbody>', statistic.capitalize()
    )


def _coloured(value: float) -> str:
    if not np.isfinite(value):
        return f'<td class="undefined">{UNDEFINED}</td>'
    names = " ".join(["heat", *["n"] * (value < 0), *["s"] * (abs(value) > 0.5)])
    return f'<td class="{names}" style="--a:{abs(value):.2f}">{value:.3f}</td>'
