"""Choosing settings by agreement with people: Appendix B of the TWMD paper, over more than temperature.

For every data set the Pearson correlation is taken within each language pair and averaged over the pairs; the
data sets' numbers are averaged weighted by their sizes; the setting with the highest average wins.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.errors import SpecError
from twmd_registry.metaeval.correlation import by_group
from twmd_registry.rated.rows import Rated
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.names import Centering, MetricName, Special, Vectors
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec, make_spec
from twmd_registry.scoring import Scorer, score_all

TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3)
GRID: dict[str, tuple[object, ...]] = {
    "special": tuple(Special),
    "centering": (Centering.NONE, Centering.DIMENSION, Centering.SENTENCE, Centering.BACKGROUND, Centering.BATCH),
    "temperature": TEMPERATURES,
    "vectors": tuple(Vectors),
}
"""What is tried for every key but the layer; a metric that does not use a key leaves it out."""


class Trial(NamedTuple):
    """One setting and its agreement.

    Attributes:
        spec: The setting.
        pearson: Mean over language pairs, then over data sets weighted by size.
    """

    spec: MetricSpec
    pearson: float


def settings(metric: str, model: str, layers: Iterable[int], background: str | None = None) -> Iterator[MetricSpec]:
    """Every setting of the grid for one metric.

    Args:
        metric: The metric.
        model: The encoder.
        layers: Hidden states to try.
        background: Hash or file of the mean vector for background centering; None for the packaged one.

    Raises:
        SpecError: A metric without layers (it has nothing to tune here).
    """
    keys = entry(metric).keys
    if "layer" not in keys:
        raise SpecError(f"{metric} has no layer, temperature or centering to tune.")
    names = [name for name in GRID if name in keys]
    for layer, *values in itertools.product(layers, *(GRID[name] for name in names)):
        given: dict[str, Any] = dict(zip(names, values, strict=True))
        if given["centering"] is Centering.BACKGROUND and background:
            given["centering"] = f"{Centering.BACKGROUND}:{background}"
        impossible = given["centering"] is Centering.SENTENCE and given.get("vectors") is Vectors.RAW
        foreign = given["special"] is Special.PARTNERS and metric != MetricName.BERTSCORE_CENTERED
        if not (impossible or foreign):
            yield make_spec(metric, model=model, layer=layer, **given)


def tune(specs: Sequence[MetricSpec], data: Sequence[Rated], options: RunOptions, progress: Callable[[int], None] | None = None) -> list[Trial]:
    """Measure settings on rated data, best first; each text is encoded once for all of them.

    Args:
        specs: Settings to compare.
        data: Rated data sets.
        options: Where and how fast.
        progress: Called with the number of texts encoded.
    """
    scorers = [Scorer(spec, options) for spec in specs]
    totals = np.zeros(len(specs))
    for rated in data:
        results = score_all(scorers, rated.predictions, rated.references, progress=progress)
        for i, result in enumerate(results):
            pearson = by_group("pearson", result.scores, rated.ratings, rated.group)
            totals[i] += len(rated.ratings) * float(np.mean(list(pearson.values())))
    weighted = totals / sum(len(rated.ratings) for rated in data)
    trials = [Trial(spec, float(value)) for spec, value in zip(specs, weighted, strict=True)]
    return sorted(trials, key=lambda trial: -trial.pearson)
