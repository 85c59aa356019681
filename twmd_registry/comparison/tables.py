"""Comparisons as text: one system in detail, several side by side, LaTeX, Markdown, TSV, JSON."""

from __future__ import annotations

import json
import textwrap

from twmd_registry.comparison.cells import SIGNIFICANT, MetricColumn, ScoreTable, SystemScore, number
from twmd_registry.comparison.text_table import escape_latex, table_width, write_table
from twmd_registry.engine.result import COUNTS
from twmd_registry.messages import visible
from twmd_registry.registry.names import OUTPUTS

TEST_NAMES = {"bs": "paired bootstrap resampling", "ar": "paired approximate randomisation"}


def text_table(comparison: ScoreTable, digits: int | None) -> str:
    """Write a table for the terminal: a row per metric for one system, a row per system for several."""
    table = _side_by_side(comparison, digits, "txt") if comparison.systems[1:] else _one_system(comparison, digits)
    test = textwrap.fill(describe_test(comparison), table_width(), break_long_words=False, break_on_hyphens=False)
    signatures = "\n".join(["signatures:", *(f"  {line}" for line in signature_lines(comparison))])
    tables = [table, *_matrices(comparison, "txt"), *_documents(comparison, digits, "txt")]
    return "\n\n".join(filter(None, [*tables, test, signatures]))


def paper_table(comparison: ScoreTable, digits: int | None, form: str) -> str:
    """Write a table in LaTeX (``tex``) or Markdown (``md``), with an explanation of its marks and the signatures."""
    tables = [_side_by_side(comparison, digits, form)]
    tables += [*_matrices(comparison, form), *_documents(comparison, digits, form)]
    write, mark = (escape_latex, "% {}") if form == "tex" else (str, "- `{}`")
    lines = [write(describe_test(comparison))] if describe_test(comparison) else []
    signatures = "\n".join(mark.format(line) for line in signature_lines(comparison))
    return "\n\n".join([*tables, *lines, signatures])


def _one_system(comparison: ScoreTable, digits: int | None) -> str:
    outputs = [output for output in OUTPUTS if any(output in column.cells[0].sides for column in comparison.columns)]
    rows = []
    for column in comparison.columns:
        cell = column.cells[0]
        sides = [number(column, cell.sides[output], digits) if output in cell.sides else "-" for output in outputs]
        rows.append([column.name, comparison.systems[0], _score(column, cell, digits), *sides])
    align = ("left", "left", *["right"] * len(rows[0][2:]))
    return write_table(["metric", "system", "score", *outputs], rows, "txt", align)


def _side_by_side(comparison: ScoreTable, digits: int | None, form: str) -> str:
    names, columns = list(comparison.systems), comparison.columns
    if len(names) > 1:
        names[0] = f"Baseline: {names[0]}"
    rows = [[name, *(_score(column, column.cells[i], digits) for column in columns)] for i, name in enumerate(names)]
    heads = [column.name + " (μ ± 95% CI)" * (column.cells[0].ci is not None) for column in columns]
    return write_table(["system", *heads], rows, form, ("left", *("right",) * len(columns)), whole=True)


def _matrices(comparison: ScoreTable, form: str) -> list[str]:
    """Write a matrix of pairwise p-values per metric, if all pairs were tested."""
    names, matrices = list(comparison.systems), list[str]()
    for column in comparison.columns:
        rows = [
            [name, *("-" if p is None else f"{p:.4f}{'*' if p < SIGNIFICANT else ' '}" for p in values)]
            for name, values in zip(names, column.p_values, strict=False)
        ]
        if rows:
            head = [f"p by {column.name}", *names]
            matrices.append(write_table(head, rows, form, ("left", *("right",) * len(names)), whole=True))
    return matrices


def _documents(comparison: ScoreTable, digits: int | None, form: str) -> list[str]:
    """Write a table with a row per document and system; none without documents."""
    rows = []
    for document in dict.fromkeys(comparison.documents):
        for i, system in enumerate(comparison.systems):
            cells = [(column, _document_cell(column.cells[i], document)) for column in comparison.columns]
            segments = str(cells[0][1].counts["segments"])
            rows.append([document, system, segments, *(_score(*place, digits) for place in cells)])
    heads = ["document", "system", "segments", *(f"{column.name} (μ ± 95% CI)" for column in comparison.columns)]
    align = ("left", "left", *("right",) * (len(heads) - 2))
    return [write_table(heads, rows, form, align, names=3)] if rows else []


def _document_cell(cell: SystemScore, document: str) -> SystemScore:
    part = cell.documents[document]
    return SystemScore(part.score, {}, (), {"segments": part.segments}, part.mean, part.ci)


def _score(column: MetricColumn, cell: SystemScore, digits: int | None) -> str:
    shown = number(column, cell.score, digits)
    if cell.ci is not None and cell.mean is not None:
        shown += f" ({number(column, cell.mean, digits)} ± {number(column, cell.ci, digits)})"
    if cell.p_value is not None:
        shown += f" (p = {cell.p_value:.4f}){'*' if cell.p_value < SIGNIFICANT else ' '}"
    return shown


def describe_test(comparison: ScoreTable) -> str:
    """Explain the comparison's test and marks; empty without a test."""
    test, baseline = comparison.resampling, comparison.systems[0]
    if test is None or not test.test:
        return ""
    name = f"{TEST_NAMES[str(test.test)]}, {test.samples} samples, seed {test.seed}"
    pairs = "all pairs of systems" if comparison.columns[0].p_values else f"each system against {visible(baseline)}"
    return (
        f"{name}: {pairs}. p is the probability of a difference at least this large, "
        "in either direction, if both came from the same process; * marks p < 0.05."
    )


def signature_lines(comparison: ScoreTable) -> list[str]:
    """Return every column's signature, prefixed with the column's name if that is not the signature's metric."""
    lines = []
    for column in comparison.columns:
        metric = column.signature.partition("|")[0].partition("(")[0]
        lines.append(column.signature if column.name == metric else f"{column.name}: {column.signature}")
    return lines


def tsv_table(comparison: ScoreTable, digits: int | None) -> str:
    """Write tab-separated values: a line per system and metric, then one per document; the signature comes last."""
    lines = [["system", "metric", "score", *OUTPUTS, "mean", "ci", "p_value", *COUNTS, "signature"]]
    documents = dict.fromkeys(comparison.documents)
    for system, column, whole in _cells(comparison):
        for cell in [whole, *(_document_cell(whole, name) for name in documents)]:
            numbers = [cell.score, *(cell.sides.get(output) for output in OUTPUTS), cell.mean, cell.ci]
            shown = ["-" if value is None else number(column, value, digits) for value in numbers]
            p_value = "-" if cell.p_value is None else f"{cell.p_value:.6f}"
            counts = [str(cell.counts.get(name, "-")) for name in COUNTS]
            lines.append([_escape(system), column.name, *shown, p_value, *counts, column.signature])
    if documents:
        names = ["document", *["-", *map(_escape, documents)] * len(_cells(comparison))]
        lines = [[name, *line] for name, line in zip(names, lines, strict=True)]
    return "\n".join("\t".join(line) for line in lines)


def json_table(comparison: ScoreTable, *, segments: bool) -> str:
    """Write a JSON object per system and metric in full precision, with per-segment scores if `segments`."""
    rows = []
    for system, column, cell in _cells(comparison):
        row: dict[str, object] = {"system": system, "metric": column.name, "score": cell.score}
        row |= cell.sides | cell.tested
        if column.p_values:
            p_values = column.p_values[comparison.systems.index(system)]
            row["p_values"] = dict(zip(comparison.systems, p_values, strict=True))
        row |= {"scores": list(cell.scores)} if segments else {}
        row |= {"documents": {name: part.as_dict() for name, part in cell.documents.items()}} if cell.documents else {}
        rows.append(row | {"signature": column.signature} | cell.counts)
    return json.dumps(rows, indent=2, allow_nan=False)


def sentence_lines(comparison: ScoreTable, digits: int | None, *, header: bool) -> str:
    """Write a line per segment with a tab-separated column per system and metric; `digits` as for `number`."""
    cells = _cells(comparison)
    lines = ["\t".join(f"{_escape(system)}:{column.name}" for system, column, _ in cells)] if header else []
    numbers = [[number(column, value, digits) for value in cell.scores] for _, column, cell in cells]
    return "\n".join([*lines, *("\t".join(row) for row in zip(*numbers, strict=True))])


def _cells(comparison: ScoreTable) -> list[tuple[str, MetricColumn, SystemScore]]:
    systems = enumerate(comparison.systems)
    return [(system, column, column.cells[i]) for i, system in systems for column in comparison.columns]


def _escape(text: str) -> str:
    """Escape a name so that it stays in its row."""
    return visible(text.replace("\\", "\\\\"))
