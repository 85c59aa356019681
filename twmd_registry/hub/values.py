"""Agreement with people: our embedded presets' numbers and the papers', as a card sets them side by side."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

from twmd_registry.hub.card_text import CardPaperRow
from twmd_registry.papers.experiment import AVERAGE, UNNAMED, read_experiment
from twmd_registry.registry.names import MetricName

DATA = {"wmt17": "WMT17, mean of 7 language pairs into English", "stsb-test": "STS-B, test set"}
"""The data sets of ``data/agreement.tsv``, in words."""
CORRELATIONS = {"pearson": "Pearson r", "spearman": "Spearman rho", "kendall": "Kendall tau-b"}
"""The correlations there, in words."""
OVERALL = "mean"
"""The group that stands for all."""
_MEASURED = resources.files("twmd_registry").joinpath("data/agreement.tsv")


class MeasuredCorrelation(NamedTuple):
    """A correlation that was measured with an embedded preset as shipped.

    Attributes:
        data: A key of `DATA`.
        metric: The metric.
        correlation: A key of `CORRELATIONS`.
        group: A language pair, or `OVERALL`.
        value: 100 times the correlation, as printed.
        half_width: Half the width of its bootstrap 95% interval, likewise.
    """

    data: str
    metric: MetricName
    correlation: str
    group: str
    value: str
    half_width: str


class CardValue(NamedTuple):
    """A line of a card's table of values.

    Attributes:
        data: The data set, in words.
        whose: Whose number it is.
        cells: 100 times the correlation as text, by key of `CORRELATIONS`.
    """

    data: str
    whose: str
    cells: dict[str, str]


def measured() -> tuple[MeasuredCorrelation, ...]:
    """Read every number of ``data/agreement.tsv``."""
    _, _, *lines = _MEASURED.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return tuple(MeasuredCorrelation(data, MetricName(metric), *cells) for data, metric, *cells in rows)


def ours(metric: MetricName) -> tuple[CardValue, ...]:
    """What the embedded preset of a metric reaches, per data set, with its interval.

    Args:
        metric: The metric.
    """
    own = [one for one in measured() if one.metric is metric and one.group == OVERALL]
    return tuple(
        CardValue(
            about,
            "**embedded preset**",
            {one.correlation: f"**{one.value} ±{one.half_width}**" for one in own if one.data == data},
        )
        for data, about in DATA.items()
        if any(one.data == data for one in own)
    )


def theirs(shown: CardPaperRow) -> tuple[CardValue, ...]:
    """What a paper prints, one line per model.

    Args:
        shown: The paper's table and row.

    Raises:
        SpecError: There is no such table.
    """
    table = read_experiment(shown.table)
    name, _, _ = table.about.partition(":")
    overall = [i for i, cell in enumerate(table.cells) if cell.unit in {AVERAGE, "STS-B"}]
    on_stsb = "STS-B" in table.data
    decimals = table.decimals if table.scale == 100 else table.decimals - 2
    return tuple(
        CardValue(
            DATA["stsb-test" if on_stsb else "wmt17"],
            f"{name}: {row.metric}" + ("" if row.model == UNNAMED else f" on {row.model}"),
            {table.cells[i].statistic: f"{100 * row.values[i] / table.scale:.{decimals}f}" for i in overall},
        )
        for row in table.printed
        if row.metric == shown.row
    )
