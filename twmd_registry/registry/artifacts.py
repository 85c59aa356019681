"""The places of a signature's parts on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from twmd_registry.errors import SpecError
from twmd_registry.registry.spec import MetricSpec, members_or_self

PART_NAMES = ("model", "adapter", "background", "stopwords", "idf", "baseline")
"""Parts that a user can locate: the fields of `Parts`."""


@dataclass(frozen=True)
class Parts:
    """The user's own places of the parts of a specification.

    A signature is untrusted: the names in it are looked up among the packaged parts and on the Hub, never as paths.
    Paths come from here only, and their files must have the content that the signature names.

    Attributes:
        model: A folder or Hub id.
        adapter: A folder or Hub id.
        background: A mean-vector file.
        stopwords: A file of stop words.
        idf: A file of document frequencies.
        baseline: A file of baselines.
        signed: Hashes of the parts that any specification of the same record, command or ensemble signs. A part with
            the content of another specification is used there, and this one's part is looked up by its name.
    """

    model: str | None = None
    adapter: str | None = None
    background: str | None = None
    stopwords: str | None = None
    idf: str | None = None
    baseline: str | None = None
    signed: frozenset[str] = frozenset()


def check_parts(parts: Parts, specs: Iterable[MetricSpec]) -> Parts:
    """Return the parts for all of some signed specifications; raises SpecError for a part that none of them has."""
    known: dict[str, set[str]] = {name: set() for name in PART_NAMES}
    for own in (member for spec in specs for member in members_or_self(spec)):
        renamed = {"model": own.fingerprint or own.model, "idf": own.idf_file}
        for name in PART_NAMES:
            if value := renamed.get(name, getattr(own, name)):
                known[name].add(value.rpartition("@")[2])
        if own.source_background:
            known["background"].add(own.source_background)
    for name in PART_NAMES:
        value = getattr(parts, name)
        if value is not None and not known[name]:
            raise SpecError(
                f"{name}={value!r} has no place here: the signature names no {name} that could be looked for; "
                "what it says is fixed."
            )
    return replace(parts, signed=frozenset().union(*known.values()))
