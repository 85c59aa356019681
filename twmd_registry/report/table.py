"""Scores as tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from twmd_registry.registry.names import Output
from twmd_registry.scores import Counts, ScoreSet

Results = Sequence[tuple[str, Sequence[ScoreSet]]]
"""System names, each with one score set per metric; the same system may be there twice."""


def score_table(results: Results, digits: int) -> str:
    """A table of all metrics and systems, and the signatures below it."""
    rows: list[list[Any]] = []
    for column in zip(*(sets for _, sets in results), strict=True):
        rows += [[str(scores.metric), system, *_numbers(scores, digits)] for (system, _), scores in zip(results, column, strict=True)]
    table = tabulate(rows, headers=["metric", "system", "score", *Output], disable_numparse=True, colalign=("left", "left", *("right",) * 4))
    signatures = dict.fromkeys(str(scores.signature) for _, sets in results for scores in sets)
    return "\n".join([table, "", "signatures:", *(f"  {signature}" for signature in signatures)])


def tsv(results: Results, digits: int) -> str:
    """Tab-separated: one line per system and metric, the signature last."""
    lines = ["\t".join(["system", "metric", "score", *Output, *Counts._fields, "signature"])]
    for system, sets in results:
        lines += ["\t".join(_fields(system, scores, digits)) for scores in sets]
    return "\n".join(lines)


def sentence_lines(results: Results, digits: int, *, header: bool) -> str:
    """One line per segment, one column per system and metric."""
    columns = [(f"{_cell(system)}:{scores.metric}", scores.scores) for system, sets in results for scores in sets]
    lines = ["\t".join(name for name, _ in columns)] if header else []
    lines += ["\t".join(f"{value:.{digits}f}" for value in row) for row in zip(*(values for _, values in columns), strict=True)]
    return "\n".join(lines)


def _fields(system: str, scores: ScoreSet, digits: int) -> list[str]:
    return [_cell(system), str(scores.metric), *_numbers(scores, digits), *map(str, scores.counts), str(scores.signature)]


def _cell(text: str) -> str:
    """A name that cannot break its row."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _numbers(scores: ScoreSet, digits: int) -> list[str]:
    """The score and its sides; a dash where a metric has none."""
    values = scores.as_dict()
    sides = (values.get(str(output)) for output in Output)
    return [f"{scores.score:.{digits}f}", *("-" if side is None else f"{side:.{digits}f}" for side in sides)]
