"""Signatures: the line that is published with a score, and from which the scorer can be built again: the metric, every
key that it uses in the order of `KEYS`, the number of references, the version. ``|``, ``:`` and ``%`` in a value (and
``@`` in a model's name, where it separates the fingerprint) are percent-encoded.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

from twmd_registry.errors import SignatureError, SpecError
from twmd_registry.messages import warn
from twmd_registry.registry.bert_score import language_of
from twmd_registry.registry.hashes import LENGTH
from twmd_registry.registry.keys import KEYS, Value
from twmd_registry.registry.members import split_name, write_members, write_value
from twmd_registry.registry.metrics import Metric, entry
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName
from twmd_registry.registry.presets import Preset
from twmd_registry.registry.spec import (
    MetricSpec,
    apply_preset,
    check_keys_together,
    member_specs,
    members_or_self,
    required_keys,
    without_neutral,
)
from twmd_registry.version import __version__

VERSIONS: tuple[str, ...] = ("1.0.0",)
"""Oldest first; a test holds the last one equal to this package's, and all of them to CHANGELOG.md."""
CHANGES: tuple[tuple[str, Collection[MetricName], str], ...] = ()
"""Changes after which the same signature gives another score, oldest first: the first version with the change, the
metrics that it concerns, and the line of CHANGELOG.md.
"""

_SAFE = "/._-+ ,[]="
_COUNT = (r"[1-9][0-9]{0,8}", "a number from 1")
_TRAILER = {
    "nrefs": ("nr", r"var|0|[1-9][0-9]{0,8}", "a number from 0 or 'var'"),
    "bs": ("bs", *_COUNT),
    "ar": ("ar", *_COUNT),
    "seed": ("rs", r"none|[0-9]{1,20}", "a number or 'none'"),
    "version": ("v", r".*", ""),
}
"""The fields after the keys: short name, pattern of the value, and its meaning."""
_HASH = re.compile(rf"[0-9a-f]{{{LENGTH}}}")
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
        seed: Of either.
        version: The version of this package.
    """

    spec: MetricSpec
    nrefs: str | None = None
    bs: str | None = None
    ar: str | None = None
    seed: str | None = None
    version: str = __version__

    def format(self, *, short: bool = False) -> str:
        """Write the signature.

        A key that the metric needs and that depends on a model (the layer and the model of a preset for any model,
        ``last:5``) is shown as ``?``; such a line stands for the preset and is not parsed.

        Args:
            short: Use the one- or two-letter key names.
        """
        members = write_members(member_specs(self.spec), short=short) if self.spec.members else None
        fields = [f"{self.spec.metric}({members})" if members else str(self.spec.metric)]
        known = self.spec.values()
        needed = set(required_keys(self.spec))
        for name in KEYS:
            if name == MEMBERS or (name not in known and name not in needed):
                continue
            is_settled = name in known and not is_request(name, known[name])
            text = write_value(name, known[name], _SAFE) if is_settled else BLANK
            if name == "model" and self.spec.fingerprint:
                text += f"@{self.spec.fingerprint}"
            fields.append(f"{KEYS[name].short if short else name}:{text}")
        for name, (short_name, *_) in _TRAILER.items():
            trailing = getattr(self, name)
            if trailing is not None:
                fields.append(f"{short_name if short else name}:{trailing}")
        return "|".join(fields)

    def __str__(self) -> str:
        """Return the long form."""
        return self.format()

    __repr__ = __str__


def canonical(preset: Preset) -> Signature:
    """Return the signature of a preset before scoring; a model that it leaves open, or a layer, is shown as ``?``."""
    if preset.model is not None or MEMBERS in preset.keys:
        return Signature(apply_preset(preset, {}))
    return Signature(apply_preset(preset, {"model": "any"}).replace(model=None))


def is_request(name: str, value: Value) -> bool:
    """Return whether a value depends on the model: ``layer=last:5``."""
    return name == "layer" and str(value).startswith("last")


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
    fingerprint = _read_fingerprint(*fields["model"]) if "model" in fields else None
    spec = MetricSpec(metric=metric, fingerprint=fingerprint, **without_neutral(values))  # type: ignore[arg-type]
    if metric is MetricName.ENSEMBLE or members is not None:
        spec = spec.replace(members=_read_members(metric, members, len(name) + 1))
    _check_whole(spec, fields, end)
    version = _read_version(fields.get("version"), end)
    if version != VERSIONS[-1]:
        warn(f"this signature was written by version {version}; {describe_changes(spec, version)}")
    return Signature(spec, **{name: _read_trailing(name, *fields[name]) for name in _TRAILER if name in fields})


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
    short = {KEYS[name].short: name for name in facts.keys} | {form[0]: name for name, form in _TRAILER.items()}
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
        value = KEYS[name].parse(unquoted)
    _check_settled(name, value, column)
    return value


def _check_settled(name: str, value: Value, column: int) -> None:
    """Refuse a value that depends on a model, or names a file on a machine."""
    named = str(value).partition(":")[2] if name in {"centering", "idf"} else str(value)
    parts = named.split("+") if name == "centering" else [named]
    is_fitted = name in {"centering", "idf", "stopwords", "baseline"}
    is_fitted = is_fitted and not (name == "baseline" and language_of(str(value)))  # a table of this package
    if is_fitted and named and value != KEYS[name].neutral and not all(map(_HASH.fullmatch, parts)):
        _fail(column, f"{value} names a file: a signature names it by its hash, {LENGTH} hexadecimal digits.")
    if is_request(name, value):
        _fail(column, f"layer:{value} is a request: a signature says which layers were read.")


def _read_members(metric: MetricName, members: str | None, column: int) -> str:
    """Read the members of an ensemble, each of them complete."""
    if metric is not MetricName.ENSEMBLE or not members:
        _fail(column, "an ensemble, and nothing else, has its members in parentheses: ensemble(...).")
    with _at(column):
        specs = member_specs(MetricSpec(metric=metric, members=members))
    for number, (_, spec) in enumerate(specs, 1):
        if missing := [name for name in required_keys(spec) if getattr(spec, name) is None]:
            lacks = f"member {number} of the ensemble, {spec.metric}, lacks {', '.join(missing)}"
            _fail(column, f"{lacks}: the signature is edited, or cut off.")
        if spec.fingerprint is not None:
            _read_fingerprint(f"@{spec.fingerprint}", column)
        for name, value in spec.values().items():
            if value == BLANK:
                _fail(column, f"{name} of member {number} is a blank: fill in what was used.")
            _check_settled(name, value, column)
    return write_members(specs)


def _read_fingerprint(model: str, column: int) -> str | None:
    _, at, content = model.partition("@")
    if at and not _HASH.fullmatch(content):
        _fail(column, f"@{content} is not the content of a model: expected {LENGTH} hexadecimal digits after @.")
    return content if at else None


def _check_whole(spec: MetricSpec, fields: dict[str, _Field], end: int) -> None:
    """Refuse a signature that lacks a key, or whose values exclude each other."""
    for name in required_keys(spec):
        if name not in fields and name != MEMBERS:
            _fail(end, f"{name} is missing: the signature is cut off, edited, or not from this package.")
    with _at(end):
        check_keys_together(spec)


def _read_trailing(name: str, text: str, column: int) -> str:
    _, pattern, expected = _TRAILER[name]
    if not re.fullmatch(pattern, text):
        _fail(column, f"{name} is {expected}, not {text!r}.")
    return text


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
    metrics = {member.metric for member in members_or_self(spec)}
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
