"""What the commands that compare metrics share: which metrics, and where the tables go."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from twmd_registry.cli.files import write_file
from twmd_registry.cli.score import scorers_by_name
from twmd_registry.errors import SpecError, menu
from twmd_registry.metaeval.lexical import LEXICAL
from twmd_registry.metaeval.side_by_side import Compared
from twmd_registry.metaeval.table import FORMATS, Table, as_text
from twmd_registry.registry.members import split_name
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions


def compared(arguments: argparse.Namespace, options: RunOptions) -> tuple[Compared, ...]:
    """The metrics of ``-m`` in their order, each once.

    Raises:
        SpecError: As for `scorers_by_name`; the menu holds the metrics of SacreBLEU that score single segments.
    """
    own = [metric for metric in arguments.metrics if metric not in LEXICAL]
    for metric in own:
        name = split_name(metric if "(" in metric else metric.partition(";")[0])[0]
        if "|" not in metric and name not in set(MetricName):
            raise SpecError(f"there is no metric {name!r}; {menu(name, [*MetricName, *LEXICAL])}.")
    scorers = scorers_by_name(own, arguments, options)
    return tuple(dict.fromkeys(metric if metric in LEXICAL else scorers[metric].requested for metric in arguments.metrics))


def write_tables(tables: Mapping[str, Table], folder: Path) -> None:
    """Write every table in every format."""
    for name, table in tables.items():
        for suffix, form in FORMATS.items():
            write_file(folder / f"{name}.{suffix}", f"{as_text(table, form)}\n".encode())
