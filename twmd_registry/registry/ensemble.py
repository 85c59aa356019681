"""The members of an ensemble as text: ``stsscore,2*bertscore_centered;layer=5,sbert``.

Members are separated by commas, a member's keys by semicolons; a number and a star before a member is its weight.
Inside a value
these signs, and those that separate fields of a signature, are percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.keys import KEYS, LARGEST, SMALLEST
from twmd_registry.registry.names import MetricName

if TYPE_CHECKING:
    from twmd_registry.registry.spec import MetricSpec

_SAFE = "/._-+[]"
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_LONG = {key.short: name for name, key in KEYS.items()}
_FORM = "expected METRIC;key=value;..., or WEIGHT*METRIC, between commas (',' inside a value is written %2C)"


class EnsembleMember(NamedTuple):
    """One member.

    Attributes:
        weight: How much it counts; positive.
        metric: Its metric.
        content: What stands behind its model's name and an ``@``: content, or in what a user writes a revision.
        keys: Its keys as text.
    """

    weight: float
    metric: MetricName
    content: str | None
    keys: dict[str, str]


def split_name(text: str) -> tuple[str, str | None]:
    """A metric's name and the members in parentheses after it, None where there are none.

    >>> split_name("ensemble(stsscore,sbert)"), split_name("twmd")
    (('ensemble', 'stsscore,sbert'), ('twmd', None))

    Raises:
        SpecError: The parenthesis is not closed at the end.
    """
    name, opened, rest = text.partition("(")
    if opened and not rest.endswith(")"):
        raise SpecError(f"{text!r} opens a parenthesis and does not end with ')'; expected METRIC(member,member,...).")
    return (name, rest.removesuffix(")")) if opened else (text, None)


def with_members(text: str, keys: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A metric's name, and its keys with the members that stand in parentheses behind it.

    Raises:
        SpecError: Members stand there and among the keys.
    """
    name, members = split_name(text)
    if members is None:
        return name, dict(keys)
    if keys.get("members") is not None:
        raise SpecError(f"members are given twice: in {text!r}, and as members={keys['members']!r}.")
    return name, {**keys, "members": members}


def read_members(text: str) -> tuple[EnsembleMember, ...]:
    """Take a list of members apart; keys and values are not looked at.

    Raises:
        SpecError: It is no such list; names the member.
    """
    return tuple(_read(part.strip(), number) for number, part in enumerate(text.split(","), 1))


def _read(text: str, number: int) -> EnsembleMember:
    head, *fields = text.split(";")
    before, star, name = head.rpartition("*")
    metric, weight = name.strip(), before.strip() if star else "1"
    if metric.partition("(")[0] == MetricName.ENSEMBLE:
        raise SpecError(f"member {number} of the ensemble, {text!r}: an ensemble is no member; {_FORM}.")
    if metric not in set(MetricName) - {MetricName.ENSEMBLE}:
        raise SpecError(
            f"member {number} of the ensemble, {text!r}: "
            f"{menu(metric, [m for m in MetricName if m is not MetricName.ENSEMBLE])}; {_FORM}."
        )
    if not _NUMBER.fullmatch(weight) or not SMALLEST <= float(weight) <= LARGEST:
        raise SpecError(
            f"member {number} of the ensemble: a weight is a number from {SMALLEST:g} to {LARGEST:g}, not {weight!r}."
        )
    keys: dict[str, str] = {}
    content = None
    for field in fields:
        label, equals, value = (part.strip() for part in field.partition("="))
        key = _LONG.get(label, label)
        if not equals or not value or key in keys:
            raise SpecError(f"member {number} of the ensemble: {field!r} is no key=value, or comes twice; {_FORM}.")
        if key == "model":
            value, at, after = value.rpartition("@")
            value, content = (value, after) if at else (after, None)
        try:
            keys[key] = unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise SpecError(f"member {number} of the ensemble: {field!r} is not percent-encoded UTF-8.") from error
    return EnsembleMember(float(weight), MetricName(metric), content, keys)


def write_members(members: Iterable[tuple[float, MetricSpec]], *, short: bool = False) -> str:
    """The canonical text of weighted specifications; with the short names of keys if asked for."""
    return ",".join(_write(weight, spec, short=short) for weight, spec in members)


def _write(weight: float, spec: MetricSpec, *, short: bool) -> str:
    fields = [str(spec.metric) if weight == 1 else f"{repr(weight).removesuffix('.0')}*{spec.metric}"]
    for name, value in spec.values().items():
        text = quote(KEYS[name].format(value), safe=_SAFE if name == "model" else _SAFE + "@")
        fields.append(
            f"{KEYS[name].short if short else name}={text}"
            + (f"@{spec.fingerprint}" if name == "model" and spec.fingerprint else "")
        )
    return ";".join(fields)
