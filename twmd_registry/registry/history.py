"""What has changed a score since a version: the part of the changelog that a signature's version stands for."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.registry.names import Centering, MetricName
from twmd_registry.registry.spec import MetricSpec, member_specs
from twmd_registry.version import __version__

VERSIONS = ("0.1.0", "0.2.0", "0.3.0")
"""Every version, oldest first; a test holds the last one equal to this package's, and all of them to CHANGELOG.md."""


class SemanticChange(NamedTuple):
    """A change after which the same signature gives another number, on some texts at least.

    Attributes:
        version: The first version with it.
        metrics: The metrics it concerns.
        what: What is different, as CHANGELOG.md has it.
        centerings: The kinds of centering it concerns; empty for any.
    """

    version: str
    metrics: tuple[MetricName, ...]
    what: str
    centerings: tuple[Centering, ...] = ()


_ALIGNED = (
    MetricName.TWMD,
    MetricName.TRWMD,
    MetricName.MOVERSCORE,
    MetricName.BERTSCORE_CENTERED,
    MetricName.WORDSET_CKA,
    MetricName.SBERT,
)
"""The metrics of token vectors that there were in 0.1.0."""

CHANGES = (
    SemanticChange(
        "0.2.0",
        (MetricName.STSSCORE,),
        "A text of which the tokenizer drops every character (NUL characters, say) counts as empty; it used to be given to the model.",
    ),
    SemanticChange(
        "0.2.0",
        _ALIGNED,
        "Two different texts of which centering leaves nothing (one-word texts under sentence centering) score 0; they used to score 1.",
        (Centering.DIMENSION, Centering.SENTENCE, Centering.BATCH, Centering.CORPUS, Centering.BACKGROUND),
    ),
    SemanticChange(
        "0.2.0",
        (MetricName.SBERT,),
        "A text whose mean vector is zero scores 1 against itself; it used to score 0.",
        (Centering.SENTENCE, Centering.BATCH, Centering.CORPUS),
    ),
)
"""Oldest first. Every line is in CHANGELOG.md, word for word."""


def changes_between(spec: MetricSpec, one: str, other: str) -> list[SemanticChange]:
    """What moved the scores of a specification (an ensemble: those of its members) between two known versions, in whatever order they are given."""
    old, new = sorted((VERSIONS.index(one), VERSIONS.index(other)))
    concerned = {(each.metric, each.centering_kind) for _, each in member_specs(spec)} if spec.members else {(spec.metric, spec.centering_kind)}
    return [
        change
        for change in CHANGES
        if old < VERSIONS.index(change.version) <= new
        and any(metric in change.metrics and centering in (change.centerings or Centering) for metric, centering in concerned)
    ]


def since(spec: MetricSpec, version: str) -> str:
    """What has moved the scores of a specification since a known version, in words."""
    changes = changes_between(spec, version, __version__)
    if not changes:
        return f"nothing that moves these scores of {spec.metric} has changed since {version}"
    return " ".join(f"{change.version}: {change.what}" for change in changes)
