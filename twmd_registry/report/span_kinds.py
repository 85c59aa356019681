"""What kinds of errors systems make, by the error spans of all segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from twmd_registry.engine.error_spans import ErrorSpan, find_span_settings, place_words
from twmd_registry.engine.result import Alignment, ScoreSet
from twmd_registry.progress import Progress

PHRASE = 4
"""Words of a span from which it is a phrase."""
KINDS = ("number", "punctuation", "capitalised word", "phrase", "other word", "not said", "all", "of them major")


def kind_of(text: str, span: ErrorSpan) -> str:
    """Return the first of `KINDS` that a span of a prediction is.

    >>> kind_of("it rained in Bonn", ErrorSpan(13, 17, "minor"))
    'capitalised word'
    """
    own = text[span.start : span.end]
    if any(character.isnumeric() for character in own):
        return "number"
    if not any(character.isalpha() for character in own):
        return "punctuation"
    words = [own[start:end] for start, end in place_words(own)]
    if len(words) >= PHRASE:
        return "phrase"
    after_first = text[: span.start].strip()
    return "capitalised word" if after_first and any(word[0].isupper() for word in words) else "other word"


def count_kinds(alignment: Alignment, spans: Sequence[Sequence[ErrorSpan]]) -> Counter[str]:
    """Count the spans of a segment by kind; those of the reference are what its prediction does not say."""
    own, missing = spans
    kinds = Counter(kind_of(alignment.texts[0], span) for span in own) + Counter({"not said": len(missing)})
    every = [*own, *missing]
    return kinds + Counter({"all": len(every), "of them major": sum(span.severity == "major" for span in every)})


def compare_spans(scores: Sequence[Sequence[ScoreSet]], progress: Progress | None = None) -> dict[str, Any] | None:
    """Count the error spans of every system by kind, and those that are gone or new compared with the first system.

    They are of the first metric whose thresholds were fitted; None without such a metric. `scores` are by system and
    metric. A span is gone where a segment has fewer spans of its kind than by the first system, and new where more.
    `progress` is called with the number of segments done since its last call.
    """
    specs = [own.signature.spec for own in scores[0]]
    fitted = ((k, find_span_settings(spec)) for k, spec in enumerate(specs) if spec.has_plan)
    first, part = next(((k, part) for k, part in fitted if part), (0, None))
    if part is None:
        return None
    counted = [
        [count_kinds(own, own.error_spans(part)) for own in system[first].explain_all(progress)] for system in scores
    ]
    rows = []
    for kind in KINDS:
        cells = [f"{sum(segment[kind] for segment in counted[0])}"]
        for other in counted[1:]:
            changes = [mine[kind] - before[kind] for before, mine in zip(counted[0], other, strict=True)]
            gone, new = (sum(max(0, sign * change) for change in changes) for sign in (-1, 1))
            cells.append(f"{sum(segment[kind] for segment in other)}\n{gone} gone, {new} new")
        rows.append((kind, cells))
    return {"rows": rows, "by": f"{scores[0][first].signature} spans:{part.hash}"}
