"""Error spans against those that people marked: F1 of characters, counted over all segments together (WMT23; Blain et
al. 2023), half for one that both sides mark with different severities; and fitting what makes a span.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import permutations

import numpy as np

from twmd_registry.engine.error_spans import (
    SETTINGS,
    ErrorSpan,
    ErrorSpans,
    Word,
    find_error_spans,
    place_words,
    smooth,
)
from twmd_registry.errors import InputError
from twmd_registry.judgments.span_files import MarkedSegment
from twmd_registry.registry.members import write_members
from twmd_registry.registry.spec import MetricSpec

LEVELS = 60
"""Thresholds that are tried: quantiles of the badness of all words."""
SMOOTHINGS = (0, 1, 2, 3)


def mark_characters(text: str, spans: Iterable[ErrorSpan]) -> np.ndarray:
    """Return 0, 1 (minor) or 2 (major) for every character of a text; of two spans the more severe counts."""
    marks = np.zeros(len(text), dtype=np.int64)
    for span in spans:
        marked = marks[span.start : span.end]
        np.maximum(marked, 1 + (span.severity == "major"), out=marked)
    return marks


def span_f1(pairs: Iterable[tuple[MarkedSegment, Iterable[ErrorSpan]]]) -> tuple[float, float, float]:
    """Return F1, precision and recall, from 0 to 1, of other spans than those of every segment."""
    right = marked = rated = 0.0
    for segment, spans in pairs:
        people, ours = mark_characters(segment.prediction, segment.spans), mark_characters(segment.prediction, spans)
        both = (people > 0) & (ours > 0)
        right += both.sum() - 0.5 * (both & (people != ours)).sum()
        marked, rated = marked + (ours > 0).sum(), rated + (people > 0).sum()
    return 2 * right / max(marked + rated, 1), right / max(marked, 1), right / max(rated, 1)


def second_raters(segments: Sequence[MarkedSegment]) -> list[tuple[MarkedSegment, ErrorSpans]]:
    """Pair every segment with the spans of each other person who rated the same text, maybe of another system."""
    same: dict[tuple[str, str, str], list[MarkedSegment]] = {}
    for segment in segments:
        same.setdefault((segment.document, segment.number, segment.prediction), []).append(segment)
    pairs = (pair for rated in same.values() for pair in permutations(rated, 2))
    return [(segment, other.spans) for segment, other in pairs if segment.rater != other.rater]


def differing_words(prediction: str, reference: str) -> ErrorSpans:
    """Mark the words of a prediction that `difflib` aligns with none of the reference's, as major: the baseline."""
    predicted, theirs = ([text[slice(*place)] for place in place_words(text)] for text in (prediction, reference))
    matched = np.zeros(len(predicted), dtype=bool)
    for block in SequenceMatcher(None, predicted, theirs, autojunk=False).get_matching_blocks():
        matched[block.a : block.a + block.size] = True
    words = [Word(*place, float(not same)) for place, same in zip(place_words(prediction), matched, strict=True)]
    return find_error_spans(words, (1.0, 1.0, 0))


def fit_spans(
    metric: MetricSpec, segments: Sequence[MarkedSegment], words: Sequence[Sequence[Word]], data: Sequence[str]
) -> bytes:
    """Fit thresholds and smoothing to people's spans by the highest F1; return the file.

    Of the marked characters, the same share is major as of people's: badness says little of severity, and marking all
    as what is most frequent would have a higher F1. `words` are those of every segment's prediction.
    """
    marks = [mark_characters(segment.prediction, segment.spans) for segment in segments]
    counts = [  # of every word: characters, and those that people marked as minor and as major
        (word.end - word.start, *np.bincount(marked[word.start : word.end], minlength=3)[1:])
        for marked, text in zip(marks, words, strict=True)
        for word in text
    ]
    sizes = np.array(counts, dtype=np.float64).reshape(-1, 3)
    rated = max(sizes[:, 1:].sum(), 1.0)
    share = sizes[:, 2].sum() / rated
    best = 0.0, (0.0, 0.0, 0)
    for radius in SMOOTHINGS:
        badness = np.concatenate([smooth(text, radius) for text in words])
        known = np.flatnonzero(np.isfinite(badness))
        order = known[np.argsort(-badness[known], kind="stable")]
        worst = np.vstack([np.zeros(3), np.cumsum(sizes[order], axis=0)])  # of the k worst words; shape (k + 1, 3)
        for k in np.unique(np.linspace(0, len(order), LEVELS + 1).astype(int)[1:]):
            m = int(np.searchsorted(worst[:, 0], share * worst[k, 0]))
            half = worst[k, 2] - worst[m, 2] + worst[m, 1]
            f1 = 2 * (worst[k, 1:].sum() - 0.5 * half) / (worst[k, 0] + rated)
            if f1 > best[0]:
                levels = np.append(badness[order], 2 * badness[order[-1]] - badness[order[0]])  # halfway to the next
                minor, major = (float(levels[[max(count, 1) - 1, max(count, 1)]].mean()) for count in (k, m))
                best = f1, (float(f"{minor:.5g}"), float(f"{major:.5g}"), radius)
    if not best[0]:
        raise InputError("people marked no error that a compared word is part of: there is nothing to fit.")
    settings = dict(zip(SETTINGS, best[1], strict=True))
    about = {"metric": write_members([(1.0, metric)]), "data": list(data), "segments": len(segments)}
    return f"{json.dumps(about | {'settings': settings})}\n".encode()
