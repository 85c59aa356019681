"""The choices of the page, and the specification that they select."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple, get_args

from twmd_registry.errors import SpecError, menu
from twmd_registry.models.q4 import has_multilingual
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import CONVERGED, EMBEDDED_MODEL, MULTILINGUAL_MODEL, Centering, MetricName
from twmd_registry.registry.presets import default_preset, presets, presets_of
from twmd_registry.registry.spec import MetricSpec, make_spec

METRICS = tuple(map(str, MetricName))
MULTILINGUAL = "multilingual"
"""The preset of the packaged model of many languages; the names of its other presets begin with it."""
MANY = 10
"""Languages of a preset that are counted, not named."""
AS_PRESET = "preset"
"""The choice that leaves a key as the preset sets it."""
SWEEPS = (AS_PRESET, "1", "2", "5", "10", CONVERGED)
CENTERINGS = (AS_PRESET, *get_args(Centering))
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 0.5
"""Ends of the temperature slider: the papers' temperatures are from 0.01 to 0.3."""


class PageSettings(NamedTuple):
    """The settings of the page, of which each metric takes those that it uses; a temperature of 0 is the preset's."""

    preset: str = "embedded"
    temperature: float = 0.0
    iterations: str = AS_PRESET
    centering: str = AS_PRESET


@functools.cache
def offered_presets() -> dict[str, str]:
    """Return the presets that need only packaged models (a visitor must not cause a download), and their labels, which
    name the languages.
    """
    labels: dict[str, str] = {}
    for (metric, name), preset in presets().items():
        if preset_for(metric, name) == name:
            reads = preset.languages if len(preset.languages) < MANY else (f"{len(preset.languages)} languages",)
            labels.setdefault(name, f"{name} ({', '.join(reads)})" if reads else name)
    return labels


def preset_for(metric: str, name: str) -> str:
    """Return a preset's name if the metric has it for a packaged model, else that of a preset with the same languages;
    raises SpecError for an unknown metric.
    """
    entry(metric)
    default = default_preset(MetricName(metric), None).name
    if name.startswith(MULTILINGUAL) and not has_multilingual():
        return default
    model, fallback = (MULTILINGUAL_MODEL, MULTILINGUAL) if name.startswith(MULTILINGUAL) else (EMBEDDED_MODEL, default)
    preset = presets_of(MetricName(metric)).get(name)
    of_any_model = preset and preset.model is None and metric != MetricName.STSSCORE
    return name if preset and (preset.model == model or of_any_model) else fallback


def notices_of_preset(metrics: Iterable[str], preset: str) -> list[str]:
    """Return a notice that names the metrics that take another preset; none where all have it."""
    used = {name: preset_for(name, preset) for name in metrics}
    others = [name for name in used if used[name] != preset]
    return [f"no preset {preset!r} of {', '.join(others)}: scored with {used[others[0]]!r}."] if others else []


def spec_of(metric: str, settings: PageSettings) -> MetricSpec:
    """Return the specification of a metric under the page's settings; raises SpecError where that is impossible.

    Programs may send any value, such as a path on this machine or a million sweeps: only the choices are accepted.
    """
    name, temperature, iterations, centering = settings
    offered = (("preset", name, offered_presets()), ("iterations", iterations, SWEEPS))
    for key, value, choices in (*offered, ("centering", centering, CENTERINGS)):
        if value not in choices:
            raise SpecError(f"{key}={value!r} is not offered here; {menu(value, choices)}.")
    if temperature != 0 and not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
        expected = f"expected {MIN_TEMPERATURE} to {MAX_TEMPERATURE}, or 0 for the preset's"
        raise SpecError(f"temperature={temperature} is not offered here: {expected}.")
    keys, preset = entry(metric).keys, preset_for(metric, name)
    model = presets_of(MetricName(metric))[preset].model
    mean = default_preset(MetricName.BERTSCORE_CENTERED, model).keys["centering"]  # the packaged one of every layer
    values = {
        "model": EMBEDDED_MODEL if model is None else None,
        "temperature": temperature or None,
        "iterations": iterations,
        "centering": str(mean) if centering == "background" else centering,
    }
    given = {key: value for key, value in values.items() if value not in {None, AS_PRESET} and key in keys}
    return make_spec(metric, preset, **given)
