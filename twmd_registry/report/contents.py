"""What a report computes beside the scores: correlations of metrics with each other, and alignments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twmd_registry.align import PLANS
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import InputError, SpecError
from twmd_registry.metaeval.correlation import Statistic, correlate
from twmd_registry.record.content import SystemComparison
from twmd_registry.report.highlights import Highlight, segment_scores
from twmd_registry.report.page_html import AlignmentPicture
from twmd_registry.report.picture import check_drawable

CORRELATIONS = (Statistic.PEARSON, Statistic.SPEARMAN, Statistic.KENDALL)
MOST_TOKENS = 80
"""Tokens of one side up to which an alignment is drawn."""


def correlations(statistic: Statistic, comparison: SystemComparison) -> np.ndarray:
    """Correlate every metric with every other, over the segments of all systems together.

    Args:
        statistic: Of two vectors.
        comparison: The scores, of every segment.

    Returns:
        From -1 to 1, NaN where undefined; shape (metrics, metrics), symmetric.
    """
    scores = [segment_scores(column).ravel() for column in comparison.columns]
    found = np.full((len(scores), len(scores)), np.nan)
    for i, own in enumerate(scores):
        for j in range(i + 1):
            try:
                found[i, j] = found[j, i] = correlate(statistic, own, scores[j])
            except InputError:  # a constant metric, or too few segments: undefined, and the page says so
                continue
    return found


def pictures(remark: Highlight, scores: Sequence[Sequence[ScoreSet]]) -> list[AlignmentPicture]:
    """Align a segment again, by the first metric that aligns anything.

    Args:
        remark: The segment, and whose predictions of it.
        scores: By system, the scores by every metric.

    Raises:
        ModelError: The model is gone, or has changed since.
    """
    which = next((k for k, one in enumerate(scores[0]) if one.metric in PLANS), None)
    if which is None:
        return [
            AlignmentPicture(system, None, "none of the metrics has an alignment to show.") for system in remark.systems
        ]
    return [_picture(system, scores[system][which], remark.segment) for system in remark.systems]


def _picture(system: int, scores: ScoreSet, segment: int) -> AlignmentPicture:
    alignment = scores.explain(segment)
    try:
        check_drawable(alignment, MOST_TOKENS)
    except (InputError, SpecError) as error:
        return AlignmentPicture(system, None, str(error))
    return AlignmentPicture(system, alignment)
