"""A statistic of pairs of segments, or of systems, of one metric's scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twmd_registry.metaeval.correlation import THRESHOLD, Items, make_estimator, statistic_named


def correlate_pairs(  # noqa: PLR0917
    statistic: str,
    scores: Sequence[float] | np.ndarray,
    ratings: np.ndarray,
    items: Items | None,
    systems: Items | None = None,
    threshold: float = THRESHOLD,
) -> float:
    """Return its value."""
    estimator = make_estimator(statistic_named(statistic), ratings, items, threshold, systems)
    return estimator(np.asarray(scores, dtype=np.float64)).value
