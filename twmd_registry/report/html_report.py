"""A report as one HTML file, which loads nothing and whose texts cannot run as script."""

from __future__ import annotations

import hashlib
import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from twmd_registry.comparison.cells import SIGNIFICANT, MetricColumn, number
from twmd_registry.comparison.tables import describe_test, signature_lines
from twmd_registry.comparison.verdict import SystemComparison, compare, short_names, verdict
from twmd_registry.engine.alignment import Alignment, heat_maps
from twmd_registry.engine.input_warnings import describe_small_samples
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import InputError, SpecError
from twmd_registry.messages import visible
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.record.content import Record, record_text
from twmd_registry.registry.names import Statistic
from twmd_registry.report.alignment_picture import check_drawable, title
from twmd_registry.report.segments import (
    Highlight,
    changed_facts,
    disagreements,
    group_by,
    mark_differences,
    reference_lengths,
    segment_scores,
    word_frequencies,
)
from twmd_registry.template import render

CORRELATIONS: tuple[Statistic, ...] = ("pearson", "spearman", "kendall")
MAX_TOKENS = 80
"""Maximum tokens per side of an alignment in a report."""
FAINT = 0.02
"""Cells of a heat map below this share of the greatest amount stay empty."""
PAGE_BYTES, PICTURES_BYTES = 4_800_000, 1_000_000
"""Pictures fill the page up to the first limit, or take up to the second if texts fill it; others are left out."""
TOO_LARGE = "left out to keep the page small; 'twmd align' draws it."
BINS = 30
ROUNDING = 1e-9
COLOURS = 6
"""Number of colours, ``--s0`` to ``--s5`` in the page's style; further systems differ by their dashes."""
WIDTH, HEIGHT, TOP, BOTTOM, SIDE = 240, 140, 14, 18, 6
"""Size and margins of a histogram in drawing units."""
Highlights: TypeAlias = Sequence[tuple[Highlight, Mapping[int, Alignment | str]]]
"""Segments to look at, each with alignments (or the reason why there is none) by the system's number."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[<>&\u2028\u2029{_BIDI}\ud800-\udfff]")
_INVISIBLE = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_BIDI}]")


def align_highlight(highlight: Highlight, scores: Sequence[Sequence[ScoreSet]]) -> dict[int, Alignment | str]:
    """Return a segment's alignments by the first metric that has any, or the reason why not, by system number."""
    segment, systems, _ = highlight
    first = next((k for k, result in enumerate(scores[0]) if result.signature.spec.has_plan), None)
    if first is None:
        return dict.fromkeys(systems, "no metric has an alignment to show.")
    alignments: dict[int, Alignment | str] = {}
    for system in systems:
        alignment = scores[system][first].explain(segment)
        try:
            check_drawable(alignment, MAX_TOKENS)
            alignments[system] = alignment
        except (InputError, SpecError) as error:
            alignments[system] = str(error)
    return alignments


def report_page(
    comparison: SystemComparison,
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    highlights: Highlights,
    record: Record,
    *,
    overlaps: Sequence[str] = (),
    sources: Sequence[str] | None = None,
) -> str:
    """Write a report as an HTML page, which UTF-8 can encode whatever its texts and names are.

    `predictions` are by system; `overlaps` are sentences about metrics that were trained or tuned on the references.
    Texts are JSON, which the page's script inserts as text. A content policy allows only that script, by its hash.
    """
    columns = comparison.columns
    script = resources.files("twmd_registry").joinpath("report/templates/report.js").read_text(encoding="utf-8")
    content = _data(comparison, predictions, references, sources)
    content["pictured"] = [segment for (segment, *_), _ in highlights]
    data = escape_script(json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    record_json = escape_script(record_text(record))
    room = max(PICTURES_BYTES, PAGE_BYTES - len(data.encode()) - len(record_json.encode()))
    return render(
        "report.html",
        comparison=comparison,
        references=references,
        overlaps=overlaps,
        record=record,
        script=script,
        script_hash=f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
        direction=direction,
        shown=_shown,
        significant=SIGNIFICANT,
        test=describe_test(comparison),
        small=describe_small_samples({"": len(columns[0].cells[0].scores)}),
        verdict=verdict(comparison),
        difference=_difference,
        forests=[_forest(column, short_names(comparison.systems)) for column in columns]
        if comparison.resampling and columns[0].cells[0].resampled and columns[0].cells[1:]
        else [],
        groupings=(groupings := _groupings(references)),
        multiples=_multiples(columns, groupings),
        mean_score=_mean,
        distributions=[_distribution(column) for column in columns],
        line_style=line_style,
        correlations={str(name).capitalize(): correlations(name, comparison).tolist() for name in CORRELATIONS},
        faint=FAINT,
        highlights=_highlights(highlights, comparison.systems, room),
        signatures=signature_lines(comparison),
        data=data,
        record_json=record_json,
    )


def escape_script(text: str) -> str:
    """Escape characters of JSON that could end a script element, change the text's direction or fail to encode."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def legible(text: str) -> str:
    """Escape control characters, surrogates and direction marks."""
    return _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def correlations(statistic: Statistic, comparison: SystemComparison) -> np.ndarray:
    """Correlate all pairs of metrics over all segments; shape (metrics, metrics), NaN if undefined."""
    scores = [segment_scores(column).ravel() for column in comparison.columns]
    values = np.full((len(scores), len(scores)), np.nan)
    for i, row in enumerate(scores):
        for j in range(i + 1):
            with suppress(InputError):  # of a constant metric, or too few segments
                values[i, j] = values[j, i] = correlate(statistic, row, scores[j])
    return values


def _data(
    comparison: SystemComparison,
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    sources: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the data for the page's script: texts, and numbers as shown."""
    columns, segments = comparison.columns, zip(zip(*predictions, strict=True), references, strict=True)
    texts = [(list(map(legible, own)), list(map(legible, theirs))) for own, theirs in segments]
    facts = [changed_facts(*both) for both in texts]
    marked = [mark_differences(*both, own) for both, own in zip(texts, facts, strict=True)]
    metrics = [{"name": column.name, "digits": _digits(column), "direction": direction(column)} for column in columns]
    return {
        "systems": list(map(visible, comparison.systems)),
        "metrics": metrics,
        "sources": None if sources is None else list(map(legible, sources)),
        "facts": facts,
        "references": [theirs for _, theirs in marked],
        "predictions": [list(texts) for texts in zip(*(own for own, _ in marked), strict=True)],
        "scores": [_rounded(segment_scores(column), _digits(column)) for column in columns],
        "apart": _rounded(disagreements(columns), 2),
    }


def _rounded(values: np.ndarray, digits: int) -> list[list[float | None]]:
    return [[float(f"{value:.{digits}f}") if np.isfinite(value) else None for value in row] for row in values.tolist()]


def _digits(column: MetricColumn) -> int:
    return len(number(column, 0.0).partition(".")[2])


def direction(column: MetricColumn) -> str:
    """Say whether higher or lower scores of a metric are better."""
    return "↓ lower is better" if column.errors else "↑ higher is better"


def _shown(column: MetricColumn, value: float) -> str:
    return number(column, value) if np.isfinite(value) else "undefined"


class Difference(NamedTuple):
    """How much better one system is than another by a metric. Positive is better, even if the metric counts errors.

    Attributes:
        value: The difference of their scores.
        low: The lower end of its bootstrap interval.
        high: The upper end.
        apart: Whether the test separates the systems, as in the verdict.
        shown: The difference as text.
        interval: The interval as text.
    """

    value: float
    low: float
    high: float
    apart: bool
    shown: str
    interval: str


def _difference(column: MetricColumn, i: int, j: int) -> Difference:
    """Return how much better system i is than system j."""
    first, second = (column.cells[j], column.cells[i]) if column.errors else (column.cells[i], column.cells[j])
    value = first.score - second.score
    low, high = np.quantile(np.subtract(first.resampled, second.resampled), (0.025, 0.975)).tolist()
    shown, *ends = (f"{'+' * (end > 0)}{_shown(column, end)}" for end in (value, low, high))
    return Difference(value, low, high, compare(column, i, j) != 0, shown, " to ".join(ends))


def _forest(column: MetricColumn, names: Sequence[str]) -> str:
    """Draw every system's difference from the baseline, with its interval, as SVG."""
    rows = [_difference(column, i, 0) for i in range(1, len(column.cells))]
    ends = [0.0, *(end for row in rows for end in (row.low, row.high))]
    low, high = min(ends), max(ends)
    scale = (WIDTH - 2 * SIDE) / ((high - low) or 1.0)
    places = [
        (name, *(SIDE + (end - low) * scale for end in (row.low, row.value, row.high)), row.apart)
        for name, row in zip(names[1:], rows, strict=True)
    ]
    label = f"difference from the baseline by {column.name}"
    return render("forest.svg", label=label, width=WIDTH, zero=SIDE - low * scale, places=places)


def _multiples(columns: Sequence[MetricColumn], groupings: dict[str, dict[str, np.ndarray]]) -> dict[str, list[str]]:
    """Draw every group's and system's mean, with 1.96 standard errors, by grouping and metric."""
    return {
        about: [_multiple(column, about, [*groups.values()]) for column in columns]
        for about, groups in groupings.items()
    }


def _multiple(column: MetricColumn, about: str, groups: Sequence[np.ndarray]) -> str:
    """Draw the means of one metric by group as SVG, with a group's systems side by side."""
    scores = segment_scores(column)
    drawn = list[tuple[int, int, float, float]]()
    for i, system_scores in enumerate(scores):
        for k, group in enumerate(groups):
            known = system_scores[group][np.isfinite(system_scores[group])]
            if len(known):
                error = 1.96 * float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
                drawn.append((i, k, float(known.mean()), error))
    ends = [end for *_, mean, error in drawn for end in (mean - error, mean + error)] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    bottom, step = HEIGHT - BOTTOM, (WIDTH - 2 * SIDE) / max(len(groups), 1)
    floor = bottom - TOP  # the lowest mark is above the label of the lower end
    scale = (floor - TOP) / ((high - low) or 1.0)
    shift = min(12.0, 0.7 * step / len(scores))
    marks = []
    for i, k, mean, error in drawn:
        x = SIDE + step * (k + 0.5) + shift * (i - (len(scores) - 1) / 2)
        y, reach = floor - (mean - low) * scale, error * scale
        marks.append((line_style(i), x, y, y - reach, y + reach))
    size, ends_shown = (WIDTH, HEIGHT, bottom, SIDE), (_shown(column, low), _shown(column, high))
    label = f"mean {column.name} by {about}"
    extremes = ("shortest", "longest") if "length" in about else ("rare", "frequent")
    return render("multiple.svg", size=size, label=label, ends=ends_shown, marks=marks, extremes=extremes)


def _groupings(references: Sequence[Sequence[str]]) -> dict[str, dict[str, np.ndarray]]:
    """Return the indices of segments by grouping and group heading."""
    groupings = {}
    for about, unit, digits, values in (
        ("length of the reference", "word", 0, reference_lengths(references)),
        ("frequency of the reference's words", "time", 1, word_frequencies(references)),
    ):
        groupings[about] = groups = dict[str, np.ndarray]()
        for group in group_by(values):
            low, high = (f"{end:.{digits}f}" for end in (values[group].min(), values[group].max()))
            span, size = low if low == high else f"{low} to {high}", len(group)
            groups[f"{span} {unit}{'s' * (span != '1')}\n{size} segment{'s' * (size != 1)}"] = group
    return {about: groups for about, groups in groupings.items() if groups}


def _mean(column: MetricColumn, system: int, group: np.ndarray) -> str:
    scores = segment_scores(column)[system, group]
    known = scores[np.isfinite(scores)]
    return _shown(column, known.mean() if len(known) else math.nan)


def _distribution(column: MetricColumn) -> tuple[str, int]:
    """Return a metric's histogram, empty if no score is defined, and the number of undefined scores."""
    scores = segment_scores(column)
    known = [row[np.isfinite(row)] for row in scores]
    label = f"histogram of the segment scores by {column.name}"
    drawing = histogram(known, label, _digits(column)) if any(map(len, known)) else ""
    return drawing, int((~np.isfinite(scores)).sum())


def counts_by_bin(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Count finite values by system, shape (N,) each, in `BINS` bins from the overall minimum to the maximum.

    If all values are equal, bins extend 0.5 below and above. Returns counts, shape (systems, bins), and edges, shape
    (bins + 1,).
    """
    pooled = np.concatenate(values)
    low, high = float(pooled.min()), float(pooled.max())
    equal = high - low <= ROUNDING * max(1.0, abs(low), abs(high))
    edges = np.histogram_bin_edges(pooled, BINS, range=(low - 0.5, high + 0.5) if equal else None)
    return np.array([np.histogram(row, edges)[0] for row in values]), edges


def histogram(values: Sequence[np.ndarray], label: str, digits: int) -> str:
    """Draw a histogram of finite values (at least one) by system as an SVG element; `label` is its description."""
    counts, edges = counts_by_bin(values)
    bottom, step = HEIGHT - BOTTOM, (WIDTH - 2 * SIDE) / BINS
    heights = bottom - (bottom - TOP) * counts / counts.max()
    outlines = [
        (line_style(i), "".join(f"V{y:.1f}H{SIDE + step * (k + 1):.1f}" for k, y in enumerate(outline)))
        for i, outline in enumerate(heights)
    ]
    low, high = (f"{end:.{digits}f}" for end in (edges[0], edges[-1]))
    size, most = (WIDTH, HEIGHT, bottom, SIDE), int(counts.max())
    return render("histogram.svg", size=size, label=label, low=low, high=high, most=most, outlines=outlines)


def line_style(i: int) -> str:
    """Return the CSS classes of a system's line: a colour, and dashes that work without colour."""
    return f"line c{i % COLOURS} d{i % 4}"


def _highlights(chosen: Highlights, systems: Sequence[str], room: int) -> list[tuple[Highlight, list[dict[str, str]]]]:
    """Return segments to look at, with pictures of up to `room` bytes in all."""
    highlights = []
    for highlight, alignments in chosen:
        pictures = []
        for system, alignment in alignments.items():
            name, problem, drawn = visible(systems[system]), alignment, ""
            if not isinstance(alignment, str):
                name, problem, drawn = f"{name}, {title(alignment)}", "", heat_maps(alignment, level=4, min_share=FAINT)
                if len(drawn.encode()) > room:
                    problem, drawn = TOO_LARGE, ""
                room -= len(drawn.encode())
            pictures.append({"name": name, "problem": visible(str(problem)), "heat_maps": drawn})
        highlights.append((highlight, pictures))
    return highlights
