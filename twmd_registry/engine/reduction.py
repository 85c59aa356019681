"""From C(X, Y) of both sides to scores: F1, self-normalisation, several references."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from twmd_registry.registry.names import Multiref
from twmd_registry.tensors import PRF, Sides


def harmonic_mean(p: Tensor, r: Tensor) -> Tensor:
    """``2 p r / (p + r)`` where both are positive, and its continuous extension ``min(p, r)`` elsewhere.

    >>> harmonic_mean(torch.tensor([1.0, 0.5, -0.1]), torch.tensor([0.5, 0.0, 0.4])).tolist()
    [0.6666666865348816, 0.0, -0.10000000149011612]
    """
    positive = (p > 0) & (r > 0)
    total = torch.where(positive, p + r, 1.0)
    return torch.where(positive, 2 * p * r / total, torch.minimum(p, r))


def normalise(c: Tensor, of_hypothesis: Tensor, of_reference: Tensor, same: Tensor | None = None) -> Tensor:
    """``C(X, Y) / sqrt(C(X, X) C(Y, Y))`` (TWMD paper, Eq. 1).

    Where a text has C(X, X) <= 0 the quotient means nothing: 1 for a text and itself, 0 for any other pair.

    Args:
        c: C(X, Y), shape (B,).
        of_hypothesis: C(X, X), shape (B,).
        of_reference: C(Y, Y), shape (B,).
        same: Whether X and Y are of the same text, shape (B,), bool; None where no pair is.
    """
    undefined = (of_hypothesis <= 0) | (of_reference <= 0)  # and not NaN, which stays NaN
    scale = torch.sqrt(torch.where(undefined, 1.0, of_hypothesis * of_reference))
    return torch.where(undefined, torch.zeros_like(c) if same is None else same.to(c.dtype), c / scale)


def combine_sides(sides: Sides, selves: tuple[Tensor, Tensor] | None = None, same: Tensor | None = None) -> PRF:
    """Precision, recall and F1 of some pairs.

    F1 is the harmonic mean of the two C's first, normalised afterwards; C(X, X) has the same value from both sides, so
    one normaliser serves all three.

    Args:
        sides: C(X, Y) from both sides.
        selves: C(X, X) and C(Y, Y), by which Eq. 1 divides, or None to leave the numbers as they are.
        same: As for `normalise`.
    """
    raw = PRF(sides.hypothesis, sides.reference, harmonic_mean(sides.hypothesis, sides.reference))
    return raw if selves is None else PRF(*(normalise(c, *selves, same) for c in raw))


def empty_score(hypothesis_empty: bool, reference_empty: bool) -> float:
    """Return the score of a pair with an empty text: 1 if both are empty, else 0 (`align_pairs` has the same rule).

    >>> empty_score(True, True), empty_score(True, False)
    (1.0, 0.0)
    """
    return 1.0 if hypothesis_empty and reference_empty else 0.0


_OVER_REFERENCES: dict[Multiref, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    Multiref.MAX: np.maximum.reduceat,
    Multiref.MEAN: lambda scores, starts: np.add.reduceat(scores, starts) / np.diff(np.r_[starts, len(scores)]),
}


def over_references(scores: np.ndarray, counts: np.ndarray, multiref: Multiref) -> np.ndarray:
    """Return one score per segment from one per reference.

    Precision, recall and F1 are reduced separately: the best F1 may be of another reference than the best precision.

    Args:
        scores: All references of segment 0, then of segment 1, ...; shape (pairs,).
        counts: References of every segment, each at least 1; shape (segments,).
        multiref: Best or mean.

    >>> over_references(np.array([0.2, 0.6, 0.5]), np.array([2, 1]), Multiref.MAX).tolist()
    [0.6, 0.5]
    """
    return _OVER_REFERENCES[multiref](scores, np.cumsum(counts) - counts)
