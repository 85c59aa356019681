"""The papers' figures: curves, scatter plots, matrices and densities, each as PNG and SVG, with its data as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from twmd_registry.papers.measures import roc_curve
from twmd_registry.papers.plans import first_pairs, marginal_errors
from twmd_registry.papers.reproduction import Reproduction
from twmd_registry.registry.options import RunOptions
from twmd_registry.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VARIED = ("metric", "centering", "layer", "temperature", "iterations")
"""Keys of the specification that a figure's data have."""
NamedFile: TypeAlias = tuple[str, bytes]
"""The name of a file and its content."""


def draw_pictures(found: Reproduction, options: RunOptions) -> Iterator[NamedFile]:
    """Yield the figure of an experiment; nothing for a table.

    Args:
        found: What was computed.
        options: Where and how fast; curves of plans align again.
    """
    if found.experiment.picture:
        yield from _PICTURES[found.experiment.picture["kind"]](found, options)


def _files(stem: str, csv: Mapping[str, np.ndarray], draw: Callable[[str], bytes]) -> Iterator[NamedFile]:
    yield f"{stem}.csv", figures.as_csv(csv)
    for suffix in figures.SUFFIXES:
        yield f"{stem}{suffix}", draw(suffix)


def _draw_curves(found: Reproduction, options: RunOptions) -> Iterator[NamedFile]:
    """Draw numbers against the values of the last axis, and the plans' marginal errors where they are asked for."""
    experiment, picture = found.experiment, found.experiment.picture
    rows = [
        (cell.column, spec, found.values[i, c], signature)
        for c, cell in enumerate(experiment.cells)
        if found.segments[cell.column]
        for i, (spec, signature) in enumerate(zip(found.specs, found.signatures, strict=True))
    ]
    csv = {"data": np.array([column for column, *_ in rows])}
    csv |= {
        key: np.array(["" if getattr(spec, key) is None else str(getattr(spec, key)) for _, spec, *_ in rows])
        for key in VARIED
    }
    csv |= {
        experiment.cells[0].statistic: np.array([value for _, _, value, _ in rows]),
        "signature": np.array([one for *_, one in rows]),
    }
    x, title = "x" * picture.get("logarithmic", False), f"{found.model}\n{experiment.about}"
    parts = {"": (csv, found.curves(), experiment.cells[0].statistic, x)}
    if experiment.plans:
        errors = marginal_errors(found, options)
        group, pairs = first_pairs(found)
        points = [(name, sweeps, error) for name, line in errors.items() for sweeps, error in zip(*line, strict=True)]
        data = {
            key: np.array(values)
            for key, values in zip(("line", "iterations", "marginal_error"), zip(*points, strict=True), strict=True)
        }
        panels = {f"{group}, {len(pairs.ratings)} pairs": errors}
        parts = {"-left": parts[""], "-right": (data, panels, "marginal error", x + "y")}
    for part, (data, panels, y, logarithmic) in parts.items():
        draw = partial(figures.curves, panels, (picture["x"], y), title, logarithmic=logarithmic)
        yield from _files(f"{experiment.name}{part}", data, draw)


def _draw_scatter(found: Reproduction, _options: RunOptions) -> Iterator[NamedFile]:
    """Draw scores against ratings of one group, a panel per row."""
    group = found.experiment.cells[0].unit
    (place, ratings), *_ = [
        ((name, group), groups[group].ratings) for name, groups in found.rated.items() if group in groups
    ]
    scores = {row: own[place] for row, own in found.scores.items()}

    def panel(axes: Axes, name: str) -> None:
        axes.plot(ratings, scores[name], ".", markersize=3, alpha=0.5, color="tab:blue", rasterized=True)
        axes.set(xlabel="human judgement (bad to good)", ylabel="score")

    yield from _files(
        found.experiment.name,
        {"rating": ratings, **scores},
        partial(figures.draw_panels, list(scores), panel, f"{group}, {found.model}"),
    )


def _draw_matrix(found: Reproduction, _options: RunOptions) -> Iterator[NamedFile]:
    """Draw the correlations of measures with each other, a matrix per column; a row's name holds two measures."""
    pairs = [tuple(setting.row.split(" ~ ")) for setting in found.settings]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    panels = {}
    for c, cell in enumerate(found.experiment.cells):
        matrix = np.diag(np.full(len(names), 100.0))
        for (one, other), value in zip(pairs, found.values[:, c], strict=True):
            i, j = names.index(one), names.index(other)
            matrix[i, j] = matrix[j, i] = value
        panels[cell.column] = matrix
    cells = [(column, i, j) for column in panels for i in range(len(names)) for j in range(i + 1)]
    csv = {
        "language pair": np.array([column for column, _, _ in cells]),
        "row": np.array([names[i] for _, i, _ in cells]),
        "column": np.array([names[j] for _, _, j in cells]),
        "pearson": np.array([panels[column][i, j] for column, i, j in cells]),
    }
    yield from _files(found.experiment.name, csv, partial(figures.matrices, panels, names, found.model))


_PICTURES: dict[str, Callable[[Reproduction, RunOptions], Iterator[NamedFile]]] = {
    "curves": _draw_curves,
    "scatter": _draw_scatter,
    "matrix": _draw_matrix,
}
"""By the kind of a picture, what draws it."""


def draw_data_sets(found: Mapping[str, Reproduction]) -> Iterator[NamedFile]:
    """Yield the figures of every data set of the STSScore paper: scores against ratings or classes, and ROC curves."""
    scores = {**found["table1"].scores, **found["table3"].scores}
    classes = found["auc"].rated
    for name, groups in found["table1"].rated.items():
        (group, rated), *_ = groups.items()
        own, stem = {measure: places[name, group] for measure, places in scores.items()}, name.lower()
        yield f"{stem}.csv", figures.as_csv({"rating": rated.ratings, **own})
        draw = figures.densities if name in classes else figures.scatter
        for suffix in figures.SUFFIXES:
            yield f"{stem}{suffix}", draw(rated.ratings, own, name, suffix)
        if name in classes and 0 < rated.ratings.sum() < len(rated.ratings):
            curves = {measure: roc_curve(values, rated.ratings == 1) for measure, values in own.items()}
            for suffix in figures.SUFFIXES:
                yield f"{stem}-roc{suffix}", figures.roc(curves, name, suffix)
