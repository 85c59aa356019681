"""What two signatures do not share, in words, and whether their numbers may be compared."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.registry.history import changes_between
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.signature import Signature


class Difference(NamedTuple):
    """One difference.

    Attributes:
        what: In words.
        matters: Whether numbers may not be compared because of it.
    """

    what: str
    matters: bool


class Comparison(NamedTuple):
    """Everything that two signatures do not share; nothing when they are the same."""

    differences: tuple[Difference, ...]

    @property
    def comparable(self) -> bool:
        """Whether numbers with these signatures measure the same thing."""
        return not any(difference.matters for difference in self.differences)


def compare(one: Signature, other: Signature) -> Comparison:
    """Compare two signatures."""
    a, b = one.spec, other.spec
    if a.metric is not b.metric:
        return Comparison((Difference(f"metric: {a.metric} and {b.metric} are different metrics", matters=True),))
    found = [*_model_differences(one, other)]
    first, second = a.values(), b.values()
    for name in KEYS:
        if name in {"model", "revision", "dtype"} or first.get(name) == second.get(name):
            continue
        values = " and ".join(KEYS[name].format(side[name]) if name in side else "none" for side in (first, second))
        found.append(Difference(f"{name}: {values} ({KEYS[name].about})", matters=True))
    if a.dtype != b.dtype:
        found.append(
            Difference(
                f"dtype: {a.dtype} and {b.dtype}: equal only up to the encoder's rounding, which may be more than systems differ by", matters=True
            )
        )
    if one.nrefs != other.nrefs:
        found.append(_nrefs_difference(one.nrefs, other.nrefs))
    return Comparison((*found, *_version_differences(one, other)))


def _model_differences(one: Signature, other: Signature) -> list[Difference]:
    a, b = one.spec, other.spec
    if a.fingerprint and b.fingerprint:
        if a.fingerprint != b.fingerprint:
            same_name = f"{a.model} is a different model: its content is" if a.model == b.model else f"{a.model} and {b.model}, with the contents"
            return [Difference(f"model: {same_name} @{a.fingerprint} and @{b.fingerprint}", matters=True)]
        if a.model != b.model:
            return [Difference(f"model: {a.model} and {b.model} are two names of the same content (@{a.fingerprint})", matters=False)]
        return []
    if a.model != b.model:
        return [Difference(f"model: {a.model} and {b.model}", matters=True)]
    if a.fingerprint or b.fingerprint or a.revision != b.revision:
        known = a.fingerprint or b.fingerprint
        return [Difference(f"model: only one of them says which content of {a.model} was used (@{known}): it may be another", matters=True)]
    return []


def _nrefs_difference(one: str | None, other: str | None) -> Difference:
    if one is None or other is None:
        return Difference(f"nrefs: only one of them was written after scoring (nrefs:{one or other})", matters=False)
    return Difference(f"nrefs: {one} and {other}: more references make scores higher", matters=True)


def _version_differences(one: Signature, other: Signature) -> list[Difference]:
    if one.version == other.version:
        return []
    metric = one.spec.metric
    changes = changes_between(metric, one.spec.centering_kind, one.version, other.version)
    versions = f"version: {one.version} and {other.version}"
    if not changes:
        return [Difference(f"{versions}; nothing that moves these scores of {metric} changed between them", matters=False)]
    return [Difference(f"{versions}; {change.version}: {change.what}", matters=True) for change in changes]
