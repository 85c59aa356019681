"""Numbers that papers print, to stand beside our own."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import NamedTuple

import numpy as np

from twmd_registry.errors import SpecError, menu

HERBOLD_COLUMNS = ("STS-B r", "STS-B rho", "MRPC neg", "MRPC pos", "QQP neg", "QQP pos", "WMT22-ZH-EN r", "WMT22-ZH-EN rho")
"""The columns of Herbold (2024), Tables 1 to 4; of classes the mean, with the standard deviation in brackets."""

_STSSCORE = ("0.90", "0.89", "0.61 (0.18)", "0.84 (0.13)", "0.44 (0.24)", "0.76 (0.18)", "0.27", "0.34")
_BERTSCORE = ("0.53", "0.53", "0.53 (0.15)", "0.68 (0.13)", "0.44 (0.26)", "0.67 (0.17)", "0.32", "0.37")
_SBERT = ("0.83", "0.82", "0.71 (0.15)", "0.83 (0.12)", "0.56 (0.23)", "0.86 (0.10)", "0.19", "0.24")

HERBOLD: dict[str, dict[str, tuple[str, ...]]] = {
    "Table 1": {
        "BLEU": ("0.34", "0.32", "0.26 (0.19)", "0.39 (0.20)", "0.11 (0.23)", "0.18 (0.25)", "0.14", "0.13"),
        "BERTScore": _BERTSCORE,
        "S-BERT": _SBERT,
        "STSScore": _STSSCORE,
    },
    "Table 2": {
        "RoBERTa": _STSSCORE,
        "BERT-base": ("0.83", "0.82", "0.62 (0.18)", "0.79 (0.11)", "0.46 (0.23)", "0.69 (0.15)", "0.08", "0.18"),
    },
    "Table 3": {
        "BERTScore": _BERTSCORE,
        "S-BERT": _SBERT,
        "STSScore": _STSSCORE,
        "Ensemble": ("0.88", "0.87", "0.62 (0.13)", "0.78 (0.10)", "0.48 (0.24)", "0.77 (0.13)", "0.30", "0.35"),
    },
    "Table 4": {
        "All": _STSSCORE,
        "Shorter": ("0.90", "0.90", "0.57 (0.18)", "0.80 (0.14)", "0.48 (0.24)", "0.78 (0.18)", "0.30", "0.31"),
        "Longer": ("0.89", "0.88", "0.68 (0.15)", "0.86 (0.12)", "0.41 (0.23)", "0.74 (0.18)", "0.40", "0.42"),
    },
}
"""Herbold (2024), "Semantic similarity prediction is better than other semantic similarity measures": table, row, cells."""

_FOLDER = resources.files("twmd_registry").joinpath("data/papers")


NO_MODEL = "-"
"""The encoder of a row that has none, or of which the paper does not say it."""


class ModelRows(NamedTuple):
    """A table's rows for one model, read at one layer.

    Attributes:
        model: The model.
        layer: Its hidden state.
        rows: What the paper calls the metrics.
        values: 100 times two correlations of every cell, NaN where undefined; shape (rows, columns, 2).
    """

    model: str
    layer: int
    rows: tuple[str, ...]
    values: np.ndarray


class PublishedTable(NamedTuple):
    """A table that a paper prints.

    Attributes:
        about: The paper, the table, and what a cell holds.
        columns: The columns, the average last.
        blocks: The models, in the paper's order.
    """

    about: str
    columns: tuple[str, ...]
    blocks: tuple[ModelRows, ...]


class PublishedRow(NamedTuple):
    """A line of a paper's table.

    Attributes:
        model: The encoder, as the paper names it; `NO_MODEL` where the row has none, or the paper does not say.
        layer: Its hidden states, as text.
        metric: What the paper calls the metric.
        values: 100 times the correlations of every cell; shape (columns, statistics).
    """

    model: str
    layer: str
    metric: str
    values: np.ndarray


class PublishedRows(NamedTuple):
    """A table that a paper prints, line by line.

    Attributes:
        about: The paper, the table, and what a cell holds.
        columns: The columns, an average last.
        rows: The lines, in the paper's order.
    """

    about: str
    columns: tuple[str, ...]
    rows: tuple[PublishedRow, ...]


def published_tables() -> tuple[str, ...]:
    """The names of the tables that `published_rows` reads."""
    return tuple(sorted(path.name.removesuffix(".tsv") for path in _FOLDER.iterdir() if path.name.endswith(".tsv")))


@functools.cache
def published_rows(table: str) -> PublishedRows:
    """Read a paper's table.

    The file's first line says what it is, the second names the columns; then follow a model, its layer, a metric, and cells of one
    correlation, or of two as ``a/b``.

    Args:
        table: One of `published_tables`.

    Raises:
        SpecError: There is no such table; the message lists those there are.
    """
    if table not in published_tables():
        raise SpecError(f"no published table {table!r} is here; {menu(table, published_tables())}.")
    about, header, *lines = _FOLDER.joinpath(f"{table}.tsv").read_text(encoding="utf-8").splitlines()
    rows = []
    for line in lines:
        model, layer, metric, *cells = line.split("\t")
        rows.append(PublishedRow(model, layer, metric, np.array([[float(number) for number in cell.split("/")] for cell in cells])))
    return PublishedRows(re.sub(r"^# ", "", about), tuple(header.split("\t")[3:]), tuple(rows))


@functools.cache
def published(table: str) -> PublishedTable:
    """Read a table whose rows are the same metrics for each of several models.

    Args:
        table: As for `published_rows`.

    Raises:
        SpecError: As for `published_rows`.
    """
    about, columns, rows = published_rows(table)
    found: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    for row in rows:
        found.setdefault((row.model, int(row.layer)), {})[row.metric] = row.values
    blocks = tuple(ModelRows(model, layer, tuple(own), np.array(list(own.values()))) for (model, layer), own in found.items())
    return PublishedTable(about, columns, blocks)
