"""What has changed a score since a version: the part of the changelog that a signature's version stands for."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.registry.names import MetricName
from twmd_registry.version import __version__

VERSIONS = ("0.1.0", "0.2.0")
"""Every version, oldest first; a test holds the last one equal to this package's, and all of them to CHANGELOG.md."""


class Change(NamedTuple):
    """A change after which the same signature gives another number, on some texts at least.

    Attributes:
        version: The first version with it.
        metrics: The metrics it concerns.
        what: What is different, as CHANGELOG.md has it.
    """

    version: str
    metrics: tuple[MetricName, ...]
    what: str


CHANGES = (
    Change(
        "0.2.0",
        (MetricName.STSSCORE,),
        "A text of which the tokenizer drops every character (NUL characters, say) counts as empty; it used to be given to the model.",
    ),
)
"""Oldest first. Every line is in CHANGELOG.md, word for word."""


def changes_between(metric: MetricName, one: str, other: str) -> list[Change]:
    """What moved a metric's scores between two known versions, in whatever order they are given."""
    old, new = sorted((VERSIONS.index(one), VERSIONS.index(other)))
    return [change for change in CHANGES if metric in change.metrics and old < VERSIONS.index(change.version) <= new]


def since(metric: MetricName, version: str) -> str:
    """What has moved a metric's scores since a known version, in words."""
    changes = changes_between(metric, version, __version__)
    if not changes:
        return f"nothing that moves a score of {metric} has changed since {version}"
    return " ".join(f"{change.version}: {change.what}" for change in changes)
