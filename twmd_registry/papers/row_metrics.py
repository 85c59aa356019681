"""The rows of an experiment as metrics: the paper's names of rows become specifications for a model at hand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from twmd_registry.engine.scorer import Scorer
from twmd_registry.errors import SpecError
from twmd_registry.papers.experiment import EVERY, Experiment
from twmd_registry.registry.keys import layers_text
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec, make_spec, spec_with_keys

Metric = MetricSpec | str
"""A specification, or the name of a metric of SacreBLEU."""
_OWN, _DEEP = "own", "last"
_NO_KEYS = {"lexical", "member", "against", "half", "optional"}


class Setting(NamedTuple):
    """One way to compute a row, by the paper's name; `varied` has the values of the keys that the experiment varies.

    `against`, `half` and `optional` are as in `Experiment.rows`; without `against`, the metric is correlated with the
    ratings.
    """

    row: str
    metric: Metric
    varied: Mapping[str, Any]
    against: Metric | None = None
    half: str = ""
    optional: bool = False

    @property
    def label(self) -> str:
        """Return the row's name with the varied keys and their values."""
        return " ".join([self.row, *(f"{key}={value}" for key, value in self.varied.items())])


def read_depth(model: str, options: RunOptions, stack: ExitStack) -> int:
    """Return the number of a model's layers, 0 for word vectors; `stack` keeps the model loaded."""
    spec = make_spec(MetricName.MOVERSCORE, "wmd", model=model, layer="last:1")
    return int(stack.enter_context(Scorer(spec, options)).spec.layer or 0)


def own_layers(
    experiment: Experiment, model: str, layer: int | None, options: RunOptions, stack: ExitStack
) -> list[int]:
    """Return the layers of the rows that read the model's ``own`` layer, ascending; none without such rows.

    Without a `layer` that was asked for, they are those of the paper's numbers of this model, else of its preset or
    rule. Raises SpecError where the preset reads several layers, or the model does not have the layer.
    """
    rows = (experiment.keys | keys for keys in experiment.rows.values())
    if "layer" in experiment.vary or all(row.get("layer") != _OWN for row in rows):
        return []
    if layer is None and (printed := {int(row.layer): 0 for row in experiment.printed if row.model == model}):
        return list(printed)
    read = stack.enter_context(Scorer(make_spec(MetricName.TWMD, model=model, layer=layer), options)).spec.layer
    if not isinstance(read, int):
        raise SpecError(f"{experiment.name} reads a single layer, and the preset of {model} reads {read}: set --layer.")
    return [read + offset for offset in experiment.offsets]


def make_settings(
    experiment: Experiment, model: str, *, own: Sequence[int], asked: int | None, depth: int
) -> list[Setting]:
    """Make the settings of an experiment, row by row, the values of its last axis next to each other.

    `own` are the model's `own_layers`, `asked` is the hidden state that was asked for, `depth` the model's layers.
    """
    result = []
    axes = {key: range(1, depth + 1) if values == EVERY else values for key, values in experiment.vary.items()}
    for row, keys in experiment.rows.items():
        other = keys.get("against")
        against = _metric(other, model, _layers(other, own, asked, depth)[0]) if other else None
        used = {"preset", *entry(keys["metric"]).keys} if "metric" in keys else ()
        shared = {key: value for key, value in experiment.keys.items() if key in used}
        for values in itertools.product(*axes.values()):
            varied = dict(zip(axes, values, strict=True))
            applied = shared | keys | varied
            for layers in _layers(applied, own, asked, depth):
                metric = _metric(applied, model, layers)
                result.append(Setting(row, metric, varied, against, keys.get("half", ""), keys.get("optional", False)))
    return result


def _layers(row: Mapping[str, Any], own: Sequence[int], asked: int | None, depth: int) -> list[list[int]]:
    """Return the layers of every setting of a row, see `Experiment.rows`; none where the model is not deep enough."""
    wanted = row.get("layer")
    if wanted is None:
        return [[]]
    if wanted == _OWN:
        return [[layer] for layer in own]
    if isinstance(wanted, int):
        return [[wanted]]
    if isinstance(wanted, float):
        return [[round(depth * wanted) if asked is None else asked]]
    several, number = wanted[len(_DEEP)] == ":", int(wanted[len(_DEEP) + 1 :])
    if several:
        return [list(range(max(1, depth - number + 1), depth + 1)) or [0]]
    return [[depth - number]] if depth - number >= min(depth, 1) else []


def _metric(row: Mapping[str, Any], model: str, layers: Sequence[int]) -> Metric:
    """Return what a row is computed by, at some layers (none for those of the model's preset or rule)."""
    if "lexical" in row:
        return str(row["lexical"])
    if "member" in row:
        return spec_with_keys(row["member"])
    keys = {key: value for key, value in row.items() if key not in {*_NO_KEYS, "metric", "preset"}}
    if "members" not in row:
        keys["model"] = model
    if layers:
        keys["layer"] = layers_text(layers)
    if len(layers) == 1 and "aggregation" in keys:
        keys["aggregation"] = "single"
    return make_spec(row["metric"], row.get("preset"), **keys)
