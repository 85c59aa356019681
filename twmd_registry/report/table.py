"""Scores as tables of text: one system with all its numbers, several side by side, LaTeX, TSV, JSON."""

from __future__ import annotations

import json
from typing import Any

from tabulate import tabulate

from twmd_registry.engine.result import Counts
from twmd_registry.errors import visible
from twmd_registry.record.content import MetricColumn, Resampling, SystemComparison, SystemScore
from twmd_registry.registry.names import Output

SIGNIFICANT = 0.05
TEST_NAMES = {"bs": "paired bootstrap resampling", "ar": "paired approximate randomisation"}


def number(column: MetricColumn, value: float, digits: int | None = None) -> str:
    """A score to so many digits after the point; without a number of them to 4, and to 2 on a scale to 100, where they
    mean the same.
    """
    return f"{value:.{(2 if column.hundred else 4) if digits is None else digits}f}"


def text_table(comparison: SystemComparison, digits: int | None) -> str:
    """One system: a row per metric with its sides. Several: a row per system, the baseline first, as SacreBLEU has
    it.
    """
    body = (
        _one_system(comparison, digits) if len(comparison.systems) == 1 else _side_by_side(comparison, digits, "simple")
    )
    return "\n".join(
        [body, *_explanation(comparison), "", "signatures:", *(f"  {line}" for line in signature_lines(comparison))]
    )


def latex_table(comparison: SystemComparison, digits: int | None) -> str:
    """A booktabs table, signatures as comments."""
    table = _side_by_side(comparison, digits, "latex_booktabs")
    for character, command in (("μ", r"$\mu$"), ("±", r"$\pm$"), ("|", r"\textbar{}")):
        table = table.replace(character, command)
    return "\n".join([table, *(f"% {line}" for line in signature_lines(comparison))])


def _one_system(comparison: SystemComparison, digits: int | None) -> str:
    rows = []
    for column in comparison.columns:
        cell = column.cells[0]
        sides = [number(column, cell.sides[output], digits) if output in cell.sides else "-" for output in Output]
        rows.append([column.name, visible(comparison.systems[0]), _score(column, cell, digits), *sides])
    return tabulate(
        rows,
        headers=["metric", "system", "score", *Output],
        disable_numparse=True,
        colalign=("left", "left", *("right",) * 4),
    )


def _side_by_side(comparison: SystemComparison, digits: int | None, style: str) -> str:
    names = list(map(visible, comparison.systems))
    if len(names) > 1:
        names[0] = f"Baseline: {names[0]}"
    rows = [
        [name, *(_score(column, column.cells[i], digits) for column in comparison.columns)]
        for i, name in enumerate(names)
    ]
    headers = [
        "system",
        *(
            f"{column.name} (μ ± 95% CI)" if column.cells[0].ci is not None else column.name
            for column in comparison.columns
        ),
    ]
    return tabulate(
        rows,
        headers=headers,
        tablefmt=style,
        disable_numparse=True,
        colalign=("left", *("right",) * len(comparison.columns)),
    )


def _score(column: MetricColumn, cell: SystemScore, digits: int | None) -> str:
    shown = number(column, cell.score, digits)
    if cell.ci is not None and cell.mean is not None:
        shown += f" ({number(column, cell.mean, digits)} ± {number(column, cell.ci, digits)})"
    if cell.p_value is not None:
        shown += f" (p = {cell.p_value:.4f}){'*' if cell.p_value < SIGNIFICANT else ' '}"
    return shown


def _explanation(comparison: SystemComparison) -> list[str]:
    resampling = comparison.resampling
    return ["", *lines_of_test(resampling, comparison.systems[0])] if resampling and resampling.test else []


def lines_of_test(test: Resampling, baseline: str) -> list[str]:
    """What a test's marks mean."""
    return [
        (
            f"{TEST_NAMES[str(test.test)]}, {test.samples} samples, seed {test.seed}: every system against "
            f"{visible(baseline)}. p is the probability of"
        ),
        (
            "a difference at least this large if both came from the same process; * marks p < 0.05. It says that "
            "systems differ, not which is better."
        ),
    ]


def signature_lines(comparison: SystemComparison) -> list[str]:
    """Every column's signature, after the column's name where that says more."""
    return [
        f"{column.name}: {column.signature}" if column.name != _head(column) else column.signature
        for column in comparison.columns
    ]


def _head(column: MetricColumn) -> str:
    return column.signature.partition("|")[0].partition("(")[0]


def tsv_table(comparison: SystemComparison, digits: int | None) -> str:
    """Tab-separated: one line per system and metric, the signature last."""
    lines = ["\t".join(["system", "metric", "score", *Output, "mean", "ci", "p_value", *Counts._fields, "signature"])]
    for i, system in enumerate(comparison.systems):
        lines += ["\t".join(_fields(escaped(system), column, column.cells[i], digits)) for column in comparison.columns]
    return "\n".join(lines)


def _fields(system: str, column: MetricColumn, cell: SystemScore, digits: int | None) -> list[str]:
    numbers = [cell.score, *(cell.sides.get(output) for output in Output), cell.mean, cell.ci]
    shown = ["-" if value is None else number(column, value, digits) for value in numbers]
    p_value = "-" if cell.p_value is None else f"{cell.p_value:.6f}"
    counts = map(str, cell.counts) if cell.counts else ["-"] * len(Counts._fields)
    return [system, column.name, *shown, p_value, *counts, column.signature]


def json_table(comparison: SystemComparison, *, segments: bool) -> str:
    """One object per system and metric; full precision.

    Args:
        comparison: The scores.
        segments: Whether every segment's score is in it.
    """
    rows = [
        _object(system, column, column.cells[i], segments=segments)
        for i, system in enumerate(comparison.systems)
        for column in comparison.columns
    ]
    return json.dumps(rows, indent=2, allow_nan=False)


def _object(system: str, column: MetricColumn, cell: SystemScore, *, segments: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"system": system, "metric": column.name, "score": cell.score} | {
        str(output): value for output, value in cell.sides.items()
    }
    found |= {name: value for name in ("mean", "ci", "p_value") if (value := getattr(cell, name)) is not None}
    if segments:
        found["scores"] = list(cell.segments)
    return found | {"signature": column.signature} | (cell.counts._asdict() if cell.counts else {})


def sentence_lines(comparison: SystemComparison, digits: int | None, *, header: bool) -> str:
    """One line per segment, one column per system and metric."""
    chosen = [
        (f"{escaped(system)}:{column.name}", column, column.cells[i])
        for i, system in enumerate(comparison.systems)
        for column in comparison.columns
    ]
    lines = ["\t".join(name for name, _, _ in chosen)] if header else []
    columns = [[number(column, value, digits) for value in cell.segments] for _, column, cell in chosen]
    return "\n".join([*lines, *("\t".join(row) for row in zip(*columns, strict=True))])


def escaped(text: str) -> str:
    """A name that cannot break its row."""
    return visible(text.replace("\\", "\\\\"))
