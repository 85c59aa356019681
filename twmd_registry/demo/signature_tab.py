"""A signature, explained: every key with its meaning, its value, and whether it is the default."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from twmd_registry.errors import collect_warnings
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS, Key, Value
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
"""What is in a signature beside keys of a specification."""
YES, NO_DEFAULT = "yes", ""


class ExplainedField(NamedTuple):
    """One field of a signature.

    Attributes:
        key: Its name; a member's key has the member's number before it.
        value: What it says.
        meaning: What it chooses.
        default: ``yes``, ``no, VALUE``, or empty where there is no default; of the model that is named.
    """

    key: str
    value: str
    meaning: str
    default: str = NO_DEFAULT


class ExplainedSignature(NamedTuple):
    """What a signature says.

    Attributes:
        fields: Its fields in order; also a key that it leaves out, where the default is another than leaving it out.
        command: What scores by it again.
        notices: What a reader of it should know.
    """

    fields: tuple[ExplainedField, ...]
    command: str
    notices: tuple[str, ...]


def explain_signature(text: str) -> ExplainedSignature:
    """Say what every field of a signature means.

    Args:
        text: A signature, long or short.

    Raises:
        SignatureError: It is none; names the column.
    """
    with collect_warnings() as held:
        signature = parse_signature(text)
        fields = tuple(_fields(signature))
    return ExplainedSignature(
        fields, f"twmd score REF.txt -i HYP.txt -m {shlex.quote(str(signature))}", tuple(dict.fromkeys(held))
    )


def _fields(signature: Signature) -> Iterator[ExplainedField]:
    spec = signature.spec
    yield ExplainedField("metric", str(spec.metric), entry(spec.metric).about)
    if spec.members:
        for number, (weight, member) in enumerate(member_specs(spec), 1):
            yield ExplainedField(
                f"{number}", str(member.metric), f"{entry(member.metric).about} Its weight: {weight:g}."
            )
            yield from (one._replace(key=f"{number}. {one.key}") for one in _keys(member))
    else:
        yield from _keys(spec)
    for name, about in ABOUT.items():
        if name != CONTENT and (value := getattr(signature, name)) is not None:
            yield ExplainedField(name, value, about)


def _keys(spec: MetricSpec) -> Iterator[ExplainedField]:
    """The keys of one metric."""
    own = spec.values()
    usual = make_spec(spec.metric, model=spec.model).values() | {"model": EMBEDDED_MODEL}
    for name, key in KEYS.items():
        if name not in own and name not in usual:
            continue
        value, default = own.get(name, key.neutral), usual.get(name, key.neutral)
        if value is not None:
            yield ExplainedField(name, key.format(value), key.about, _comparison(key, value, default))
        if name == "model" and spec.fingerprint:
            yield ExplainedField(CONTENT, spec.fingerprint, ABOUT[CONTENT])


def _comparison(key: Key, value: Value, default: Value | None) -> str:
    """How a value compares with the default."""
    if default is None:
        return NO_DEFAULT
    return YES if value == default else f"no, {key.format(default)}"
