"""Tables for the terminal and for papers, and names that could break their rows."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import comparison
from twmd_registry.metaeval.side_by_side import WIDTH, as_text
from twmd_registry.record.content import DeltaAccuracy, Resampling
from twmd_registry.report.table import describe_differences, describe_test, paper_table, text_table


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


def test_latex_table_says_what_its_marks_and_differences_mean() -> None:
    table = comparison(["a_b.txt", "50%|c.txt"], 1)
    column = table.columns[0]
    cells = (column.cells[0], replace(column.cells[1], accuracy=DeltaAccuracy(0.7, 0.6, 0.8, "hash")))
    table = table._replace(columns=(column._replace(cells=cells),), resampling=Resampling("bs", 100))
    (difference,) = describe_differences(table)
    assert "50%|c.txt" in difference
    body, test, meaning = paper_table(table, None, "tex").partition("\n\n% ")[0].split("\n\n")
    assert r"50\%\textbar{}c.txt  " in body
    assert test == describe_test(table).replace("_", r"\_")
    assert meaning == difference.replace("_", r"\_").replace("%", r"\%").replace("|", r"\textbar{}\allowbreak{}")


def test_bar_in_a_name_breaks_no_row_of_markdown() -> None:
    table = ("pearson", ("metric", "de|en"), [("a|b", "0.5")])
    header, _, row = as_text(table, "md").splitlines()[2:]
    assert header.split() == ["|", "metric", "|", r"de\|en", "|"]
    assert row.split() == ["|", r"a\|b", "|", "0.5", "|"]


def test_plain_table_wraps_long_names_and_leaves_what_cannot_fit() -> None:
    names = [f"twmd layer={layer} temperature=0.15 centering=batch centering_size=32" for layer in (1, 2)]
    rows = [(name, *["0.1234"] * 8) for name in names]
    lines = as_text(("pearson", ("metric", *"abcdefgh"), rows), "txt").splitlines()[2:]
    assert max(map(len, lines)) <= WIDTH < len(names[0]) + 8 * 8
    assert [line.split()[-8:] for line in lines if "0.1234" in line] == [["0.1234"] * 8] * 2
    many = as_text(("pearson", ("metric", *["column"] * 20), [(names[0], *["0.1"] * 20)]), "txt")
    assert names[0] in many
