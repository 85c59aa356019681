"""Print and write results in the formats of ``--format``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twmd_registry.comparison.text_table import FORMATS, write_table
from twmd_registry.registry.paths import write_file

SUFFIXES = {"text": "txt", "markdown": "md", "latex": "tex", "tsv": "tsv"}
"""File suffix for each word of ``--format``; json has no tables."""


def as_json(value: object, indent: int | None = 1) -> str:
    """Write a value as JSON: named tuples as objects, arrays as lists, undefined numbers as null."""
    return json.dumps(_defined(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _defined(value: Any) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _defined(item) for key, item in value.items()}
    return [_defined(item) for item in value] if isinstance(value, list | tuple) else value


def format_table(headers: Sequence[str], rows: Sequence[Sequence[object]], form: str, names: int = 0) -> str:
    """Write a table in one of the formats, as JSON a list of rows by column; `names` as for `write_table`."""
    if form == "json":
        return as_json([dict(zip(headers, row, strict=True)) for row in rows])
    return write_table(headers, rows, SUFFIXES[form], names=names)


def write_forms(folder: Path, name: str, as_text: Callable[[str], str]) -> None:
    """Write a table to a file in every format, with text from `as_text`."""
    for form in FORMATS:
        write_file(folder / f"{name}.{form}", f"{as_text(form)}\n".encode())
