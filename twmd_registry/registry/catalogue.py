"""The declarations of all metrics, by name."""

from __future__ import annotations

import importlib

from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.metrics import Metric
from twmd_registry.registry.names import MetricName

CATALOGUE: dict[MetricName, Metric] = {
    name: importlib.import_module(f"twmd_registry.registry.metrics.{name}").METRIC for name in MetricName
}


def entry(metric: str) -> Metric:
    """Return the declaration of a metric.

    Raises:
        SpecError: There is no such metric; the message lists the available metrics.
    """
    if not isinstance(metric, str) or metric not in set(MetricName):
        raise SpecError(f"there is no metric {metric!r}; {menu(str(metric), MetricName)}.")
    return CATALOGUE[MetricName(metric)]
