"""What the TWMD paper reads from its figures, and whether the same can be read from figures measured here.

The paper says what it sees in words ("robust", "consistently better"); what counts as that is defined here, function by function.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from twmd_registry.errors import InputError
from twmd_registry.metaeval.diagnose import NEGLIGIBLE, Diagnosis, Property
from twmd_registry.metaeval.sweeps import SweepLine, SweepPoint
from twmd_registry.metaeval.word_pairs import Similarity
from twmd_registry.registry.names import Centering

COOLEST, WARMEST = 0.01, 0.15
"""Temperatures over which a range is taken, inclusive: up to the paper's highest; below, transport is all but greedy matching."""
EXCEPTION = 0.01
"""The temperature at which the paper itself finds ten sweeps slightly better than one (a footnote of section 6.2)."""
CLOSE = 0.01
"""A marginal error up to this counts as converged."""
_NAMED = 3
"""How many places a sentence names; the figure's data have them all."""
VERDICTS = {True: "holds", False: "does not hold", None: "cannot be decided"}
COMPARED = {
    (Centering.DIMENSION, Property.ZERO): False,
    (Centering.DIMENSION, Property.DECREASING): False,
    (Centering.SENTENCE, Property.ZERO): True,
    (Centering.SENTENCE, Property.INCREASING): False,
    (Centering.CORPUS, Property.ZERO): True,
    (Centering.CORPUS, Property.DECREASING): True,
    (Centering.CORPUS, Property.INCREASING): True,
}
"""What the paper says of Figure 2 (section 5): whether a centering has a property."""


class FigureStatement(NamedTuple):
    """What the paper reads from a figure.

    Attributes:
        holds: Whether it can be read here; None where something that decides it is undefined.
        sentence: The claim, the verdict, and the numbers that decide it.
    """

    holds: bool | None
    sentence: str


def high_baseline(found: Diagnosis) -> FigureStatement:
    """Judge Figure 1: without centering random words are alike, and more so in the last layer.

    Holds when their mean cosine is farther than `NEGLIGIBLE` from zero in some layer, and higher in the last layer than in the first by
    more than `NEGLIGIBLE`.

    Raises:
        InputError: The diagnosis has no row without centering.
    """
    means = [row.similarities[Similarity.RANDOM].mean for row in found.rows if row.centering is Centering.NONE]
    if not means:
        raise InputError("expected a diagnosis with rows without centering, and there is none.")
    known = not any(map(math.isnan, means))
    holds = max(map(abs, means)) > NEGLIGIBLE and means[-1] - means[0] > NEGLIGIBLE if known else None
    evidence = f"their mean cosine is {means[0]:.3f} in the first layer and {means[-1]:.3f} in the last" if known else "a mean cosine is undefined"
    return _reading("two random words are alike without centering, and more so in higher layers", holds, [evidence])


def compare_centerings(found: Diagnosis) -> FigureStatement:
    """Judge Figure 2: corpus centering has the three properties, the other two lack what the paper says they lack (`COMPARED`).

    Raises:
        InputError: The diagnosis lacks one of the three centerings.
    """
    here = {(one.centering, one.property): one.holds for one in found.verdicts}
    if missing := sorted({centering for centering, _ in COMPARED} - {centering for centering, _ in here}):
        raise InputError(f"expected a diagnosis under {', '.join(missing)} centering as well.")
    other = [place for place, expected in COMPARED.items() if here[place] is not None and here[place] is not expected]
    undefined = [place for place in COMPARED if here[place] is None]
    parts = [f"{len(COMPARED) - len(other) - len(undefined)} of the {len(COMPARED)} verdicts are the paper's"]
    parts += [f"{centering} centering here {'has' if here[centering, name] else 'does not have'} {name}" for centering, name in other]
    parts += [f"{name} is undefined under {centering} centering" for centering, name in undefined]
    claim = "corpus centering alone has the three properties, while centering by dimension lacks the first two and by sentence the third"
    return _reading(claim, False if other else None if undefined else True, parts)


def robust_against_temperature(measured: Sequence[SweepPoint]) -> FigureStatement:
    """Judge Figure 3: batch centering makes twmd and trwmd robust against temperature.

    A metric's sensitivity is the range of its Pearson correlations (highest minus lowest) over temperatures from `COOLEST` to `WARMEST`. It holds
    when that of each metric is smaller with batch centering than without.

    Args:
        measured: Every metric without centering and with the batch's, at the same temperatures, on one data set.

    Raises:
        InputError: Nothing is measured, a metric lacks one of the two, or fewer than two temperatures are in the range.
    """
    holds, evidence = True, []
    for everywhere in _with_and_without(measured, "temperature"):
        plain, batch = ([one for one in own if COOLEST <= (one.spec.temperature or 0.0) <= WARMEST] for own in everywhere)
        metric = everywhere[0][0].spec.metric
        if len(plain) < 2:
            raise InputError(f"{metric}: expected at least two temperatures from {COOLEST} to {WARMEST}, got {len(plain)}.")
        holds &= _range(batch) < _range(plain)
        evidence.append(f"{metric}'s r varies by {_range(batch):.4f} with it and by {_range(plain):.4f} without")
    claim = f"batch centering makes twmd and trwmd less sensitive to temperature (range of r, T from {COOLEST} to {WARMEST})"
    return _reading(claim, holds, evidence)


def one_sweep_is_best(measured: Sequence[SweepPoint]) -> FigureStatement:
    """Judge Figure 4, left: no other number of sweeps has a higher Pearson correlation than one.

    It must hold at every temperature but `EXCEPTION`, where the paper finds that it does not; what is found there is said.

    Args:
        measured: One metric at several temperatures, one and more sweeps at each.

    Raises:
        InputError: Nothing is measured, or a temperature lacks one sweep, or has nothing else.
    """
    holds, evidence = True, []
    for temperature, own in _grouped(measured, "temperature"):
        by_sweeps = {one.spec.iterations: one.pearson for one in own}
        if 1 not in by_sweeps or len(by_sweeps) < 2:
            raise InputError(f"T={temperature}: expected one sweep and other numbers of sweeps, got {list(by_sweeps)}.")
        first, best = by_sweeps[1], max(by_sweeps, key=lambda sweeps: by_sweeps[sweeps])
        wins = first >= by_sweeps[best]
        holds &= wins or temperature == EXCEPTION
        evidence.append(f"T={temperature:g}: r = {first:.4f}, " + ("the best" if wins else f"{best} sweeps reach {by_sweeps[best]:.4f}"))
    return _reading(f"one Sinkhorn sweep agrees best with people at every temperature but T={EXCEPTION:g}", holds, evidence)


def cool_plans_converge_slower(errors: Sequence[SweepLine]) -> FigureStatement:
    """Judge Figure 4, right: the lower the temperature, the more sweeps a plan needs.

    A plan has converged when its marginal error is at most `CLOSE`. It holds when no temperature needs more sweeps for that than a lower one, and
    the highest needs fewer than the lowest; it cannot be decided when none gets there.

    Args:
        errors: Marginal errors by number of sweeps, a line per temperature, the lowest temperature first.
    """
    needed = [min(line.x[line.y <= CLOSE].tolist(), default=math.inf) for line in errors]
    ordered = all(cooler >= warmer for cooler, warmer in itertools.pairwise(needed)) and needed[0] > needed[-1]
    evidence = [
        f"{line.name} {f'gets there by sweep {sweeps:g}' if sweeps < math.inf else f'is at {line.y[-1]:.3f} after {line.x[-1]:g}'}"
        for line, sweeps in zip(errors, needed, strict=True)
    ]
    claim = f"low temperatures need more sweeps (to a marginal error of {CLOSE})"
    return _reading(claim, None if min(needed) == math.inf else ordered, evidence)


def centering_helps(measured: Sequence[SweepPoint]) -> FigureStatement:
    """Judge Figures 5 and 6: every metric agrees better with people in every layer when words are batch-centered.

    Args:
        measured: Every metric in the same layers without centering and with the batch's.

    Raises:
        InputError: Nothing is measured, or a metric lacks one of the two somewhere.
    """
    pairs = [(p, b) for plain, batch in _with_and_without(measured, "layer") for p, b in zip(plain, batch, strict=True)]
    below = [f"{p.spec.metric} in layer {p.spec.layer} ({b.pearson:.4f} against {p.pearson:.4f})" for p, b in pairs if b.pearson <= p.pearson]
    more = f" and {len(below) - _NAMED} more" if len(below) > _NAMED else ""
    evidence = [f"it does so in {len(pairs) - len(below)} of {len(pairs)} places", *([f"not so {', '.join(below[:_NAMED])}{more}"] if below else [])]
    return _reading("batch centering raises the correlation of every metric in every layer", not below, evidence)


def _range(measured: Sequence[SweepPoint]) -> float:
    values = [one.pearson for one in measured]
    return max(values) - min(values)


def _with_and_without(measured: Iterable[SweepPoint], varied: str) -> Iterator[tuple[list[SweepPoint], list[SweepPoint]]]:
    """By metric, what is measured without centering and with the batch's, along one key.

    Raises:
        InputError: The key's values differ.
    """
    for metric, own in _grouped(measured, "metric"):
        plain, batch = (
            sorted((one for one in own if one.spec.centering_kind is kind), key=lambda one: getattr(one.spec, varied))
            for kind in (Centering.NONE, Centering.BATCH)
        )
        if not plain or [getattr(one.spec, varied) for one in plain] != [getattr(one.spec, varied) for one in batch]:
            raise InputError(f"{metric}: expected it without centering and with the batch's at the same values of {varied}.")
        yield plain, batch


def _grouped(measured: Iterable[SweepPoint], key: str) -> Iterator[tuple[Any, list[SweepPoint]]]:
    """What is measured by the values of a key, in their order.

    Raises:
        InputError: Nothing is.
    """
    groups: dict[Any, list[SweepPoint]] = {}
    for one in measured:
        groups.setdefault(getattr(one.spec, key), []).append(one)
    if not groups:
        raise InputError("there is nothing to judge: nothing was measured.")
    yield from groups.items()


def _reading(claim: str, holds: bool | None, evidence: Sequence[str]) -> FigureStatement:
    return FigureStatement(holds, f"The paper reads that {claim}: this {VERDICTS[holds]} here ({'; '.join(evidence)}).")
