"""``twmd reproduce``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twmd_registry.cli.diagnose import WORDS, write_diagnosis
from twmd_registry.cli.files import check_folder, write_file
from twmd_registry.cli.options import options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.metaeval.diagnose import Property
from twmd_registry.metaeval.table import FORMATS, TextTable, as_text
from twmd_registry.papers.experiment import Experiment, read_experiment
from twmd_registry.papers.plans import first_pairs, marginal_errors
from twmd_registry.papers.reproduction import Reproduction, short_name
from twmd_registry.papers.run import diagnose_words, reproduce
from twmd_registry.registry.options import RunOptions
from twmd_registry.report import figures
from twmd_registry.report.curves import PlotAxis, PlotCurve, curves
from twmd_registry.report.matrices import matrices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VARIED = ("metric", "centering", "layer", "temperature", "iterations")
"""Keys of the specification that a figure's data have."""


def run_reproduce(arguments: argparse.Namespace) -> int:
    """Compute a paper's table or figure again, print it beside the paper's, and write it where that was asked for.

    Raises:
        SpecError: There is no such table or figure; the message lists those there are.
        FileError: The folder to write cannot be written.
    """
    experiment, options = read_experiment(arguments.table), options_of(arguments)
    check_folder(arguments.output)
    if arguments.output and (experiment.picture or experiment.centerings):
        figures.require_matplotlib()
    if experiment.centerings:
        return _run_diagnosis(experiment, arguments, options)
    with progress_bar() as progress:
        (found,) = reproduce(
            [experiment],
            arguments.data_dir,
            model=arguments.model,
            layer=arguments.layer,
            options=options,
            progress=progress,
        )
    if arguments.output:
        write_tables({experiment.name: found}, arguments.output)
        signed = zip(found.settings, found.signatures, strict=True)
        signatures = "".join(f"{setting.label}\t{signature}\n" for setting, signature in signed)
        write_file(arguments.output / f"{experiment.name}-signatures.tsv", signatures.encode())
        if experiment.picture:
            _PICTURES[experiment.picture["kind"]](found, arguments.output, options)
    say(found.text("txt"))
    return 0


def write_tables(found: Mapping[str, Reproduction], folder: Path) -> None:
    """Write tables in every format, by the files' names."""
    for stem, one in found.items():
        for suffix in FORMATS:
            write_file(folder / f"{stem}.{suffix}", f"{one.text(suffix)}\n".encode())


def _run_diagnosis(experiment: Experiment, arguments: argparse.Namespace, options: RunOptions) -> int:
    """Measure how alike words are in every layer, and set the properties beside those that the paper names."""
    with progress_bar("texts") as progress:
        model = {"model": arguments.model, "layer": arguments.layer}
        found = diagnose_words(experiment, arguments.data_dir, options, **model, progress=progress)
    if arguments.output:
        write_diagnosis(found._replace(model=short_name(found.model)), arguments.output, experiment.name)
    means = [[f"{one.mean:.3f}" for one in row.similarities.values()] for row in found.rows]
    cosines = [(str(row.centering), str(row.layer), *own) for row, own in zip(found.rows, means, strict=True)]
    about = f"{experiment.about} {found.texts} texts, {found.words} words. Here: {short_name(found.model)}."
    tables = [TextTable(about, ("centering", "layer", *found.rows[0].similarities), cosines)]
    if experiment.properties:
        rows: list[tuple[str, ...]] = []
        for one in found.verdicts:
            paper = dict(zip(Property, experiment.properties.get(one.centering, ("-",) * 3), strict=True))
            rows.append((str(one.centering), str(one.property), WORDS[one.holds], paper[one.property]))
        tables.append(TextTable("Properties", ("centering", "property", "here", "paper"), rows))
    say("\n\n".join(as_text(table, FORMATS["txt"]) for table in tables))
    return 0


def _draw(folder: Path, stem: str, csv: Mapping[str, np.ndarray], draw: Callable[[str], bytes]) -> None:
    """Write a figure in every format, with its data beside it."""
    write_file(folder / f"{stem}.csv", figures.as_csv(csv))
    for suffix in figures.SUFFIXES:
        write_file(folder / f"{stem}{suffix}", draw(suffix))


def _draw_curves(found: Reproduction, folder: Path, options: RunOptions) -> None:
    """Draw numbers against the values of the last axis, and the plans' marginal errors where they are asked for."""
    experiment, picture = found.experiment, found.experiment.picture
    rows = [
        (cell.column, spec, found.values[i, c], signature)
        for c, cell in enumerate(experiment.cells)
        if found.segments[cell.column]
        for i, (spec, signature) in enumerate(zip(found.specs, found.signatures, strict=True))
    ]
    csv = {"data": np.array([column for column, *_ in rows])}
    for key in VARIED:
        csv[key] = np.array(["" if (value := getattr(spec, key)) is None else str(value) for _, spec, *_ in rows])
    csv |= {
        experiment.cells[0].statistic: np.array([value for _, _, value, _ in rows]),
        "signature": np.array([one for *_, one in rows]),
    }
    x, title = (
        PlotAxis(picture["x"], logarithmic=picture.get("logarithmic", False)),
        f"{found.model}\n{experiment.about}",
    )
    parts = {"": (csv, found.curves(), PlotAxis(experiment.cells[0].statistic))}
    if experiment.plans:
        errors = marginal_errors(found, options)
        group, pairs = first_pairs(found)
        points = [(name, sweeps, error) for name, line in errors.items() for sweeps, error in zip(*line, strict=True)]
        columns = zip(("line", "iterations", "marginal_error"), zip(*points, strict=True), strict=True)
        data = {key: np.array(values) for key, values in columns}
        y = PlotAxis("marginal error", logarithmic=True)
        parts = {"-left": parts[""], "-right": (data, {f"{group}, {len(pairs.ratings)} pairs": errors}, y)}
    for part, (data, panels, y) in parts.items():
        drawn = {panel: [PlotCurve(name, *line) for name, line in lines.items()] for panel, lines in panels.items()}
        _draw(folder, f"{experiment.name}{part}", data, partial(curves, drawn, x, y, title))


def _draw_scatter(found: Reproduction, folder: Path, _options: RunOptions) -> None:
    """Draw scores against ratings of one group, a panel per row."""
    group = found.experiment.cells[0].unit
    name, ratings = next((name, groups[group].ratings) for name, groups in found.rated.items() if group in groups)
    scores = {row: own[name, group] for row, own in found.scores.items()}

    def panel(axes: Axes, name: str) -> None:
        axes.plot(ratings, scores[name], ".", markersize=3, alpha=0.5, color="tab:blue", rasterized=True)
        axes.set(xlabel="human judgement (bad to good)", ylabel="score")

    _draw(
        folder,
        found.experiment.name,
        {"rating": ratings, **scores},
        partial(figures.draw_panels, list(scores), panel, f"{group}, {found.model}"),
    )


def _draw_matrix(found: Reproduction, folder: Path, _options: RunOptions) -> None:
    """Draw the correlations of measures with each other, a matrix per column; a row is named after two measures."""
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
    _draw(folder, found.experiment.name, csv, partial(matrices, panels, names, found.model))


_PICTURES: dict[str, Callable[[Reproduction, Path, RunOptions], None]] = {
    "curves": _draw_curves,
    "scatter": _draw_scatter,
    "matrix": _draw_matrix,
}
"""By the kind of a picture, what draws it."""
