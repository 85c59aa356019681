"""Tables of numbers beside a paper's, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from twmd_registry.errors import visible

NOT_HERE = "-"
"""The cell of a data set that is not here, or of a number that is not defined."""
FORMATS = {"txt": "simple", "md": "github", "tex": "latex_booktabs", "tsv": "tsv"}
"""How tables are written, by suffix."""


class TextTable(NamedTuple):
    """A table as text.

    Attributes:
        name: Its name in the paper.
        header: Of the columns.
        rows: The cells; each of our rows is followed by the paper's of the same name, where it has one.
    """

    name: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def as_text(table: TextTable, form: str) -> str:
    """Write a table; names come from data files, and control characters in them are written out.

    Args:
        table: The table.
        form: One of the values of `FORMATS`; ``tsv`` leaves the name out, LaTeX has it as a comment.
    """
    from tabulate import tabulate

    header, *rows = ([visible(cell) for cell in row] for row in (table.header, *table.rows))
    if form == FORMATS["tsv"]:
        return "\n".join("\t".join(row) for row in (header, *rows))
    body = tabulate(rows, headers=header, tablefmt=form, disable_numparse=True)
    return f"% {table.name}\n{body}" if form == FORMATS["tex"] else f"{table.name}\n\n{body}"


def as_note(lines: Sequence[str], form: str) -> str:
    """Lines that stand beside tables, as comments where a form has them."""
    sign = {FORMATS["tex"]: "% ", FORMATS["tsv"]: "# "}.get(form, "")
    return "\n".join(f"{sign}{visible(line)}" for line in lines)
