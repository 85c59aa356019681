"""`Experiment`: a paper's table or figure as data, from ``PAPER.toml`` in this folder, and its rows as metrics."""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.spec import make_spec, spec_with_keys

AVERAGE = "Avg."
UNNAMED = "paper"
"""Source of printed numbers without an encoder, or whose encoder the paper does not name."""
ExperimentCell: TypeAlias = tuple[str, str, str]
"""A column, its unit (a group such as a language pair, a data set, or `AVERAGE`), and a statistic of `MEASURES`."""
EVERY = "every"
"""Axis value for all layers of the model."""
_SHARED = ("about", "encoders", "keys", "rows", "data", "defaults")
_FOLDER = Path(__file__).parent


class ExperimentRow(NamedTuple):
    """A row of a table, printed or computed, by the paper's name of the metric; values are NaN if undefined."""

    metric: str
    model: str
    layer: str
    values: tuple[float, ...]

    @property
    def source(self) -> str:
        """The encoder with its layers."""
        return f"{self.model}, layer {self.layer}" if self.layer else self.model


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    Attributes:
        data: By set, its ``format`` and possible ``paths``. Optional: ``keys`` of the format, ``by_length`` (batch
            pairs by length) and ``hub``, its name on the Hub.
        rows: By the paper's name, the keys of a metric's specification. ``layer`` may be ``own`` (the user's, the
            paper's, or the preset's or rule's for the model), a share of the model's depth, ``last:N`` (N layers or as
            many as there are) or ``last-N`` (N below the last). Other keys are ``lexical`` (a SacreBLEU metric),
            ``member`` (a metric with its keys as text), ``members`` (the mean of other rows), ``against`` (the keys of
            another row to correlate with instead of the ratings), ``half`` (``shorter`` or ``longer`` pairs) and
            ``optional`` (skipped if its model is not installed).
        columns: By name, a unit and the statistics; the same as for `printed`, the paper's own rows.
        encoders: By model (``static`` for word vectors, ``other`` for any other), the paper's encoder to compare with;
            ``first`` and ``last`` refer to those in `printed`.
        keys: Keys of every row whose metric uses them.
        groups: By set, the groups to use; by default those that are columns, otherwise all.
        optional: Sets that may be missing.
        weights: For ``groups`` and ``sets``, whether an average is weighted by ``size``; otherwise weights are equal.
        vary: By key of the specification, the values with which to compute every row (such as `EVERY` layer).
        offsets: The layers to read, relative to ``own``.
        picture: How to draw a figure: ``kind``, and for curves ``panels``, ``x`` and ``logarithmic``.
        plans: Pairs whose transport plans' marginal errors are measured too.
        centerings: For a diagnosis of the model's word vectors, with the paper's verdicts on its `properties`.
    """

    name: str
    about: str
    data: Mapping[str, Mapping[str, Any]]
    rows: Mapping[str, dict[str, Any]]
    columns: Mapping[str, tuple[str, ...]]
    printed: tuple[ExperimentRow, ...]
    encoders: Mapping[str, str]
    keys: dict[str, Any] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    vary: Mapping[str, Any] = field(default_factory=dict)
    offsets: tuple[int, ...] = (0,)
    scale: int = 100
    decimals: int = 1
    picture: Mapping[str, Any] = field(default_factory=dict)
    plans: int = 0
    centerings: tuple[str, ...] = ()
    properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fine_tuned: bool = False

    @property
    def cells(self) -> tuple[ExperimentCell, ...]:
        """The numbers of a row, in order."""
        columns = self.columns.items()
        return tuple((column, unit, name) for column, (unit, *statistics) in columns for name in statistics)

    @property
    def reads_one_layer(self) -> bool:
        """Whether the user may choose a layer."""
        layers = [(self.keys | row).get("layer") for row in self.rows.values()]
        return "layer" not in self.vary and any(layer == "own" or isinstance(layer, float) for layer in layers)

    def nearest(self, model: str, depth: int) -> str:
        """Return the paper's encoder to compare a model with, by its name and number of layers (0: word vectors)."""
        models = list(dict.fromkeys(row.model for row in self.printed if row.model != UNNAMED)) or [UNNAMED]
        other = models[0 if self.encoders["other"] == "first" else -1]
        wanted = self.encoders.get("static" if depth == 0 else model, model)
        return wanted if wanted in models else other


def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments, by paper."""
    return tuple(f"{paper}-{name}" for paper, content in _papers().items() for name in content if name not in _SHARED)


def read_experiment(name: str, members: Mapping[str, str] | None = None) -> Experiment:
    """Read an experiment of `experiment_names`; `members` replaces the ``member`` of rows by name."""
    if name not in experiment_names():
        raise SpecError(f"unknown table or figure {name!r}; {menu(name, experiment_names())}.")
    paper, _, key = name.partition("-")
    shared = _papers()[paper]
    fields = shared.get("defaults", {}) | shared[key]
    printed = tuple(
        ExperimentRow(metric, model, layer, tuple(map(float, numbers)))
        for source, rows in fields.pop("printed", {}).items()
        for model, _, layer in [source.partition(", layer ")]
        for metric, numbers in rows.items()
    )
    rows = {row: dict(keys) for row, keys in shared["rows"].items()}
    for row, keys in fields.pop("rows", {}).items():
        rows[row] |= keys
    for row, text in (members or {}).items():
        rows[row]["member"] = text
    measured = fields.pop("measured", [row for row in dict.fromkeys(row.metric for row in printed) if row in rows])
    columns, statistics = fields.pop("columns", {}), fields.pop("statistics", ())
    if not isinstance(columns, dict):
        columns = {column: (column, *statistics) for column in columns}
    return Experiment(
        name=name,
        about=f"{shared['about']}, {fields.pop('about')}",
        data={name: shared["data"][name] for name in fields.pop("data")},
        rows={row: _resolve(row, rows) for row in measured},
        columns={column: tuple(cells) for column, cells in columns.items()},
        printed=printed,
        encoders=shared["encoders"],
        keys=shared.get("keys", {}) | fields.pop("keys", {}),
        **fields,
    )


def _resolve(row: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge a row's keys with its ``same`` row's; replace names of rows by their keys."""
    keys = dict(rows[row])
    if same := keys.pop("same", None):
        keys = _resolve(same, rows) | keys
    if "against" in keys:
        keys["against"] = _resolve(keys["against"], rows)
    if "members" in keys:
        keys |= {"metric": "ensemble", "members": ",".join(rows[member]["member"] for member in keys["members"])}
    return keys


@functools.cache
def _papers() -> dict[str, dict[str, Any]]:
    files = sorted(_FOLDER.glob("*.toml"))
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in files}


TableMetric = MetricSpec | str
"""A specification, or the name of a SacreBLEU metric."""
OWN, _DEEP = "own", "last"
_NO_KEYS = {"lexical", "member", "against", "half", "optional"}


class Setting(NamedTuple):
    """One way to compute a row. `varied` has the values of varied keys; the rest is as in `Experiment.rows`."""

    row: str
    metric: TableMetric
    varied: Mapping[str, Any]
    against: TableMetric | None = None
    half: str = ""
    optional: bool = False

    @property
    def label(self) -> str:
        """The row's name with the varied keys and their values."""
        return " ".join([self.row, *(f"{key}={value}" for key, value in self.varied.items())])


def make_settings(
    experiment: Experiment, model: str, *, own: Sequence[int], requested_layer: int | None, depth: int
) -> list[Setting]:
    """Return the settings of an experiment, row by row, with the last axis varying fastest.

    `own` are the layers for rows with layer ``own``. `requested_layer` overrides the rows'. The model has `depth`
    layers.
    """
    result = []
    axes = {key: range(1, depth + 1) if values == EVERY else values for key, values in experiment.vary.items()}
    for row, keys in experiment.rows.items():
        other = keys.get("against")
        against = _metric(other, model, _layers(other, own, requested_layer, depth)[0]) if other else None
        used = {"preset", *entry(keys["metric"]).keys} if "metric" in keys else ()
        shared = {key: value for key, value in experiment.keys.items() if key in used}
        for values in itertools.product(*axes.values()):
            varied = dict(zip(axes, values, strict=True))
            applied = shared | keys | varied
            for layers in _layers(applied, own, requested_layer, depth):
                metric = _metric(applied, model, layers)
                result.append(Setting(row, metric, varied, against, keys.get("half", ""), keys.get("optional", False)))
    return result


def _layers(
    row: Mapping[str, Any], default_layers: Sequence[int], requested_layer: int | None, depth: int
) -> list[list[int]]:
    """Return the layers of every setting of a row, see `Experiment.rows`; none if the model is not deep enough."""
    share = row.get("layer")
    if share is None:
        return [[]]
    if share == OWN:
        return [[layer] for layer in default_layers]
    if isinstance(share, int):
        return [[share]]
    if isinstance(share, float):
        return [[round(depth * share) if requested_layer is None else requested_layer]]
    several, number = share[len(_DEEP)] == ":", int(share[len(_DEEP) + 1 :])
    if several:
        return [list(range(max(1, depth - number + 1), depth + 1)) or [0]]
    return [[depth - number]] if depth - number >= min(depth, 1) else []


def _metric(row: Mapping[str, Any], model: str, layers: Sequence[int]) -> TableMetric:
    """Return the metric that computes a row, at the given layers (none: the layers of the model's preset or rule)."""
    if "lexical" in row:
        return str(row["lexical"])
    if "member" in row:
        return spec_with_keys(row["member"])
    keys = {key: value for key, value in row.items() if key not in {*_NO_KEYS, "metric", "preset"}}
    if "members" not in row:
        keys["model"] = model
    if layers:
        keys["layer"] = layers
    if len(layers) == 1 and "aggregation" in keys:
        keys["aggregation"] = "single"
    return make_spec(row["metric"], row.get("preset"), **keys)
