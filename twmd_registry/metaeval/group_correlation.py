"""Agreement with people group by group: the measurement under the papers' tables and figures, and under tuning.

Texts are scored group by group (a language pair, a subset), so that no centering batch spans two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.engine.scorer import Scorer, score_all
from twmd_registry.errors import InputError, warn
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.metaeval.correlation import correlate
from twmd_registry.progress import Progress


class GroupValues(NamedTuple):
    """What some scorers' agreement with people comes to.

    Attributes:
        segments: By group, how many segments it is measured on.
        values: Correlations from -1 to 1, NaN where one is undefined; shape (scorers, groups, statistics).
    """

    segments: dict[str, int]
    values: np.ndarray


def measure_groups(scorers: Sequence[Scorer], rated: RatedSegments, statistics: Sequence[str], progress: Progress | None = None) -> GroupValues:
    """Correlate scores with ratings within every group; each text of a group is encoded once for all scorers.

    Args:
        scorers: Who scores.
        rated: The segments, in the order in which they are batched.
        statistics: Of `twmd_registry.metaeval.correlation.Statistic`.
        progress: Called with the number of segments scored.

    Returns:
        The groups in the data's order.

    Raises:
        InputError: As for `score_all`.
        ModelError: As for `score_all`.

    Warns:
        TwmdWarning: A correlation is undefined; names the group, and says why.
    """
    names = np.array(rated.group)
    segments, groups = {}, []
    for group in dict.fromkeys(rated.group):
        own = select(rated, np.flatnonzero(names == group))
        found = score_all(scorers, own.predictions, own.references, progress=progress)
        segments[group] = len(own.ratings)
        groups.append(correlations([one.scores for one in found], own.ratings, statistics, group))
    return GroupValues(segments, np.array(groups).swapaxes(0, 1))


def correlations(scores: Sequence[Sequence[float]], ratings: np.ndarray, statistics: Sequence[str], group: str) -> np.ndarray:
    """Correlate several measures' scores with ratings.

    Args:
        scores: By measure; shape (measures, N).
        ratings: Shape (N,).
        statistics: As for `measure_groups`.
        group: What was rated, for the message.

    Returns:
        The correlations, NaN where they are undefined; shape (measures, statistics).

    Warns:
        TwmdWarning: One is undefined; says why.
    """
    found, reasons = np.full((len(scores), len(statistics)), np.nan), []
    for i, own in enumerate(scores):
        try:
            found[i] = [correlate(statistic, own, ratings) for statistic in statistics]
        except InputError as error:
            reasons.append(str(error))
    if reasons:
        warn(f"{group}: no correlation for {len(reasons)} of {len(scores)} settings: {reasons[0]}")
    return found
