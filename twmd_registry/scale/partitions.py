"""One part: its rows read, checked, scored by the engine of a single machine, and written as one Parquet file."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.engine.backends import Backend, Scored, group_by_model
from twmd_registry.engine.chunking import Pairs, make_pairs
from twmd_registry.engine.pipeline import alone
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_segments
from twmd_registry.errors import FileError, InputError, ModelError, collect_warnings
from twmd_registry.progress import Progress
from twmd_registry.record.environment import environment
from twmd_registry.registry.names import Output
from twmd_registry.scale.forms import read_span
from twmd_registry.scale.plan import Partition, ScalePlan, check_unchanged
from twmd_registry.scale.rows import ID, CheckedRows, RowPlace, check_rows, id_of
from twmd_registry.scale.storage import OutputFolder
from twmd_registry.scale.totals import CorpusTotals, collect, replay

SUMMARY = b"twmd"
"""Where a part's file keeps its summary."""


class MetricSums(NamedTuple):
    """What a part adds to the corpus score of one metric.

    Attributes:
        nrefs: References of every segment, or ``var``.
        score: Sum of the scores.
        sides: Sums of precision, recall and F1 of a two-sided metric.
        counts: As in `twmd_registry.engine.result.Counts`; different texts are told apart within a part.
    """

    nrefs: str
    score: float
    sides: dict[str, float]
    counts: dict[str, int]


@dataclass(frozen=True)
class PartitionSummary:
    """What a finished part says about itself.

    Attributes:
        plan: Hash of the plan that it was scored by.
        part: Its number.
        rows: Rows scored.
        rejected: Rows that could not be.
        texts: sha256 of its texts (`ScoreSet.texts`); empty where no row was scored.
        references: The columns from which references were read.
        metrics: By every metric; empty where no row was scored.
        warnings: What there was to say.
        environment: The machine.
    """

    plan: str
    part: int
    rows: int
    rejected: int
    texts: str
    references: tuple[str, ...]
    metrics: tuple[MetricSums, ...]
    warnings: tuple[str, ...]
    environment: dict[str, str]

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> PartitionSummary:
        """Read it back."""
        content = json.loads(text)
        metrics = tuple(MetricSums(*one) for one in content.pop("metrics"))
        lists = {name: tuple(content[name]) for name in ("references", "warnings")}
        return cls(**{**content, **lists, "metrics": metrics})


class PartitionScorer:
    """Scores parts of one plan, each by itself."""

    def __init__(
        self, plan: ScalePlan, scorers: Sequence[Scorer], folder: OutputFolder, *, strict: bool = False, totals: CorpusTotals | None = None
    ) -> None:
        """Remember what to do; nothing is loaded yet.

        Args:
            plan: The plan.
            scorers: Of its metrics.
            folder: Where parts are written.
            strict: Whether a row that cannot be scored is an error.
            totals: What depends on all rows; None where nothing does, or it is not known yet.
        """
        self._plan, self._scorers, self._folder, self._strict, self._totals = plan, scorers, folder, strict, totals

    def sum_up(self, part: Partition) -> CorpusTotals:
        """What a part adds to that which depends on all rows.

        Raises:
            FileError: A file cannot be read, or has changed.
            InputError: A row cannot be scored, and `strict` is set.
            ModelError: The model is not here, or another.
        """
        checked = self._read(part)
        if not checked.places:
            return CorpusTotals([], 1)
        self._check_metrics()
        backends = [member.backend for one in self._scorers for member in one.members]
        pairs = _numbered(make_pairs(checked.segments), checked.numbers - part.start)
        groups: list[list[np.ndarray]] = []
        for members in group_by_model(backends):
            found: list[np.ndarray] = []
            backends[members[0]].sum_up([backends[i] for i in members], pairs, collect(found))
            groups.append(found)
        return CorpusTotals(groups, 1)

    def score(self, part: Partition) -> PartitionSummary:
        """Score a part and write it, unless it has been written before.

        Raises:
            FileError: A file cannot be read, or has changed; the part cannot be written.
            InputError: A row cannot be scored, and `strict` is set.
            ModelError: The model is not here, or another; its memory does not suffice.
        """
        finished = read_summary(self._folder, part, self._plan.hash)
        if finished is not None:
            return finished
        checked = self._read(part)
        with collect_warnings() as held:
            found = self._score(checked, part) if checked.places else []
        summary = PartitionSummary(
            plan=self._plan.hash,
            part=part.number,
            rows=len(checked.places),
            rejected=len(checked.rejects),
            texts=found[0].texts if found else "",
            references=checked.references,
            metrics=tuple(_sums(one) for one in found),
            warnings=tuple(held),
            environment=environment(self._scorers[0].options.device),
        )
        if checked.rejects:  # before the part: where that is finished, these are there
            self._folder.write(rejects_name(part), "".join(one.as_line() for one in checked.rejects).encode())
        self._folder.write(f"{part.name}.parquet", _parquet(checked.places, columns_of(self._scorers, found), summary))
        return summary

    def _read(self, part: Partition) -> CheckedRows:
        rows = []
        number = part.start
        for t, span in part.slices:
            table = self._plan.tables[t]
            check_unchanged(table)
            raw = read_span(table.file.url, table.form, table.columns, span, (*self._plan.columns.wanted, ID))
            rows += [(RowPlace(number + i, table.name, span.first + i, id_of(one)), one) for i, one in enumerate(raw)]
            number += len(raw)
        checked = check_rows(rows, self._plan.columns)
        if self._strict and checked.rejects:
            raise InputError(f"{checked.rejects[0]}.")
        return checked

    def _check_metrics(self) -> None:
        """Refuse a model that is not the one of the plan: every worker finds it by itself."""
        for one, planned in zip(self._scorers, self._plan.signatures, strict=True):
            if one.signature != planned:
                raise ModelError(f"this worker would score by {one.signature}, not by {planned}: install the same model and package on all.")

    def _score(self, checked: CheckedRows, part: Partition) -> list[ScoreSet]:
        self._check_metrics()
        known = iter(self._totals.groups) if self._totals else None

        def score_group(group: Sequence[Backend], pairs: Pairs, progress: Progress | None) -> Scored:
            total = replay(next(known)) if known is not None else alone
            return group[0].score_group(group, _numbered(pairs, checked.numbers - part.start), progress, total)

        return score_segments(self._scorers, checked.segments, score_group=score_group, rows=checked.numbers.tolist())


def _numbered(pairs: Pairs, numbers: np.ndarray) -> Pairs:
    """Number segments by their rows: one that is missing leaves its place in a centering batch empty."""
    return pairs._replace(segment=np.repeat(numbers, pairs.counts))


def rejects_name(part: Partition) -> str:
    """Where a part's rejected rows wait until all parts are finished."""
    return f"{part.name}.rejects.jsonl"


def names_of(scorers: Iterable[Scorer]) -> list[str]:
    """A column's name for every scorer: its metric's; from the second of one metric on, with a number."""
    taken: dict[str, int] = {}
    names = []
    for one in scorers:
        metric = str(one.requested.metric)
        taken[metric] = taken.get(metric, 0) + 1
        names.append(metric if taken[metric] == 1 else f"{metric}_{taken[metric]}")
    return names


def columns_of(scorers: Sequence[Scorer], found: Sequence[ScoreSet]) -> dict[str, list[float]]:
    """Scores as columns: the score under the metric's name, and the sides of a two-sided metric behind it.

    Args:
        scorers: The scorers.
        found: What they found; nothing for no rows, which have the same columns.
    """
    columns: dict[str, list[float]] = {}
    for i, (name, one) in enumerate(zip(names_of(scorers), scorers, strict=True)):
        columns[name] = list(found[i].scores) if found else []
        for output in Output if one.requested.output is not None else ():
            columns[f"{name}_{output}"] = list(getattr(found[i], output)) if found else []
    return columns


def _sums(found: ScoreSet) -> MetricSums:
    sides = {str(output): float(np.sum(values)) for output in Output if (values := getattr(found, output)) is not None}
    return MetricSums(found.signature.nrefs or "", float(np.sum(found.scores)), sides, found.counts._asdict())


def _parquet(places: Sequence[RowPlace], scores: dict[str, list[float]], summary: PartitionSummary) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    rows, files, rows_in_files, ids = zip(*places, strict=True) if places else ((), (), (), ())
    columns: dict[str, Any] = {
        "row": pa.array(rows, pa.int64()),
        "file": pa.array(files, pa.string()),
        "row_in_file": pa.array(rows_in_files, pa.int64()),
        ID: pa.array(ids, pa.string()),
    }
    columns |= {name: pa.array(values, pa.float64()) for name, values in scores.items()}
    table = pa.table(columns).replace_schema_metadata({SUMMARY: summary.to_json().encode()})
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    return written.getvalue()


def read_summary(folder: OutputFolder, part: Partition, plan: str) -> PartitionSummary | None:
    """What a finished part says about itself; None for one that is not there, damaged, or scored by another plan."""
    import pyarrow.parquet

    name = f"{part.name}.parquet"
    if not folder.has(name):
        return None
    try:
        metadata = pyarrow.parquet.read_table(io.BytesIO(folder.read(name))).schema.metadata or {}
        summary = PartitionSummary.from_json(metadata[SUMMARY])
    except (FileError, OSError, ValueError, KeyError, TypeError):
        return None
    return summary if summary.plan == plan else None
