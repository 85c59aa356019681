"""Pictures of how metrics agree with ratings."""

from __future__ import annotations

import re

import numpy as np

from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.correlation import order_p_values, place_systems
from twmd_registry.metaeval.study import SEGMENT, StudyResult
from twmd_registry.report.figures import matrices, scatter


def draw_agreement(result: StudyResult, rated: RatedSegments, suffix: str) -> dict[str, bytes]:
    """Draw scores against ratings, or at the level of systems which of them metric and people order alike.

    Returns files by their names without the suffix: ``scatter``, or ``spa-GROUP`` of every group, whose best system is
    the first; ``_`` stands for what is no letter, digit, dot or hyphen.
    """
    data, scores = result.study.data, {metric.label: np.array(metric.scores) for metric in result.scored}
    if result.study.level == SEGMENT:
        return {"scatter": scatter(rated.ratings, scores, data, suffix, line=False)}
    pictures = {}
    for group in sorted(set(rated.group)):
        own = np.flatnonzero(np.array(rated.group) == group)
        systems, place = place_systems(np.array(rated.item)[own], np.array(rated.system)[own])
        order = np.argsort(-rated.ratings[own[place]].mean(axis=1))
        place, names = own[place[order]], systems[order].tolist()
        people = order_p_values(rated.ratings[place])
        below = np.tri(len(names), k=-1, dtype=bool)
        unlike = {label: np.abs(people - order_p_values(each[place])).T for label, each in scores.items()}
        panels = {label: np.where(below, 100 * (1 - each), np.nan) for label, each in unlike.items()}
        title = f"{data}, {group}: soft pairwise accuracy of pairs of systems"
        name = re.sub(r"[^\w.-]+", "_", group)
        pictures[f"spa-{name}"] = matrices(panels, names, title, suffix)
    return pictures
