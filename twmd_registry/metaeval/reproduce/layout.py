"""`Reproduction`: a table computed again, beside the paper's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from twmd_registry.metaeval.published import ModelRows, PublishedTable
from twmd_registry.metaeval.reproduce.ordering import RankAgreement, compare_order
from twmd_registry.metaeval.table import FORMATS, NOT_HERE, TextTable, as_text

DECIMALS = 1
"""As many as the paper prints."""


class ComputedTable(ABC):
    """A table computed here, beside a paper's.

    Attributes:
        table: Its name.
        signatures: By row, how its scores were computed.
    """

    table: str
    signatures: dict[str, str]

    @property
    @abstractmethod
    def sentence(self) -> str:
        """Whether the paper's ordering holds, in one sentence."""

    @abstractmethod
    def layout(self) -> TextTable:
        """Our rows beside the paper's, with the difference."""

    @abstractmethod
    def tsv(self) -> str:
        """A line per number for other programs, ours to full precision; empty where there is none."""

    def text(self) -> str:
        """The table for a terminal."""
        return as_text(self.layout(), FORMATS["txt"])

    def markdown(self) -> str:
        """The table in GitHub's Markdown."""
        return as_text(self.layout(), FORMATS["md"])

    def latex(self) -> str:
        """The table in LaTeX, with the rules of booktabs."""
        return as_text(self.layout(), FORMATS["tex"])


@dataclass(frozen=True)
class Reproduction(ComputedTable):
    """A table of the TWMD paper, computed here.

    Attributes:
        table: Its name.
        statistics: The two numbers of a cell.
        segments: By column, how many segments our numbers are measured on.
        ours: Our numbers, to full precision; a block per layer.
        signatures: By row of the first block, how its scores were computed.
        paper: The paper's numbers.
    """

    table: str
    statistics: tuple[str, str]
    segments: dict[str, int]
    ours: tuple[ModelRows, ...]
    signatures: dict[str, str]
    paper: PublishedTable

    @property
    def beside(self) -> tuple[ModelRows, ...]:
        """The paper's blocks that ours are compared with: those of the same model where the paper has it, else of its first model."""
        models = [block.model for block in self.paper.blocks]
        nearest = self.ours[0].model if self.ours[0].model in models else models[0]
        return tuple(block for block in self.paper.blocks if block.model == nearest)

    @property
    def difference(self) -> np.ndarray:
        """Ours minus the paper's, as `beside` has it; shape (blocks, rows, columns, 2)."""
        return np.array([here.values - paper.values for here, paper in zip(self.ours, self.beside, strict=True)])

    @property
    def orderings(self) -> tuple[RankAgreement | None, ...]:
        """By block, whether our Pearson correlations of the last column order the rows as the paper's do."""
        pearson = self.statistics.index("pearson")
        pairs = zip(self.ours, self.beside, strict=True)
        return tuple(compare_order(here.rows, here.values[:, -1, pearson], paper.values[:, -1, pearson]) for here, paper in pairs)

    @property
    def sentence(self) -> str:
        """Whether the paper's ordering holds, in one sentence."""
        parts = [_in_words(found, here, paper) for found, here, paper in zip(self.orderings, self.ours, self.beside, strict=True)]
        return "; ".join(parts) + "."

    def layout(self) -> TextTable:
        """Our rows, each followed by the paper's of the same name and the difference; cells are two correlations in hundredths."""
        laid = [("segments", "here", *(str(self.segments[column]) for column in self.paper.columns))]
        for r, row in enumerate(self.ours[0].rows):
            laid += [(row, f"here, layer {block.layer}", *map(as_cell, block.values[r])) for block in self.ours]
            laid += [(row, f"{block.model}, layer {block.layer}", *map(as_cell, block.values[r])) for block in self.paper.blocks]
            for paper, difference in zip(self.beside, self.difference, strict=True):
                laid.append((row, f"here - {paper.model}, layer {paper.layer}", *(as_cell(cell, "+") for cell in difference[r])))
        about = f"{self.paper.about} Here: {short_name(self.ours[0].model)}."
        return TextTable(about, ("metric", "source", *self.paper.columns), laid)

    def tsv(self) -> str:
        """A line per number for other programs, ours to full precision; empty where a correlation is undefined."""
        models = list(dict.fromkeys(block.model for block in self.paper.blocks))
        header = ("metric", "layer", "column", "segments", "statistic", "here", *models, "difference")
        return as_text(TextTable(self.table, header, list(self._lines(models))), FORMATS["tsv"])

    def _lines(self, models: list[str]) -> Iterator[tuple[str, ...]]:
        for b, block in enumerate(self.ours):
            theirs = [[one for one in self.paper.blocks if one.model == model][b].values for model in models]
            for r, row in enumerate(block.rows):
                for c, column in enumerate(self.paper.columns):
                    for s, statistic in enumerate(self.statistics):
                        numbers = (block.values[r, c, s], *(values[r, c, s] for values in theirs), self.difference[b, r, c, s])
                        yield (row, str(block.layer), column, str(self.segments[column]), statistic, *map(as_number, numbers))


def short_name(model: str) -> str:
    """A model's own name, without whose it is or the folder it is in."""
    return PurePath(model).name


def as_number(value: float) -> str:
    """A number in full, for other programs; empty where it is undefined."""
    return "" if math.isnan(value) else repr(float(value))


def as_cell(values: np.ndarray, sign: str = "", decimals: int = DECIMALS) -> str:
    """A cell's numbers, rounded; a bar where one is undefined."""
    return " / ".join(NOT_HERE if math.isnan(value) else f"{value:{sign}z.{decimals}f}" for value in values)


def _in_words(found: RankAgreement | None, here: ModelRows, paper: ModelRows) -> str:
    what = f"{short_name(here.model)} (layer {here.layer}) against the paper's {paper.model} (layer {paper.layer})"
    return f"{what}: {order_in_words(found, len(here.rows), 'mean Pearson correlation')}"


def order_in_words(found: RankAgreement | None, rows: int, number: str) -> str:
    """Whether a paper's ordering of some rows holds here.

    Args:
        found: What the comparison came to; None when there was nothing to compare.
        rows: How many rows there are.
        number: What they are ordered by.
    """
    if found is None:
        return f"the order cannot be compared, because fewer than two rows have a {number} here"
    undefined = f", without {rows - found.rows} rows that have no {number} here" if found.rows < rows else ""
    tau = "undefined" if math.isnan(found.tau) else f"{found.tau:.2f}"
    best = " and ".join(found.best)
    place = "is the best here too" if found.place == 1 else f"is number {found.place} of {found.rows} here, where {found.ours} is the best"
    verdict = f"{'holds' if found.holds else 'does not hold in full'}{undefined}"
    return (
        f"the paper's ordering by {number} {verdict}: {found.alike} of the {found.ordered} pairs of rows that differ "
        f"there are in the same order here (Kendall's tau-b {tau}), and its best row, {best}, {place}"
    )
