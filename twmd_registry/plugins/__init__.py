"""Our metrics in other frameworks, one module per framework."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from twmd_registry.registry.names import MetricName

if TYPE_CHECKING:
    from twmd_registry.registry.metric_spec import MetricSpec

T = TypeVar("T")


def metric_classes(base: type[T], module: str) -> dict[MetricName, type[T]]:
    """Return a subclass of `base` per metric, under the metric's class name, for a framework's module."""
    from twmd_registry.registry.metrics import CATALOGUE

    facts = {name: {"METRIC": name, "__doc__": f"{metric.title}."} for name, metric in CATALOGUE.items()}
    return {
        name: type(CATALOGUE[name].class_name, (base,), attributes | {"__module__": module})
        for name, attributes in facts.items()
    }


def name_of(spec: MetricSpec, preset: str | None = None) -> str:
    """Name a metric within a framework by its metric, preset and changed keys.

    >>> from twmd_registry import load
    >>> name_of(load("twmd").requested), name_of(load("twmd", layer=6).requested)
    ('twmd', 'twmd_layer_6')
    """
    from twmd_registry.registry.spec import keys_to_set, make_spec

    if spec.members:
        members = (f"{'' if m.weight == 1 else f'{m.weight:g}-'}{name_of(m.spec)}" for m in spec.members)
        return "-".join([str(spec.metric), *members])
    changed = keys_to_set(spec)
    usual = make_spec(spec.metric, preset) if preset else None
    parts = [str(spec.metric)]
    if usual and keys_to_set(usual):
        texts, usual_texts = spec.texts(), usual.texts()
        parts.append(str(preset))
        names = usual_texts | texts
        changed = {name: texts.get(name, "none") for name in names if texts.get(name) != usual_texts.get(name)}
    parts += [part for pair in changed.items() for part in pair]
    return "_".join(re.sub(r"[^\w.-]+", "-", part).strip("-") for part in parts)
