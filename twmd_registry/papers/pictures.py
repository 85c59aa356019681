"""The papers' figures: curves, scatter plots, matrices and densities, each as PNG and SVG, with its data as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch

from twmd_registry.align.sinkhorn import sinkhorn_plan
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments, select
from twmd_registry.papers.reproduction import Reproduction, line_name
from twmd_registry.papers.run import roc_curve
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.report import figures
from twmd_registry.tensors import PaddedTokens

VARIED = ("metric", "centering", "layer", "temperature", "iterations")
"""Keys of the specification that a figure's data have."""
NamedFile: TypeAlias = tuple[str, bytes]
"""The name of a file and its content."""


def draw_pictures(result: Reproduction, options: RunOptions) -> Iterator[NamedFile]:
    """Yield the figure of an experiment; nothing for a table."""
    if result.experiment.picture:
        yield from _PICTURES[result.experiment.picture["kind"]](result, options)


def _files(
    stem: str, header: Iterable[str], rows: Iterable[Iterable[object]], draw: Callable[[str], bytes]
) -> Iterator[NamedFile]:
    yield f"{stem}.csv", figures.as_csv(header, rows)
    for suffix in figures.SUFFIXES:
        yield f"{stem}{suffix}", draw(suffix)


def _draw_curves(result: Reproduction, options: RunOptions) -> Iterator[NamedFile]:
    """Draw numbers against the values of the last axis, and the marginal errors of ``plans``."""
    experiment, picture = result.experiment, result.experiment.picture
    statistic, x = experiment.cells[0].statistic, "x" * picture.get("logarithmic", False)
    rows = [
        (cell.column, *(getattr(spec, key) for key in VARIED), value, signature)
        for cell, values in zip(experiment.cells, result.values.T.tolist(), strict=True)
        if result.segments[cell.column]
        for spec, value, signature in zip(result.specs, values, result.signatures, strict=True)
    ]
    parts: dict[str, tuple[Any, ...]] = {
        "": (("data", *VARIED, statistic, "signature"), rows, result.curves(), statistic, x)
    }
    if experiment.plans:
        errors = marginal_errors(result, options)
        group, pairs = first_pairs(result)
        points = [(name, *point) for name, line in errors.items() for point in np.array(line).T.tolist()]
        panels = {f"{group}, {len(pairs.ratings)} pairs": errors}
        right = ("line", "iterations", "marginal_error"), points, panels, "marginal error", x + "y"
        parts = {"-left": parts[""], "-right": right}
    for part, (header, lines, panels, y, logarithmic) in parts.items():
        title = f"{result.model}\n{experiment.about}"
        draw = partial(figures.curves, panels, (picture["x"], y), title, logarithmic=logarithmic)
        yield from _files(f"{experiment.name}{part}", header, lines, draw)


def _draw_scatter(result: Reproduction, _options: RunOptions) -> Iterator[NamedFile]:
    """Draw scores against ratings of one group, a panel per row."""
    group = result.experiment.cells[0].unit
    (place, ratings), *_ = [
        ((name, group), groups[group].ratings) for name, groups in result.rated.items() if group in groups
    ]
    scores, title = {row: own[place] for row, own in result.scores.items()}, f"{group}, {result.model}"
    draw = partial(figures.scatter, ratings, scores, title, label="human judgement (bad to good)", line=False)
    rows = np.array([ratings, *scores.values()]).T.tolist()
    yield from _files(result.experiment.name, ["rating", *scores], rows, draw)


def _draw_matrix(result: Reproduction, _options: RunOptions) -> Iterator[NamedFile]:
    """Draw the correlations of measures with each other, a matrix per column; a row's name holds two measures."""
    pairs = [tuple(setting.row.split(" ~ ")) for setting in result.settings]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    panels = {}
    for c, cell in enumerate(result.experiment.cells):
        matrix = np.diag(np.full(len(names), 100.0))
        for (first, second), value in zip(pairs, result.values[:, c], strict=True):
            i, j = names.index(first), names.index(second)
            matrix[i, j] = matrix[j, i] = value
        panels[cell.column] = matrix
    cells = [(column, i, j) for column in panels for i in range(len(names)) for j in range(i + 1)]
    rows = [(column, names[i], names[j], panels[column][i, j]) for column, i, j in cells]
    draw = partial(figures.matrices, panels, names, result.model)
    yield from _files(result.experiment.name, ("language pair", "row", "column", "pearson"), rows, draw)


_PICTURES: dict[str, Callable[[Reproduction, RunOptions], Iterator[NamedFile]]] = {
    "curves": _draw_curves,
    "scatter": _draw_scatter,
    "matrix": _draw_matrix,
}
"""By the kind of a picture, what draws it."""


def draw_data_sets(result: Mapping[str, Reproduction]) -> Iterator[NamedFile]:
    """Yield the figures of every data set of the STSScore paper: scores against ratings or classes, and ROC curves."""
    scores = {**result["table1"].scores, **result["table3"].scores}
    classes = result["auc"].rated
    for name, groups in result["table1"].rated.items():
        (group, rated), *_ = groups.items()
        own, stem = {measure: places[name, group] for measure, places in scores.items()}, name.lower()
        draw = figures.densities if name in classes else figures.scatter
        rows = np.array([rated.ratings, *own.values()]).T.tolist()
        yield from _files(stem, ["rating", *own], rows, partial(draw, rated.ratings, own, name))
        if name in classes and 0 < rated.ratings.sum() < len(rated.ratings):
            curves = {measure: roc_curve(values, rated.ratings == 1) for measure, values in own.items()}
            for suffix in figures.SUFFIXES:
                yield f"{stem}-roc{suffix}", figures.roc(curves, name, suffix)


def first_pairs(result: Reproduction) -> tuple[str, RatedSegments]:
    """Return the name of the first group, and its first ``plans`` pairs, which keep their batches."""
    group, segments = next(iter(next(iter(result.rated.values())).items()))
    return group, select(segments, np.arange(min(result.experiment.plans, len(segments.ratings))))


def marginal_errors(result: Reproduction, options: RunOptions) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Measure the marginal error of plans after every number of Sinkhorn sweeps: Figure 4 of the TWMD paper, right.

    After the last sweep the rows of pi are exact. The error is ``sum_j |sum_i pi_ij - 1/n|``, averaged over pairs of
    texts. Returns, by temperature as a line's name, numbers of sweeps, and the errors, from 0 to 2.
    """
    _, rated = first_pairs(result)
    first = result.settings[0].metric
    if isinstance(first, str):
        raise InputError(f"{first} has no transport plan.")
    with Scorer(first, options) as scorer:
        scores = scorer.score(rated.predictions, rated.references)
        similarities = [scores.explain(i).similarities for i in range(len(rated.ratings))]
    aligned = [matrix for matrix in similarities if matrix.size]
    if not aligned:
        raise InputError("none of the pairs has tokens on both sides: there is no plan to measure.")
    temperatures, sweeps = (result.experiment.vary[key] for key in ("temperature", "iterations"))
    lines = {}
    for temperature in temperatures:
        settings = [first.replace(temperature=temperature, iterations=number) for number in sweeps]
        errors = [np.mean([_marginal_error(matrix, own) for matrix in aligned]) for own in settings]
        lines[line_name(first, temperature)] = np.array(sweeps, dtype=np.float64), np.array(errors)
    return lines


def _marginal_error(similarities: np.ndarray, spec: MetricSpec) -> float:
    """Return the distance of the plan's column sums from the marginal, in float64."""
    s = torch.from_numpy(similarities).to(torch.float64)[None]  # (1, N, M)
    # Weights of 1 change nothing, but keep the shares in float64.
    x, y = (
        PaddedTokens(torch.ones(1, number, dtype=torch.bool), torch.ones(1, number).double()) for number in s.shape[1:]
    )
    columns = sinkhorn_plan(s, x, y, spec).sum(1)  # (1, M)
    return float((columns - 1 / s.shape[2]).abs().sum())
