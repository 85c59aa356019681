"""``python -m experiments``: commands of the laboratory, imported when they are used."""

from __future__ import annotations

import sys

from twmd_registry.cli import main
from twmd_registry.cli.groups import group

SECTIONS = {
    "Papers": ("papers.commands", "reproduce study diagnose bert-score"),
    "Protocols of shared tasks": ("protocols.commands", "task submit accuracy"),
    "Speed": ("bench.commands", "bench"),
    "Training": ("training.commands", "recipe data rate learn dev shrink defaults"),
}


experiments = group(
    "experiments",
    "Recompute what twmd-registry claims: papers' tables, packaged adapters, protocols of shared tasks.",
    package="experiments",
    sections=SECTIONS,
    example="python -m experiments reproduce twmd-table2 --data-dir data/",
)

if __name__ == "__main__":
    sys.exit(main(program=experiments))
