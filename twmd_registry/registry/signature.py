"""Signatures: the line that is published with a score, and from which the scorer can be built again: the metric, every
key that it uses in the order of `KEYS`, the number of references, the version. ``|``, ``:`` and ``%`` in a value (and
``@`` in a model's name, where it separates the fingerprint) are percent-encoded.
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
from twmd_registry.registry.bert_score import language_of
from twmd_registry.registry.hashes import LENGTH
from twmd_registry.registry.keys import KEYS, Value
from twmd_registry.registry.metric_spec import (
    HASH,
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
from twmd_registry.registry.values import Layers
from twmd_registry.version import __version__

VERSIONS: tuple[str, ...] = ("1.0.0",)
"""Oldest first; a test holds the last one equal to this package's, and all of them to CHANGELOG.md."""
CHANGES: tuple[tuple[str, Collection[MetricName], str], ...] = ()
"""Changes after which the same signature gives another score, oldest first: the first version with the change, the
metrics that it concerns, and the line of CHANGELOG.md.
"""

_SAFE = "/._-+ ,[]="


class _Trailing(NamedTuple):
    """A field after the keys: its short name, the pattern of its value, that in words, the word that is no number."""

    short: str
    pattern: str
    expected: str
    word: str | None = None


_COUNT = ("[1-9][0-9]{0,8}", "a number from 1")
_TRAILER = {
    "nrefs": _Trailing("nr", "var|0|[1-9][0-9]{0,8}", "a number from 0 or 'var'", "var"),
    "bs": _Trailing("bs", *_COUNT),
    "ar": _Trailing("ar", *_COUNT),
    "seed": _Trailing("rs", "none|[0-9]{1,20}", "a number or 'none'", "none"),
    "version": _Trailing("v", ".*", ""),
}
BLANK = "?"
MEMBERS = "members"
"""The key that is written in parentheses after the metric."""
LONGEST = 200_000
"""Characters of the longest text that is parsed as a signature."""


@dataclass(frozen=True, repr=False)
class Signature:
    """An applied specification, with facts that only scoring yields.

    Attributes:
        spec: The applied specification.
        nrefs: Number of references of every segment, ``var`` when it varies, 0 with ``against=source``; None before
            scoring.
        bs: Bootstrap resamples behind a confidence interval or a paired test; None without them, as SacreBLEU has it.
        ar: Trials of an approximate randomisation test, likewise.
        seed: Of either; ``none`` where SacreBLEU drew without one.
        version: The version of this package.
    """

    spec: AppliedSpec
    nrefs: int | Literal["var"] | None = None
    bs: int | None = None
    ar: int | None = None
    seed: int | Literal["none"] | None = None
    version: str = __version__

    def __post_init__(self) -> None:
        """Raise SpecError for a count that no signature can show."""
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
    """Write the metric and the keys; those that are missing or open, and those in `blank`, as ``?``."""
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
    """Return the signature of a preset before scoring, or with a number of references. A key that depends on a model
    (the layer and the model of a preset for any model) is shown as ``?``; such a line is not parsed.
    """
    is_open = preset.model is None and preset.metric is not MetricName.ENSEMBLE
    spec = apply_preset(preset, {"model": "any"} if is_open else {})
    counted = [] if nrefs is None else [f"nrefs:{nrefs}"]
    return "|".join([*_write_fields(spec, blank=["model"] if is_open else []), *counted, f"version:{__version__}"])


def canonical(preset: Preset) -> Signature:
    """Return the signature of a preset before scoring; raise SpecError where it depends on a model (the layer)."""
    return Signature(AppliedSpec.of(apply_preset(preset, {})))


_Field = tuple[str, int]
"""The text of a field's value as written, and the column where the field starts (from 1)."""


def parse_signature(text: str | Signature) -> Signature:
    """Read a signature, long or short.

    Args:
        text: The signature; a parsed one is returned unchanged.

    Returns:
        The parsed signature; ``parse_signature(str(signature)) == signature``.

    Raises:
        SignatureError: Not a signature; the message names the column.

    Warns:
        TwmdWarning: An older version wrote the signature; says what has changed since.
    """
    if isinstance(text, Signature):
        return text
    if not isinstance(text, str):
        raise SignatureError(f"a signature is a text, not {type(text).__name__}.")
    line = text.strip()
    if len(line) > LONGEST:
        raise SignatureError(f"column {LONGEST}: a signature is shorter than this text of {len(line)} characters.")
    if lone := re.search("[\ud800-\udfff]", line):
        _fail(lone.start() + 1, f"lone surrogate {lone[0]!a}: this text is not valid Unicode.")
    head, *rest = line.split("|")
    end = len(line) + 1
    if head in LEXICAL_NAMES.values():
        _fail(1, f"this signature is SacreBLEU's: numbers of {head} are verified in a record, by twmd verify RECORD.")
    with _at(1):
        name, members = split_name(head)
        facts = entry(name)
    metric = MetricName(name)
    fields = _split(rest, len(head) + 2, facts)
    if MEMBERS in fields:  # where the name must stand alone, as SacreBLEU writes it
        text, column = fields.pop(MEMBERS)
        if members is not None:
            _fail(column, "members are given after the metric already.")
        members = text
    values = {name: _read_value(name, *field) for name, field in fields.items() if name not in _TRAILER}
    if metric is MetricName.ENSEMBLE or members is not None:
        if metric is not MetricName.ENSEMBLE or not members:
            _fail(len(name) + 1, "an ensemble, and nothing else, has its members in parentheses: ensemble(...).")
        if re.search(r"=\?([@;,]|$)", members):  # a name that is a question mark is percent-encoded
            _fail(len(name) + 1, "a value of a member is a blank: fill in what was used.")
        with _at(len(name) + 1):
            spec = AppliedSpec(metric=metric, members=members)
    else:
        spec = _read_spec(metric, values, fields, end)
    version = _read_version(fields.get("version"), end)
    if version != VERSIONS[-1]:
        warn(f"this signature was written by version {version}; {describe_changes(spec, version)}")
    return Signature(spec, version=version, **_read_counts(fields))


def _read_spec(metric: MetricName, values: dict[str, Value], fields: dict[str, _Field], end: int) -> AppliedSpec:
    """Make the specification; an error names the column of the field that is wrong, or the end."""
    for name in required_keys(metric, values):
        if name not in fields:
            _fail(end, f"{name} is missing: the signature is cut off, edited, or not from this package.")
    fingerprint = _read_fingerprint(*fields["model"]) if "model" in fields else None
    keys: dict[str, Any] = {**values}
    if "layer" in values and Layers.parse(values["layer"]).is_open:
        request = f"layer:{values['layer']} is a request"
        _fail(fields["layer"][1], f"{request}: a signature says which layers were read.")
    for name in ("stopwords", "idf", "centering", "baseline"):
        value = str(values.get(name, ""))
        named = value.partition(":")[2] if name in {"centering", "idf"} else value
        parts = named.split("+") if name == "centering" else [named]
        is_packaged = name == "baseline" and language_of(value)  # a table of this package
        if named and not is_packaged and value != KEYS[name].neutral and not all(map(HASH.fullmatch, parts)):
            expected = f"a signature names it by its hash, {LENGTH} hexadecimal digits"
            _fail(fields[name][1], f"{value} names a file: {expected}.")
    with _at(end):
        return AppliedSpec(metric=metric, fingerprint=fingerprint, **keys)


def _fail(column: int, what: object, cause: BaseException | None = None) -> NoReturn:
    raise SignatureError(f"column {column}: {what}") from cause


@contextlib.contextmanager
def _at(column: int) -> Iterator[None]:
    """Turn a SpecError into the error of a signature at a column."""
    try:
        yield
    except SignatureError:
        raise
    except SpecError as error:
        _fail(column, error, error)


def _split(rest: list[str], column: int, facts: Metric) -> dict[str, _Field]:
    """Split fields by their keys, each of which occurs once and in order."""
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
            _fail(column, f"{name!r} comes twice or out of order: the order is {', '.join(order)}.")
        fields[name], last = (text, column), order.index(name)
        column += len(field) + 1
    return fields


def _read_value(name: str, text: str, column: int) -> Value:
    text = text.partition("@")[0] if name == "model" else text
    if text == BLANK:
        _fail(column, f"{name} is a blank: this line stands for a preset; fill in the model and the layer used.")
    try:
        unquoted = unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        _fail(column, f"{name}:{text} is not percent-encoded UTF-8.", error)
    with _at(column):
        return KEYS[name].parse(unquoted)


def _read_fingerprint(model: str, column: int) -> str | None:
    _, at, content = model.partition("@")
    if at and not HASH.fullmatch(content):
        _fail(column, f"@{content} is not the content of a model: expected {LENGTH} hexadecimal digits after @.")
    return content if at else None


def _read_counts(fields: dict[str, _Field]) -> dict[str, Any]:
    """Return the counts after the keys: numbers, or the word that stands for one."""
    counts = dict[str, Any]()
    for name, field in _TRAILER.items():
        if name != "version" and name in fields:
            text, column = fields[name]
            if not re.fullmatch(field.pattern, text):
                _fail(column, f"{name} is {field.expected}, not {text!r}.")
            counts[name] = text if text == field.word else int(text)
    return counts


def _read_version(field: _Field | None, end: int) -> str:
    if field is None:
        _fail(end, "version is missing: the signature is cut off or not from this package.")
    version, column = field
    if version not in VERSIONS:
        looks_newer = re.fullmatch(r"[0-9]+(\.[0-9]+){1,2}", version)
        hint = f"; if it is newer, install twmd-registry {version}" if looks_newer else ""
        _fail(column, f"version {version!r} is not known here (those are {', '.join(VERSIONS)}){hint}.")
    return version


def changes_between(spec: MetricSpec, one: str, other: str) -> list[str]:
    """Return what moved the scores of a specification, or of its members, between two versions in either order."""
    old, new = sorted((VERSIONS.index(one), VERSIONS.index(other)))
    metrics = {member.metric for member in spec.members_or_self}
    return [
        f"{version}: {what}"
        for version, concerned, what in CHANGES
        if old < VERSIONS.index(version) <= new and metrics & set(concerned)
    ]


def describe_changes(spec: MetricSpec, version: str) -> str:
    """Return what moved the scores of a specification since a version, as a sentence."""
    return (
        " ".join(changes_between(spec, version, __version__))
        or f"nothing that moves these scores of {spec.metric} has changed since {version}"
    )
