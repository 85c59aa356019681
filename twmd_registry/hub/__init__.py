"""Files for the Hugging Face Hub: the metrics' cards and the Spaces they belong to."""

from __future__ import annotations

from importlib import resources

from twmd_registry.registry.names import MetricName


def metrics_with_card() -> tuple[MetricName, ...]:
    """Return the metrics with a card, in the registry's order."""
    cards = resources.files("twmd_registry").joinpath("data/cards")
    return tuple(metric for metric in MetricName if cards.joinpath(f"{metric}.toml").is_file())
