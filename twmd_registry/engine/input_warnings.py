"""Warnings about the texts that were scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from twmd_registry.engine.pairs import Pairs
from twmd_registry.errors import InputError, warn
from twmd_registry.registry.names import Centering
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.text_flags import UNKNOWN_SHARE, TextFlags

SHOWN_WORDS = SHOWN_TEXTS = 5
"""Words, and texts, that a warning names."""
RELIABLE_SAMPLE = 30
"""Segments from which a test or an interval is given without a warning."""
SHOWN_SAMPLES = 10
"""Small samples that a warning names."""


def count_empty(pairs: Pairs, empty: np.ndarray) -> int:
    """Count predictions and references (each occurrence) without a token."""
    return int(empty[pairs.hyp[pairs.starts]].sum() + empty[pairs.ref].sum())


def name_texts(pairs: Pairs, which: np.ndarray, rows: Sequence[int]) -> str:
    """Name some texts by their places in the input: ``predictions[0], references[2][1], ...``.

    Args:
        pairs: All pairs.
        which: The texts; shape (texts,), bool.
        rows: The number of every segment.
    """
    starts = pairs.starts
    hypotheses = np.flatnonzero(which[pairs.hyp[starts]]).tolist()  # segments
    references = np.flatnonzero(which[pairs.ref]).tolist()  # pairs
    named = [(i, f"predictions[{rows[i]}]") for i in hypotheses[:SHOWN_TEXTS]]
    for k in references[:SHOWN_TEXTS]:
        i = int(np.searchsorted(starts, k, side="right")) - 1
        named.append((i, f"references[{rows[i]}]" + (f"[{k - starts[i]}]" if pairs.counts[i] > 1 else "")))
    more = ["..."] if len(hypotheses) + len(references) > SHOWN_TEXTS else []
    return ", ".join([*(name for _, name in sorted(named)[:SHOWN_TEXTS]), *more])


def warn_about_texts(pairs: Pairs, flags: TextFlags, truncated: int, rows: Sequence[int]) -> None:
    """Warn about texts that are empty, truncated, or largely unknown to a model.

    Args:
        pairs: All pairs.
        flags: Flags of the texts, over all models.
        truncated: Number of different texts that were cut, for the model that cut most.
        rows: The number of every segment.
    """
    if flags.empty.any():
        warn(
            f"texts without a token: {count_empty(pairs, flags.empty)}; each scores 0 against text and 1 against "
            "another empty text (before any baseline)."
        )
    if truncated:
        warn(f"different texts longer than the limit (truncation, in the signature): {truncated}; each lost its end.")
    if flags.unknown.any():
        warn(
            f"different texts of which more than {UNKNOWN_SHARE:.0%} are unknown tokens: {flags.unknown.sum()} "
            f"({name_texts(pairs, flags.unknown, rows)}). "
            "With unknown=apart such a token matches the same text only; with unknown=keep, and in stsscore, "
            "the model takes them all for one word."
        )


def warn_about_lost_words(flags: TextFlags, *, static: bool) -> None:
    """Warn about texts of which nothing is compared, or nothing of positive weight, and words without a vector.

    Args:
        flags: Flags of the texts by one model.
        static: Whether the model is a table of word vectors.
    """
    for which, text, rule in (
        (
            flags.vanished,
            "different texts of which nothing is left to compare (centering, left-out words, or vectors of zeros)",
            "each scores 1 against itself and 0 against any other",
        ),
        (
            flags.wordless,
            "different texts of which every word is left out",
            "only their special tokens are compared (with special=none each scores 1 against itself, else 0)",
        ),
        (
            flags.weightless,
            "different texts of which every token has the idf 0 (it is in every text)",
            "their tokens count the same",
        ),
    ):
        if which.any():
            warn(f"{text}: {int(which.sum())}; {rule}.")
    missing = flags.missing_words if static else []
    if missing:
        often = Counter(missing)
        shown = ", ".join(
            [repr(word) for word, _ in often.most_common(SHOWN_WORDS)] + ["..."] * (len(often) > SHOWN_WORDS)
        )
        warn(f"words without a vector, left out: {len(missing)} in different texts, {len(often)} different ({shown}).")


def warn_about_single_segment_batches(specs: Sequence[MetricSpec], segments: int) -> None:
    """Warn if a centering batch holds a single segment."""
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
    """Refuse a test or an interval of one segment; warn about a small number.

    Args:
        segments: Number of resampled segments (or items, or systems).

    Raises:
        InputError: There are fewer than two.

    Warns:
        TwmdWarning: There are fewer than `RELIABLE_SAMPLE`.
    """
    if segments < 2:
        raise InputError(
            f"a significance test or an interval needs 2 segments or more, got {segments}: leave it out, or "
            "give more segments."
        )
    warn_about_small_samples({"": segments})


def warn_about_small_samples(samples: Mapping[str, int]) -> None:
    """Name the samples that are too small for tests and intervals.

    Args:
        samples: By name (of a group, say), how many segments, items or systems are resampled.
    """
    if text := describe_small_samples(samples):
        warn(text)


def describe_small_samples(samples: Mapping[str, int]) -> str:
    """Write which samples have fewer than `RELIABLE_SAMPLE` segments; empty where none has."""
    small = [f"{name} n = {n}".strip() for name, n in samples.items() if n < RELIABLE_SAMPLE]
    named = ", ".join(small[:SHOWN_SAMPLES]) + (
        f" and {len(small) - SHOWN_SAMPLES} more" if len(small) > SHOWN_SAMPLES else ""
    )
    return (
        f"tests, intervals and standard errors of fewer than {RELIABLE_SAMPLE} segments are not reliable: {named}."
        if small
        else ""
    )
