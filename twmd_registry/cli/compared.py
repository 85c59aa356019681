"""What the commands that compare metrics share: which metrics, and where the tables go."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.files import write_file
from twmd_registry.metaeval.table import FORMATS, TextTable, as_text
from twmd_registry.registry.spec import MetricSpec

if TYPE_CHECKING:
    from twmd_registry.metaeval.robustness import RobustnessResult
    from twmd_registry.metaeval.study import StudyResult

SUFFIXES = {"text": "txt", "markdown": "md", "latex": "tex", "tsv": "tsv"}
"""From a word of ``--format`` to the suffix of `FORMATS`."""


def compared(arguments: argparse.Namespace) -> tuple[MetricSpec | str, ...]:
    """The metrics of ``-m`` in their order: specifications, and names of SacreBLEU's."""
    return tuple(one.name if one.spec is None else one.spec for one in arguments.asked)


def printed(found: StudyResult | RobustnessResult, form: str) -> str:
    """A result as ``--format`` asks for it."""
    return json.dumps(found.as_dict(), indent=1, ensure_ascii=False) if form == "json" else found.as_text(FORMATS[SUFFIXES[form]])


def write_tables(tables: Mapping[str, TextTable], folder: Path) -> None:
    """Write every table in every format."""
    for name, table in tables.items():
        for suffix, form in FORMATS.items():
            write_file(folder / f"{name}.{suffix}", f"{as_text(table, form)}\n".encode())
