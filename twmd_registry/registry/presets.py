"""Presets: named, complete settings of every metric, and where their numbers come from."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.fingerprint import known_name
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName


@dataclass(frozen=True)
class Preset:
    """One preset of one metric.

    Attributes:
        name: Its name.
        metric: The metric it sets.
        keys: Key to value, as text or number; a key it leaves out is decided by the model.
        provenance: How the values were chosen: data, procedure, numbers.
    """

    name: str
    metric: MetricName
    keys: dict[str, Any]
    provenance: str

    @property
    def model(self) -> str | None:
        """The model it was made for, None for one that fits any."""
        model: str | None = self.keys.get("model")
        return model


@functools.cache
def presets() -> dict[tuple[MetricName, str], Preset]:
    """Every preset of every metric, keyed by metric and name."""
    table = tomllib.loads(resources.files("twmd_registry.registry").joinpath("presets.toml").read_text(encoding="utf-8"))
    found: dict[tuple[MetricName, str], Preset] = {}
    for name, group in table.items():
        shared = group.get("shared", {})
        for metric, own in group["metrics"].items():
            keys = shared | {key: value for key, value in own.items() if key != "provenance"}
            found[MetricName(metric), name] = Preset(name, MetricName(metric), keys, own.get("provenance", group["provenance"]))
    return found


def presets_of(metric: MetricName) -> dict[str, Preset]:
    """The presets of one metric, by name."""
    return {name: preset for (owner, name), preset in presets().items() if owner is metric}


def preset_named(metric: MetricName, name: str) -> Preset:
    """Look a preset up.

    Raises:
        SpecError: The metric has no such preset; the message lists those it has.
    """
    own = presets_of(metric)
    if name not in own:
        raise SpecError(f"{metric} has no preset {name!r}; {menu(str(name), own)}.")
    return own[name]


def default_preset(metric: MetricName, model: str | None) -> Preset:
    """The preset that was tuned for a model: ``embedded`` for none; for a model nobody tuned, the one that names no model."""
    wanted = known_name(model) if model else EMBEDDED_MODEL
    own = presets_of(metric)
    for preset in own.values():
        if preset.model == wanted:
            return preset
    return next(preset for preset in own.values() if preset.model is None)
