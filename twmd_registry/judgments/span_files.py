"""Files of error spans: Google's MQM tables (read and written), ESA annotations, and lists of issues.

MQM: Freitag et al. 2021, https://github.com/google/wmt-mqm-human-evaluation. ESA: Kocmi et al. 2024.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.engine.error_spans import ErrorSpan, ErrorSpans, Severity
from twmd_registry.errors import FileError, no_column
from twmd_registry.files.tables import read_csv

MQM_COLUMNS = ("system", "doc", "doc_id", "seg_id", "rater", "source", "target", "category", "severity")
OPEN, CLOSE, NO_ERROR = "<v>", "</v>", "No-error"
OMISSION = "Accuracy/Omission"
SEVERITIES: dict[str, Severity] = {"minor": "minor", "major": "major", "critical": "major"}
REFERENCE_SYSTEMS = ("ref", "refA", "refB")
"""Names of human translations; the first that a segment has is its reference."""


class MarkedSegment(NamedTuple):
    """A translation with its errors in the prediction, and what of the reference it does not say (`missing`)."""

    system: str
    document: str
    number: str
    source: str
    prediction: str
    reference: str
    spans: ErrorSpans
    missing: ErrorSpans = ()
    score: float | None = None
    rater: str = ""


def read_mqm(path: Path) -> list[MarkedSegment]:
    """Read a table of Google's MQM ratings: a row per error, in ``<v>..</v>`` in the target; a segment per rater.

    The reference is the same segment's human translation, a system of the table (`REFERENCE_SYSTEMS`). Human
    translations, and errors that are marked in the source alone, are left out.
    """
    header, *lines = read_csv(path, delimiter="\t", quoting=csv.QUOTE_NONE) or [[]]
    if missing := [name for name in MQM_COLUMNS if name not in header]:
        raise FileError(f"{path}, line 1: {no_column(missing[:1], header)}.")
    by_rater: dict[tuple[str, ...], MarkedSegment] = {}
    for number, line in enumerate(lines, 2):
        row = dict(zip(header, line, strict=False))
        if len(line) < len(MQM_COLUMNS):
            raise FileError(f"{path}, line {number}: expected {len(header)} columns, not {len(line)}.")
        before, opened, rest = row["target"].partition(OPEN)
        marked, closed, after = rest.partition(CLOSE)
        if bool(opened) != bool(closed):
            raise FileError(f"{path}, line {number}: {OPEN} and {CLOSE} mark an error in the target together.")
        before, marked, after = map(_unescape, (before, marked, after))
        text, source = before + marked + after, _unescape(row["source"].replace(OPEN, "").replace(CLOSE, ""))
        key = row["system"], row["doc"], row["seg_id"], row["rater"]
        segment = by_rater.setdefault(key, MarkedSegment(*key[:3], source, text, "", (), rater=key[3]))
        severity = SEVERITIES.get(row["severity"].lower())
        if marked and severity and text == segment.prediction:
            span = ErrorSpan(len(before), len(before) + len(marked), severity)
            by_rater[key] = segment._replace(spans=(*segment.spans, span))
    human = {segment[:3]: segment.prediction for segment in by_rater.values() if segment.system in REFERENCE_SYSTEMS}
    segments = []
    for segment in by_rater.values():
        texts = [human.get((name, segment.document, segment.number)) for name in REFERENCE_SYSTEMS]
        reference = next((text for text in texts if text is not None), None)
        if reference is not None and segment.system not in REFERENCE_SYSTEMS:
            segments.append(segment._replace(reference=reference))
    if not segments:
        raise FileError(f"{path}: no segment has a human translation, a row of system {', '.join(REFERENCE_SYSTEMS)}.")
    return segments


def write_mqm(segments: Iterable[MarkedSegment], rater: str) -> str:
    """Write Google's MQM table: a row per span, or a row without an error. What the reference alone says is an omission
    without a mark: the table has no reference. A tab or line break becomes a blank.
    """
    lines = ["\t".join(MQM_COLUMNS)]
    for segment in segments:
        text, source = (each.translate(_BLANKS) for each in (segment.prediction, segment.source))
        place = (segment.system, segment.document, segment.number, segment.number, rater, _escape(source))
        errors = []
        for start, end, severity, _ in segment.spans:
            before, marked, after = map(_escape, (text[:start], text[start:end], text[end:]))
            errors.append((f"{before}{OPEN}{marked}{CLOSE}{after}", "Other", severity.capitalize()))
        errors += [(_escape(text), OMISSION, span.severity.capitalize()) for span in segment.missing]
        errors = errors or [(_escape(text), NO_ERROR, NO_ERROR)]
        lines += ["\t".join((*place, *error)) for error in errors]
    return "\n".join(lines)


def _escape(text: str) -> str:
    return text.replace(OPEN, "&lt;v&gt;").replace(CLOSE, "&lt;/v&gt;")


def _unescape(text: str) -> str:
    return text.replace("&lt;v&gt;", OPEN).replace("&lt;/v&gt;", CLOSE)


_BLANKS = dict.fromkeys(map(ord, "\t\n\r"), " ")


def write_esa(segments: Iterable[MarkedSegment], rater: str) -> str:
    """Write JSON lines as the ESA annotations of WMT24; what the reference alone says has the place ``missing``."""
    lines = []
    for segment in segments:
        places: list[tuple[object, ...]] = [span[:3] for span in segment.spans]
        places += [("missing", "missing", span.severity) for span in segment.missing]
        row: dict[str, object] = {"system": segment.system, "doc_id": segment.document, "line_id": segment.number}
        row |= {"src": segment.source, "tgt": segment.prediction, "annotator": rater}
        row["esa_score"] = None if segment.score is None else round(100 * segment.score, 2)
        keys = ("start_i", "end_i", "severity", "error_type")
        row["esa_spans"] = [dict(zip(keys, (*place, None), strict=True)) for place in places]
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines)


def write_issues(segments: Iterable[MarkedSegment], rater: str) -> str:
    """Write a JSON document with the issues of every segment, as tools for linguistic review (ContentQuo) do."""
    listed = []
    for segment in segments:
        issues: list[dict[str, Any]] = []
        for side, category, text, spans in (
            ("target", "Accuracy", segment.prediction, segment.spans),
            ("reference", OMISSION, segment.reference, segment.missing),
        ):
            for span in spans:
                about = {"category": category, "severity": span.severity.capitalize(), "side": side}
                place = {"start": span.start, "end": span.end, "text": text[span.start : span.end]}
                issues.append({**about, **place, "badness": span.badness})
        fields = segment._asdict()
        kept = {name: fields[name] for name in ("system", "document", "source", "reference", "score")}
        listed.append({"id": segment.number, "target": segment.prediction, **kept, "issues": issues})
    return json.dumps({"reviewer": rater, "segments": listed}, ensure_ascii=False)


WRITERS: dict[str, Callable[[Sequence[MarkedSegment], str], str]] = {
    "mqm": write_mqm,
    "esa": write_esa,
    "contentquo": write_issues,
}
"""By format, the function that writes segments; the second argument names what marked them."""
