"""Short names that tell metrics of one comparison apart."""

from __future__ import annotations

from collections.abc import Sequence

from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.spec import MetricSpec, member_specs


def labels_of(specs: Sequence[MetricSpec]) -> list[str]:
    """Label metrics by their names, and several settings of one metric also by the keys in which they differ.

    Args:
        specs: Applied specifications.

    Returns:
        One label per specification, no two alike: equal specifications are numbered.

    >>> from twmd_registry.registry.spec import make_spec
    >>> labels_of([make_spec("twmd"), make_spec("twmd", layer=6), make_spec("sbert", layer=6)])
    ['twmd layer=4', 'twmd layer=6', 'sbert']
    """
    facts, labels = [_facts(spec) for spec in specs], list[str]()
    members = _labels_of_members(specs)
    for spec, own in zip(specs, facts, strict=True):
        others = [one for other, one in zip(specs, facts, strict=True) if other.metric == spec.metric]
        differing = [name for name in own if any(own[name] != other.get(name) for other in others)]
        keys = "".join(f" {name}={own[name]}" for name in differing)
        labels.append(f"{spec.metric}({members[spec]})" if differing and spec.members else f"{spec.metric}{keys}")
    return [
        label if label not in labels[:i] else f"{label}#{labels[: i + 1].count(label)}"
        for i, label in enumerate(labels)
    ]


def _facts(spec: MetricSpec) -> dict[str, str]:
    """Everything that decides a score, as text."""
    content = f"@{spec.fingerprint}" if spec.fingerprint else ""
    return {
        name: KEYS[name].format(value) + (content if name == "model" else "") for name, value in spec.values().items()
    }


def _labels_of_members(specs: Sequence[MetricSpec]) -> dict[MetricSpec, str]:
    """The members of every ensemble, labelled as the metrics of one comparison are."""
    ensembles = {spec: member_specs(spec) for spec in specs if spec.members}
    members = list(dict.fromkeys(member for own in ensembles.values() for _, member in own))
    labels = dict(zip(members, labels_of(members), strict=True)) if members else {}
    return {
        spec: ",".join(labels[member] if weight == 1 else f"{weight:g}*{labels[member]}" for weight, member in own)
        for spec, own in ensembles.items()
    }
