"""Versions of this package whose signatures are read, and the changes that moved scores between them."""

from __future__ import annotations

from collections.abc import Collection

from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import MetricSpec, members_or_self
from twmd_registry.version import __version__

VERSIONS: tuple[str, ...] = ("0.3.0",)
"""Oldest first; a test holds the last one equal to this package's, and all of them to CHANGELOG.md."""
CHANGES: tuple[tuple[str, Collection[MetricName], str], ...] = ()
"""Changes after which the same signature gives another score, oldest first: the first version with the change, the
metrics that it concerns, and the line of CHANGELOG.md.
"""


def changes_between(spec: MetricSpec, one: str, other: str) -> list[str]:
    """Return what moved the scores of a specification, or of its members, between two versions in either order."""
    old, new = sorted((VERSIONS.index(one), VERSIONS.index(other)))
    metrics = {own.metric for own in members_or_self(spec)}
    return [
        f"{version}: {what}"
        for version, concerned, what in CHANGES
        if old < VERSIONS.index(version) <= new and metrics & set(concerned)
    ]


def describe_changes(spec: MetricSpec, version: str) -> str:
    """Return what moved the scores of a specification since a version, as a sentence."""
    return (
        " ".join(changes_between(spec, version, __version__))
        or f"nothing that moves these scores of {spec.metric} has changed since {version}"
    )
