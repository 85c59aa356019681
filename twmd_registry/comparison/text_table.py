"""Tables as text, Markdown, LaTeX and TSV, at most 100 columns wide where lines break.

Importing it loads no numpy: the command line reads `FORMATS` at its start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from twmd_registry.messages import visible

MISSING, UNDEFINED = "-", "undefined"
"""The cell of a data set that is not available, or of an undefined number; of a correlation that is not defined."""
FORMATS = {"txt": "simple", "md": "github", "tex": "latex_booktabs", "tsv": "tsv"}
"""The forms of tables, by the suffix of such a file, and what `tabulate` calls each."""
WIDTH, MIN_WIDTH, MAX_WHOLE, MARGIN = 100, 24, 50, "  "
"""Characters of a plain table at most, of a column with broken words at least, of a system's name that is not wrapped
at most, and what `tabulate` adds to heads.
"""
_LATEX = str.maketrans({"μ": r"$\mu$", "±": r"$\pm$", "|": r"\textbar{}"})
"""Characters that `tabulate` leaves as they are, which not every LaTeX sets right."""


class TextTable(NamedTuple):
    """A table whose cells are texts."""

    name: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def write_table(
    header: Sequence[object],
    rows: Iterable[Sequence[object]],
    form: str,
    align: Sequence[str] = (),
    names: int = 0,
    *,
    whole: bool = False,
) -> str:
    """Write a table in a form of `FORMATS`, a plain one with rows at most `WIDTH` wide: heads and texts are wrapped; of
    too many columns there are several tables, each with the first `names` columns, which name the rows, or those before
    all numbers; too many of them are written as one. Numbers are ``right`` in `align`, or without it, are decimals.
    With `whole`, the first column is wrapped beyond `MAX_WHOLE` characters only.
    """
    pipe = r"\|" if form == "md" else "|"
    cells = [[visible(str(cell)).replace("|", pipe) for cell in row] for row in (header, *rows)]
    if form == "tsv":
        return "\n".join("\t".join(row) for row in cells)
    from tabulate import tabulate

    layouts, tables = [dict[int, int | None].fromkeys(range(len(cells[0])))], list[str]()
    if form == "txt":
        columns = list(enumerate(zip(*cells, strict=True)))
        numbers = [k for k, column in columns if (align[k] == "right" if align else k and _are_decimals(column[1:]))]
        widths = [_measure(head, texts, is_number=k in numbers) for k, (head, *texts) in columns]
        names = names or min(numbers, default=1)
        if whole:
            widths[0] = widths[0][0], max(widths[0][1], min(widths[0][0], MAX_WHOLE))
        narrow = [min(least, MIN_WIDTH // 2) + 2 for _, least in widths]
        if names > 1 and sum(narrow[:names]) + max(narrow[names:], default=0) > WIDTH:
            pairs = [[f"{cells[0][k]}={row[k]}" for k in range(names) if row[k] != MISSING] for row in cells[1:]]
            named = ([" ".join(pair), *row[names:]] for pair, row in zip(pairs, cells[1:], strict=True))
            return write_table(["row", *cells[0][names:]], named, form, names=1)
        layouts = _layout(widths, names)
    for limits in layouts:
        head, *lines = ([row[k] for k in limits] for row in cells)
        settings: dict[str, Any] = {"colalign": [align[k] for k in limits] if align else None}
        if lines:  # the heads of a table without rows are not wrapped: tabulate 0.9 fails
            settings["maxcolwidths"] = list(limits.values())
            settings["maxheadercolwidths"] = [limit and limit - len(MARGIN) for limit in limits.values()]
        tables.append(tabulate(lines, headers=head, tablefmt=FORMATS[form], disable_numparse=True, **settings))
    if form == "tex":  # a bracket or star at the start of a row would be an argument of the line break before it
        return re.sub(r"(?m)^(?= *[\[*])", "{}", tables[0]).translate(_LATEX)
    return "\n\n".join(tables)


def _are_decimals(cells: Sequence[str]) -> bool:
    """Return whether all cells that are not missing begin with a number, and one with a decimal."""
    numbers = [re.match(r"[-+]?\d+(\.\d+)?(\s|$)", cell) for cell in cells if cell not in {"", MISSING, UNDEFINED}]
    return all(numbers) and any(number[1] for number in numbers if number)


def _measure(head: str, cells: Sequence[str], *, is_number: bool) -> tuple[int, int]:
    """Return a column's width without wrapping, and the least one, by which no number and no usual word is broken."""
    from wcwidth import wcswidth as width  # as `tabulate` measures, a wide letter as two characters

    words = [*(word + MARGIN for word in head.split()), *(word for cell in cells for word in cell.split())]
    least = max(len(MARGIN), min(MIN_WIDTH, max(map(width, words), default=0)), *map(width, cells if is_number else ()))
    return max(map(width, [head + MARGIN, *cells])), least


def _layout(widths: Sequence[tuple[int, int]], names: int) -> list[dict[int, int | None]]:
    """Return the columns of every table that a table is split into, each with its limit; None if it is not wrapped."""
    least = [width for _, width in widths]
    most = WIDTH - 2 * names - max(least[names:], default=0)  # that names may take
    while sum(least[:names]) > most and (widest := max(least[:names])) > MIN_WIDTH // 2:
        least[least.index(widest)] -= 1  # words of names are broken rather than numbers
    room = WIDTH + 2 - sum(least[:names]) - 2 * names
    least[names:] = [min(width, room - 2) for width in least[names:]]

    def cut(most: int) -> list[list[int]]:
        parts = [list[int]()]
        for k in range(names, len(least)):
            if parts[-1] and (len(parts[-1]) == most or sum(least[j] + 2 for j in [*parts[-1], k]) > room):
                parts.append([])
            parts[-1].append(k)
        return parts

    even = math.ceil((len(least) - names) / len(cut(len(least))))  # about as many columns in each
    return [_fit({k: (widths[k][0], least[k]) for k in (*range(names), *part)}) for part in cut(even)]


def _fit(widths: Mapping[int, tuple[int, int]]) -> dict[int, int | None]:
    """Return the limits of a table's columns, None for those that are not wrapped: the widest ones are."""
    limits = {k: need for k, (need, _) in widths.items()}
    while sum(limits.values()) + 2 * (len(limits) - 1) > WIDTH:
        limits[max((k for k in limits if limits[k] > widths[k][1]), key=lambda k: limits[k])] -= 1
    return {k: limit if limit < widths[k][0] else None for k, limit in limits.items()}


def as_text(table: TextTable, form: str, names: int = 0) -> str:
    """Write a table, as `write_table` does, below its name; ``tsv`` leaves the name out."""
    name, header, rows = table
    return {"tsv": "", "tex": f"% {name}\n"}.get(form, f"{name}\n\n") + write_table(header, rows, form, names=names)


def as_report(tables: Iterable[TextTable], notes: Iterable[str], form: str) -> str:
    """Write tables in a form of `FORMATS`, and lines below them, as comments where the form has them."""
    sign = {"tex": "% ", "tsv": "# "}.get(form, "")
    below = "\n".join(f"{sign}{visible(line)}" for line in notes)
    return "\n\n".join([*(as_text(table, form) for table in tables), below])


def between(low: float | None, high: float | None, digits: int = 3) -> str | None:
    """Write an interval; None where there is none."""
    return None if low is None or high is None else f"{low:.{digits}f} .. {high:.{digits}f}"


_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "_%#&${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"|": r"\textbar{}\allowbreak{}"}
)


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX; a line may break after each bar, as between the fields of a signature."""
    return text.translate(_ESCAPES)
