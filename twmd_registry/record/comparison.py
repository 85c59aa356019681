"""`SystemComparison`: several systems by several metrics, ours and others', with what the tests say."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.engine.result import Counts, ScoreSet
from twmd_registry.registry.names import Output


class SystemScore(NamedTuple):
    """One system by one metric.

    Attributes:
        score: The corpus score, on the metric's own scale.
        sides: Corpus precision, recall and f1 of a two-sided metric.
        segments: One score per segment; none for a metric that is not ours, where they were not asked for.
        counts: What is known of the texts; None for a metric that is not ours.
        mean: Mean of the bootstrap resamples, None without them.
        ci: Half the width of their central 95%, None without them.
        p_value: Of the difference to the first system; None for that system, and without a test.
        resampled: The corpus score of every bootstrap resample, on the metric's own scale; empty unless asked for.
            Resample i draws the same segments for every system and metric.
    """

    score: float
    sides: dict[Output, float]
    segments: tuple[float, ...]
    counts: Counts | None = None
    mean: float | None = None
    ci: float | None = None
    p_value: float | None = None
    resampled: tuple[float, ...] = ()


class MetricColumn(NamedTuple):
    """One metric over all systems.

    Attributes:
        name: Unlike any other column's.
        signature: What was computed.
        hundred: Whether it runs to 100 (SacreBLEU's own metrics) and not to 1.
        cells: One per system.
        errors: Whether it counts errors, so that less is better (SacreBLEU's TER).
        long_signature: The signature's long form, where `signature` is the short one.
    """

    name: str
    signature: str
    hundred: bool
    cells: tuple[SystemScore, ...]
    errors: bool = False
    long_signature: str = ""


class SignificanceTest(NamedTuple):
    """Which test compares every system with the first: ``bs`` (paired bootstrap) or ``ar`` (approximate
    randomisation).
    """

    kind: str
    samples: int
    seed: int | None


class SystemComparison(NamedTuple):
    """A table of scores.

    Attributes:
        systems: The systems' names, the baseline first.
        columns: The metrics: ours, then SacreBLEU's.
        test: The test, if there was one.
        resamples: Bootstrap resamples of the confidence intervals; 0 without intervals, and where the test gives them.
        seed: Of the resampling.
    """

    systems: tuple[str, ...]
    columns: tuple[MetricColumn, ...]
    test: SignificanceTest | None = None
    resamples: int = 0
    seed: int | None = None


def cell_of(scores: ScoreSet) -> SystemScore:
    """One of our own scores as a cell."""
    whole = scores.as_dict()
    return SystemScore(
        scores.score, {output: whole[output] for output in Output if output in whole}, scores.scores, scores.counts
    )


def column_of(scores: ScoreSet) -> MetricColumn:
    """The scores of one system by one of our metrics as a column."""
    return MetricColumn(str(scores.metric), str(scores.signature), hundred=False, cells=(cell_of(scores),))
