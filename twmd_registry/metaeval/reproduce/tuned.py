"""Table 4 of the TWMD paper: a model that was fine-tuned on WMT15-16, beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import SpecError, warn
from twmd_registry.metaeval.published import PublishedRows, published_rows
from twmd_registry.metaeval.reproduce.layout import ComputedTable, as_cell, as_number, short_name
from twmd_registry.metaeval.reproduce.protocols import groups_of, read_years, wmt
from twmd_registry.metaeval.reproduce.rows import LANGUAGE_PAIRS, TABLES, spec_of_row
from twmd_registry.metaeval.reproduce.run import layer_of, twmd_of
from twmd_registry.metaeval.table import FORMATS, TextTable, as_text
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.options import RunOptions

TUNED_TABLE = "twmd-table4"
LIKE = TABLES["twmd-table2"]
"""Whose side, special tokens and temperatures the rows have."""
ROWS = ("TWMD", "TWMD-b")
YEARS = {17: ("kendall", "pearson"), 18: ("kendall",)}
"""What is measured on a year of WMT; together the table's columns."""


@dataclass(frozen=True)
class TunedTable(ComputedTable):
    """Table 4, computed here.

    Attributes:
        table: Its name.
        model: The fine-tuned model.
        layer: The hidden state that was read.
        segments: By column, how many segments our numbers are measured on; 0 for a year that is not here.
        rows: By row, 100 times the correlations, NaN for a year that is not here; shape (columns,) each.
        signatures: By row, how its scores were computed.
        paper: The paper's numbers.
    """

    table: str
    model: str
    layer: int
    segments: tuple[int, ...]
    rows: dict[str, np.ndarray]
    signatures: dict[str, str]
    paper: PublishedRows

    @property
    def sentence(self) -> str:
        """Which centering is the better one here and there, in one sentence."""
        column = self.paper.columns.index("WMT17 r")
        plain, batch = (float(self.rows[row][column]) for row in ROWS)
        theirs = {(row.model, row.metric): float(row.values[column, 0]) for row in self.paper.rows}
        papers = "; ".join(f"{model} {theirs[model, 'TWMD']:.1f} and {theirs[model, 'TWMD-b']:.1f}" for model in ("base", "large"))
        better = "with" if batch > plain else "without"
        return (
            f"{short_name(self.model)} (layer {self.layer}) reaches a mean Pearson correlation on WMT17 of {plain:.1f} without and {batch:.1f} "
            f"with batch centering, and is better {better} it (the paper's: {papers}: base is better without, large with)."
        )

    def layout(self) -> TextTable:
        """Our two rows, then the paper's; cells are correlations in hundredths."""
        laid = [("segments", "here", *map(str, self.segments))]
        laid += [(row, f"here, layer {self.layer}", *_cells(values)) for row, values in self.rows.items()]
        laid += [(row.metric, f"paper, {row.model}", *_cells(row.values[:, 0])) for row in self.paper.rows]
        return TextTable(f"{self.paper.about} Here: {short_name(self.model)}.", ("metric", "source", *self.paper.columns), laid)

    def tsv(self) -> str:
        """A line per number for other programs, ours to full precision; empty where there is none."""
        return as_text(TextTable(self.table, ("metric", "column", "segments", "here", "base", "large"), list(self._lines())), FORMATS["tsv"])

    def _lines(self) -> Iterator[tuple[str, ...]]:
        theirs = {(row.model, row.metric): row.values[:, 0] for row in self.paper.rows}
        for row, values in self.rows.items():
            for c, column in enumerate(self.paper.columns):
                numbers = (values[c], theirs["base", row][c], theirs["large", row][c])
                yield (row, column, str(self.segments[c]), *map(as_number, numbers))


def _cells(values: np.ndarray) -> list[str]:
    return [as_cell(values[c : c + 1]) for c in range(len(values))]


def reproduce_tuned(
    table: str,
    data: Path,
    *,
    model: str,
    layer: int | None = None,
    options: RunOptions | None = None,
    progress: Callable[[int], None] | None = None,
) -> TunedTable:
    """Measure a fine-tuned model on WMT17, and on WMT18 where it is here.

    Args:
        table: `TUNED_TABLE`.
        data: The folder of the rated data: holds ``wmt/wmt17.jsonl``, perhaps ``wmt/wmt18.jsonl``.
        model: The fine-tuned model.
        layer: The hidden state; without one, the model's preset's or by rule.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Raises:
        SpecError: The default model, which nobody has tuned on WMT, or a layer that the model does not have.
        FileError: WMT17 is missing, a file is damaged, or a language pair has no row.
        ModelError: The model is not to be had.

    Warns:
        TwmdWarning: WMT18 is not here, rows were left out, or a correlation is undefined.
    """
    if model == EMBEDDED_MODEL:
        raise SpecError(f"{table} is of models that were fine-tuned on WMT15-16: give one by --model.")
    options, paper = options or RunOptions(), published_rows(table)
    years = [year for year in YEARS if year == min(YEARS) or (data / f"wmt/wmt{year}.jsonl").exists()]
    if len(years) < len(YEARS):
        warn(f"{table}: no wmt/wmt18.jsonl in {data}; its column stays empty.")
    with ExitStack() as stack:
        read = layer_of(stack.enter_context(twmd_of(model, layer, options)))
        scorers = [stack.enter_context(Scorer(spec_of_row(row, LIKE, model, read), options)) for row in ROWS]
        signatures = {row: scorer.signature for row, scorer in zip(ROWS, scorers, strict=True)}  # loads the model: what cannot be fails here
        name = scorers[0].spec.model or model
        columns, segments = [], []
        for year, statistics in YEARS.items():
            if year not in years:
                columns.append(np.full((len(ROWS), len(statistics)), np.nan))
                segments += [0] * len(statistics)
                continue
            (rated,) = read_years([year], data)
            chosen = groups_of(rated, LANGUAGE_PAIRS[year], f"wmt{year}")
            columns.append(wmt(scorers, [chosen], statistics, progress).values[:, -1])
            segments += [len(chosen.ratings)] * len(statistics)
    values = np.concatenate(columns, axis=1)  # (rows, columns)
    return TunedTable(table, name, read, tuple(segments), dict(zip(ROWS, values, strict=True)), signatures, paper)
