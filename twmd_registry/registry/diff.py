"""Differences between signatures, whether their scores are comparable, and labels that tell metrics apart."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.signature import Signature, changes_between, parse_signature

MAX_LABEL = 48
"""Characters of a label's keys beyond which labels have only the keys that tell the settings apart."""


class Difference(NamedTuple):
    """A difference in words, and whether it rules out comparing scores; None if the signatures cannot tell."""

    what: str
    matters: bool | None


class SignatureComparison(NamedTuple):
    """All differences between two signatures; empty if they are equal."""

    differences: tuple[Difference, ...]

    @property
    def comparable(self) -> bool:
        """Whether scores with these signatures measure the same, as far as the signatures can tell."""
        return not any(matters for _, matters in self.differences)

    @property
    def certain(self) -> bool:
        """Whether the signatures can tell."""
        return not any(matters is None for _, matters in self.differences)


def compare_signatures(first: str | Signature, second: str | Signature) -> SignatureComparison:
    """Compare two signatures of any versions, key by key (ensembles: member by member).

    Returns:
        Their differences, and whether each matters. Different metrics are the only difference reported.

    Raises:
        SignatureError: As for `parse_signature`, which may also warn.
    """
    return SignatureComparison(tuple(_differences(parse_signature(first), parse_signature(second))))


def _differences(first: Signature, second: Signature) -> Iterator[Difference]:
    a, b = first.spec, second.spec
    if a.metric is not b.metric:
        yield Difference(f"metric: {a.metric} and {b.metric} are different metrics", matters=True)
        return
    yield from _member_differences(a, b) if a.members and b.members else _spec_differences(a, b)
    if first.nrefs != second.nrefs:
        matters = first.nrefs is not None and second.nrefs is not None
        what = f"only one was written after scoring (nrefs:{first.nrefs or second.nrefs})"
        if matters:
            what = f"{first.nrefs} and {second.nrefs}: more references make scores higher"
        yield Difference(f"nrefs: {what}", matters)
    for name in ("bs", "ar", "seed"):
        before, after = getattr(first, name), getattr(second, name)
        if before != after:
            reason = "resampling: it moves intervals and p-values, not scores"
            yield Difference(f"{name}: {before or 'none'} and {after or 'none'} ({reason})", matters=False)
    if first.version != second.version:
        versions = f"version: {first.version} and {second.version}"
        changes = changes_between(a, first.version, second.version)
        for what in changes or [f"nothing that moves these scores of {a.metric} changed between them"]:
            yield Difference(f"{versions}; {what}", matters=bool(changes))


def _spec_differences(a: MetricSpec, b: MetricSpec) -> Iterator[Difference]:
    yield from _model_differences(a, b)
    first, second = a.texts(), b.texts()
    for name in KEYS:
        if name not in {"model", "revision", "dtype"} and first.get(name) != second.get(name):
            values = " and ".join(side.get(name, "none") for side in (first, second))
            yield Difference(f"{name}: {values} ({KEYS[name].about})", matters=True)
    if a.dtype != b.dtype:
        rounding = "scores agree only up to the encoder's rounding, which may exceed the difference of systems"
        yield Difference(f"dtype: {a.dtype} and {b.dtype}: {rounding}", matters=True)


def _member_differences(a: MetricSpec, b: MetricSpec) -> Iterator[Difference]:
    metrics = [[str(member.spec.metric) for member in side.members] for side in (a, b)]
    if metrics[0] != metrics[1]:
        what = f"members: {', '.join(metrics[0])} and {', '.join(metrics[1])}"
        yield Difference(what, matters=True)
        return
    weights = [[member.weight for member in side.members] for side in (a, b)]
    if weights[0] != weights[1]:
        shown = " and ".join(":".join(f"{weight:g}" for weight in side) for side in weights)
        yield Difference(f"weights: {shown}", matters=True)
    for number, (member, counterpart) in enumerate(zip(a.members_or_self, b.members_or_self, strict=True), 1):
        for what, matters in _spec_differences(member, counterpart):
            yield Difference(f"member {number}, {member.metric}: {what}", matters)


def _model_differences(a: MetricSpec, b: MetricSpec) -> Iterator[Difference]:
    names, revisions = ((getattr(a, key), getattr(b, key)) for key in ("model", "revision"))
    named = f"model: {names[0]} and {names[1]}"
    revised = f"revision: {revisions[0] or 'none'} and {revisions[1] or 'none'}"
    if a.fingerprint and b.fingerprint:
        if a.fingerprint != b.fingerprint:
            yield Difference(f"{named} with contents @{a.fingerprint} and @{b.fingerprint}", matters=True)
        elif names[0] != names[1] or revisions[0] != revisions[1]:
            what = named if names[0] != names[1] else revised
            yield Difference(f"{what}, with the same content (@{a.fingerprint})", matters=False)
    elif names[0] != names[1]:
        yield Difference(named, matters=True)
    elif all(revisions) and revisions[0] != revisions[1]:
        yield Difference(f"{revised} of {a.model}", matters=True)
    else:
        what = f"model: one signature does not name the content of {a.model}, which may differ"
        yield Difference(what, matters=None)


def labels_of(specs: Sequence[MetricSpec]) -> list[str]:
    """Label applied specifications by metric, differing keys (``twmd layer=6``) or, if equal, a number."""
    texts = [spec.texts() for spec in specs]
    for spec, values in zip(specs, texts, strict=True):
        if spec.fingerprint:
            values["model"] += f"@{spec.fingerprint}"
    for name in ("model", "adapter"):
        _shorten([values for values in texts if name in values], name)
    labels = list[str]()
    members = _member_labels(specs)
    for spec, values in zip(specs, texts, strict=True):
        others = [text for other, text in zip(specs, texts, strict=True) if other.metric == spec.metric]
        differing = _differing(values, others)
        if any(sum(len(f" {name}={text[name]}") for name in _differing(text, others)) > MAX_LABEL for text in others):
            differing = _fewest(values, others, differing)
        keys = "".join(f" {name}={values[name]}" for name in differing)
        labels.append(f"{spec.metric}({members[spec]})" if differing and spec.members else f"{spec.metric}{keys}")
    return [
        label if label not in labels[:i] else f"{label}#{labels[: i + 1].count(label)}"
        for i, label in enumerate(labels)
    ]


def _shorten(texts: Sequence[dict[str, str]], name: str) -> None:
    """Leave out folders and hashes of a key's values, if distinct values stay distinct."""
    for pattern in (r".*/(?=[^/])", "@.*"):
        short = {values[name]: re.sub(pattern, "", values[name]) for values in texts}
        if len(set(short.values())) == len(short) > 1:
            for values in texts:
                values[name] = short[values[name]]


def _differing(values: dict[str, str], others: Sequence[dict[str, str]]) -> list[str]:
    differing = [name for name in values if any(values[name] != other.get(name) for other in others)]
    if "layer" in differing and len({text["aggregation"] for text in others if "aggregation" in text}) == 1:
        return [name for name in differing if name != "aggregation"]  # only a single layer has none
    return differing


def _fewest(values: dict[str, str], others: Sequence[dict[str, str]], differing: Sequence[str]) -> list[str]:
    """Return the fewest keys that tell a setting from all others that differ from it."""
    rivals = [text for text in others if any(text.get(name) != values.get(name) for name in differing)]
    for number in range(1, len(differing)):
        for names in itertools.combinations(differing, number):
            if all(any(text.get(name) != values[name] for name in names) for text in rivals):
                return list(names)
    return list(differing)


def _member_labels(specs: Sequence[MetricSpec]) -> dict[MetricSpec, str]:
    """Label the members of every ensemble like the metrics of a comparison."""
    ensembles = [spec for spec in specs if spec.members]
    members = list(dict.fromkeys(member for spec in ensembles for member in spec.members_or_self))
    labels = dict(zip(members, labels_of(members), strict=True)) if members else {}
    return {
        spec: ",".join(
            labels[member.spec] if member.weight == 1 else f"{member.weight:g}*{labels[member.spec]}"
            for member in spec.members
        )
        for spec in ensembles
    }
