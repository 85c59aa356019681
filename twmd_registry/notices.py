"""What a user should know about texts that were scored, as warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from twmd_registry.errors import warn
from twmd_registry.pairs import Pairs, TextFlags
from twmd_registry.registry.names import Centering
from twmd_registry.registry.spec import MetricSpec

SHOWN_WORDS = 5
"""Words that a warning names."""


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
