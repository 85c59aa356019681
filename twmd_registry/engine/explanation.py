"""Explain a score: recompute the alignment of a scored pair."""

from __future__ import annotations

import numpy as np

from twmd_registry.engine.backends import TokenAlignmentBackend, make_backend
from twmd_registry.engine.pairs import Pairs
from twmd_registry.engine.result import Alignment
from twmd_registry.errors import InputError, ModelError, SpecError
from twmd_registry.registry.artifacts import Parts
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.signature import Signature
from twmd_registry.registry.spec import MetricSpec


def explain_pair(
    segment: int,
    reference: int | None,
    *,
    requested: MetricSpec,
    options: RunOptions,
    parts: Parts | None,
    signature: Signature,
    pairs: Pairs,
    scores: np.ndarray,
) -> Alignment:
    """Recompute the alignment of a scored pair, as documented in `ScoreSet.explain`.

    Args:
        segment: As for `ScoreSet.explain`.
        reference: Likewise.
        requested: With `options` and `parts`, what makes the scorer: a scorer itself would keep its model in memory.
        options: Device, batch size and caches.
        parts: Where its parts are.
        signature: The applied specification.
        pairs: All pairs that were scored.
        scores: The main score of each pair; shape (pairs,).

    Raises:
        TwmdError: As for `ScoreSet.explain`.
    """
    pair = _find(pairs, scores, segment, reference)
    backend = make_backend(requested, options, parts)
    if not isinstance(backend, TokenAlignmentBackend):
        raise SpecError(f"{requested.metric} has no alignment to show: it predicts a number from both texts at once.")
    try:
        if backend.spec != signature.spec:
            raise ModelError(
                "the model, or another part of these scores, has changed since: score the texts again to have them "
                "explained."
            )
        return Alignment(signature=signature, score=float(scores[pair]), **backend.explain(pairs, pair))
    finally:
        backend.close()


def _find(pairs: Pairs, scores: np.ndarray, segment: int, reference: int | None) -> int:
    """Return the pair of a segment and one of its references; the reference that scores highest if none is given."""
    for number in (segment, *(() if reference is None else (reference,))):
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise InputError(f"expected the number of a segment or reference, from 0, not {number!r}.")
    if not 0 <= segment < len(pairs.counts):
        raise InputError(f"segment {segment} is out of range: there are {len(pairs.counts)}, counted from 0.")
    first, number = int(pairs.starts[segment]), int(pairs.counts[segment])
    if reference is None:
        return first + int(scores[first : first + number].argmax())
    if not 0 <= reference < number:
        raise InputError(
            f"reference {reference} of segment {segment} is out of range: it has {number}, counted from 0."
        )
    return first + reference
