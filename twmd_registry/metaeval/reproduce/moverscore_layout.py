"""`MoverReproduction`: a table of the MoverScore paper computed again, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twmd_registry.metaeval.published import NO_MODEL, PublishedRow, PublishedRows
from twmd_registry.metaeval.reproduce.layout import ComputedTable, as_cell, as_number, order_in_words, short_name
from twmd_registry.metaeval.reproduce.ordering import RankAgreement, compare_order
from twmd_registry.metaeval.reproduce.protocols import AVERAGE
from twmd_registry.metaeval.table import FORMATS, TextTable, as_text


class OurRow(NamedTuple):
    """A row computed here.

    Attributes:
        metric: What the paper calls it.
        layer: The hidden states that were read, as text; `NO_MODEL` where there is no encoder.
        values: 100 times the correlations, NaN where undefined; shape (columns,).
    """

    metric: str
    layer: str
    values: np.ndarray


@dataclass(frozen=True)
class MoverReproduction(ComputedTable):
    """A table of the MoverScore paper (Zhao et al. 2019), computed here.

    The paper has a metric with several encoders. Ours stands beside all of them; the difference is to one, so that all rows are of one encoder.

    Attributes:
        table: Its name.
        statistic: The number of a cell.
        model: The encoder.
        segments: By column, how many segments our numbers are measured on.
        rows: Our rows.
        signatures: By row, how its scores were computed.
        paper: The paper's numbers.
        near: The paper's encoder that ours is compared with.
        decimals: As many as the paper prints of 100 times a correlation.
        ranked: The rows whose order is compared.
    """

    table: str
    statistic: str
    model: str
    segments: dict[str, int]
    rows: tuple[OurRow, ...]
    signatures: dict[str, str]
    paper: PublishedRows
    near: str
    decimals: int
    ranked: tuple[str, ...]

    def counterpart(self, metric: str) -> PublishedRow | None:
        """The paper's row that ours is compared with: of the encoder `near`, or of none; None where the paper has neither."""
        found = [row for row in self.paper.rows if row.metric == metric and row.model in {self.near, NO_MODEL}]
        return found[0] if found else None

    def difference(self, row: OurRow) -> np.ndarray:
        """Ours minus the paper's, NaN where either has no number; shape (columns,)."""
        paper = self.counterpart(row.metric)
        return np.full(len(row.values), np.nan) if paper is None else row.values - paper.values[:, 0]

    @property
    def ordering(self) -> RankAgreement | None:
        """Whether our rows are ordered as the paper's, by the average of the columns."""
        pairs = [(row, paper) for row in self.rows if row.metric in self.ranked and (paper := self.counterpart(row.metric))]
        here = np.array([self._overall(row.values) for row, _ in pairs])
        return compare_order([row.metric for row, _ in pairs], here, np.array([self._overall(paper.values[:, 0]) for _, paper in pairs]))

    @property
    def sentence(self) -> str:
        """Whether the paper's ordering holds, in one sentence."""
        ranked = sum(row.metric in self.ranked and self.counterpart(row.metric) is not None for row in self.rows)
        near = "" if self.near == NO_MODEL else f" {self.near}"
        words = order_in_words(self.ordering, ranked, f"mean {self.statistic.title()} correlation")
        return f"{short_name(self.model)} against the paper's{near or ' numbers'}: {words}."

    def layout(self) -> TextTable:
        """Every metric of the paper: ours, the paper's of every encoder, and the difference; cells are correlations in hundredths."""
        laid = [("segments", "here", *(str(self.segments[column]) for column in self.paper.columns))]
        ours = {row.metric: row for row in self.rows}
        for metric in dict.fromkeys(row.metric for row in self.paper.rows):
            if row := ours.get(metric):
                laid.append((metric, _source("here", row.layer), *self._cells(row.values)))
            laid += [(metric, _source(_encoder(one), one.layer), *self._cells(one.values[:, 0])) for one in self.paper.rows if one.metric == metric]
            if row and (paper := self.counterpart(metric)):
                laid.append((metric, f"here - {_encoder(paper)}", *self._cells(self.difference(row), "+")))
        return TextTable(f"{self.paper.about} Here: {short_name(self.model)}.", ("metric", "source", *self.paper.columns), laid)

    def tsv(self) -> str:
        """A line per number for other programs, ours to full precision; empty where there is none."""
        encoders = list(dict.fromkeys(map(_encoder, self.paper.rows)))
        header = ("metric", "layer", "column", "segments", "statistic", "here", *encoders, "difference")
        return as_text(TextTable(self.table, header, list(self._lines(encoders))), FORMATS["tsv"])

    def _lines(self, encoders: list[str]) -> Iterator[tuple[str, ...]]:
        ours = {row.metric: row for row in self.rows}
        for metric in dict.fromkeys(row.metric for row in self.paper.rows):
            nothing = OurRow(metric, "", np.full(len(self.paper.columns), np.nan))
            row = ours.get(metric, nothing)
            theirs = {_encoder(one): one.values[:, 0] for one in self.paper.rows if one.metric == metric}
            for c, column in enumerate(self.paper.columns):
                numbers = (row.values[c], *(theirs.get(name, nothing.values)[c] for name in encoders), self.difference(row)[c])
                yield (metric, row.layer, column, str(self.segments[column]), self.statistic, *map(as_number, numbers))

    def _overall(self, values: np.ndarray) -> float:
        """The average that a table prints, else the mean of its columns."""
        return float(values[-1] if self.paper.columns[-1] == AVERAGE else values.mean())

    def _cells(self, values: np.ndarray, sign: str = "") -> list[str]:
        return [as_cell(values[c : c + 1], sign, self.decimals) for c in range(len(values))]


def _encoder(row: PublishedRow) -> str:
    return "paper" if row.model == NO_MODEL else row.model


def _source(name: str, layer: str) -> str:
    return name if layer == NO_MODEL else f"{name}, layer {layer}"
