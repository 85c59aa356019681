"""A scorer's arguments other than the specification: `RunOptions`, which change no score, and `LocalFiles`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from twmd_registry.errors import SpecError, shown
from twmd_registry.messages import menu
from twmd_registry.registry.keys import KEYS, Place, SpecKeys
from twmd_registry.registry.metric_spec import MetricSpec

_UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Device, batch size and cache of a computation.

    Attributes:
        device: ``auto`` (CUDA, then MPS, then CPU) or a torch device name such as ``cuda:1``.
        batch_tokens: Largest number of padded tokens per encoder batch; None picks one for the device. Halved
            automatically when memory runs out.
        keep_references: Largest memory for encoded references between calls, in bytes or as ``"256MB"`` (kB, MB, GB).
            A second call with the same references then encodes only the predictions. All scorers of a model share the
            memory, up to the largest of their limits. It is freed with the model. Regression models, which read both
            texts together, ignore it.
        any_language: Whether to score texts in unsupported scripts, with a warning instead of an error.
        drop_missing: Whether to leave out rows that lack a text (None, NaN, an empty CSV cell), with a warning instead
            of an error.
    """

    device: str = "auto"
    batch_tokens: int | None = None
    keep_references: int = 0
    any_language: bool = False
    drop_missing: bool = False

    def __post_init__(self) -> None:
        """Raise SpecError for a value of the wrong type."""
        if type(self.device).__module__ == "torch":
            object.__setattr__(self, "device", str(self.device))
        if not isinstance(self.device, str):
            raise SpecError(f'device={shown(self.device)} is not possible: expected a text, such as "cuda:1".')
        size = self.batch_tokens
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise SpecError(f"batch_tokens={shown(size)} is not possible: expected a positive integer.")
        for name in ("any_language", "drop_missing"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"{name}={shown(getattr(self, name))} is not possible: expected True or False.")
        object.__setattr__(self, "keep_references", _read_bytes("keep_references", self.keep_references))


def _read_bytes(name: str, value: object) -> int:
    """Read a number of bytes; raise SpecError for anything else."""
    text = value if isinstance(value, str) else shown(value) if type(value) is int else ""
    match = re.fullmatch(rf"([0-9]{{1,15}}(?:\.[0-9]{{1,15}})?) ?({'|'.join(_UNITS)})", text)
    if match is None:
        expected = 'a non-negative number of bytes, or one with kB, MB or GB ("256MB")'
        raise SpecError(f"{name}={shown(value)} is not possible: expected {expected}.")
    return int(float(match[1]) * _UNITS[match[2]])


class RunKeys(TypedDict, total=False):
    """The fields of `RunOptions` as keywords; None means "not given"."""

    device: str | None
    batch_tokens: int | None
    keep_references: int | str | None
    any_language: bool | None
    drop_missing: bool | None


class MetricKeys(SpecKeys, RunKeys, total=False):
    """Keyword arguments of `load`: keys of a specification and run options; None means "not given"."""


class PartKeys(RunKeys, total=False):
    """Keyword arguments of `Scorer.from_signature`: paths of the signature's files, and run options."""

    model: Place | None
    adapter: Place | None
    background: Place | None
    stopwords: Place | None
    idf: Place | None
    baseline: Place | None


OPTION_NAMES = tuple(field.name for field in fields(RunOptions))


PARAMETERS = ("metric", "preset", "sources", "progress")
"""Parameters of functions that take keys as keywords; a misspelt parameter arrives among the keys."""


def split_options(arguments: dict[str, Any], menu_of_keys: tuple[str, ...]) -> tuple[RunOptions, dict[str, Any]]:
    """Split keyword arguments into run options and specification keys, whose values are checked later.

    Raises:
        SpecError: An unknown name; lists `menu_of_keys`, the keys that the metric uses.
    """
    options = {name: value for name, value in arguments.items() if name in OPTION_NAMES and value is not None}
    keys = {name: value for name, value in arguments.items() if name not in OPTION_NAMES}
    for name in keys:
        if name == "preset":
            where = "load(metric, preset), evaluate.load(metric, preset) or --preset"
            raise SpecError(f"preset is not a key: pass it to {where}.")
        if name in ("sources", "progress"):
            raise SpecError(f"{name} is not a key: pass it to score, as in load(metric).score({name}=...).")
        if name not in (*menu_of_keys, *KEYS):
            raise SpecError(f"unknown key {name!r}; {menu(name, (*menu_of_keys, *OPTION_NAMES, *PARAMETERS))}.")
    return RunOptions(**options), keys


PART_NAMES = ("model", "adapter", "background", "stopwords", "idf", "baseline")
"""Files that a user can locate: the fields of `LocalFiles`."""


@dataclass(frozen=True)
class LocalFiles:
    """Local paths of a specification's files.

    A signature is untrusted: its names are looked up among packaged files and on the Hub, never as paths. Paths come
    only from here, and their files must have the content that the signature names.

    Attributes:
        model: A folder or Hub id.
        adapter: A folder or Hub id.
        background: A mean-vector file.
        stopwords: A file of stop words.
        idf: A file of document frequencies.
        baseline: A file of baselines.
        signed: Hashes of the files that any specification of the same record, command or ensemble names. If a local
            file belongs to another of these specifications, this one's file is looked up by name.
    """

    model: str | None = None
    adapter: str | None = None
    background: str | None = None
    stopwords: str | None = None
    idf: str | None = None
    baseline: str | None = None
    signed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Write paths as texts; raise SpecError for anything else."""
        for name in PART_NAMES:
            path = getattr(self, name)
            if not isinstance(path, str | os.PathLike | None):
                raise SpecError(f"{name}={path!r:.40} is not possible: expected a path.")
            object.__setattr__(self, name, None if path is None else os.fspath(path))


def signed_hashes(specs: Iterable[MetricSpec]) -> dict[str, set[str]]:
    """Return the hashes of the files of signed specifications, by kind; for an unsigned model, its name."""
    known: dict[str, set[str]] = {name: set() for name in PART_NAMES}
    for member in (member for spec in specs for member in spec.members_or_self):
        known["background"].update(member.centering.means)
        named = {"model": member.fingerprint or member.model, "idf": member.idf.table if member.idf else None}
        named |= {"adapter": member.adapter, "stopwords": member.stopwords, "baseline": member.baseline}
        for name, value in named.items():
            if value:
                known[name].add(value.rpartition("@")[2])
    return known


def resolve_local_files(local_files: LocalFiles, specs: Iterable[MetricSpec]) -> LocalFiles:
    """Add the hashes of signed specifications to local files; raise SpecError for a file that none of them names."""
    known = signed_hashes(specs)
    for name in PART_NAMES:
        value = getattr(local_files, name)
        if value is not None and not known[name]:
            raise SpecError(f"{name}={value!r} cannot be used: the signature names no {name}, and it is fixed.")
    return replace(local_files, signed=frozenset().union(*known.values()))
