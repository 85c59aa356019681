"""``twmd reproduce``."""

from __future__ import annotations

from collections.abc import Callable

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.figures import FIGURES
from twmd_registry.cli.files import check_folder
from twmd_registry.cli.laid import show
from twmd_registry.cli.mover_figures import run_figure_2, run_figure_3
from twmd_registry.cli.requested import options_of
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.errors import SpecError, menu
from twmd_registry.metaeval.reproduce.layout import ComputedTable
from twmd_registry.metaeval.reproduce.moverscore import reproduce_moverscore
from twmd_registry.metaeval.reproduce.moverscore_figures import FIGURE_2, FIGURE_3
from twmd_registry.metaeval.reproduce.moverscore_rows import MOVER_TABLES
from twmd_registry.metaeval.reproduce.rows import TABLES
from twmd_registry.metaeval.reproduce.run import reproduce
from twmd_registry.metaeval.reproduce.tuned import TUNED_TABLE, reproduce_tuned

Command = Callable[[Arguments], int]


def run_reproduce(arguments: Arguments) -> int:
    """Compute a paper's table or figure again, print it beside the paper's, and write it where that was asked for.

    Raises:
        SpecError: There is no such table or figure; the message lists those there are.
        FileError: The folder to write cannot be written.
    """
    if arguments.table not in REPRODUCTIONS:
        raise SpecError(f"no table or figure {arguments.table!r} to compute again; {menu(arguments.table, REPRODUCTIONS)}.")
    check_folder(arguments.output)
    return REPRODUCTIONS[arguments.table](arguments)


def _table_by(compute: Callable[..., ComputedTable]) -> Command:
    def run(arguments: Arguments) -> int:
        options = options_of(arguments)
        with progress_bar() as progress:
            found = compute(arguments.table, arguments.data_dir, model=arguments.model, layer=arguments.layer, options=options, progress=progress)
        return show(found, arguments.output)

    return run


REPRODUCTIONS: dict[str, Command] = {
    **dict.fromkeys(TABLES, _table_by(reproduce)),
    TUNED_TABLE: _table_by(reproduce_tuned),
    **dict.fromkeys(MOVER_TABLES, _table_by(reproduce_moverscore)),
    **FIGURES,
    FIGURE_2: run_figure_2,
    FIGURE_3: run_figure_3,
}
"""From a table's or a figure's name to what computes it."""
