"""``twmd reproduce moverscore-figure2`` and ``-figure3``: numbers, pictures, and the data of the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.laid import show, write_pictures
from twmd_registry.cli.requested import options_of
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.errors import SpecError
from twmd_registry.metaeval.reproduce.layout import short_name
from twmd_registry.metaeval.reproduce.moverscore_figures import Correlations, Distribution, figure_2, figure_3
from twmd_registry.registry.options import RunOptions
from twmd_registry.report import figures
from twmd_registry.report.matrices import matrices

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def run_figure_2(arguments: Arguments) -> int:
    """Score de-en, say how bad and good texts are told apart, and draw scores against ratings."""
    options = _prepare(arguments)
    with progress_bar() as progress:
        found = figure_2(arguments.data_dir, model=arguments.model, options=options, progress=progress)
    if arguments.output:
        csv = figures.as_csv({"rating": found.scored.ratings, **found.scored.scores})
        write_pictures(arguments.output, found.table, csv, lambda suffix: _distributions(found, suffix))
    return show(found, arguments.output)


def run_figure_3(arguments: Arguments) -> int:
    """Correlate measures with each other and with people in de-en and zh-en, beside the paper's numbers, and draw the matrices."""
    options = _prepare(arguments)
    with progress_bar() as progress:
        found = figure_3(arguments.data_dir, model=arguments.model, options=options, progress=progress)
    if arguments.output:
        title = f"WMT17, {short_name(found.table.model)}"
        write_pictures(arguments.output, found.table.table, _as_csv(found), lambda suffix: matrices(found.matrices, found.names, title, suffix))
    return show(found.table, arguments.output)


def _prepare(arguments: Arguments) -> RunOptions:
    """Refuse, before anything is scored, what cannot be done."""
    if arguments.layer is not None:
        raise SpecError(f"layer={arguments.layer} has no meaning for {arguments.table}: the paper reads the last five layers; leave it out.")
    if arguments.output:
        figures.require_matplotlib()
    return options_of(arguments)


def _distributions(found: Distribution, suffix: str) -> bytes:
    def panel(axes: Axes, name: str) -> None:
        axes.plot(found.scored.ratings, found.scored.scores[name], ".", markersize=3, alpha=0.5, color="tab:blue", rasterized=True)
        axes.set(xlabel="human judgement (bad to good)", ylabel="score")

    return figures.draw_panels(list(found.scored.scores), panel, f"WMT17 de-en, {short_name(found.model)}", suffix)


def _as_csv(found: Correlations) -> bytes:
    """A row per cell that is drawn, in hundredths."""
    cells = [(pair, i, j) for pair in found.matrices for i in range(len(found.names)) for j in range(i + 1)]
    return figures.as_csv(
        {
            "language pair": np.array([pair for pair, _, _ in cells]),
            "row": np.array([found.names[i] for _, i, _ in cells]),
            "column": np.array([found.names[j] for _, _, j in cells]),
            "pearson": np.array([found.matrices[pair][i, j] for pair, i, j in cells]),
        }
    )
