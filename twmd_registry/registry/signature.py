"""Signatures: the line published with a score, from which the scorer can be rebuilt.

It has the metric, every key that the metric uses in the order of `KEYS`, the number of references and the version.
``|``, ``:`` and ``%`` in a value are percent-encoded, and so is ``@`` in a model's name, where it separates the
fingerprint.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn
from urllib.parse import unquote

from twmd_registry.errors import SignatureError, SpecError
from twmd_registry.messages import warn
from twmd_registry.registry.keys import KEYS, Value
from twmd_registry.registry.metric_spec import (
    AppliedSpec,
    MetricSpec,
    required_keys,
    split_name,
    write_members,
    write_value,
)
from twmd_registry.registry.metrics import Metric, entry
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName
from twmd_registry.registry.presets import Preset
from twmd_registry.registry.spec import apply_preset
from twmd_registry.version import __version__

VERSIONS: tuple[str, ...] = ("1.0.0",)
"""Oldest first. A test compares the last one with this package's version, and all with CHANGELOG.md."""
CHANGES: tuple[tuple[str, Collection[MetricName], str], ...] = ()
"""Changes that moved scores under an equal signature, oldest first: version, metrics, and line of CHANGELOG.md."""

_SAFE = "/._-+ ,[]="


class _Trailing(NamedTuple):
    """A field after the keys: short name, pattern of its value, the pattern in words, and a word allowed as value."""

    short: str
    pattern: str
    expected: str
    word: str | None = None


_COUNT = ("[1-9][0-9]{0,8}", "a positive number")
_TRAILER = {
    "nrefs": _Trailing("nr", "var|0|[1-9][0-9]{0,8}", "a number from 0 or 'var'", "var"),
    "bs": _Trailing("bs", *_COUNT),
    "ar": _Trailing("ar", *_COUNT),
    "seed": _Trailing("rs", "none|[0-9]{1,20}", "a number or 'none'", "none"),
    "version": _Trailing("v", ".*", ""),
}
BLANK = "?"
MEMBERS = "members"
"""Key that is written in parentheses after the metric."""
MAX_CHARACTERS = 200_000
"""Longest text to parse as a signature."""


@dataclass(frozen=True, repr=False)
class Signature:
    """An applied specification, with facts that only scoring yields.

    Attributes:
        spec: The applied specification.
        nrefs: References per segment: ``var`` if the number varies, 0 with ``against=source``, None before scoring.
        bs: Bootstrap resamples of an interval or paired test; None without them, as in SacreBLEU.
        ar: Trials of an approximate randomisation test; None without it.
        seed: Seed of either; ``none`` if SacreBLEU drew without one.
        version: Version of this package.
    """

    spec: AppliedSpec
    nrefs: int | Literal["var"] | None = None
    bs: int | None = None
    ar: int | None = None
    seed: int | Literal["none"] | None = None
    version: str = __version__

    def __post_init__(self) -> None:
        """Raise SpecError for a request, and for an impossible count."""
        if not isinstance(self.spec, AppliedSpec):
            hint = "load(spec).signature, or AppliedSpec.of(spec) where it leaves nothing open"
            raise SpecError(f"a signature shows an applied specification, not a request: {hint}.")
        for name, field in _TRAILER.items():
            value = getattr(self, name)
            is_number = type(value) is int or (isinstance(value, str) and value == field.word)
            if name != "version" and value is not None and not (is_number and re.fullmatch(field.pattern, str(value))):
                raise SpecError(f"{name}={value!r} is not possible: expected {field.expected}.")

    def format(self, *, short: bool = False) -> str:
        """Write the signature.

        Args:
            short: Use the one- or two-letter key names.
        """
        fields = _write_fields(self.spec, short=short)
        for name, field in _TRAILER.items():
            trailing = getattr(self, name)
            if trailing is not None:
                fields.append(f"{field.short if short else name}:{trailing}")
        return "|".join(fields)

    def __str__(self) -> str:
        """Return the long form."""
        return self.format()

    __repr__ = __str__


def _write_fields(spec: MetricSpec, *, short: bool = False, blank: Collection[str] = ()) -> list[str]:
    """Write the metric and the keys; write ``?`` for keys that are missing, open, or in `blank`."""
    members = f"({write_members(spec.members, short=short)})" if spec.members else ""
    fields, known = [f"{spec.metric}{members}"], spec.values()
    needed = required_keys(spec.metric, known)
    for name, key in KEYS.items():
        if name == MEMBERS or (name not in known and name not in needed):
            continue
        is_open = name not in known or name in blank
        is_open |= name == "layer" and spec.layer is not None and spec.layer.is_open
        text = BLANK if is_open else write_value(name, known[name], _SAFE)
        if name == "model" and spec.fingerprint and not is_open:
            text += f"@{spec.fingerprint}"
        fields.append(f"{key.short if short else name}:{text}")
    return fields


def describe_preset(preset: Preset, nrefs: int | None = None) -> str:
    """Return the signature of a preset before scoring, optionally with a number of references.

    A key that depends on the model is shown as ``?``: the layer and model of a preset for any model. Such a line cannot
    be parsed.
    """
    is_open = preset.model is None and preset.metric is not MetricName.ENSEMBLE
    spec = apply_preset(preset, {"model": "any"} if is_open else {})
    counted = [] if nrefs is None else [f"nrefs:{nrefs}"]
    return "|".join([*_write_fields(spec, blank=["model"] if is_open else []), *counted, f"version:{__version__}"])


_Field = tuple[str, int]
"""A field's value as written, and the column at which the field starts (from 1)."""


def parse_signature(text: str | Signature) -> Signature:
    """Parse a signature, long or short.

    Args:
        text: The signature; a parsed one is returned unchanged.

    Returns:
        The parsed signature; ``parse_signature(str(signature)) == signature``.

    Raises:
        SignatureError: Not a signature; names the column.

    Warns:
        TwmdWarning: An older version wrote the signature; says what has changed since.
    """
    if isinstance(text, Signature):
        return text
    if not isinstance(text, str):
        raise SignatureError(f"expected a signature as text, not {type(text).__name__}.")
    line = text.strip()
    if len(line) > MAX_CHARACTERS:
        _fail(MAX_CHARACTERS, f"a signature is shorter than this text ({len(line)} characters).")
    if lone := re.search("[\ud800-\udfff]", line):
        _fail(lone.start() + 1, f"lone surrogate {lone[0]!a}: the text is not valid Unicode.")
    head, *rest = line.split("|")
    end = len(line) + 1
    if head in LEXICAL_NAMES.values():
        _fail(1, f"this signature is SacreBLEU's: verify {head} in a record, with twmd verify RECORD.")
    with _at(1):
        name, members = split_name(head)
        facts = entry(name)
    metric = MetricName(name)
    fields = _split(rest, len(head) + 2, facts)
    if MEMBERS in fields:  # SacreBLEU writes a name without parentheses
        text, column = fields.pop(MEMBERS)
        if members is not None:
            _fail(column, "members already follow the metric.")
        members = text
    values = {name: _read_value(name, *field) for name, field in fields.items() if name not in _TRAILER}
    if metric is MetricName.ENSEMBLE or members is not None:
        if metric is not MetricName.ENSEMBLE or not members:
            _fail(len(name) + 1, "expected members in parentheses after an ensemble, and only there: ensemble(...).")
        if re.search(r"=\?([@;,]|$)", members):  # a name that is a question mark is percent-encoded
            _fail(len(name) + 1, "a member's value is blank: fill in what was used.")
        with _at(len(name) + 1):
            spec = AppliedSpec(metric=metric, members=members)
    else:
        spec = _read_spec(metric, values, fields, end)
    version = _read_version(fields.get("version"), end)
    if version != VERSIONS[-1]:
        warn(f"this signature was written by version {version}; {describe_changes(spec, version)}")
    return Signature(spec, version=version, **_read_counts(fields))


def _read_spec(metric: MetricName, values: dict[str, Value], fields: dict[str, _Field], end: int) -> AppliedSpec:
    """Build the specification; an error names the column of the wrong field, or the end."""
    for name in required_keys(metric, values):
        if name not in fields:
            _fail(end, f"{name} is missing: the signature is cut off, edited, or not from this package.")
    fingerprint = fields["model"][0].partition("@")[2] if "model" in fields and "@" in fields["model"][0] else None
    keys: dict[str, Any] = {**values}
    with _at(end):
        return AppliedSpec(metric=metric, fingerprint=fingerprint, **keys)


def _fail(column: int, what: object, cause: BaseException | None = None) -> NoReturn:
    raise SignatureError(f"column {column}: {what}") from cause


@contextlib.contextmanager
def _at(column: int) -> Iterator[None]:
    """Turn a SpecError into a SignatureError at a column."""
    try:
        yield
    except SignatureError:
        raise
    except SpecError as error:
        _fail(column, error, error)


def _split(rest: list[str], column: int, facts: Metric) -> dict[str, _Field]:
    """Split fields by key; each key occurs at most once and in order."""
    short = {KEYS[name].short: name for name in facts.keys} | {form.short: name for name, form in _TRAILER.items()}
    order = [*facts.keys, *_TRAILER]
    fields: dict[str, _Field] = {}
    last = -1
    for field in rest:
        label, colon, text = field.partition(":")
        name = short.get(label, label)
        if not colon or not text or name not in order:
            _fail(column, f"{field!r} is not one of this metric's key:value fields ({', '.join(order)}).")
        if order.index(name) <= last:
            _fail(column, f"{name!r} is repeated or out of order: the order is {', '.join(order)}.")
        fields[name], last = (text, column), order.index(name)
        column += len(field) + 1
    return fields


def _read_value(name: str, text: str, column: int) -> Value:
    text = text.partition("@")[0] if name == "model" else text
    if text == BLANK:
        _fail(column, f"{name} is blank, because this line describes a preset: fill in the model and the layer.")
    try:
        unquoted = unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        _fail(column, f"{name}:{text} is not percent-encoded UTF-8.", error)
    with _at(column):
        return KEYS[name].parse(unquoted)


def _read_counts(fields: dict[str, _Field]) -> dict[str, Any]:
    """Return the counts after the keys, as numbers or words."""
    counts = dict[str, Any]()
    for name, field in _TRAILER.items():
        if name != "version" and name in fields:
            text, column = fields[name]
            if not re.fullmatch(field.pattern, text):
                _fail(column, f"{name}: expected {field.expected}, not {text!r}.")
            counts[name] = text if text == field.word else int(text)
    return counts


def _read_version(field: _Field | None, end: int) -> str:
    if field is None:
        _fail(end, "version is missing: the signature is cut off or not from this package.")
    version, column = field
    if version not in VERSIONS:
        looks_newer = re.fullmatch(r"[0-9]+(\.[0-9]+){1,2}", version)
        hint = f"; if it is newer, install twmd-registry {version}" if looks_newer else ""
        _fail(column, f"unknown version {version!r} (known: {', '.join(VERSIONS)}){hint}.")
    return version


def changes_between(spec: MetricSpec, one: str, other: str) -> list[str]:
    """Return what moved the scores of a specification or its members between two versions, in either order."""
    old, new = sorted((VERSIONS.index(one), VERSIONS.index(other)))
    metrics = {member.metric for member in spec.members_or_self}
    return [
        f"{version}: {what}"
        for version, concerned, what in CHANGES
        if old < VERSIONS.index(version) <= new and metrics & set(concerned)
    ]


def describe_changes(spec: MetricSpec, version: str) -> str:
    """Describe what moved the scores of a specification since a version, in a sentence."""
    nothing = f"nothing that moves these scores of {spec.metric} has changed since {version}"
    return " ".join(changes_between(spec, version, __version__)) or nothing
