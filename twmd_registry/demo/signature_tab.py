"""A signature, explained: every key with its meaning, its value, and whether it is the default."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TypeAlias

from twmd_registry.errors import collect_warnings
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import EMBEDDED_MODEL
from twmd_registry.registry.signature import parse_signature
from twmd_registry.registry.spec import MetricSpec, make_spec, member_specs

HEADERS = ("key", "value", "meaning", "default?")
ABOUT = {
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
    """Explain every field of a signature, long or short; raises SignatureError for another text.

    Returns the fields in order, including a key that the signature omits where its default is another than its neutral
    value; the command that scores by the signature again; notices.
    """
    with collect_warnings() as warnings:
        signature = parse_signature(text)
        spec = signature.spec
        fields = [("metric", str(spec.metric), entry(spec.metric).about, "")]
        for number, (weight, member) in enumerate(member_specs(spec) if spec.members else (), 1):
            about = f"{entry(member.metric).about} Its weight: {weight:g}."
            fields.append((str(number), str(member.metric), about, ""))
            fields += [(f"{number}. {key}", *rest) for key, *rest in _explain_keys(member)]  # type: ignore[misc]
        fields += [] if spec.members else _explain_keys(spec)
    values = {name: getattr(signature, name) for name in ABOUT}
    fields += [(name, value, ABOUT[name], "") for name, value in values.items() if value is not None]
    return fields, f"twmd score REF.txt -i HYP.txt -m {shlex.quote(str(signature))}", list(dict.fromkeys(warnings))


def _explain_keys(spec: MetricSpec) -> Iterator[Field]:
    values = spec.values()
    defaults = make_spec(spec.metric, model=spec.model).values() | {"model": EMBEDDED_MODEL}
    for name, key in KEYS.items():
        value, default = values.get(name, key.neutral), defaults.get(name, key.neutral)
        if value is not None and (name in values or name in defaults):
            comparison = "" if default is None else "yes" if value == default else f"no, {key.format(default)}"
            yield name, key.format(value), key.about, comparison
        if name == "model" and spec.fingerprint:
            yield "content", spec.fingerprint, "sha256 of the model's weights, configuration and vocabulary, cut", ""
