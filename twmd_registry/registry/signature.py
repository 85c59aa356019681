"""Signatures: the line that is published with a score and that gives the scorer back.

``twmd|output:f1|model:sentence-transformers/all-MiniLM-L6-v2@53aa51172d14|layer:4|...|nrefs:1|version:0.1.0``

The metric first, then every key the metric uses in the order of `twmd_registry.registry.keys.KEYS`, then the
number of references and the version. The short form has short key names. ``|``, ``:`` and ``%`` inside a value
(and ``@`` inside a model's name, where it separates the fingerprint) are percent-encoded, so that a signature
splits in one way only.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from twmd_registry.errors import SignatureError, SpecError
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.spec import MetricSpec
from twmd_registry.version import __version__

_SAFE = "/._-+ ,[]="
_TRAILER = {"nrefs": "nr", "version": "v"}


@dataclass(frozen=True)
class Signature:
    """A specification as it was applied, with what is known only when texts have been scored.

    Attributes:
        spec: The applied specification.
        nrefs: Number of references of every segment, ``var`` when it varies, None before scoring.
        version: The version of this package.
    """

    spec: MetricSpec
    nrefs: str | None = None
    version: str = __version__

    def format(self, *, short: bool = False) -> str:
        """Write the signature.

        Args:
            short: Use the one- or two-letter key names.
        """
        fields = [str(self.spec.metric)]
        for name, value in self.spec.values().items():
            text = quote(KEYS[name].format(value), safe=_SAFE if name == "model" else _SAFE + "@")
            if name == "model" and self.spec.fingerprint:
                text += f"@{self.spec.fingerprint}"
            fields.append(f"{KEYS[name].short if short else name}:{text}")
        for name, trailing in (("nrefs", self.nrefs), ("version", self.version)):
            if trailing is not None:
                fields.append(f"{_TRAILER[name] if short else name}:{trailing}")
        return "|".join(fields)

    def __str__(self) -> str:
        """The long form."""
        return self.format()


def parse_signature(text: str) -> Signature:
    """Read a signature, long or short.

    Args:
        text: The signature.

    Returns:
        What it says; ``parse_signature(str(signature)) == signature``.

    Raises:
        SignatureError: Not a signature: unknown metric or key, a key twice or out of order, an impossible
            value, a key the metric needs and that is not there. The message names the column.
    """
    head, *fields = text.strip().split("|")
    try:
        facts = entry(head)
    except SpecError as error:
        raise SignatureError(f"column 1: {error}") from error
    by_short = {KEYS[name].short: name for name in facts.keys} | {short: name for name, short in _TRAILER.items()}
    order = [*facts.keys, *_TRAILER]
    column, last, found = len(head) + 2, -1, {}
    for field in fields:
        label, colon, value = field.partition(":")
        name = by_short.get(label, label)
        if not colon or not value or name not in order:
            raise SignatureError(f"column {column}: {field!r} is not one of this metric's key:value fields ({', '.join(order)}).")
        if order.index(name) <= last:
            raise SignatureError(f"column {column}: {name!r} comes twice or out of order.")
        found[name], last = (value, column), order.index(name)
        column += len(field) + 1
    return _build(MetricName(head), found)


def _build(metric: MetricName, found: dict[str, tuple[str, int]]) -> Signature:
    values: dict[str, object] = {}
    for name, (text, column) in found.items():
        if name in _TRAILER:
            continue
        value = text
        if name == "model":
            value, _, fingerprint = text.partition("@")
            values["fingerprint"] = fingerprint or None
        try:
            values[name] = KEYS[name].parse(unquote(value))
        except SpecError as error:
            raise SignatureError(f"column {column}: {error}") from error
    for name in ("model", "truncation", "dtype"):
        if name not in values:
            raise SignatureError(f"the signature has no {name}: it is cut off or was not written by this package.")
    nrefs = found.get("nrefs", (None, 0))[0]
    if nrefs is not None and nrefs != "var" and not nrefs.isdecimal():
        raise SignatureError(f"column {found['nrefs'][1]}: nrefs is a number or 'var', not {nrefs!r}.")
    if "version" not in found:
        raise SignatureError("the signature has no version: it is cut off or was not written by this package.")
    return Signature(MetricSpec(metric=metric, **values), nrefs, found["version"][0])  # type: ignore[arg-type]
