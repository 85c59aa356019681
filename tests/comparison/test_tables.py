"""Tables for the terminal and for papers, and names that could break their rows."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from wcwidth import wcswidth

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


def test_every_part_of_a_wide_table_has_the_columns_before_the_decimals() -> None:
    pairs = [f"{language}-en" for language in ("cs", "de", "fi", "lv", "ru", "tr", "zh")]
    rows = [
        ["segments", "here", *["560"] * 7],
        ["TWMD", "here, layer 4", *["50.7 / 71.4"] * 6, "-"],
        ["TWMD", "roberta-base, layer 10", *["-1.3 / +2.8"] * 7],
    ]
    parts = write_table(["metric", "source", *pairs], rows, "txt").split("\n\n")
    assert [part.split()[2:-1] for part in (part.partition("\n")[0] + " ." for part in parts)] == [pairs[:4], pairs[4:]]
    for part in parts:
        assert [line.split("  ")[0].split()[0] for line in part.splitlines()] == [
            "metric",
            "--------",
            "segments",
            *["TWMD"] * 2,
        ]
        assert part.count("roberta-base, layer 10") == part.count("here, layer 4") == 1


def test_too_wide_names_become_one_column() -> None:
    keys = ["layer", "special", "unknown", "subwords", "centering", "centering_size", "centering_side", "temperature"]
    rows = [["3", "none", "keep", "drop", "none", "-", "-", temperature, "0.7400"] for temperature in ("0.1", "0.2")]
    shown = write_table([*keys, "pearson"], rows, "txt", names=8).splitlines()
    assert [line.split() for line in (shown[0], shown[2])] == [
        ["row", "pearson"],
        [*"layer=3 special=none unknown=keep subwords=drop centering=none temperature=0.1".split(), "0.7400"],
    ]
    assert (len(shown), max(map(len, shown)) <= WIDTH) == (4, True)


def test_numbers_next_to_undefined_ones_and_long_names_are_not_wrapped() -> None:
    interval = "0.416 (-0.212 .. 0.871)"
    rows = [["a-group", *[interval] * 6], ["another", *["undefined"] * 6], ["-", *[interval] * 6]]
    shown = write_table(["", *"abcdef"], rows, "txt")
    assert (shown.count(interval), shown.count("a-group")) == (12, 2)
    score = "10.061915430 (10.002287713 ± 2.431141167) (p = 0.0476)*"
    rows = [["n" * 60, "d" * 60, "12", score]]
    shown = write_table(["document", "system", "segments", "BLEU"], rows, "txt", ("left", "left", "right", "right"), 3)
    assert score in shown
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_names_starting_with_a_decimal_are_not_numbers() -> None:
    rows = [
        ["agrees", f"{size}-instruct-{'x' * 30}", f"twmd {'layer=3 ' * 6}", *["0.864953"] * 7] for size in (3.5, 4.1)
    ]
    heads = ["result", "system", "metric", "recorded", "here", "tolerance", *(f"number {k}" for k in range(4))]
    parts = write_table(heads, rows, "txt").split("\n\n")
    assert [("3.5-instruct" in part, "4.1-instruct" in part) for part in parts] == [(True, True)] * 2


def test_words_are_broken_if_rows_would_lack_a_name() -> None:
    keys = ["layer", "special", "ngram", "centering", "centering_size", "centering_side", "temperature"]
    rows = [["4", "cls", "2", "batch", "32", "separate", temperature, "0.7521"] for temperature in ("0.1", "0.2")]
    shown = write_table([*keys, "pearson"], rows, "txt", names=7)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert [line.split() for line in shown.splitlines()[-2:]] == rows


def test_wide_letters_count_as_two_characters() -> None:
    shown = write_table(["system", "score"], [["我" * 70, "0.5"]], "txt")
    assert max(map(wcswidth, shown.splitlines())) <= WIDTH


def test_leading_bracket_or_star_is_not_an_argument_of_a_line_break() -> None:
    body = write_table(["system", "score"], [["[mask]", "0.5"], ["*", "0.25 *"]], "tex").splitlines()
    assert [line.split("&")[0].strip() for line in body if "&" in line] == ["system", "{} [mask]", "{} *"]


def test_latex_table_explains_its_marks() -> None:
    table = comparison(["a_b.txt", "50%|c.txt"], 1)._replace(resampling=Resampling("bs", 100))
    body, test = paper_table(table, None, "tex").partition("\n\n% ")[0].split("\n\n")
    assert r"50\%\textbar{}c.txt  " in body
    assert test == describe_test(table).replace("_", r"\_")
