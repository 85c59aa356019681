"""Agreement with people against temperature, sweeps and layers: Figures 3 to 6 of the TWMD paper for any encoder.

The paper's figures show the hypothesis side (which it calls recall; precision here) with batches of 32 pairs, one mean for
either side. Its WMT protocol keeps the first special token, its STS protocol none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch

from twmd_registry.align.marginal import Marginal
from twmd_registry.align.settings import AlignmentSettings
from twmd_registry.align.sinkhorn import sinkhorn_plan
from twmd_registry.encode.encoder import Encoder
from twmd_registry.engine.backends import TokenAlignmentBackend
from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import InputError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.group_correlation import measure_groups
from twmd_registry.metaeval.reproduce.rows import METRICS, PaperTable, spec_of_row
from twmd_registry.registry.names import Centering, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec, make_spec

BATCH = "-b"
"""What ends the name of a row with batch centering: a solid line; without it, a dashed one."""
TEMPERED = ("TWMD", f"TWMD{BATCH}", "TRWMD", f"TRWMD{BATCH}")
"""The rows that have a temperature."""


class Weighting(StrEnum):
    """How the correlations of a data set's groups become one: every group alike (WMT), or by its size (the subsets of an STS year)."""

    EQUAL = "equal"
    SIZE = "size"


class SweepPoint(NamedTuple):
    """A setting and its agreement.

    Attributes:
        spec: The setting.
        pearson: Mean over the groups of each data set, then over the data sets.
    """

    spec: MetricSpec
    pearson: float


class SweepLine(NamedTuple):
    """One line of a figure.

    Attributes:
        name: Metric, centering, and whatever else tells it from the others.
        x: What was varied, ascending; shape (points,).
        y: What was measured; likewise.
    """

    name: str
    x: np.ndarray
    y: np.ndarray


def temperature_settings(model: str, layer: int, table: PaperTable, temperatures: Iterable[float]) -> list[MetricSpec]:
    """Settings of Figure 3: twmd and trwmd, without centering and with the batch's, at every temperature.

    Args:
        model: The encoder.
        layer: Its hidden state.
        table: Says side and special tokens.
        temperatures: What is tried.
    """
    return [spec_of_row(row, table, model, layer, temperature=temperature) for row, temperature in itertools.product(TEMPERED, temperatures)]


def iteration_settings(model: str, layer: int, table: PaperTable, temperatures: Iterable[float], iterations: Iterable[int]) -> list[MetricSpec]:
    """Settings of Figure 4: twmd with batch centering at some temperatures after so many sweeps; arguments as for Figure 3."""
    return [
        spec_of_row(f"TWMD{BATCH}", table, model, layer, temperature=temperature, iterations=sweeps)
        for temperature, sweeps in itertools.product(temperatures, iterations)
    ]


def layer_settings(model: str, layers: Iterable[int], table: PaperTable) -> list[MetricSpec]:
    """Settings of Figures 5 and 6: all metrics, without centering and with the batch's, in every layer.

    Args:
        model: The encoder.
        layers: Its hidden states.
        table: Says side, special tokens and temperatures.
    """
    rows = [row + batch for row in METRICS for batch in ("", BATCH)]
    return [spec_of_row(row, table, model, layer) for row, layer in itertools.product(rows, layers)]


def layers_of(model: str, options: RunOptions) -> range:
    """Every layer of a model above its embeddings. Loads the model.

    Raises:
        ModelError: The model is not here or cannot be loaded.
    """
    backend = TokenAlignmentBackend(make_spec(MetricName.SBERT, model=model, layer=0, centering=Centering.NONE), options)
    encoder: Encoder = backend.model
    return range(1, encoder.depth + 1)


def measure(
    specs: Sequence[MetricSpec],
    data: Sequence[RatedSegments],
    options: RunOptions,
    *,
    weighting: Weighting = Weighting.EQUAL,
    progress: Callable[[int], None] | None = None,
) -> list[SweepPoint]:
    """Correlate every setting's scores with ratings: Pearson's r within each group.

    A group that has no correlation by any setting (fewer than three rows, ratings that do not vary) is warned of and left out.

    Args:
        specs: The settings.
        data: Data sets: one of WMT, or the years of STS.
        options: Where and how fast.
        weighting: How a data set's groups are averaged; the data sets' means are averaged plainly.
        progress: Called with the number of segments scored.

    Returns:
        In the order of `specs`.

    Raises:
        InputError: No data, no group with a correlation, or a setting whose scores of a group do not vary.
        ModelError: The model is not here or cannot be loaded.

    Warns:
        TwmdWarning: A group was left out.
    """
    if not data:
        raise InputError("there is nothing to measure agreement on: expected at least one rated data set.")
    scorers = [Scorer(spec, options) for spec in specs]
    means = np.stack([_means(scorers, rated, weighting, progress) for rated in data])  # (data sets, settings)
    return [SweepPoint(spec, float(mean)) for spec, mean in zip(specs, means.mean(0), strict=True)]


def _means(scorers: Sequence[Scorer], rated: RatedSegments, weighting: Weighting, progress: Callable[[int], None] | None) -> np.ndarray:
    """One data set's mean correlation by every setting, over the groups that have one; shape (settings,)."""
    segments, values = measure_groups(scorers, rated, ("pearson",), progress)
    pearson, groups = values[:, :, 0], list(segments)  # (settings, groups)
    undefined = np.isnan(pearson)
    defined = ~undefined.all(axis=0)
    if not defined.any():
        raise InputError(f"no group has a correlation: {', '.join(groups)} ({sum(segments.values())} segments).")
    if (undefined & defined).any():
        worst, group = np.argwhere(undefined & defined)[0]
        raise InputError(f"group {groups[group]}: pearson is undefined for {scorers[worst]}, and not for others: they cannot be compared.")
    sizes = [size if weighting is Weighting.SIZE else 1 for size in segments.values()]
    return np.average(pearson[:, defined], axis=1, weights=np.array(sizes)[defined])


def lines(measured: Sequence[SweepPoint], varied: str) -> list[SweepLine]:
    """Gather measurements into the lines of a figure.

    Args:
        measured: What was measured.
        varied: The key along x: ``temperature``, ``iterations`` or ``layer``.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    for spec, pearson in measured:
        name = _name(spec, spec.temperature if varied == "iterations" else None)
        points.setdefault(name, []).append((float(getattr(spec, varied)), pearson))
    return [SweepLine(name, *(np.array(column) for column in zip(*sorted(own), strict=True))) for name, own in points.items()]


def _name(spec: MetricSpec, temperature: float | None) -> str:
    """What a line is called: as in the paper, with ``-b`` for batch centering."""
    batch = BATCH if spec.centering_kind is Centering.BATCH else ""
    return f"{spec.metric}{batch}" if temperature is None else f"{spec.metric}{batch} T={temperature}"


def marginal_errors(
    spec: MetricSpec, rated: RatedSegments, temperatures: Iterable[float], iterations: Sequence[int], options: RunOptions, *, pairs: int = 32
) -> list[SweepLine]:
    """Measure how far Sinkhorn sweeps are from a transport plan (Figure 4, right).

    After the last sweep the rows of pi are exact. The error is ``sum_j |sum_i pi_ij - 1/n|``, the columns' distance from their
    marginal in total, averaged over pairs of texts.

    Args:
        spec: A twmd setting: model, layer, centering.
        rated: Segments with one reference each.
        temperatures: A line each.
        iterations: Numbers of sweeps, ascending.
        options: Where and how fast.
        pairs: How many pairs: the first so many, which keep their centering batches.

    Returns:
        By temperature; every error is from 0 to 2.

    Raises:
        InputError: `pairs` or a number of sweeps is below one, or texts that leave nothing to align.
        ModelError: The model is not here or cannot be loaded.
    """
    if pairs < 1 or any(sweeps < 1 for sweeps in iterations):
        raise InputError(f"pairs={pairs}, iterations={list(iterations)}: expected numbers from 1.")
    with Scorer(spec, options) as scorer:
        scores = scorer.score(rated.predictions, rated.references)
        found = [scores.explain(i).similarities for i in range(min(pairs, len(rated.ratings)))]
    aligned = [s for s in found if s.size]
    if not aligned:
        raise InputError("none of the pairs has tokens on both sides: there is no plan to measure.")
    return [
        SweepLine(
            _name(spec, temperature),
            np.array(iterations, dtype=np.float64),
            np.array([np.mean([_marginal_error(s, AlignmentSettings(temperature, sweeps)) for s in aligned]) for sweeps in iterations]),
        )
        for temperature in temperatures
    ]


def _marginal_error(similarities: np.ndarray, how: AlignmentSettings) -> float:
    """The distance of the plan's column sums from the marginal, in float64."""
    s = torch.from_numpy(similarities).to(torch.float64)[None]  # (1, N, M)
    # Weights of one change nothing, but keep the shares in float64.
    x, y = (Marginal(torch.ones(1, number, dtype=torch.bool), torch.ones(1, number, dtype=torch.float64)) for number in s.shape[1:])
    columns = sinkhorn_plan(s, x, y, how).sum(1)  # (1, M)
    return float((columns - 1 / s.shape[2]).abs().sum())
