"""Tables as text, Markdown, LaTeX and TSV. Plain text is at most 100 columns wide, or as wide as a narrower
terminal, if lines can be wrapped.

Importing this module loads no numpy, because the command line reads `FORMATS` at startup.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from twmd_registry.messages import visible

MISSING, UNDEFINED = "-", "undefined"
"""Cell of a data set or number that is missing, and of a correlation that is undefined."""
FORMATS = {"txt": "simple", "md": "github", "tex": "latex_booktabs", "tsv": "tsv"}
"""Table formats by file suffix, and `tabulate`'s name for each."""
WIDTH, MIN_WIDTH, MAX_WHOLE, MARGIN = 100, 24, 50, "  "
"""Maximum width of a plain table, minimum width of a column with broken words, maximum width of an unwrapped system
name, and the margin that `tabulate` adds to headings.
"""
_LATEX = str.maketrans({"μ": r"$\mu$", "±": r"$\pm$", "|": r"\textbar{}"})
"""Characters that `tabulate` does not escape, but not every LaTeX can typeset."""


def table_width() -> int:
    """Return the width of plain tables: `WIDTH`, or a narrower terminal's."""
    columns = shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
    return max(2 * MIN_WIDTH, min(WIDTH, columns))


class TextTable(NamedTuple):
    """A table of strings."""

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
    """Write a table in a format of `FORMATS`.

    A plain table wraps headings and texts to stay within `table_width`. If there are too many columns it is split, and
    every part repeats the columns that name the rows. If there are too many of those, they are merged into one.

    Args:
        header: Headings.
        rows: Cells by row.
        form: A key of `FORMATS`.
        align: ``left`` or ``right`` per column; ``right`` marks numbers. Without it, columns of decimals are numbers.
        names: How many columns name the rows; by default those before the first number.
        whole: Whether to wrap the first column only beyond `MAX_WHOLE` characters.
    """
    pipe = r"\|" if form == "md" else "|"
    cells = [[visible(str(cell)).replace("|", pipe) for cell in row] for row in (header, *rows)]
    if form == "tsv":
        return "\n".join("\t".join(row) for row in cells)
    from tabulate import tabulate

    width, layouts, tables = table_width(), [dict[int, int | None].fromkeys(range(len(cells[0])))], list[str]()
    if form == "txt":
        columns = list(enumerate(zip(*cells, strict=True)))
        numbers = [k for k, column in columns if (align[k] == "right" if align else k and _are_decimals(column[1:]))]
        widths = [_measure(head, texts, is_number=k in numbers) for k, (head, *texts) in columns]
        names = names or min(numbers, default=1)
        if whole:
            widths[0] = widths[0][0], max(widths[0][1], min(widths[0][0], MAX_WHOLE))
        narrow = [min(least, MIN_WIDTH // 2) + 2 for _, least in widths]
        if names > 1 and sum(narrow[:names]) + max(narrow[names:], default=0) > width:
            pairs = [[f"{cells[0][k]}={row[k]}" for k in range(names) if row[k] != MISSING] for row in cells[1:]]
            named = ([" ".join(pair), *row[names:]] for pair, row in zip(pairs, cells[1:], strict=True))
            return write_table(["row", *cells[0][names:]], named, form, names=1)
        layouts = _layout(widths, names, width)
    for limits in layouts:
        head, *lines = ([row[k] for k in limits] for row in cells)
        settings: dict[str, Any] = {"colalign": [align[k] for k in limits] if align else None}
        if lines:  # tabulate 0.9 cannot wrap the headings of an empty table
            settings["maxcolwidths"] = list(limits.values())
            settings["maxheadercolwidths"] = [limit and limit - len(MARGIN) for limit in limits.values()]
        tables.append(tabulate(lines, headers=head, tablefmt=FORMATS[form], disable_numparse=True, **settings))
    if form == "tex":  # a bracket or star at the start of a row would be an argument of the preceding line break
        return re.sub(r"(?m)^(?= *[\[*])", "{}", tables[0]).translate(_LATEX)
    return "\n\n".join(tables)


def _are_decimals(cells: Sequence[str]) -> bool:
    """Return whether all cells that are not missing start with a number, at least one of them a decimal."""
    numbers = [re.match(r"[-+]?\d+(\.\d+)?(\s|$)", cell) for cell in cells if cell not in {"", MISSING, UNDEFINED}]
    return all(numbers) and any(number[1] for number in numbers if number)


def _measure(head: str, cells: Sequence[str], *, is_number: bool) -> tuple[int, int]:
    """Return a column's unwrapped width, and the minimum width that breaks no numbers or ordinary words."""
    from wcwidth import wcswidth as width  # like `tabulate`, counts a wide letter as two characters

    words = [*(word + MARGIN for word in head.split()), *(word for cell in cells for word in cell.split())]
    min_width = max(
        len(MARGIN), min(MIN_WIDTH, max(map(width, words), default=0)), *map(width, cells if is_number else ())
    )
    return max(map(width, [head + MARGIN, *cells])), min_width


def _layout(widths: Sequence[tuple[int, int]], names: int, total: int) -> list[dict[int, int | None]]:
    """Split columns into tables; map each column to its limit, None if it is not wrapped."""
    min_widths = [width for _, width in widths]
    most = total - 2 * names - max(min_widths[names:], default=0)  # available to the naming columns
    while sum(min_widths[:names]) > most and (widest := max(min_widths[:names])) > MIN_WIDTH // 2:
        min_widths[min_widths.index(widest)] -= 1  # break words of names rather than numbers
    room = total + 2 - sum(min_widths[:names]) - 2 * names
    min_widths[names:] = [min(width, room - 2) for width in min_widths[names:]]

    def cut(most: int) -> list[list[int]]:
        parts = [list[int]()]
        for k in range(names, len(min_widths)):
            if parts[-1] and (len(parts[-1]) == most or sum(min_widths[j] + 2 for j in [*parts[-1], k]) > room):
                parts.append([])
            parts[-1].append(k)
        return parts

    even = math.ceil((len(min_widths) - names) / len(cut(len(min_widths))))  # a similar number of columns in each table
    return [_fit({k: (widths[k][0], min_widths[k]) for k in (*range(names), *part)}, total) for part in cut(even)]


def _fit(widths: Mapping[int, tuple[int, int]], total: int) -> dict[int, int | None]:
    """Return the limits of a table's columns, None if not wrapped. The widest columns are wrapped."""
    limits = {k: need for k, (need, _) in widths.items()}
    while sum(limits.values()) + 2 * (len(limits) - 1) > total:
        limits[max((k for k in limits if limits[k] > widths[k][1]), key=lambda k: limits[k])] -= 1
    return {k: limit if limit < widths[k][0] else None for k, limit in limits.items()}


def as_text(table: TextTable, form: str, names: int = 0) -> str:
    """Write a table below its name; ``tsv`` leaves the name out."""
    name, header, rows = table
    return {"tsv": "", "tex": f"% {name}\n"}.get(form, f"{name}\n\n") + write_table(header, rows, form, names=names)


def as_report(tables: Iterable[TextTable], notes: Iterable[str], form: str) -> str:
    """Write tables, then notes below them, as comments if the format has comments."""
    sign = {"tex": "% ", "tsv": "# "}.get(form, "")
    below = "\n".join(f"{sign}{visible(line)}" for line in notes)
    return "\n\n".join([*(as_text(table, form) for table in tables), below])


def between(low: float | None, high: float | None, digits: int = 3) -> str | None:
    """Write an interval; None without one."""
    return None if low is None or high is None else f"{low:.{digits}f} .. {high:.{digits}f}"


_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "_%#&${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"|": r"\textbar{}\allowbreak{}"}
)


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX. Lines may break after each bar, as between the fields of a signature."""
    return text.translate(_ESCAPES)
