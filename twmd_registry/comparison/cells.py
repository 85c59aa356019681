"""A comparison of systems as values: a table of scores with a column per metric and a cell per system."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from twmd_registry.registry.names import LEXICAL_NAMES, OUTPUTS

if TYPE_CHECKING:  # imports numpy and torch, which reading a record does not need
    from twmd_registry.engine.result import DocumentScore, ScoreSet


SIGNIFICANT = 0.05


EXTERNAL = "external:"
"""Prefix of the signature of scores that another program computed."""


@dataclass(frozen=True)
class Resampling:
    """The paired test and the bootstrap intervals that are published with scores.

    Attributes:
        test: ``bs`` (paired bootstrap) or ``ar`` (approximate randomisation). Compares each system to the first.
        samples: Trials of the test; 0 without one.
        resamples: Bootstrap resamples of the intervals; 0 without intervals.
        seed: Seed of the draws.
    """

    test: Literal["bs", "ar", None] = None
    samples: int = 0
    resamples: int = 0
    seed: int = 12345


@dataclass(frozen=True)
class SystemScore:
    """One system's scores with one metric, ours or SacreBLEU's.

    Attributes:
        score: Corpus score, on the metric's own scale.
        sides: Corpus precision, recall and f1.
        scores: Per-segment scores; empty for SacreBLEU's metrics unless requested.
        counts: Counts of the texts. For SacreBLEU's metrics, a record has the number of segments, a comparison nothing.
        mean: Mean of the bootstrap resamples; None without them.
        ci: Half the width of the 95% interval; None without resamples.
        p_value: p of the difference from the first system; None for the first system or without a test.
        resampled: Corpus score of every bootstrap resample; empty unless requested. Resample i draws the same
            segments for every system and metric.
        documents: Scores by document, if segments belong to documents.
        signature: In a record, the long form, with the number of references, resamples and seed.
        keys: In a record, the keys of our signature. They are readable without a parser and reveal an edit.
        hashes: For our metrics, the full sha256 of every file that the signature names by 12 digits, by kind.
    """

    score: float
    sides: dict[str, float]
    scores: tuple[float, ...]
    counts: dict[str, int]
    mean: float | None = None
    ci: float | None = None
    p_value: float | None = None
    resampled: tuple[float, ...] = ()
    documents: dict[str, DocumentScore] = field(default_factory=dict)
    signature: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The metric's name, with which the signature starts."""
        return self.signature.removeprefix(EXTERNAL).partition("|")[0]

    @property
    def is_lexical(self) -> bool:
        """Whether the signature is SacreBLEU's."""
        return self.head in LEXICAL_NAMES.values() and not self.is_external

    @property
    def is_external(self) -> bool:
        """Whether another program computed the scores."""
        return self.signature.startswith(EXTERNAL)

    @property
    def is_ours(self) -> bool:
        """Whether the metric belongs to this package."""
        return not self.is_lexical and not self.is_external

    @property
    def tested(self) -> dict[str, float]:
        """Results of the test and the interval, by name."""
        values = {"mean": self.mean, "ci": self.ci, "p_value": self.p_value}
        return {name: value for name, value in values.items() if value is not None}


class MetricColumn(NamedTuple):
    """One metric over all systems.

    Attributes:
        name: Heading of the column.
        signature: Signature, short or long.
        hundred: Whether the scale runs to 100, as SacreBLEU's do.
        cells: One per system.
        errors: Whether lower is better, as for TER.
        long_signature: The long form.
        p_values: Pairwise p-values, shape (systems, systems), if requested; None on the diagonal.
    """

    name: str
    signature: str
    hundred: bool
    cells: tuple[SystemScore, ...]
    errors: bool = False
    long_signature: str = ""
    p_values: tuple[tuple[float | None, ...], ...] = ()


class ScoreTable(NamedTuple):
    """A table of scores. The first system is the baseline; `documents` names every segment's document, if known."""

    systems: tuple[str, ...]
    columns: tuple[MetricColumn, ...]
    resampling: Resampling | None = None
    documents: tuple[str, ...] = ()


def number(column: MetricColumn, value: float, digits: int | None = None) -> str:
    """Format a score with 4 decimals, or 2 on a scale to 100, unless `digits` is set."""
    return f"{value:.{(2 if column.hundred else 4) if digits is None else digits}f}"


def column_of(scores: ScoreSet) -> MetricColumn:
    """Build a column from one system's scores with one metric."""
    cell, signature = cell_of(scores), str(scores.signature)
    hundred = replace(cell, signature=signature).is_lexical
    return MetricColumn(str(scores.metric), signature, hundred, (cell,), errors=signature.startswith("TER|"))


def cell_of(scores: ScoreSet) -> SystemScore:
    """Build a cell from one system's scores with one metric."""
    sides: dict[str, float] = {name: value for name, value in scores.as_dict().items() if name in set(OUTPUTS)}
    return SystemScore(scores.score, sides, tuple(scores.scores), scores.counts.as_dict(), hashes=scores.hashes)
