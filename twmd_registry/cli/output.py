"""Print and write results in the formats of ``--format``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.files import write_file
from twmd_registry.errors import visible
from twmd_registry.metaeval.table import FORMATS, TextTable, as_text

if TYPE_CHECKING:
    from twmd_registry.metaeval.robustness import RobustnessResult
    from twmd_registry.metaeval.study import StudyResult

STYLES = {"text": "simple", "markdown": "github", "latex": "latex_booktabs", "tsv": "tsv"}
"""From a word of ``--format`` to how a table is written; json has no tables."""


def as_json(value: object) -> str:
    """Write a value as JSON; numbers that are undefined are null, for JSON has no NaN."""
    return json.dumps(_defined(value), indent=1, ensure_ascii=False, allow_nan=False)


def _defined(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _defined(one) for key, one in value.items()}
    return [_defined(one) for one in value] if isinstance(value, list | tuple) else value


def format_table(headers: Sequence[str], rows: Sequence[Sequence[object]], form: str) -> str:
    """Write a table in one of the formats; as JSON, a list of rows by column."""
    if form == "json":
        return as_json([dict(zip(headers, row, strict=True)) for row in rows])
    cells = [[visible(str(cell)) for cell in row] for row in rows]
    if form == "tsv":
        return "\n".join("\t".join(row) for row in [headers, *cells])
    from tabulate import tabulate

    return tabulate(cells, headers=headers, tablefmt=STYLES[form], disable_numparse=True)


def format_result(result: StudyResult | RobustnessResult, form: str) -> str:
    """Write a result with all its tables in one of the formats."""
    return as_json(result.as_dict()) if form == "json" else result.as_text(STYLES[form])


def write_tables(tables: Mapping[str, TextTable], folder: Path) -> None:
    """Write every table in every format."""
    for name, table in tables.items():
        for suffix, form in FORMATS.items():
            write_file(folder / f"{name}.{suffix}", f"{as_text(table, form)}\n".encode())
