"""The members of an ensemble as text: ``stsscore,2*bertscore_centered;layer=5,sbert``, values percent-encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.keys import KEYS, LARGEST, NUMBER, SMALLEST, MetricSpec, Value
from twmd_registry.registry.names import MetricName

_SAFE = "/._-+[]"
MAX_MEMBERS = 32
"""Most members of an ensemble: its signature can be read whatever their names are."""
_COMMA = "(write ',' in a value as %2C)"
_EXPECTED = f"expected [WEIGHT*]METRIC[;key=value...], with commas between members {_COMMA}"


class EnsembleMember(NamedTuple):
    """A member as it is written; `content` is the text after the ``@`` of its model: content, or a user's revision."""

    weight: float
    metric: MetricName
    content: str | None
    keys: dict[str, str]


def split_name(text: str) -> tuple[str, str | None]:
    """Split a metric's name from the members in parentheses after it; None where there are none.

    >>> split_name("ensemble(stsscore,sbert)"), split_name("twmd")
    (('ensemble', 'stsscore,sbert'), ('twmd', None))
    """
    name, opened, rest = text.partition("(")
    if opened and not rest.endswith(")"):
        raise SpecError(f"{text!r} opens a parenthesis and does not end with ')'; expected METRIC(member,member,...).")
    return (name, rest.removesuffix(")")) if opened else (text, None)


def merge_members(text: str, keys: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a metric's name without members in parentheses, and its keys with these as ``members``."""
    name, members = split_name(text)
    if members is None:
        return name, dict(keys)
    if keys.get("members") is not None:
        raise SpecError(f"members are given twice: in {text!r} and as members={keys['members']!r}; give them once.")
    return name, {**keys, "members": members}


def read_members(text: str) -> tuple[EnsembleMember, ...]:
    """Split a list of members (SpecError names the malformed one); keys and values are not checked."""
    parts = text.split(",")
    if len(parts) > MAX_MEMBERS:
        raise SpecError(f"an ensemble has at most {MAX_MEMBERS} members, not {len(parts)}.")
    return tuple(
        _read_member(part.strip(), f"member {n} of the ensemble", _EXPECTED) for n, part in enumerate(parts, 1)
    )


def check_metric_with_keys(text: str) -> None:
    """Raise SpecError for a text that is not one metric with its keys, written as a member without a weight."""
    if (number := len(text.split(","))) > 1:
        raise SpecError(f"expected one metric with its keys, not {number}: {text} {_COMMA}.")
    if _read_member(text.strip(), "a metric with keys", f"expected METRIC;key=value;... {_COMMA}").weight != 1:
        raise SpecError(f"{text!r}: only members of an ensemble have a weight; leave it out.")


def _read_member(text: str, where: str, expected: str) -> EnsembleMember:
    head, *fields = text.split(";")
    before, star, name = head.rpartition("*")
    metric, weight = name.strip(), before.strip() if star else "1"
    choices = [name for name in MetricName if name != MetricName.ENSEMBLE]
    if metric.partition("(")[0] == MetricName.ENSEMBLE:
        raise SpecError(f"{where}, {text!r}: an ensemble cannot be a member; {expected}.")
    if metric not in choices:
        raise SpecError(f"{where}, {text!r}: {menu(metric, choices)}; {expected}.")
    if not NUMBER.fullmatch(weight) or not SMALLEST <= float(weight) <= LARGEST:
        raise SpecError(f"{where}: a weight is a number from {SMALLEST:g} to {LARGEST:g}, not {weight!r}.")
    long_names = {key.short: name for name, key in KEYS.items()}
    keys: dict[str, str] = {}
    revision = None
    for field in fields:
        label, equals, value = (part.strip() for part in field.partition("="))
        key = long_names.get(label, label)
        if not equals or not value or key in keys:
            hint = " Separate metrics by blanks, each a word of its own." if label in choices else ""
            raise SpecError(f"{where}: {field!r} is not key=value, or repeats a key; {expected}.{hint}")
        if key == "model":
            value, at, after = value.rpartition("@")
            value, revision = (value, after) if at else (after, None)
        try:
            keys[key] = unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise SpecError(f"{where}: {field!r} is not percent-encoded UTF-8; write '%' as %25.") from error
    return EnsembleMember(float(weight), MetricName(metric), revision, keys)


def write_members(members: Iterable[tuple[float, MetricSpec]], *, short: bool = False) -> str:
    """Write weighted specifications in their canonical form, with the short names of keys if asked for."""
    written = []
    for weight, spec in members:
        fields = [str(spec.metric) if weight == 1 else f"{repr(weight).removesuffix('.0')}*{spec.metric}"]
        for name, value in spec.values().items():
            content = f"@{spec.fingerprint}" if name == "model" and spec.fingerprint else ""
            fields.append(f"{KEYS[name].short if short else name}={write_value(name, value, _SAFE)}{content}")
        written.append(";".join(fields))
    return ",".join(written)


def write_value(name: str, value: Value, safe: str) -> str:
    """Write a value percent-encoded but for `safe`; in the model's, ``@`` separates the fingerprint."""
    return quote(KEYS[name].format(value), safe=safe if name == "model" else safe + "@")
