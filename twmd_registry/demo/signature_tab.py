"""A signature, explained: every key with its meaning, its value, and whether it is the default."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TypeAlias

from twmd_registry.errors import collect_warnings
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import MetricSpec, make_spec, member_specs

HEADERS = ("key", "value", "meaning", "default?")
CONTENT = "content"
ABOUT = {
    CONTENT: "sha256 of the model's weights, configuration and vocabulary, cut short",
    "nrefs": "references of every segment; var when their number varies",
    "bs": "bootstrap resamples behind an interval or a test",
    "ar": "trials of an approximate randomisation test",
    "seed": "of the resampling",
    "version": "of this package, when it was scored",
}
"""Fields of a signature beside the keys of a specification."""
Field: TypeAlias = tuple[str, str, str, str]
"""Texts for `HEADERS`; the last is ``yes``, ``no, VALUE``, or empty where there is no default of the named model."""


def explain_signature(text: str) -> tuple[list[Field], str, list[str]]:
    """Explain every field of a signature.

    Args:
        text: A signature, long or short.

    Returns:
        The fields in order, including a key that the signature omits where its default is another than its neutral
        value; the command that scores by the signature again; notices.

    Raises:
        SignatureError: It is no signature; names the column.
    """
    with collect_warnings() as held:
        signature = parse_signature(text)
        fields = list(_fields(signature))
    return fields, f"twmd score REF.txt -i HYP.txt -m {shlex.quote(str(signature))}", list(dict.fromkeys(held))


def _fields(signature: Signature) -> Iterator[Field]:
    spec = signature.spec
    yield "metric", str(spec.metric), entry(spec.metric).about, ""
    for number, (weight, member) in enumerate(member_specs(spec) if spec.members else (), 1):
        yield str(number), str(member.metric), f"{entry(member.metric).about} Its weight: {weight:g}.", ""
        yield from ((f"{number}. {name}", *rest) for name, *rest in _keys(member))  # type: ignore[misc]
    if not spec.members:
        yield from _keys(spec)
    for name, about in ABOUT.items():
        if name != CONTENT and (value := getattr(signature, name)) is not None:
            yield name, value, about, ""


def _keys(spec: MetricSpec) -> Iterator[Field]:
    own = spec.values()
    usual = make_spec(spec.metric, model=spec.model).values() | {"model": EMBEDDED_MODEL}
    for name, key in KEYS.items():
        if name not in own and name not in usual:
            continue
        value, default = own.get(name, key.neutral), usual.get(name, key.neutral)
        if value is not None:
            compared = "" if default is None else "yes" if value == default else f"no, {key.format(default)}"
            yield name, key.format(value), key.about, compared
        if name == "model" and spec.fingerprint:
            yield CONTENT, spec.fingerprint, ABOUT[CONTENT], ""
