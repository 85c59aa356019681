"""Where an error is: words as places in a text, what each loses in a comparison, and spans of bad words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import regex

from twmd_registry.errors import ModelError, SpecError
from twmd_registry.models.fitted import FittedKind, FittedPart, find_for_metric, hash_of
from twmd_registry.registry.members import write_members
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.spec import MetricSpec

_BLANK, _MARK = r"[\s\x1c-\x1f]", r"[\p{M}\p{Cf}]"
"""A mark belongs to the character before it, as an accent or a vowel sign does."""
_ALONE = (
    r"[\p{P}\p{S}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # punctuation, signs, Thai, Lao, Burmese, Khmer
    r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Kana, Han
)
"""Punctuation, and characters of scripts without blanks between words."""
_CLUSTER = rf"\X{_MARK}*"
"""A user's character (UAX 29), such as an emoji of several characters."""
_PIECE = regex.compile(
    rf"(?:{_BLANK}{_MARK}*)+|(?!{_MARK})(?={_ALONE}){_CLUSTER}|(?:(?!{_BLANK}|{_MARK}|{_ALONE}){_CLUSTER})+|{_MARK}+"
)

Severity = Literal["minor", "major"]
SPANS = FittedKind("settings of error spans", "spans", "spans", ".json", "spans")
"""Files of fitted settings."""


class Word(NamedTuple):
    """A word, or a punctuation character: ``text[start:end]``.

    Attributes:
        badness: Similarity that its worst token has to the text's own tokens and not to the other text's: about 0 where
            the other text says the same. None where no token of it was compared (cut, or left out).
    """

    start: int
    end: int
    badness: float | None = None


class ErrorSpan(NamedTuple):
    """Characters that are marked as an error: ``text[start:end]``.

    Attributes:
        badness: The smoothed badness of its worst word; None where people marked the span.
    """

    start: int
    end: int
    severity: Severity
    badness: float | None = None


ErrorSpans: TypeAlias = tuple[ErrorSpan, ...]
"""The error spans of a text, in its order."""


SpanSettings: TypeAlias = tuple[float, float, int]
"""Fitted settings of spans: the least smoothed badness of a marked word, that of a span's worst word which makes it
major, and r: smoothed badness is the mean over up to r words on both sides, with the weights 1, 2, .., r + 1, .., 2, 1.
"""
SETTINGS = ("minor", "major", "smoothing")
"""The names of the settings in a file."""


def split_pieces(text: str) -> list[str]:
    """Split a text into words, punctuation characters and blanks, which joined are the text.

    In a script without blanks between words, a character is a word.

    >>> split_pieces("It rained, twice.")
    ['It', ' ', 'rained', ',', ' ', 'twice', '.']
    """
    pieces: list[str] = _PIECE.findall(text)
    return pieces


def place_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield where every word or punctuation character of a text begins and ends."""
    for match in _PIECE.finditer(text):
        if not match[0][0].isspace():
            yield match.span()


def word_costs(text: str, offsets: np.ndarray, losses: np.ndarray) -> tuple[Word, ...]:
    """Return the words of a text, each with the greatest loss of the tokens that have a character in common with it.

    `offsets` are where tokens begin and end in the text, shape (U, 2), and `losses` what they lose, shape (U,).
    """
    offsets, losses = (values[offsets[:, 1] > offsets[:, 0]] for values in (offsets, losses))  # not the special ones
    words = np.array(list(place_words(text)), dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(words[:, 1], offsets[:, 0], side="right")
    last = np.searchsorted(words[:, 0], offsets[:, 1], side="left")
    badness: list[float | None] = [None] * len(words)
    for start, stop, loss in zip(first.tolist(), last.tolist(), losses.tolist(), strict=True):
        for word in range(start, stop):
            known = badness[word]
            badness[word] = loss if known is None else max(known, loss)
    return tuple(Word(start, end, value) for (start, end), value in zip(words.tolist(), badness, strict=True))


def smooth(words: Sequence[Word], radius: int) -> np.ndarray:
    """Return the smoothed badness of words, NaN where no token was compared; shape (words,)."""
    badness = np.array([np.nan if word.badness is None else word.badness for word in words], dtype=np.float64)
    known = np.isfinite(badness)
    kernel = radius + 1.0 - np.abs(np.arange(-radius, radius + 1))
    sums, weights = (
        np.convolve(values, kernel)[radius : radius + len(words)] if len(words) else badness
        for values in (np.where(known, badness, 0.0), known.astype(np.float64))
    )
    return np.where(known, sums / np.where(known, weights, 1.0), np.nan)


def find_error_spans(words: Sequence[Word], settings: SpanSettings) -> ErrorSpans:
    """Return the runs of words that are at least as bad as `settings` say, in the order of the text; a run with a major
    word is major as a whole.
    """
    minor, major, radius = settings
    badness, spans = smooth(words, radius), []
    for bad, run in groupby(range(len(words)), lambda i: bool(badness[i] >= minor)):
        if bad:
            run_words = list(run)
            worst = float(badness[run_words].max())
            severity: Severity = "major" if worst >= major else "minor"
            spans.append(ErrorSpan(words[run_words[0]].start, words[run_words[-1]].end, severity, worst))
    return tuple(spans)


def read_span_settings(path: Path) -> FittedPart[SpanSettings]:
    """Read fitted settings; raises ModelError for a damaged file."""
    content = path.read_bytes()
    try:
        about = json.loads(content)
        minor, major, radius = (float(about["settings"][name]) for name in SETTINGS)
        is_whole = isinstance(about["metric"], str) and bool(np.isfinite([minor, major, radius]).all())
        part = FittedPart((minor, major, int(radius)), hash_of(content), about)
    except (KeyError, TypeError, ValueError):
        is_whole = False
    if not is_whole or path.name != SPANS.name(part.hash):
        raise ModelError(f"{path} is not as 'twmd fit-spans' wrote it: remove it, or fit it again.")
    return part


def find_span_settings(metric: MetricSpec) -> FittedPart[SpanSettings] | None:
    """Find the settings that were fitted for a metric, as `find_for_metric`."""
    return find_for_metric(SPANS, read_span_settings, write_members([(1.0, metric)]))


def check_has_spans(metric: MetricSpec) -> None:
    """Raise SpecError for settings that cannot have error spans: they align no prediction with its reference."""
    if entry(metric.metric).aligner is None:
        raise SpecError(f"{metric.metric} aligns no words, and has no error spans: take another metric, such as twmd.")
    for key, why in (
        ("align", "matches sentences of documents: leave it out, and give pairs of sentences"),
        ("against", "compares with sources: leave it out, and give references"),
    ):
        if value := getattr(metric, key):
            raise SpecError(f"error spans are words that the reference does not say, and {key}={value} {why}.")


def require_span_settings(metric: MetricSpec) -> FittedPart[SpanSettings]:
    """Find the settings that were fitted for a metric; raises SpecError without any."""
    check_has_spans(metric)
    part = find_span_settings(metric)
    if part is None:
        raise SpecError(
            f"no thresholds of error spans were fitted for {metric.metric} with these settings: fit them by "
            "'twmd fit-spans', or take twmd as it is."
        )
    return part
