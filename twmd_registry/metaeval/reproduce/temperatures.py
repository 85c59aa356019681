"""Appendix B of the TWMD paper: the temperature that agrees best with people on WMT15-16, for any encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.reproduce.rows import TABLES
from twmd_registry.metaeval.sweeps import TEMPERED, measure, temperature_settings
from twmd_registry.metaeval.table import TextTable
from twmd_registry.progress import Progress, expect
from twmd_registry.registry.names import Output
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec

TUNING_YEARS = (15, 16)
"""Of WMT: what a temperature may be chosen on."""
TEMPERATURES = (0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.06, 0.08, 0.1, 0.15)
"""The paper tries "a few values between 0.001 and 0.15" and lists none; these have its ends and all that it chooses."""
PAPER = {TABLES[name].output: TABLES[name] for name in ("twmd-table2", "twmd-table6", "twmd-table8")}
"""By side, a table of WMT with the paper's temperatures. It chose those of precision (its recall) and took them over for recall."""


class ChosenTemperature(NamedTuple):
    """The temperature of one row on one side.

    Attributes:
        row: The paper's name of the metric.
        output: The side, in our words.
        tried: The settings, in the order of `TEMPERATURES`.
        pearson: What each reaches; shape (temperatures,).
    """

    row: str
    output: Output
    tried: tuple[MetricSpec, ...]
    pearson: np.ndarray

    @property
    def best(self) -> int:
        """Which setting is the best: of several the one with the lowest temperature."""
        return int(self.pearson.argmax())

    @property
    def temperature(self) -> float:
        """The temperature chosen here."""
        return TEMPERATURES[self.best]

    @property
    def paper(self) -> float:
        """The temperature chosen in the paper."""
        return PAPER[self.output].temperatures[self.row]


def choose_temperatures(
    data: Sequence[RatedSegments], model: str, layer: int, options: RunOptions, progress: Progress | None = None
) -> list[ChosenTemperature]:
    """Measure every temperature: ``sum_k n_k r_k / sum_k n_k`` over data sets k of n_k segments.

    r_k is the plain mean over language pairs of Pearson's r. The paper averages over roberta-base and roberta-large besides; here there is
    one model.

    Args:
        data: WMT15 and WMT16.
        model: The encoder.
        layer: Its hidden state.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Returns:
        By side, then by row.

    Raises:
        InputError: As for `twmd_registry.metaeval.sweeps.measure`.
        ModelError: The model is not here or cannot be loaded.
    """
    places = [(output, row) for output in PAPER for row in TEMPERED]
    specs = [spec for table in PAPER.values() for spec in temperature_settings(model, layer, table, TEMPERATURES)]
    expect(progress, sum(len(rated.ratings) for rated in data))
    by_year = [[one.pearson for one in measure(specs, [rated], options, progress=progress)] for rated in data]
    means = np.average(by_year, axis=0, weights=[len(rated.ratings) for rated in data])  # (specs,)
    count = len(TEMPERATURES)
    return [
        ChosenTemperature(row, output, tuple(specs[i : i + count]), means[i : i + count])
        for i, (output, row) in zip(range(0, len(specs), count), places, strict=True)
    ]


def table_of(found: Sequence[ChosenTemperature], about: str) -> TextTable:
    """100 times what every temperature reaches, the best, and the paper's.

    Args:
        found: The choices.
        about: What they were made on.
    """
    header = ("metric", "side", *(f"T={temperature:g}" for temperature in TEMPERATURES), "best here", "paper")
    rows = [
        (one.row, str(one.output), *(f"{100 * r:.2f}" for r in one.pearson), f"{one.temperature:g}", f"{one.paper:g}")
        for one in found
    ]  # fmt: skip
    return TextTable(f"Chen et al. 2020, Appendix B: 100 x mean Pearson by temperature on {about}.", header, rows)


def sentence_of(found: Sequence[ChosenTemperature]) -> str:
    """Whether the paper's temperatures are the best here too, what they cost where they are not, and where a better one may lie beyond."""
    same = sum(one.temperature == one.paper for one in found)
    worst = max(found, key=_loss)
    ends = sum(one.best in {0, len(TEMPERATURES) - 1} for one in found)
    return (
        f"The paper's temperature is the best here in {same} of {len(found)} rows; it costs at most {100 * _loss(worst):.2f} points of Pearson "
        f"({worst.row}, {worst.output}: T={worst.paper:g} instead of {worst.temperature:g}). "
        f"In {ends} rows the best is at an end of what is tried, and a better one may lie beyond it."
    )


def _loss(choice: ChosenTemperature) -> float:
    """What the paper's temperature falls short of the best by."""
    return float(choice.pearson[choice.best] - choice.pearson[TEMPERATURES.index(choice.paper)])
