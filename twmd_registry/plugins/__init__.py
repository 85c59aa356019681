"""Our metrics in other frameworks, one folder each."""

from __future__ import annotations

from typing import TypeVar

from twmd_registry.registry.names import MetricName

T = TypeVar("T")


def metric_classes(base: type[T], module: str) -> dict[MetricName, type[T]]:
    """Make a framework's class for every metric, called by the name that the metric declares.

    Args:
        base: The class of all metrics in that framework; its attribute ``METRIC`` is set.
        module: The module that the classes belong to.
    """
    from twmd_registry.registry.metrics import CATALOGUE

    return {
        name: type(metric.class_name, (base,), {"METRIC": name, "__doc__": f"{metric.title}.", "__module__": module})
        for name, metric in CATALOGUE.items()
    }
