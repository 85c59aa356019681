"""An HTML page about the agreement of metrics with human ratings: values with intervals, and pictures."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from twmd_registry.comparison.text_table import UNDEFINED, TextTable, between
from twmd_registry.judgments.official import LabelledScores
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import Agreement, agreement_or_undefined, system_agreement
from twmd_registry.metaeval.correlation import order_p_values, place_systems
from twmd_registry.metaeval.study import SEGMENT, SYSTEM, Study, StudyResult
from twmd_registry.report.figures import matrices, scatter
from twmd_registry.template import render


def agreement_page(measured: Sequence[tuple[StudyResult, RatedSegments]]) -> str:
    """Write the page for several data sets, each measured at the level of segments.

    If the data name items and systems, the soft pairwise accuracy of systems and its pictures are added. Challenge
    sets, measured by ``accuracy`` alone, get none, because their systems are a text before and after an edit.
    """
    sections = []
    for result, rated in measured:
        by_statistic = [(str(name), [each[name] for each in result.agreements]) for name in result.study.statistics]
        drawn = [draw_agreement(result, rated, ".png")]
        if rated.item is not None and rated.system is not None and result.study.statistics != ("accuracy",):
            study = replace(result.study, level=SYSTEM, statistics=("spa",))
            spa = [
                agreement_or_undefined(metric.label, partial(_system_agreement, metric, rated, study))
                for metric in result.scored
            ]
            by_statistic.append(("spa (of systems)", spa))
            drawn.append(draw_agreement(replace(result, study=study), rated, ".png"))
        labels = [metric.label for metric in result.scored]
        sections.append(
            {
                "data": result.study.data,
                "about": f"{len(rated.ratings)} segments",
                "tables": [_table(name, labels, agreements) for name, agreements in by_statistic],
                "pictures": [(name, base64.b64encode(png).decode()) for each in drawn for name, png in each.items()],
                "notes": [*result.overlaps, result.study.name],
            }
        )
    signatures = [f"{metric.label}: {metric.signature}" for metric in measured[0][0].scored]
    return render("agreement.html", sections=sections, signatures=signatures)


def _system_agreement(metric: LabelledScores, rated: RatedSegments, study: Study) -> Agreement:
    return system_agreement("spa", metric.scores, rated, resamples=study.resamples, seed=study.seed)[0]


def _table(statistic: str, labels: Sequence[str], agreements: Sequence[Agreement]) -> TextTable:
    """Return a table with a row per metric or, for several groups, a row per group, because pages are narrow."""
    groups = sorted({name for agreement in agreements for name in agreement.groups})
    if len(groups) < 2:
        return TextTable(statistic, ("metric", "value"), list(zip(labels, map(_cell, agreements), strict=True)))
    rows = [(name, *(_cell(agreement.groups.get(name)) for agreement in agreements)) for name in groups]
    return TextTable(statistic, ("group", *labels), [("mean", *map(_cell, agreements)), *rows])


def _cell(agreement: Agreement | None) -> str:
    if agreement is None or not agreement.is_defined:
        return UNDEFINED
    return f"{agreement.value:.3f}\n{between(agreement.low, agreement.high) or ''}".strip()


def draw_agreement(result: StudyResult, rated: RatedSegments, suffix: str) -> dict[str, bytes]:
    """Draw scores against ratings or, at the level of systems, which pairs metric and humans order the same way.

    Returns files by name without suffix: ``scatter``, or ``spa-GROUP`` for every group in which two systems share an
    item.
    """
    data, scores = result.study.data, {metric.label: np.array(metric.scores) for metric in result.scored}
    if result.study.level == SEGMENT:
        return {"scatter": scatter(rated.ratings, scores, data, suffix, line=False)}
    pictures = {}
    for group in sorted(set(rated.group)):
        rows = np.flatnonzero(np.array(rated.group) == group)
        systems, place = place_systems(np.array(rated.item)[rows], np.array(rated.system)[rows])
        if len(systems) < 2 or not place.size:
            continue
        order = np.argsort(-rated.ratings[rows[place]].mean(axis=1))
        place, names = rows[place[order]], systems[order].tolist()
        people = order_p_values(rated.ratings[place])
        below = np.tri(len(names), k=-1, dtype=bool)
        unlike = {label: np.abs(people - order_p_values(each[place])).T for label, each in scores.items()}
        panels = {label: np.where(below, 100 * (1 - each), np.nan) for label, each in unlike.items()}
        title = f"{data}, {group}: soft pairwise accuracy of pairs of systems"
        name = re.sub(r"[^\w.-]+", "_", group)
        pictures[f"spa-{name}"] = matrices(panels, names, title, suffix)
    return pictures
