"""Tables for the terminal."""

from __future__ import annotations

from tests.report.reports import comparison
from twmd_registry.report.table import WIDTH, text_table


def test_wide_table_is_split_into_tables_that_fit_the_terminal() -> None:
    table = comparison(["a.txt", "b.txt"], 5)
    shown, _, _ = text_table(table, None).partition("signatures:")
    assert max(map(len, shown.splitlines())) <= WIDTH
    heads = [line for line in shown.splitlines() if line.startswith("system ")]
    assert 1 < len(heads) < len(table.columns)
    for column in table.columns:
        (head,) = [head for head in heads if f"  {column.name}" in head]
        rows = shown[shown.index(head) :].splitlines()[2:4]
        for row, cell in zip(rows, column.cells, strict=True):
            assert f"{cell.score:.{2 if column.hundred else 4}f} (" in row
