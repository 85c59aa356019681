"""Tables for the terminal and for papers, and names that could break their rows."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.report.reports import comparison
from twmd_registry.comparison.cells import MetricColumn, Resampling, number
from twmd_registry.comparison.tables import describe_test, paper_table, text_table
from twmd_registry.comparison.text_table import WIDTH, write_table
from twmd_registry.engine.result import DocumentScore


@pytest.mark.parametrize("columns", [WIDTH, 80])
def test_wide_table_is_split_into_tables_that_fit_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    table = comparison(["a.txt", "b.txt"], 5)
    shown, _, _ = text_table(table, None).partition("signatures:")
    assert max(map(len, shown.splitlines())) <= columns
    heads = [line for line in shown.splitlines() if line.startswith("system ")]
    assert 1 < len(heads) <= len(table.columns)
    for column in table.columns:
        (head,) = [head for head in heads if f"  {column.name}" in head]
        rows = shown[shown.index(head) :].splitlines()[2:4]
        for row, cell in zip(rows, column.cells, strict=True):
            assert f"{cell.score:.{2 if column.hundred else 4}f} (" in row


@pytest.mark.parametrize("systems", [["a" * 75], ["a" * 75, "b" * 200]], ids=["one-system", "two-systems"])
def test_long_names_of_metrics_systems_and_documents_are_wrapped_and_scores_are_not(systems: list[str]) -> None:
    table, columns = comparison(systems, 5), list[MetricColumn]()
    for letter, column in zip("xyz", table.columns, strict=True):
        document = {"d" * 90: DocumentScore(5, 0.25, 0.125, 0.0625)}
        cells = tuple(replace(cell, documents=document) for cell in column.cells)
        columns.append(column._replace(name=letter * 150, cells=cells))
    table = table._replace(columns=tuple(columns), documents=("d" * 90,) * 5)
    shown, _, _ = text_table(table, None).partition("signatures:")
    assert max(map(len, shown.splitlines())) <= WIDTH
    for column in columns:
        parts = [part for part in shown.split("\n\n") if part.count(column.name[0]) >= 150]
        for part in parts:  # every table names the rows
            assert all(part.count(name[0]) >= len(name) for name in systems)
        for cell in column.cells:
            values = [number(column, value) for value in (cell.score, cell.mean or 0, cell.ci or 0)]
            assert "{} ({} ± {})".format(*values) in parts[0]
        document_values = [number(column, value) for value in (0.25, 0.125, 0.0625)]
        assert parts[-1].count("{} ({} ± {})".format(*document_values)) >= len(systems)
        assert parts[-1].count("d") >= 90 * len(systems)


def test_too_wide_names_become_one_column() -> None:
    keys = ["layer", "special", "unknown", "subwords", "centering", "centering_size", "centering_side", "temperature"]
    rows = [["3", "none", "keep", "drop", "none", "-", "-", temperature, "0.7400"] for temperature in ("0.1", "0.2")]
    shown = write_table([*keys, "pearson"], rows, "txt", names=8).splitlines()
    assert [line.split() for line in (shown[0], shown[2])] == [
        ["row", "pearson"],
        [*"layer=3 special=none unknown=keep subwords=drop centering=none temperature=0.1".split(), "0.7400"],
    ]
    assert (len(shown), max(map(len, shown)) <= WIDTH) == (4, True)


def test_leading_bracket_or_star_is_not_an_argument_of_a_line_break() -> None:
    body = write_table(["system", "score"], [["[mask]", "0.5"], ["*", "0.25 *"]], "tex").splitlines()
    assert [line.split("&")[0].strip() for line in body if "&" in line] == ["system", "{} [mask]", "{} *"]


def test_latex_table_explains_its_marks() -> None:
    table = comparison(["a_b.txt", "50%|c.txt"], 1)._replace(resampling=Resampling("bs", 100))
    body, test = paper_table(table, None, "tex").partition("\n\n% ")[0].split("\n\n")
    assert r"50\%\textbar{}c.txt  " in body
    assert test == describe_test(table).replace("_", r"\_")
