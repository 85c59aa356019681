"""A meta-evaluation as a value: which data, which metrics, which correlations, averaged how."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from twmd_registry.errors import InputError, SpecError, menu
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of
from twmd_registry.metaeval.agreement import Agreement, Averaging, agreement, parts_of
from twmd_registry.metaeval.correlation import Statistic, statistic_named
from twmd_registry.metaeval.pairwise import THRESHOLD
from twmd_registry.metaeval.side_by_side import Compared, MetricScores, check_compared, names_of, score_side_by_side
from twmd_registry.metaeval.significance import AgreementTest, StratumTest, permutation, williams_by_part
from twmd_registry.metaeval.systems import SystemAccuracy, check_systems, system_level
from twmd_registry.metaeval.table import FORMATS, TextTable, as_note, as_text
from twmd_registry.registry.options import RunOptions
from twmd_registry.version import __version__


class Level(StrEnum):
    """What is correlated: every segment's score, or every system's mean."""

    SEGMENT = "segment"
    SYSTEM = "system"


@dataclass(frozen=True)
class Study:
    """What is measured.

    Attributes:
        data: The data's name.
        content: Hash of the data, `twmd_registry.judgments.sets.content_of`.
        metrics: What is compared, ours and SacreBLEU's; the first one is the one that others are tested against.
        statistics: Correlations.
        averaging: Over what correlations are averaged.
        level: What is correlated.
        resamples: Bootstrap resamples of the intervals; 0 for none.
        trials: Permutations of the tests against the first metric; 0 for no tests.
        seed: Of both.
        threshold: The least difference of two ratings that ``darr`` counts as an order, in points of their own scale.

    Raises:
        SpecError: A metric, statistic, averaging or level that there is not, none at all, a number below 0, or tests at
            the level of systems.
    """

    data: str
    content: str
    metrics: tuple[Compared, ...]
    statistics: tuple[Statistic, ...]
    averaging: Averaging = Averaging.GROUP
    level: Level = Level.SEGMENT
    resamples: int = 1000
    trials: int = 0
    seed: int = 12345
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        """Take names for what they name, so that one name is one study."""
        object.__setattr__(self, "metrics", check_compared(self.metrics))
        statistics = (self.statistics,) if isinstance(self.statistics, str) else self.statistics
        object.__setattr__(self, "statistics", tuple(map(statistic_named, statistics)))
        for field, kind in (("averaging", Averaging), ("level", Level)):
            value = getattr(self, field)
            if value not in set(kind):
                raise SpecError(f"there is no {field} {value!r}; {menu(str(value), kind)}.")
            object.__setattr__(self, field, kind(value))
        if not self.statistics:
            raise SpecError("a study needs a correlation.")
        for field in ("resamples", "trials", "seed"):
            if getattr(self, field) < 0:
                raise SpecError(f"expected {field} of 0 or more, not {getattr(self, field)}.")
        if not 0 <= self.threshold < math.inf:
            raise SpecError(f"expected a threshold from 0, in points of the ratings, not {self.threshold}.")
        if self.trials and self.level is Level.SYSTEM:
            raise SpecError("tests compare metrics on segments: leave the trials out at the level of systems.")

    @property
    def name(self) -> str:
        """The canonical name: two studies with one name measure the same."""
        fields = {
            "data": f"{self.data}@{self.content}",
            "metrics": names_of(self.metrics),
            "correlation": ",".join(self.statistics),
            "averaging": self.averaging,
            "level": self.level,
            "bs": self.resamples,
            "ar": self.trials,
            "seed": self.seed,
            **({"threshold": f"{self.threshold:g}"} if Statistic.DARR in self.statistics else {}),
            "version": __version__,
        }
        return "|".join(["study", *(f"{name}:{value}" for name, value in fields.items())])


class MetricAgreement(NamedTuple):
    """One metric's agreement with people.

    Attributes:
        label: A name unlike the other metrics'.
        signature: What was computed.
        scores: A score per segment.
        agreements: One per statistic of the study.
        tests: Likewise, by permutation against the first metric; none for that metric, and without trials.
        williams: Of every part, Williams' test of the Pearson correlation against the first metric; likewise.
        accuracies: One per statistic at the level of systems, the pairwise accuracy; else none.
    """

    label: str
    signature: str
    scores: tuple[float, ...]
    agreements: tuple[Agreement, ...]
    tests: tuple[AgreementTest, ...] = ()
    williams: tuple[StratumTest, ...] = ()
    accuracies: tuple[SystemAccuracy, ...] = ()


@dataclass(frozen=True)
class StudyResult:
    """What came out.

    Attributes:
        study: With the specifications as they were applied.
        measured: One per metric.
        dropped: Rows of the data that were left out.
        overlaps: Which metrics were trained or tuned on the data, in a sentence each.
    """

    study: Study
    measured: tuple[MetricAgreement, ...]
    dropped: int
    overlaps: tuple[str, ...] = ()

    def table(self, statistic: Statistic) -> TextTable:
        """One row per metric: the average with its interval, and every group's correlation, from -1 to 1 as in
        `as_dict`.
        """
        which = self.study.statistics.index(statistic)
        found = [one.agreements[which] for one in self.measured]
        groups = sorted({part.name for one in found for parts in (one.groups, one.undefined) for part in parts})
        accuracy = ["accuracy"] if self.study.level is Level.SYSTEM else []
        header = (
            "metric",
            statistic.value,
            "95% interval",
            *(["p (better)"] if self.study.trials else []),
            *accuracy,
            *groups,
            "n",
        )
        rows = []
        for measured, one in zip(self.measured, found, strict=True):
            own = {group.name: f"{group.value:.3f}" for group in one.groups}
            interval = "-" if one.low is None or one.high is None else f"{one.low:.3f} .. {one.high:.3f}"
            p = [f"{measured.tests[which].p:.4f}" if measured.tests else "-"] if self.study.trials else []
            alike = [f"{measured.accuracies[which].value:.3f}"] if accuracy else []
            numbers = (
                f"{one.value:.3f}",
                interval,
                *p,
                *alike,
                *(own.get(name, "undefined") for name in groups),
                str(one.n),
            )
            rows.append((measured.label, *numbers))
        return TextTable(
            f"{statistic.value}, {self.study.data}, averaging {self.study.averaging}, level {self.study.level}",
            header,
            rows,
        )

    @property
    def tables(self) -> dict[str, TextTable]:
        """A table per statistic, by its name, and Williams' p against the first metric in every part where tests were
        asked for.
        """
        found = {statistic.value: self.table(statistic) for statistic in self.study.statistics}
        tested = [one for one in self.measured if one.williams]
        if tested:
            header = ("metric", *(part.name for part in tested[0].williams))
            rows = [
                (one.label, *("undefined" if part.test is None else f"{part.test.p:.4f}" for part in one.williams))
                for one in tested
            ]
            found["williams"] = TextTable(
                f"Williams' p of a higher Pearson correlation than {self.measured[0].label}'s", header, rows
            )
        return found

    def as_text(self, form: str) -> str:
        """Every table, and what is needed to do it again.

        Args:
            form: One of the values of `twmd_registry.metaeval.table.FORMATS`: text, Markdown, LaTeX or TSV.
        """
        lines = [
            self.study.name,
            *(f"{one.label}: {one.signature}" for one in self.measured),
            *self._left_out(),
            *self.overlaps,
        ]
        return "\n\n".join([*(as_text(table, form) for table in self.tables.values()), as_note(lines, form)])

    def _left_out(self) -> Iterator[str]:
        """What averages are not over, in words."""
        for measured in self.measured:
            for statistic, one in zip(self.study.statistics, measured.agreements, strict=True):
                if one.undefined:
                    named = "; ".join(f"{part.name} ({part.n} segments: {part.reason})" for part in one.undefined)
                    parts = f"{len(one.groups)} of {len(one.groups) + len(one.undefined)}"
                    yield f"{measured.label}, {statistic}: the mean is over {parts}, without {named}"

    def __str__(self) -> str:
        """As text."""
        return self.as_text(FORMATS["txt"])

    def as_dict(self) -> dict[str, Any]:
        """Everything but the segments' scores, ready for JSON."""
        return {
            "study": self.study.name,
            "dropped": self.dropped,
            "overlaps": list(self.overlaps),
            "metrics": [
                {
                    "label": one.label,
                    "signature": one.signature,
                    "agreement": {
                        str(name): _plain(own) for name, own in zip(self.study.statistics, one.agreements, strict=True)
                    },
                    "tests": {
                        str(name): own._asdict() for name, own in zip(self.study.statistics, one.tests, strict=False)
                    },
                    "williams": {part.name: part.test._asdict() if part.test else None for part in one.williams},
                    "accuracy": {
                        str(name): own._asdict()
                        for name, own in zip(self.study.statistics, one.accuracies, strict=False)
                    },
                }
                for one in self.measured
            ],
        }


def _plain(found: Agreement) -> dict[str, Any]:
    return found._asdict() | {
        "groups": [one._asdict() for one in found.groups],
        "undefined": [one._asdict() for one in found.undefined],
    }


def run_study(
    study: Study, rated: RatedSegments, options: RunOptions, progress: Callable[[int], None] | None = None
) -> StudyResult:
    """Score every segment by every metric, each text encoded once, and correlate.

    Args:
        study: What to measure.
        rated: The data; their content must be the study's.
        options: Where and how fast.
        progress: Called with the number of segments scored.

    Raises:
        InputError: Other data than the study's; a correlation that is undefined everywhere; a column that the averaging
            needs and the data lack.
        ModelError: As `Scorer.score`.

    Warns:
        TwmdWarning: A metric was trained or tuned on the data; a sample is too small for tests and intervals; a
            correlation is undefined.
    """
    if content_of(rated) != study.content:
        raise InputError(
            f"these are not the study's data: their content is @{content_of(rated)}, not @{study.content}."
        )
    for statistic in study.statistics:
        check_columns(rated, statistic, study)  # what cannot be fails before anything is encoded
    applied, scored, overlaps = score_side_by_side(study.metrics, rated, study.data, options, progress)
    measure = _systems if study.level is Level.SYSTEM else _segments
    measured = [measure(study, rated, scored[0], one) for one in scored]
    return StudyResult(replace(study, metrics=applied), tuple(measured), rated.dropped, overlaps)


def check_columns(rated: RatedSegments, statistic: Statistic, study: Study) -> None:
    """Refuse data without a column that a study needs, and a statistic that does not go with its averaging or level.

    Raises:
        SpecError: As said.
        InputError: As said.
    """
    if study.level is Level.SEGMENT:
        parts_of(rated, statistic, study.averaging, threshold=study.threshold)
    else:
        check_systems(rated, statistic, study.averaging)


def _segments(study: Study, rated: RatedSegments, first: MetricScores, one: MetricScores) -> MetricAgreement:
    agreements = tuple(
        agreement(
            statistic,
            one.scores,
            rated,
            averaging=study.averaging,
            resamples=study.resamples,
            seed=study.seed,
            threshold=study.threshold,
        )
        for statistic in study.statistics
    )
    found = MetricAgreement(one.label, one.signature, one.scores, agreements)
    if not study.trials or first is one:
        return found
    tests = tuple(
        permutation(
            one.scores,
            first.scores,
            rated,
            statistic,
            averaging=study.averaging,
            trials=study.trials,
            seed=study.seed,
            threshold=study.threshold,
        )
        for statistic in study.statistics
    )
    by_part = (
        williams_by_part(one.scores, first.scores, rated, study.averaging)
        if Statistic.PEARSON in study.statistics
        else ()
    )
    return found._replace(tests=tests, williams=by_part)


def _systems(study: Study, rated: RatedSegments, _first: MetricScores, one: MetricScores) -> MetricAgreement:
    found = [
        system_level(
            statistic, one.scores, rated, averaging=study.averaging, resamples=study.resamples, seed=study.seed
        )
        for statistic in study.statistics
    ]
    return MetricAgreement(
        one.label,
        one.signature,
        one.scores,
        tuple(each.agreement for each in found),
        accuracies=tuple(each.accuracy for each in found),
    )
