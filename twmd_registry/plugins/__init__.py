"""Our metrics in other frameworks, one file or folder each."""

from __future__ import annotations

from typing import TypeVar

from twmd_registry.registry.names import MetricName

T = TypeVar("T")


def metric_classes(base: type[T], module: str) -> dict[MetricName, type[T]]:
    """Return for a framework's module a subclass of `base` per metric, under the metric's name for classes."""
    from twmd_registry.registry.metrics import CATALOGUE

    return {
        name: type(metric.class_name, (base,), {"METRIC": name, "__doc__": f"{metric.title}.", "__module__": module})
        for name, metric in CATALOGUE.items()
    }
