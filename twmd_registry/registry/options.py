"""What a scorer takes beside a specification: `RunOptions`, which change no score, and the places of `LocalFiles`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from twmd_registry.errors import SpecError
from twmd_registry.messages import menu
from twmd_registry.registry.keys import KEYS, Place, SpecKeys
from twmd_registry.registry.metric_spec import MetricSpec

_UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Device, batch size and cache of a computation.

    Attributes:
        device: ``auto`` (CUDA, then MPS, then CPU) or a torch device name such as ``cuda:1``.
        batch_tokens: Most padded tokens that go through the encoder at once; None picks a number that suits the device.
            Halved automatically when memory runs out.
        keep_references: Most main memory for encoded references between calls: a number of bytes, or ``"256MB"`` (kB,
            MB, GB). With it, a second call with the same references encodes the predictions only. All scorers of a
            model share the memory, up to the largest of their limits; it is freed with the model. It does nothing for a
            regression model, which reads both texts at once.
        any_language: Score texts in unsupported scripts; warn instead of failing.
        drop_missing: Leave out rows that lack a text (None, NaN, an empty cell of CSV); warn instead of failing.
    """

    device: str = "auto"
    batch_tokens: int | None = None
    keep_references: int = 0
    any_language: bool = False
    drop_missing: bool = False

    def __post_init__(self) -> None:
        """Raise SpecError where a value is of another kind than its field."""
        size = self.batch_tokens
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise SpecError(f"batch_tokens={size!r} is not possible: expected a whole number from 1.")
        for name in ("any_language", "drop_missing"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"{name}={getattr(self, name)!r} is not possible: expected True or False.")
        object.__setattr__(self, "keep_references", _bytes("keep_references", self.keep_references))


def _bytes(name: str, given: object) -> int:
    """Read a number of bytes; raises SpecError."""
    match = re.fullmatch(rf"(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})", str(given)) if type(given) in {int, str} else None
    if match is None:
        expected = 'a number of bytes from 0, or one with kB, MB or GB ("256MB")'
        raise SpecError(f"{name}={given!r} is not possible: expected {expected}.")
    return int(float(match[1]) * _UNITS[match[2]])


class RunKeys(TypedDict, total=False):
    """The fields of `RunOptions` as keywords; None means "not given"."""

    device: str | None
    batch_tokens: int | None
    keep_references: int | str | None
    any_language: bool | None
    drop_missing: bool | None


class MetricKeys(SpecKeys, RunKeys, total=False):
    """What `load` takes as keywords: the keys of a specification and run options; None means "not given"."""


class PartKeys(RunKeys, total=False):
    """What `Scorer.from_signature` takes as keywords: places of the signature's parts, and run options."""

    model: Place | None
    adapter: Place | None
    background: Place | None
    stopwords: Place | None
    idf: Place | None
    baseline: Place | None


OPTION_NAMES = tuple(field.name for field in fields(RunOptions))


PARAMETERS = ("metric", "preset", "sources", "progress")
"""Parameters of the functions that take keys as keywords: a misspelt one arrives among the keys."""


def split_options(given: dict[str, Any], menu_of_keys: tuple[str, ...]) -> tuple[RunOptions, dict[str, Any]]:
    """Split what a user gave into run options and specification keys, whose values are checked where the metric is
    known. Raises SpecError for a name that is neither, with `menu_of_keys`, those that the metric uses.
    """
    options = {name: value for name, value in given.items() if name in OPTION_NAMES and value is not None}
    keys = {name: value for name, value in given.items() if name not in OPTION_NAMES}
    for name in keys:
        if name == "preset":
            where = "load(metric, preset), evaluate.load(metric, preset) or by --preset"
            raise SpecError(f"a preset is no key: name it in {where}.")
        if name not in (*menu_of_keys, *KEYS):
            raise SpecError(f"unknown key {name!r}; {menu(name, (*menu_of_keys, *OPTION_NAMES, *PARAMETERS))}.")
    return RunOptions(**options), keys


PART_NAMES = ("model", "adapter", "background", "stopwords", "idf", "baseline")
"""Parts that a user can locate: the fields of `LocalFiles`."""


@dataclass(frozen=True)
class LocalFiles:
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


def signed_hashes(specs: Iterable[MetricSpec]) -> dict[str, set[str]]:
    """Return the hashes of the parts of some signed specifications, by kind; of an unsigned model, its name."""
    known: dict[str, set[str]] = {name: set() for name in PART_NAMES}
    for each in (member for spec in specs for member in spec.members_or_self):
        known["background"].update(each.centering.means)
        named = {"model": each.fingerprint or each.model, "idf": each.idf.table if each.idf else None}
        named |= {"adapter": each.adapter, "stopwords": each.stopwords, "baseline": each.baseline}
        for name, value in named.items():
            if value:
                known[name].add(value.rpartition("@")[2])
    return known


def resolve_local_files(local_files: LocalFiles, specs: Iterable[MetricSpec]) -> LocalFiles:
    """Return the parts for all of some signed specifications; raises SpecError for a part that none of them has."""
    known = signed_hashes(specs)
    for name in PART_NAMES:
        value = getattr(local_files, name)
        if value is not None and not known[name]:
            fixed = f"the signature names no {name} that could be looked for; what it says is fixed"
            raise SpecError(f"{name}={value!r} has no place here: {fixed}.")
    return replace(local_files, signed=frozenset().union(*known.values()))
