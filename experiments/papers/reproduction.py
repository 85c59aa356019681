"""`Reproduction`: a recomputed table, next to the paper's."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from experiments.papers.experiment import UNNAMED, Experiment, ExperimentRow, Setting
from twmd_registry.comparison.text_table import MISSING, TextTable, as_text
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.correlation import MIN_ROWS, correlate
from twmd_registry.registry.metric_spec import MetricSpec

Place = tuple[str, str]
"""A set and one of its groups."""
GroupedSegments = dict[str, dict[str, RatedSegments]]
"""Segments by set and group, in batching order."""
HERE, AGREEMENT = "here", "rank agreement"


@dataclass(frozen=True)
class Reproduction:
    """A recomputed experiment, compared with the paper's encoder `near`.

    `specs` and `signatures` are per setting; a specification is as applied, None for a SacreBLEU metric. `values`
    has shape (settings, cells), NaN if undefined. `segments` counts our data by column. `scores` are by row and place.
    """

    experiment: Experiment
    near: str
    settings: tuple[Setting, ...]
    specs: tuple[MetricSpec | None, ...]
    signatures: tuple[str, ...]
    segments: Mapping[str, int]
    values: np.ndarray
    rated: GroupedSegments
    scores: Mapping[str, Mapping[Place, np.ndarray]]

    @property
    def model(self) -> str:
        """The models of the rows, without owners or folders."""
        return ", ".join(dict.fromkeys(short_name(spec.model) for spec in self.specs if spec and spec.model))

    @property
    def title(self) -> str:
        """What the table shows, and the model."""
        statistics = {tuple(cells[1:]) for cells in self.experiment.columns.values()}
        scale = "" if self.experiment.scale == 1 else f"{self.experiment.scale} x "
        cells = f" Cells: {scale}{' / '.join(*statistics)}." if len(statistics) == 1 else ""
        varied = f" Columns: {list(self.experiment.vary)[-1]}." if self.experiment.vary else ""
        return f"{self.experiment.about}{cells}{varied} Here: {self.model}."

    @functools.cached_property
    def rows(self) -> tuple[ExperimentRow, ...]:
        """Our rows."""
        layers = ("" if spec is None or spec.layer is None else str(spec.layer) for spec in self.specs)
        return tuple(
            ExperimentRow(setting.row, HERE, layer, tuple(values))
            for setting, layer, values in zip(self.settings, layers, self.values.tolist(), strict=True)
        )

    @functools.cached_property
    def compared(self) -> tuple[tuple[ExperimentRow, ExperimentRow], ...]:
        """Our rows paired with the paper's for the encoder `near` or for none; several layers are paired in order."""
        result = []
        for metric in dict.fromkeys(row.metric for row in self.rows):
            ours = [row for row in self.rows if row.metric == metric]
            printed = [row for row in self.experiment.printed if row.metric == metric]
            theirs = [row for row in printed if row.model in {self.near, UNNAMED}]
            result += list(zip(ours, theirs, strict=False))
        return tuple(result)

    def rank_agreement(self) -> dict[str, tuple[int, tuple[float, ...]]]:
        """Return the number of rows and, per cell, tau-b with the paper's order, by layer ("" for one)."""
        several = len(self.experiment.offsets) > 1
        layers = [theirs.layer if several else "" for _, theirs in self.compared]
        result = {}
        for layer in dict.fromkeys(layers):
            pairs = [pair for pair, row_layer in zip(self.compared, layers, strict=True) if row_layer == layer]
            ours, theirs = (np.array([pair[side].values for pair in pairs]) for side in (0, 1))  # (rows, cells)
            if len(pairs) >= MIN_ROWS:
                result[layer] = len(pairs), tuple(_tau(x, y) for x, y in zip(ours.T, theirs.T, strict=True))
        return result

    def table(self) -> TextTable:
        """Arrange our rows, each followed by the paper's and the difference; varied keys give a column per value."""
        return self._by_axis() if self.experiment.vary else self._beside()

    def text(self, form: str) -> str:
        """Write the table in a form of `FORMATS`; ``tsv`` has a line per number, ours in full precision."""
        if form == "tsv" and not self.experiment.vary:
            every = list(self._lines())
            lines = [tuple("" if v != v else str(v) for v in line.values()) for line in every]  # noqa: PLR0124
            return as_text(TextTable(self.title, tuple(every[0]), lines), form)
        return as_text(self.table(), form)

    def as_dict(self) -> dict[str, Any]:
        """Return our numbers in full precision (NaN if undefined), the paper's, and signatures."""
        if self.experiment.vary:
            rows: list[dict[str, Any]] = [
                {"metric": setting.row, **setting.varied, "column": column, "unit": unit, "statistic": statistic}
                | {"segments": segments, HERE: value}
                for (column, unit, statistic), values in zip(self.experiment.cells, self.values.T.tolist(), strict=True)
                if (segments := self.segments[column])
                for setting, value in zip(self.settings, values, strict=True)
            ]
            content = {"rows": rows, "paper": [row._asdict() for row in self.experiment.printed]}
        else:
            content = {"rows": list(self._lines())}
        labels = (setting.label for setting in self.settings)
        signatures = dict(zip(labels, self.signatures, strict=True))
        return {"about": self.title} | content | {"signatures": signatures}

    def _beside(self) -> TextTable:
        columns = tuple(self.experiment.columns)
        lines = [("segments", HERE, *(str(self.segments[column]) for column in columns))]
        printed = self.experiment.printed
        for metric in dict.fromkeys(row.metric for row in (*printed, *self.rows)):
            rows_of_metric = [row for row in (*self.rows, *printed) if row.metric == metric]
            lines += [(metric, row.source, *self._cells(row.values)) for row in rows_of_metric]
            for ours, theirs in self.compared:
                if ours.metric == metric:
                    lines.append((metric, f"{HERE} - {theirs.source}", *self._cells(_difference(ours, theirs), "+")))
        for layer, (rows, taus) in self.rank_agreement().items():
            source = f"tau-b of {rows} rows, {self.near}{f', layer {layer}' if layer else ''}"
            lines.append((AGREEMENT, source, *self._cells(taus, decimals=2)))
        return TextTable(self.title, ("metric", "source", *columns), lines)

    def _cells(self, values: Sequence[float], sign: str = "", decimals: int | None = None) -> list[str]:
        """Format the numbers of a row, one text per column."""
        digits, numbers = self.experiment.decimals if decimals is None else decimals, iter(values)
        return [
            " / ".join(_rounded(number, digits, sign) for number in itertools.islice(numbers, len(statistics)))
            for _, *statistics in self.experiment.columns.values()
        ]

    def _lines(self) -> Iterator[dict[str, str | int | float]]:
        """Yield a line per number, by heading; NaN if there is none."""
        undefined, printed = (math.nan,) * len(self.experiment.cells), self.experiment.printed
        models = list(dict.fromkeys(row.model for row in printed))
        heads = ("metric", "layer", "column", "segments", "statistic", HERE, *models, "difference")
        for metric in dict.fromkeys(row.metric for row in (*printed, *self.rows)):
            ours = [row for row in self.rows if row.metric == metric] or [ExperimentRow(metric, HERE, "", undefined)]
            for i, row in enumerate(ours):
                rows = [other for other in printed if other.metric == metric]
                theirs = [
                    [other.values for other in rows if other.model == name][i : i + 1] or [undefined] for name in models
                ]
                paper = next((other for here, other in self.compared if here is row), None)
                difference = _difference(row, paper) if paper else undefined
                for c, (column, _, statistic) in enumerate(self.experiment.cells):
                    numbers = (row.values[c], *(values[c] for (values,) in theirs), difference[c])
                    place = (row.layer, column, self.segments[column], statistic)
                    yield dict(zip(heads, (metric, *place, *numbers), strict=True))
        for layer, (_, taus) in self.rank_agreement().items():
            for (column, _, statistic), tau in zip(self.experiment.cells, taus, strict=True):
                place = (layer, column, self.segments[column], statistic)
                yield dict(zip(heads, (AGREEMENT, *place, tau, *[math.nan] * (len(models) + 1)), strict=True))

    def _by_axis(self) -> TextTable:
        *others, _ = self.experiment.vary
        values, digits, lines = self._axis_values(), self.experiment.decimals, []
        for c, (column, *_) in enumerate(self.experiment.cells):
            for i in range(0, len(self.settings) if self.segments[column] else 0, len(values)):
                setting, numbers = self.settings[i], self.values[i : i + len(values), c]
                fixed = [str(setting.varied[key]) for key in others]
                best = MISSING if np.isnan(numbers).all() else f"{values[int(np.nanargmax(numbers))]:g}"
                rows = [row for row in self.experiment.printed if row.metric == setting.row and row.model in fixed]
                cells = (_rounded(number, digits) for number in numbers.tolist())
                start = (column, str(self.segments[column]), setting.row, *fixed)
                lines.append((*start, *cells, best, *(f"{row.values[0]:g}" for row in rows)))
        paper = ("paper",) if self.experiment.printed else ()
        header = ("data", "segments", "metric", *others, *(f"{value:g}" for value in values), "best", *paper)
        return TextTable(self.title, header, lines)

    def _axis_values(self) -> list[float]:
        """Return the values of the last axis: settings that differ only in it are adjacent."""
        *_, axis = self.experiment.vary
        return list(dict.fromkeys(setting.varied[axis] for setting in self.settings))

    def curves(self) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """Return what a figure draws: by panel and line, values of the last axis and numbers; shape (points,) each."""
        x, by_metric = np.array(self._axis_values(), dtype=np.float64), self.experiment.picture["panels"] == "metric"
        result: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
        for c, (column, *_) in enumerate(self.experiment.cells):
            for i in range(0, len(self.settings) if self.segments[column] else 0, len(x)):
                if (spec := self.specs[i]) is not None:
                    name = line_name(spec, spec.temperature if "temperature" in [*self.experiment.vary][:-1] else None)
                    panel = result.setdefault(str(spec.metric) if by_metric else column, {})
                    panel[name] = x, self.values[i : i + len(x), c]
        return result


def line_name(spec: MetricSpec, temperature: float | None = None) -> str:
    """Name a line of a figure as the papers do, with ``-b`` for batch centering, and maybe a temperature."""
    batch = "-b" if spec.centering.kind == "batch" else ""
    return f"{spec.metric}{batch}" if temperature is None else f"{spec.metric}{batch} T={temperature}"


def short_name(model: str) -> str:
    """Return a model's own name, without its owner or folder."""
    return PurePath(model).name


def _difference(ours: ExperimentRow, theirs: ExperimentRow) -> tuple[float, ...]:
    return tuple(here - paper for here, paper in zip(ours.values, theirs.values, strict=True))


def _tau(ours: np.ndarray, theirs: np.ndarray) -> float:
    known = np.isfinite(ours)
    try:
        return correlate("kendall", ours[known], theirs[known])
    except InputError:
        return math.nan


def _rounded(value: float, decimals: int, sign: str = "") -> str:
    return MISSING if math.isnan(value) else f"{value:{sign}z.{decimals}f}"
