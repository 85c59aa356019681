"""What a user should know about texts that were scored, as warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from twmd_registry.errors import InputError, warn
from twmd_registry.pairs import Pairs, TextFlags
from twmd_registry.registry.names import Centering
from twmd_registry.registry.spec import MetricSpec

SHOWN_WORDS = 5
"""Words that a warning names."""
RELIABLE_SAMPLE = 30
"""Segments from which a test or an interval is given without a warning."""
SHOWN_SAMPLES = 10
"""Small samples that a warning names."""


def count_empty(pairs: Pairs, empty: np.ndarray) -> int:
    """Predictions and references (each occurrence) without a token."""
    return int(empty[pairs.hyp[pairs.starts]].sum() + empty[pairs.ref].sum())


def warn_of_texts(empty: int, truncated: int, unknown: int) -> None:
    """Say which texts were empty, cut, or unknown to the model."""
    if empty:
        warn(f"texts without a token: {empty}; each scores 0 against text and 1 against another empty text (before any baseline).")
    if truncated:
        warn(f"different texts longer than the limit (truncation, in the signature): {truncated}; each lost its end.")
    if unknown:
        warn(f"different texts of nothing but unknown tokens: {unknown}; to this model they are all alike.")


def warn_of_nothing(flags: TextFlags) -> None:
    """Say of which texts nothing is left, or nothing that weighs anything."""
    vanished, wordless, weightless = (int(which.sum()) for which in (flags.vanished, flags.wordless, flags.weightless))
    if vanished:
        what = "different texts of which nothing is left to compare (centering, left-out words, or vectors of zeros)"
        warn(f"{what}: {vanished}; each scores 1 against itself and 0 against any other.")
    if wordless:
        rule = "with special=none each scores 1 against itself and 0 against any other"
        warn(f"different texts of which every word is left out: {wordless}; their special tokens alone are compared ({rule}).")
    if weightless:
        warn(f"different texts of which every token has the idf 0 (it is in every text): {weightless}; their tokens count the same.")


def warn_of_words(missing: Sequence[str]) -> None:
    """Say which words have no vector."""
    if missing:
        often = Counter(missing)
        shown = ", ".join([*(repr(word) for word, _ in often.most_common(SHOWN_WORDS)), *(["..."] if len(often) > SHOWN_WORDS else [])])
        warn(f"words without a vector, left out: {len(missing)} in different texts, {len(often)} different ({shown}).")


def warn_of_lonely_centering(specs: Sequence[MetricSpec], segments: int) -> None:
    """Say when a centering batch holds one segment."""
    for spec in specs:
        last = segments % spec.centering_size if spec.centering_size else segments
        if spec.centering_kind in {Centering.BATCH, Centering.CORPUS} and (last == 1 or spec.centering_size == 1):
            which = "the last segment" if segments > 1 and spec.centering_size != 1 else "a segment"
            warn(
                f"centering={spec.centering}: {which} is alone in its batch, so that its own mean is subtracted: "
                "use background centering to score single segments."
            )
            return


def check_sample(segments: int) -> None:
    """Refuse a test or an interval of one segment, and warn of one of few.

    Args:
        segments: How many segments (or items, or systems) are resampled.

    Raises:
        InputError: There are fewer than two.

    Warns:
        TwmdWarning: There are fewer than `RELIABLE_SAMPLE`.
    """
    if segments < 2:
        raise InputError(f"a significance test or an interval needs 2 segments or more, got {segments}: leave it out, or give more segments.")
    warn_of_small_samples({"": segments})


def warn_of_small_samples(samples: Mapping[str, int]) -> None:
    """Name the samples that are too small for tests and intervals.

    Args:
        samples: By name (of a group, say), how many segments, items or systems are resampled.
    """
    if text := about_small_samples(samples):
        warn(text)


def about_small_samples(samples: Mapping[str, int]) -> str:
    """Write which samples have fewer than `RELIABLE_SAMPLE` segments; empty where none has."""
    small = [f"{name} n = {n}".strip() for name, n in samples.items() if n < RELIABLE_SAMPLE]
    named = ", ".join(small[:SHOWN_SAMPLES]) + (f" and {len(small) - SHOWN_SAMPLES} more" if len(small) > SHOWN_SAMPLES else "")
    return f"tests, intervals and standard errors of fewer than {RELIABLE_SAMPLE} segments are not reliable: {named}." if small else ""
