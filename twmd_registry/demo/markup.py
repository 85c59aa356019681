"""Tables, messages and histograms as HTML; every text of a visitor or a file is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from twmd_registry.report.histogram import histogram

DIGITS = 3


def table(headers: Iterable[str], rows: Iterable[Iterable[str]], kind: str) -> str:
    """Write a table; long names break after an underscore.

    Args:
        headers: Of the columns.
        rows: Texts, as many in each row as there are headers.
        kind: ``numbers`` (in all columns but the first) or ``words``.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headers)
    cells = ("".join(f"<td>{escape(cell).replace('_', '_<wbr>')}</td>" for cell in row) for row in rows)
    body = "\n".join(f"<tr>{row}</tr>" for row in cells)
    table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return f'<div class="twmd-table {kind}">{table}</div>'


def messages(notices: Iterable[str] = (), error: str | None = None) -> str:
    """Write notices about scores, and the error for which there are none, a line each."""
    lines = [("twmd-error", error)] if error else []
    lines += [("twmd-notice", notice) for notice in notices]
    return "\n".join(f'<p class="{kind}" role="status">{escape(line)}</p>' for kind, line in lines)


def histograms(scores: Mapping[str, Sequence[float]]) -> str:
    """Draw a histogram per metric, side by side; each has finite scores, at least one."""
    drawn = (
        f"<figure><figcaption>{escape(name)}: rows by score</figcaption>"
        f"{histogram([np.asarray(values)], f'distribution of {name}', DIGITS)}</figure>"
        for name, values in scores.items()
    )
    return f'<div class="twmd-histograms">{"".join(drawn)}</div>'
