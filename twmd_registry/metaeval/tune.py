"""Choosing settings by agreement with people: Appendix B of the TWMD paper, over more than temperature.

For every data set the Pearson correlation is taken within each group (a language pair) and averaged over the groups; the
data sets' numbers are averaged weighted by their sizes; the setting with the highest average wins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.errors import SpecError
from twmd_registry.metaeval.sweeps import measure
from twmd_registry.progress import Progress, expect
from twmd_registry.rated.rows import Rated
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS, Value, key
from twmd_registry.registry.names import Centering, MetricName, Special, Vectors
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import Preset, write_presets
from twmd_registry.registry.spec import MetricSpec, make_spec
from twmd_registry.scoring import Scorer

TEMPERATURES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5)
GRID: dict[str, tuple[Any, ...]] = {
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
        pearson: Mean over groups, then over data sets weighted by size.
    """

    spec: MetricSpec
    pearson: float


def read_tried(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Read what is to be tried for a key, instead of `GRID`.

    Args:
        texts: ``KEY=VALUE,VALUE,...`` each; a comma inside a value is written ``%2C``.

    Raises:
        SpecError: No such key, no value, or one that is not possible.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values or name in {*found, "layer", "model"}:
            raise SpecError(f"{text!r}: expected KEY=VALUE,VALUE once per key, and no layer or model (they have options of their own).")
        found[name] = tuple(key(name).parse(value.replace("%2C", ",")) for value in values.split(","))
    return found


def settings(metric: str, model: str, layers: Iterable[int], tried: Mapping[str, Sequence[Any]] | None = None) -> Iterator[MetricSpec]:
    """Every setting of the grid for one metric.

    Args:
        metric: The metric.
        model: The encoder.
        layers: Hidden states to try.
        tried: By key, what is tried instead of, or beside, `GRID`; of a metric that does not use the key nothing.

    Raises:
        SpecError: A metric without layers (it has nothing to tune here), or no combination that is possible.

    >>> [spec.temperature for spec in settings("twmd", "a/b", [3], {"temperature": [0.1, 0.2], "special": ["cls"], "centering": ["none"]})]
    [0.1, 0.2]
    """
    keys = entry(metric).keys
    if "layer" not in keys:
        raise SpecError(f"{metric} has no layer, temperature or centering to tune.")
    grid = {name: values for name, values in {**GRID, **(tried or {})}.items() if name in keys}
    found = 0
    for layer, *values in itertools.product(layers, *grid.values()):
        given: dict[str, Any] = dict(zip(grid, values, strict=True))
        if given["special"] is Special.PARTNERS and metric != MetricName.BERTSCORE_CENTERED:
            continue
        try:
            spec = make_spec(metric, model=model, layer=layer, **given)
        except SpecError:  # values that exclude each other, as raw vectors and sentence centering; each is possible by itself
            continue
        found += 1
        yield spec
    if not found:
        raise SpecError(f"{metric}: no combination of what is to be tried is possible.")


def tune(specs: Sequence[MetricSpec], data: Sequence[Rated], options: RunOptions, progress: Progress | None = None) -> list[Trial]:
    """Measure settings on rated data, best first; each text of a group is encoded once for all of them.

    Args:
        specs: Settings to compare.
        data: Rated data sets.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Returns:
        The settings as they were applied, with the model as it was named.
    """
    expect(progress, sum(len(rated.ratings) for rated in data))
    by_set = [[one.pearson for one in measure(specs, [rated], options, progress=progress)] for rated in data]
    weighted = np.average(by_set, axis=0, weights=[len(rated.ratings) for rated in data])  # (specs,)
    scorers = [Scorer(spec, options) for spec in specs]  # held together, or the model would be loaded again for each
    applied = [one.spec.replace(model=spec.model, adapter=spec.adapter) for one, spec in zip(scorers, specs, strict=True)]
    return sorted(map(Trial, applied, weighted.tolist()), key=lambda trial: -trial.pearson)


def varied_keys(trials: Sequence[Trial]) -> list[str]:
    """The keys in which settings differ, in a signature's order; the layer always."""
    values = [trial.spec.values() for trial in trials]
    return [name for name in KEYS if name == "layer" or len({str(one.get(name)) for one in values}) > 1]


def write_preset(name: str, trials: Sequence[Trial], data: Sequence[str]) -> str:
    """A TOML table of presets: of every metric the best setting, with where it comes from.

    Args:
        name: The preset's name.
        trials: Best first, of one model.
        data: What was scored: name, content and size of every data set.
    """
    scored = ", ".join(data)
    own_presets = []
    for metric in dict.fromkeys(trial.spec.metric for trial in trials):
        own = [trial for trial in trials if trial.spec.metric == metric]
        best, names = own[0], varied_keys(own)
        about = f"Appendix B procedure on {scored}: mean Pearson {best.pearson:.4f}, the best of {len(own)} settings of {', '.join(names)}."
        own_presets.append(Preset(name, metric, _placed(best.spec.values()), about, best.spec.fingerprint))
    return write_presets(name, f"TWMD paper, Appendix B: mean Pearson over the groups of {scored}, weighted by size.", own_presets)


def _placed(values: dict[str, Any]) -> dict[str, Any]:
    """Keys with folders written so that they are found from any working folder."""
    folders = {name: str(Path(str(values[name])).resolve()) for name in ("model", "adapter") if values.get(name) and Path(str(values[name])).is_dir()}
    return values | folders
