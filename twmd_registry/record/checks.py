"""Checks for continuous integration: no score is below a threshold or worse than in a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twmd_registry.comparison.cells import SystemScore
from twmd_registry.comparison.significance import MEAN_ROUNDING, p_value
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.engine.input_warnings import check_sample
from twmd_registry.errors import InputError
from twmd_registry.messages import warn
from twmd_registry.record.content import Record, RecordedSystem
from twmd_registry.registry.metric_spec import MetricSpec
from twmd_registry.registry.signature import parse_signature

TRIALS, _BLOCK = 10_000, 100
"""Trials of the test, and how many are drawn at once."""


class Check(NamedTuple):
    """A check of one system by one metric; `failure` is the reason if it fails, otherwise empty."""

    system: str
    requirement: str
    failure: str


def check_floor(comparison: SystemComparison, floor: float) -> list[Check]:
    """Check that every system scores at least `floor` by the first metric (at most, for TER)."""
    column = comparison.columns[0]
    checks = list[Check]()
    for system, cell in zip(comparison.systems, column.cells, strict=True):
        passed = cell.score <= floor if column.errors else cell.score >= floor
        side, other = ("at most", "above") if column.errors else ("at least", "below")
        failure = "" if passed else f"{system}: {column.name} is {cell.score:.4f}, {other} {floor:g}"
        checks.append(Check(system, f"{column.name} is {side} {floor:g}", failure))
    return checks


def check_not_worse(record: Record, baseline: Record, alpha: float, seed: int) -> list[Check]:
    """Check that no system is worse than in an earlier record, with every metric of this package that both contain.

    A system is compared with its namesake in the baseline, or with the only system there. It is worse if its mean
    score is lower and a one-sided paired randomisation of per-segment scores has ``p = (1 + trials with a difference as
    low) / (1 + trials) < alpha``. Differences up to `MEAN_ROUNDING` are ignored.
    """
    if baseline.edited:
        raise InputError("the baseline was edited after it was written: write it again with twmd score --record.")
    results = [result for system in record.systems for result in system.results]
    check_sample(min(len(result.scores) for result in results if result.is_ours))
    if others := ", ".join(dict.fromkeys(result.head for result in results if not result.is_ours)):
        warn(f"not compared with the baseline: {others}. Only this package's metrics are compared.")
    if record.references != baseline.references:
        raise InputError("the baseline has different references: score its systems again.")
    checks, by_name = list[Check](), {system.name: system for system in baseline.systems}
    for system in record.systems:
        before = by_name.get(system.name, baseline.systems[0])
        if system.name not in by_name and len(by_name) > 1:
            raise InputError(f"the baseline has no system {system.name}; it has {', '.join(by_name)}.")
        old, new = _by_settings(before), _by_settings(system)
        pairs = [(result, old[settings]) for settings, result in new.items() if settings in old]
        if not pairs:
            raise InputError(f"the baseline has no metric of {system.name} with the same settings.")
        for result, other in pairs:
            if len(result.scores) != len(other.scores):
                counts = f"{len(other.scores)} segments, {system.name} has {len(result.scores)}"
                raise InputError(f"the baseline's {before.name} has {counts}: score the same texts again.")
            difference, p = result.score - other.score, _randomise(result.scores, other.scores, seed)
            worse = f"{result.head} is {result.score:.4f}, {-difference:.4f} below the baseline's (p = {p:.4f})"
            failed = difference < 0 and p < alpha
            name = f"{result.head} is not worse than {before.name}'s in the baseline (alpha {alpha:g})"
            checks.append(Check(system.name, name, f"{system.name}: {worse}" if failed else ""))
    return checks


def _by_settings(system: RecordedSystem) -> dict[tuple[MetricSpec, int | str | None], SystemScore]:
    """Return our results by specification and number of references."""
    results = [(parse_signature(result.signature), result) for result in system.results if result.is_ours]
    return {(signature.spec, signature.nrefs): result for signature, result in results}


def _randomise(scores: Sequence[float], other: Sequence[float], seed: int) -> float:
    """Return the p of a mean difference as low as the observed one, for two lists of scores of the same segments."""
    changes = np.subtract(scores, other)
    rng, mean = np.random.default_rng(seed), float(changes.mean())
    signs = (rng.choice((-1.0, 1.0), size=(_BLOCK, len(changes))) for _ in range(TRIALS // _BLOCK))
    differences = np.concatenate([block @ changes for block in signs]) / len(changes)  # (trials,)
    return p_value(-differences, -mean, MEAN_ROUNDING)
