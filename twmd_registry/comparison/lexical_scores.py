"""`score_all`: scores with several metrics, including SacreBLEU's, as score sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from twmd_registry.comparison.lexical import canonical_lexical, is_lexical, warn_about_words
from twmd_registry.comparison.systems import Sampled, lexical_cell, make_lexical, make_sampled, streams_of
from twmd_registry.engine.alignment import Alignment
from twmd_registry.engine.input_warnings import warn_about_blanks, warn_about_unread_sources
from twmd_registry.engine.pairs import Segments, check_segments, digest_of_texts
from twmd_registry.engine.result import (
    DOCUMENT_RESAMPLES,
    DOCUMENT_SEED,
    Counts,
    DocumentScore,
    ScoreSet,
    score_documents,
)
from twmd_registry.engine.scorer import Scorer, check_scorers, score_segments
from twmd_registry.errors import SpecError, check_types
from twmd_registry.progress import Progress
from twmd_registry.registry.names import LEXICAL_NAMES


@dataclass(frozen=True, repr=False, eq=False)
class LexicalScores(ScoreSet):
    """Scores of one of SacreBLEU's metrics, from 0 to 100. The signature is SacreBLEU's, as text.

    Attributes:
        name: The metric, with its options.
        sampled: The statistics that make the corpus score, which is not the mean over segments.
    """

    name: str = field(kw_only=True)
    sampled: Sampled = field(kw_only=True)

    @property
    def metric(self) -> Any:
        """The metric, with its options."""
        return self.name

    @property
    def score(self) -> float:
        """The corpus score."""
        return self.by_document([""] * len(self), 0)[""].score

    def by_document(
        self, documents: Sequence[str], resamples: int = DOCUMENT_RESAMPLES, seed: int = DOCUMENT_SEED
    ) -> dict[str, DocumentScore]:
        """Return the corpus score of each document, as for `ScoreSet`."""
        return score_documents(self.sampled.statistics[0], list(documents), self.sampled.score_of, resamples, seed)


@check_types(progress=Callable | None)
def score_all(
    scorers: Sequence[Scorer | str],
    predictions: Iterable[str],
    references: Iterable[str | None] | Iterable[Iterable[str | None]] | None = None,
    sources: Iterable[str] | None = None,
    *,
    drop_missing: bool = False,
    progress: Progress | None = None,
) -> list[ScoreSet]:
    """Score the same texts with several metrics, encoding each distinct text once per model.

    Examples:
        >>> several = score_all(["twmd", "trwmd;temperature=0.05", "chrf"], ["it rains now"], ["it is raining now"])
        >>> [(str(scores.metric), round(scores.score, 2)) for scores in several]
        [('twmd', 0.82), ('trwmd', 0.85), ('chrf', 26.93)]

    Args:
        scorers: At least one: scorers, or what the command line takes after ``-m``: names of metrics, also with keys
            (``"twmd;temperature=0.1"``), signatures, and SacreBLEU's ``bleu``, ``chrf`` and ``ter``, whose score is the
            corpus score, from 0 to 100. Models of names stay loaded until the next call of `score`.
        predictions: As for `Scorer.score`.
        references: As for `Scorer.score`.
        sources: The texts that were translated or summarised, one per segment, for scorers with ``against=source`` or
            ``both``.
        drop_missing: Whether to leave out rows that lack a text, with a warning, instead of failing.
        progress: As for `Scorer.score`.

    Returns:
        One `ScoreSet` per scorer.

    Raises:
        SpecError: The list is empty, or contains something that is neither a scorer nor a metric.
        TwmdError: As for `Scorer.score`.
    """
    is_list = isinstance(scorers, Iterable) and not isinstance(scorers, str)
    metrics = [canonical_lexical(name) if _is_lexical(name) else name for name in scorers] if is_list else scorers
    ours = [metric for metric in metrics if not _is_lexical(metric)] if is_list else metrics
    checked = check_scorers(ours) if ours or not metrics else []
    drop_missing = drop_missing or any(scorer.options.drop_missing for scorer in checked)
    segments = check_segments(predictions, references, sources, drop_missing=drop_missing)
    warn_about_unread_sources([scorer.requested for scorer in checked], sources)
    if not checked:
        warn_about_blanks(segments)
    sets = iter(score_segments(checked, segments, progress=progress) if checked else ())
    return [_score_lexically(metric, segments) if _is_lexical(metric) else next(sets) for metric in metrics]


def _is_lexical(metric: object) -> TypeGuard[str]:
    return isinstance(metric, str) and is_lexical(metric)


def _score_lexically(name: str, segments: Segments) -> LexicalScores:
    def refuse(_segment: int, _reference: int | None) -> Alignment:
        raise SpecError(f"{name} has no alignment to show: it counts n-grams or edits.")

    warn_about_words(name, segments.references)
    texts, streams = segments.predictions, streams_of(segments.references)
    cell = lexical_cell(name, streams, texts, segments.references)
    signature: Any = f"{LEXICAL_NAMES[name.partition(';')[0]]}|{make_lexical(name, streams).get_signature()}"
    return LexicalScores(
        signature=signature,
        by_side=np.array([cell.scores]),
        counts=Counts(len(texts), 0, 0, 0, 0, 0, 0, {}),
        texts=digest_of_texts(segments),
        hashes={},
        explainer=refuse,
        name=name,
        sampled=make_sampled(name, streams, [texts]),
    )
