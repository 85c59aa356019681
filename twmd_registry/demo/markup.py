"""Tables and messages as HTML: whatever a visitor or a file brings is escaped here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def table(headers: Iterable[str], rows: Iterable[Iterable[str]], kind: str) -> str:
    """Write a table.

    Args:
        headers: Of the columns.
        rows: Texts, as many in each row as there are headers.
        kind: ``numbers`` (all columns but the first are) or ``words``.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headers)
    body = "\n".join(f"<tr>{''.join(f'<td>{_breakable(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="twmd-table {kind}"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
    )


def _breakable(cell: str) -> str:
    """A cell whose long names break after an underscore, where they must."""
    return escape(cell).replace("_", "_<wbr>")


def messages(notices: Iterable[str] = (), error: str | None = None) -> str:
    """Write what is to be said, a line each.

    Args:
        notices: What a reader of the scores should know.
        error: Why there are none.
    """
    lines = [("twmd-error", error)] if error else []
    lines += [("twmd-notice", notice) for notice in notices]
    return "\n".join(f'<p class="{kind}" role="status">{escape(line)}</p>' for kind, line in lines)
