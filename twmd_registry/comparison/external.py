"""Scores from other programs (COMET, MetricX, an LLM judge), which cannot be verified."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from twmd_registry.comparison.cells import EXTERNAL
from twmd_registry.errors import InputError, SpecError, shown
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

GivenScores: TypeAlias = "Sequence[float] | Sequence[Sequence[float]] | Mapping[str, Sequence[float]] | ExternalScores"
"""Scores of one system, or of several, in order or by name."""


class ExternalScores(NamedTuple):
    """One metric's scores from another program.

    Attributes:
        name: The metric.
        scores: Per system, one score per segment; higher is better.
        sources: Name and sha256 of every file; for scores without a file, their own sha256.
    """

    name: str
    scores: tuple[tuple[float, ...], ...]
    sources: tuple[tuple[str, str], ...]

    @property
    def signature(self) -> str:
        """Stand-in for a signature: name, files, hashes, and a mark that the scores cannot be recomputed."""
        names = ",".join(quote(name) for name, _ in self.sources)
        return f"{EXTERNAL}{quote(self.name)}|from:{names}|sha256:{','.join(self.hashes)}|verifiable:no"

    @property
    def hashes(self) -> tuple[str, ...]:
        """The sha256 of every source."""
        return tuple(sha256 for _, sha256 in self.sources)


def external_scores(name: str, scores: GivenScores, systems: Sequence[str], segments: int) -> ExternalScores:
    """Check scores of systems.

    Raises:
        InputError: Names the metric, system and row.
    """
    check_name(name)
    if isinstance(scores, ExternalScores):
        return scores
    values = _plain(scores)
    if isinstance(values, Mapping):
        if unknown := [system for system in values if system not in systems]:
            raise InputError(f"scores of {name}: unknown system {unknown[0]!r}; the systems are {', '.join(systems)}.")
        if missing := [system for system in systems if system not in values]:
            raise InputError(f"scores of {name}: none for system {missing[0]!r}.")
        by_system = [values[system] for system in systems]
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        by_system = [values] if values and isinstance(values[0], Real) else [*values]
    else:
        raise InputError(f"scores of {name}: expected a list of numbers for each system, not {shown(values)}.")
    if len(by_system) != len(systems):
        raise InputError(f"scores of {name}: expected {len(systems)} systems, found {len(by_system)}.")
    checked = []
    for system, numbers in zip(systems, map(_plain, by_system), strict=True):
        check_scores(f"scores of {name}, system {system}", numbers, segments)
        checked.append(tuple(map(float, numbers)))
    digest = hashlib.sha256(json.dumps(checked).encode()).hexdigest()
    return ExternalScores(name, tuple(checked), (("Python", digest),))


def _plain(values: Any) -> Any:
    """Convert arrays, tensors and columns to lists, tables to mappings, and iterators to lists."""
    if hasattr(values, "columns"):
        return {name: values[name].tolist() for name in values.columns}
    if hasattr(values, "tolist"):
        return values.tolist()
    return [*values] if isinstance(values, Iterator) else values


def check_name(name: object) -> None:
    """Raise SpecError for an invalid name of another program's metric, or one of ours or SacreBLEU's."""
    if not isinstance(name, str) or not name or re.search(r"[|\s]", name):
        raise SpecError(f"scores of {name!r}: expected a name without blanks and |, such as COMET.")
    if name in {*MetricName, *LEXICAL_NAMES, *LEXICAL_NAMES.values()}:
        raise SpecError(f"scores of {name}: that metric is computed here: choose another name for the scores.")


def check_scores(where: str, numbers: Sequence[float], segments: int) -> None:
    """Check that there is one finite score per segment; raise InputError, prefixed by `where`, otherwise."""
    if len(numbers) != segments:
        raise InputError(f"{where}: expected one score per segment ({segments}), found {len(numbers)}.")
    for row, number in enumerate(numbers):
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not -sys.float_info.max <= number <= sys.float_info.max:
            raise InputError(f"{where}, row {row}: expected a finite number, not {shown(number)}.")
