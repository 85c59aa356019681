"""What a comparison of systems is: the cells of a table of scores, by metric and system, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from twmd_registry.registry.names import LEXICAL_NAMES, OUTPUTS
from twmd_registry.template import render

if TYPE_CHECKING:  # it needs numpy and torch, which reading a record does not
    from twmd_registry.engine.result import DocumentScore, ScoreSet


SIGNIFICANT = 0.05


EXTERNAL = "external:"
"""The beginning of what stands in place of a signature where another program computed the scores."""


@dataclass(frozen=True)
class Resampling:
    """The test (``bs``, paired bootstrap, or ``ar``, approximate randomisation, of every system against the first) and
    the bootstrap intervals that are published with scores; 0 samples or resamples without one.
    """

    test: Literal["bs", "ar", None] = None
    samples: int = 0
    resamples: int = 0
    seed: int = 12345


@dataclass(frozen=True)
class SystemScore:
    """One system by one metric, this package's or SacreBLEU's.

    Attributes:
        score: The corpus score, on the metric's own scale, as its `sides`, precision, recall and f1.
        scores: One score per segment; empty for SacreBLEU's metrics unless they were requested.
        counts: Counts of the texts; of SacreBLEU's metrics a record has the number of segments, a comparison nothing.
        mean: Of the bootstrap resamples, as `ci`, half the width of their central 95%; None without them.
        p_value: Of the difference to the first system; None for that system, and where there is none.
        resampled: The corpus score of every bootstrap resample; empty unless requested. Resample i draws the same
            segments for every system and metric.
        documents: By document its score, where segments belong to documents.
        signature: In a record: the long form; number of references, resamples and seed included.
        keys: In a record: the keys of our signature once more, to be read without a parser, and to notice an edit.
        hashes: Of our metrics, the whole sha256 of every part that the signature names by 12 digits, by kind of part.
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
        """The beginning of the signature: the metric's name."""
        return self.signature.removeprefix(EXTERNAL).partition("|")[0]

    @property
    def is_lexical(self) -> bool:
        """Whether the metric is SacreBLEU's own, by the signature."""
        return self.head in LEXICAL_NAMES.values() and not self.is_external

    @property
    def is_external(self) -> bool:
        """Whether another program computed the scores, by the signature."""
        return self.signature.startswith(EXTERNAL)

    @property
    def is_ours(self) -> bool:
        """Whether the metric is one of this package."""
        return not self.is_lexical and not self.is_external

    @property
    def tested(self) -> dict[str, float]:
        """The results of a test or an interval, by name."""
        values = {"mean": self.mean, "ci": self.ci, "p_value": self.p_value}
        return {name: value for name, value in values.items() if value is not None}


class MetricColumn(NamedTuple):
    """One metric over all systems; `hundred` where it runs to 100 (SacreBLEU's own), `errors` where less is better
    (TER); `long_signature` where `signature` is the short form. `p_values`, if requested, has the p of the difference
    of every two systems, by both numbers; None on its diagonal.
    """

    name: str
    signature: str
    hundred: bool
    cells: tuple[SystemScore, ...]
    errors: bool = False
    long_signature: str = ""
    p_values: tuple[tuple[float | None, ...], ...] = ()


class SystemComparison(NamedTuple):
    """A table of scores; the first system is the baseline, and `documents` has every segment's document, if known."""

    systems: tuple[str, ...]
    columns: tuple[MetricColumn, ...]
    resampling: Resampling | None = None
    documents: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        return render("comparison.html", "comparison", comparison=self, significant=SIGNIFICANT)


def column_of(scores: ScoreSet) -> MetricColumn:
    """Make a column of one system's scores by one of our metrics."""
    return MetricColumn(str(scores.metric), str(scores.signature), hundred=False, cells=(cell_of(scores),))


def cell_of(scores: ScoreSet) -> SystemScore:
    """Make a cell of one system's scores by one of our metrics."""
    sides: dict[str, float] = {name: value for name, value in scores.as_dict().items() if name in set(OUTPUTS)}
    return SystemScore(scores.score, sides, tuple(scores.scores), scores.counts.as_dict(), hashes=scores.hashes)
