"""``python -m experiments``: the laboratory's commands, each imported when it is used."""

from __future__ import annotations

import sys

import rich_click as click

from twmd_registry.cli import LazyGroup, main
from twmd_registry.cli.declare import quiet

SECTIONS = {
    "Papers": ("papers.commands", "reproduce study diagnose"),
    "Protocols of shared tasks": ("protocols.commands", "task submit accuracy"),
    "Speed": ("bench.commands", "bench"),
    "Training": ("training.commands", "recipe data rate shrink base-model"),
}
"""From a panel of ``--help`` to the module that declares and runs its commands, and their names."""


@click.group(
    "experiments",
    cls=LazyGroup,
    package="experiments",
    sections=SECTIONS,
    no_args_is_help=True,
    help="Compute again what twmd-registry claims: papers' tables, packaged adapters, protocols of shared tasks.",
    epilog="Example: python -m experiments reproduce twmd-table2 --data-dir data/",
)
@quiet
def experiments() -> None:
    """Declare the group; its commands do the work."""


if __name__ == "__main__":
    sys.exit(main(program=experiments))
