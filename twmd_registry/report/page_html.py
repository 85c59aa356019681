"""A report as one HTML file: it reads nothing from elsewhere, and nothing in a text of it can run."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.engine.result import Alignment, Counts
from twmd_registry.errors import visible
from twmd_registry.record.content import Record, SystemComparison
from twmd_registry.record.file import record_text
from twmd_registry.report.highlights import Highlight, disagreements, segment_scores
from twmd_registry.report.page_tables import (
    correlation_tables,
    differences_table,
    digits_of,
    direction,
    distributions,
    group_tables,
    html_table,
    systems_table,
)
from twmd_registry.report.picture_html import STYLE, panels
from twmd_registry.report.picture_text import title
from twmd_registry.report.table import signature_lines
from twmd_registry.report.words import mark_differences

FAINT = 0.02
"""Cells of a picture that carry less than this share of the greatest amount are left empty."""
PAGE_BYTES, PICTURES_BYTES = 4_800_000, 1_000_000
"""Pictures fill a page up to the first, and take the second where texts leave less; those without room are left
out, and that is said.
"""
SAVED = (
    "The record holds all scores, tests and intervals. Save it to a file, and <code>twmd verify</code> computes "
    "them again."
)
BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSAFE = re.compile("[<>&\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class AlignmentPicture(NamedTuple):
    """How one system's score of a segment came about.

    Attributes:
        system: The system's number.
        alignment: What to draw; None where there is nothing.
        problem: Then, why.
    """

    system: int
    alignment: Alignment | None
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Report:
    """What is in a report.

    Attributes:
        comparison: Scores with intervals and tests, of every segment.
        predictions: By system, a text per segment.
        references: Per segment its references.
        correlations: By the statistic's name, of every metric with every other; shape (metrics, metrics) each, NaN
            where undefined.
        remarks: Segments to look at, each with its pictures.
        record: All of it, to be verified.
        overlaps: Which metrics were trained or tuned on the references, in a sentence each.
        sources: Per segment the text that was translated; None where the files hold none.
    """

    comparison: SystemComparison
    predictions: Sequence[Sequence[str]]
    references: Sequence[Sequence[str]]
    correlations: Mapping[str, np.ndarray]
    remarks: Sequence[tuple[Highlight, Sequence[AlignmentPicture]]]
    record: Record
    overlaps: Sequence[str] = ()
    sources: Sequence[str] | None = None


def report_page(report: Report) -> str:
    """Write a report as a page of HTML.

    Texts are in the page as JSON in which no character can end the script element that holds it, and the page's script
    puts them in as text.
    A Content-Security-Policy allows that one script, by its hash, and no address at all.

    Args:
        report: What to show.

    Returns:
        The page; it can be encoded as UTF-8 whatever the texts and names are.
    """
    comparison, script = report.comparison, _file("page.js")
    *others, last = map(visible, comparison.systems)
    listed = f"{', '.join(others)} and {last}" if others else last
    names = listed if len(others) < 3 else f"{len(comparison.systems)} systems"
    number, metrics = len(report.references), len(comparison.columns)
    data = in_script(json.dumps(_data(report), ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    record = in_script(record_text(report.record))
    room = max(PICTURES_BYTES, PAGE_BYTES - len(data.encode()) - len(record.encode()))
    return Template(_file("page.html")).substitute(
        title=escape(f"Scores of {names}"),
        summary=escape(
            f"{number} segment{'s' * (number != 1)}, {metrics} metric{'s' * (metrics != 1)}; made "
            f"{report.record.created}"
        ),
        style=STYLE + _file("page.css"),
        script=script,
        script_hash=f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
        systems=systems_table(comparison, report.overlaps) + differences_table(comparison),
        groups=group_tables(comparison, report.references),
        distributions=distributions(comparison),
        correlations=correlation_tables(report.correlations, comparison),
        remarkable=_remarkable(report, room),
        record=_record(report),
        data=data,
        record_text=record,
    )


def _file(name: str) -> str:
    return resources.files("twmd_registry").joinpath("data", "report", name).read_text(encoding="utf-8")


def in_script(text: str) -> str:
    r"""JSON as it may stand in a script element: what could end it, steer the text's direction or not be encoded is
    escaped, as JSON allows.

    >>> in_script('["</script>"]')
    '["\\u003c/script\\u003e"]'
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def legible(text: str) -> str:
    r"""A text with what cannot be seen or would turn its neighbours around written out; all else is as it was.

    >>> legible("a\tb")
    'a\\tb'
    """
    return "".join(
        c.encode("unicode_escape").decode() if c in BIDI_CONTROLS or unicodedata.category(c) in ("Cc", "Cs") else c
        for c in text
    )


def _data(report: Report) -> dict[str, Any]:
    """What the page's script shows: texts, and numbers as they are shown."""
    columns = report.comparison.columns
    segments = zip(zip(*report.predictions, strict=True), report.references, strict=True)
    marked = [mark_differences(list(map(legible, own)), list(map(legible, theirs))) for own, theirs in segments]
    return {
        "systems": list(map(visible, report.comparison.systems)),
        "metrics": [
            {"name": column.name, "digits": digits_of(column), "direction": direction(column)} for column in columns
        ],
        "sources": None if report.sources is None else list(map(legible, report.sources)),
        "references": [theirs for _, theirs in marked],
        "predictions": [list(own) for own in zip(*(own for own, _ in marked), strict=True)],
        "scores": [_rounded(segment_scores(column), digits_of(column)) for column in columns],
        "apart": _rounded(disagreements(columns), 2),
        "pictured": [remark.segment for remark, _ in report.remarks],
    }


def _rounded(values: np.ndarray, digits: int) -> list[list[float | None]]:
    """Numbers as they are shown; None for those that are undefined."""
    return [[float(f"{value:.{digits}f}") if np.isfinite(value) else None for value in row] for row in values.tolist()]


def _remarkable(report: Report, room: int) -> str:
    """Segments to look at, with pictures as long as there is room for them, in bytes."""
    if not report.remarks:
        return "<p>No segment stands out: systems and metrics agree on all of them.</p>"
    about = (
        "First come the segments whose scores by the first metric differ most between systems. "
        "Then come those on which metrics disagree most: one metric ranks the segment high among all its "
        "scores, another low. "
        "Open a segment to see its texts and its token alignment. "
        f"In an alignment, cells below {FAINT:.0%} of the greatest amount are left blank."
    )
    parts = [f"<p>{escape(about)}</p>"]
    for remark, pictures in report.remarks:
        drawn = list[str]()
        for picture in pictures:
            written = _picture(picture, report.comparison)
            if len(written.encode()) > room:
                without = AlignmentPicture(
                    picture.system, None, "the page would be too large with it; 'twmd align' draws it."
                )
                written = _picture(without, report.comparison)
            room -= len(written.encode())
            drawn.append(written)
        parts.append(_remark(remark, drawn))
    return "\n".join(parts)


def _remark(remark: Highlight, pictures: Sequence[str]) -> str:
    number = remark.segment + 1
    table = f'<div class="scroll" tabindex="0" role="region" aria-label="segment {number}"><table data-segment="{number}"></table></div>'
    summary = f"<summary><strong>Segment {number}</strong> <small>{escape(remark.reason)}</small></summary>"
    return "\n".join([f'<details id="segment-{number}">{summary}', table, *pictures, "</details>"])


def _picture(picture: AlignmentPicture, comparison: SystemComparison) -> str:
    name = escape(visible(comparison.systems[picture.system]))
    if picture.alignment is None:
        return f'<h4>{name}</h4>\n<p class="note">No picture: {escape(visible(picture.problem))}</p>'
    heading = f"<h4>{name}, {escape(title(picture.alignment))}</h4>"
    return "\n".join([heading, *panels(picture.alignment, level=5, least=FAINT)])


def _record(report: Report) -> str:
    """Signatures, environment and counts, with buttons that copy."""
    record, signatures = report.record, "\n".join(signature_lines(report.comparison))
    return "\n".join(
        [
            f'<pre id="signatures">{escape(signatures)}</pre>',
            _button("signatures", "Copy the signatures"),
            _button("record-text", "Copy the record (JSON)"),
            f'<p class="note">{SAVED}</p>',
            html_table(
                ["file", "role", "sha256"],
                [[visible(name), role, digest] for role, name, digest in record.inputs],
                "files that were scored",
            ),
            html_table(
                ["system", "metric", *Counts._fields],
                list(_counts(report.comparison)),
                "counts of segments, texts and tokens",
            ),
            html_table(["property", "value"], list(_circumstances(record)), "date and environment"),
        ]
    )


def _button(target: str, words: str) -> str:
    return f'<p><button type="button" data-copy="{target}">{words}</button> <span role="status"></span></p>'


def _counts(comparison: SystemComparison) -> Iterator[list[str]]:
    for i, name in enumerate(comparison.systems):
        for column in comparison.columns:
            counts = column.cells[i].counts
            if counts is not None:
                yield [visible(name), column.name, *map(str, counts)]


def _circumstances(record: Record) -> Iterator[list[str]]:
    yield ["date", record.created]
    yield ["scoring time in seconds", f"{record.seconds:.1f}"]
    yield from ([name, visible(value)] for name, value in record.environment.items())
