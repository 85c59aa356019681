"""What two signatures do not share, in words, and whether their numbers may be compared."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import MetricSpec, member_specs
from twmd_registry.registry.versions import changes_between


class Matter(StrEnum):
    """Whether numbers may be compared in spite of a difference."""

    YES = "it matters"
    NO = "it does not matter"
    UNKNOWN = "nobody can tell"


class SignatureDifference(NamedTuple):
    """One difference, in words."""

    what: str
    matters: Matter


class SignatureComparison(NamedTuple):
    """Everything that two signatures do not share; nothing when they are the same."""

    differences: tuple[SignatureDifference, ...]

    @property
    def comparable(self) -> bool:
        """Whether numbers with these signatures measure the same thing, as far as the signatures can tell."""
        return not any(difference.matters is Matter.YES for difference in self.differences)

    @property
    def certain(self) -> bool:
        """Whether the signatures can tell."""
        return not any(difference.matters is Matter.UNKNOWN for difference in self.differences)


def compare(one: str | Signature, other: str | Signature) -> SignatureComparison:
    """Compare two signatures, key by key (of ensembles: member by member).

    Args:
        one: A signature: the line, or one that is parsed already.
        other: Another, written by any version.

    Returns:
        What they do not share, and whether it matters; only that the metrics are others, where they are.

    Raises:
        SignatureError: As for `parse_signature`.

    Warns:
        TwmdWarning: As for `parse_signature`.
    """
    one, other = parse_signature(one), parse_signature(other)
    a, b = one.spec, other.spec
    if a.metric is not b.metric:
        return SignatureComparison(
            (SignatureDifference(f"metric: {a.metric} and {b.metric} are different metrics", Matter.YES),)
        )
    found = _member_differences(a, b) if a.members and b.members else _spec_differences(a, b)
    if one.nrefs != other.nrefs:
        found.append(_nrefs_difference(one.nrefs, other.nrefs))
    for name in ("bs", "ar", "seed"):
        if (values_of := (getattr(one, name), getattr(other, name))) and values_of[0] != values_of[1]:
            shown = " and ".join(value or "none" for value in values_of)
            found.append(
                SignatureDifference(
                    f"{name}: {shown} (resampling: it moves intervals and p-values, not scores)", Matter.NO
                )
            )
    return SignatureComparison((*found, *_version_differences(one, other)))


def _spec_differences(a: MetricSpec, b: MetricSpec) -> list[SignatureDifference]:
    found = _model_differences(a, b)
    first, second = a.values(), b.values()
    for name in KEYS:
        if name in {"model", "revision", "dtype"} or first.get(name) == second.get(name):
            continue
        values = " and ".join(KEYS[name].format(side[name]) if name in side else "none" for side in (first, second))
        found.append(SignatureDifference(f"{name}: {values} ({KEYS[name].about})", Matter.YES))
    if a.dtype != b.dtype:
        what = (
            f"dtype: {a.dtype} and {b.dtype}: equal only up to the encoder's rounding, which may be more than "
            "systems differ by"
        )
        found.append(SignatureDifference(what, Matter.YES))
    return found


def _member_differences(a: MetricSpec, b: MetricSpec) -> list[SignatureDifference]:
    """What two ensembles do not share, member by member."""
    first, second = member_specs(a), member_specs(b)
    metrics = [[str(spec.metric) for _, spec in side] for side in (first, second)]
    if metrics[0] != metrics[1]:
        return [SignatureDifference(f"members: {', '.join(metrics[0])} and {', '.join(metrics[1])}", Matter.YES)]
    found = []
    weights = [[weight for weight, _ in side] for side in (first, second)]
    if weights[0] != weights[1]:
        shown = " and ".join(":".join(f"{weight:g}" for weight in own) for own in weights)
        shares = [[weight / sum(own) for weight in own] for own in weights]
        same = all(math.isclose(x, y) for x, y in zip(*shares, strict=True))
        found.append(
            SignatureDifference(
                f"weights: {shown}{', the same shares' if same else ''}", Matter.NO if same else Matter.YES
            )
        )
    for number, ((_, one), (_, other)) in enumerate(zip(first, second, strict=True), 1):
        where = f"member {number}, {one.metric}: "
        found += [difference._replace(what=where + difference.what) for difference in _spec_differences(one, other)]
    return found


def _model_differences(a: MetricSpec, b: MetricSpec) -> list[SignatureDifference]:
    if a.fingerprint and b.fingerprint:
        return _content_differences(a, b)
    if a.model != b.model:
        return [SignatureDifference(f"model: {a.model} and {b.model}", Matter.YES)]
    if a.revision and b.revision and a.revision != b.revision:
        return [SignatureDifference(f"revision: {a.revision} and {b.revision} of {a.model}", Matter.YES)]
    who = "neither says" if not a.fingerprint and not b.fingerprint else "only one says"
    return [
        SignatureDifference(
            f"model: {who} which content of {a.model} was used: it may not have been the same", Matter.UNKNOWN
        )
    ]


def _content_differences(a: MetricSpec, b: MetricSpec) -> list[SignatureDifference]:
    if a.fingerprint != b.fingerprint:
        names = f"two contents of {a.model}" if a.model == b.model else f"{a.model} and {b.model}, with the contents"
        return [SignatureDifference(f"model: {names}: @{a.fingerprint} and @{b.fingerprint}", Matter.YES)]
    if a.model != b.model:
        return [
            SignatureDifference(
                f"model: {a.model} and {b.model} are two names of the same content (@{a.fingerprint})", Matter.NO
            )
        ]
    if a.revision != b.revision:
        return [
            SignatureDifference(
                (
                    f"revision: {a.revision or 'none'} and {b.revision or 'none'}, with the same content "
                    f"(@{a.fingerprint})"
                ),
                Matter.NO,
            )
        ]
    return []


def _nrefs_difference(one: str | None, other: str | None) -> SignatureDifference:
    if one is None or other is None:
        return SignatureDifference(
            f"nrefs: only one of them was written after scoring (nrefs:{one or other})", Matter.NO
        )
    return SignatureDifference(f"nrefs: {one} and {other}: more references make scores higher", Matter.YES)


def _version_differences(one: Signature, other: Signature) -> list[SignatureDifference]:
    if one.version == other.version:
        return []
    changes = changes_between(one.spec, one.version, other.version)
    versions = f"version: {one.version} and {other.version}"
    if not changes:
        return [
            SignatureDifference(
                f"{versions}; nothing that moves these scores of {one.spec.metric} changed between them", Matter.NO
            )
        ]
    return [SignatureDifference(f"{versions}; {change}", Matter.YES) for change in changes]
