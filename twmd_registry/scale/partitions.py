"""One part: its rows read, checked, scored by the engine of a single machine, and written as one Parquet file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from twmd_registry.engine.backends import Backend, Scored, group_by_model
from twmd_registry.engine.pairs import Pairs, Segments, make_pairs
from twmd_registry.engine.pipeline import ENCODED, alone
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_segments
from twmd_registry.errors import FileError, InputError, ModelError, TwmdError, collect_warnings
from twmd_registry.judgments.reader import TableRow
from twmd_registry.progress import Progress, StageProgress
from twmd_registry.record.content import environment
from twmd_registry.registry.names import Output
from twmd_registry.scale.plan import ScalePlan, part_name
from twmd_registry.scale.storage import OutputFolder, open_table
from twmd_registry.scale.totals import CorpusTotals, collect, replay

ReportRows = Callable[[int, int], None]
"""Called with a part and the number of its rows that are done."""
_SUMMARY = b"twmd"
"""The key of a part's summary in the metadata of its Parquet file."""
ID = "id"
"""The column that names a row, where the input has one; it comes back beside the scores."""
MOST_TRIES = 3
"""How many workers may die over one part."""
TRIES = ".tries"
"""Suffix of the file that counts the workers that have begun a part; it is removed when the part is done."""
_PLACE = ("row", "file", "row_in_file", ID)
_SHOWN = 500
"""Characters of a rejected row that are kept."""


class CheckedRows(NamedTuple):
    """Rows of a part, sorted into those that can be scored and those that cannot.

    Attributes:
        segments: The texts of those that can.
        places: Where they stand: the row's number among all, its file, its number there (from 0), its ``id`` or None.
        rejects: The others, as lines of ``rejects.jsonl``.
        references: The columns from which references were read, in the order in which they came up.
    """

    segments: Segments
    places: list[tuple[int, str, int, str | None]]
    rejects: list[str]
    references: tuple[str, ...]


@dataclass(frozen=True)
class PartitionScorer:
    """Does one pass over parts of a plan: a worker of Ray Data, numbers of parts in, results or errors out.

    A model is loaded with the first part, so that its errors are results.

    Attributes:
        plan: The plan.
        scorers: Of its metrics.
        folder: Where parts are written.
        strict: Whether a row that cannot be scored is an error.
        sums: Whether this is the first pass, which adds up `CorpusTotals`; otherwise parts are scored.
        totals: What depends on all rows; None where nothing does, or in the first pass.
        report: Called with a part and the number of its rows that are done, while it is scored.
    """

    plan: ScalePlan
    scorers: tuple[Scorer, ...]
    folder: str
    strict: bool = False
    sums: bool = False
    totals: CorpusTotals | None = None
    report: ReportRows | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Do the parts of a batch; an error is the name of its class, and its text as content."""
        results: dict[str, list[Any]] = {"part": [], "content": [], "failure": []}
        for part in map(int, batch["part"]):
            try:
                content, failure = self.run(part), ""
            except TwmdError as error:
                content, failure = str(error).encode(), type(error).__name__
            for column, value in zip(results.values(), (part, content, failure), strict=True):
                column.append(value)
        return results

    def run(self, part: int) -> bytes:
        """Do one part, unless several workers died over it (by its memory, say): Ray Data starts new ones for ever.

        Returns:
            `CorpusTotals`, or the summary (JSON) of a part that is written now or was before: ``part`` and the hash of
            its ``plan``; the numbers of ``rows`` scored and ``rejected``; ``texts``, their sha256 (empty for no rows);
            ``references``, the columns they were read from; ``warnings``; ``environment``; and ``metrics``, none for no
            rows: of each ``nrefs`` (or ``var``), the sum ``score``, the sums ``sides``, and ``counts``.

        Raises:
            FileError: A file cannot be read, or has changed; the part cannot be written.
            InputError: A row cannot be scored, and `strict` is set.
            ModelError: The model is not here, or another; its memory does not suffice.
            TwmdError: Workers died.
        """
        folder, note = OutputFolder(self.folder), f"{part_name(part)}{TRIES}"
        tries = int(folder.read(note)) if folder.has(note) else 0
        folder.write(note, str(tries + 1).encode())
        if tries >= MOST_TRIES:
            hint = "Finished parts are kept: go on by --resume."
            raise TwmdError(f"{tries} workers died over part {part} (killed, or out of memory). {hint}")
        try:
            return self._sum(part).to_bytes() if self.sums else json.dumps(self._score(part, folder)).encode()
        finally:
            folder.remove(note)

    def _sum(self, part: int) -> CorpusTotals:
        checked = self._read(part)
        if not checked.places:
            return CorpusTotals([], 1)
        self._check_models()
        backends = [member.backend for one in self.scorers for member in one.members]
        pairs = self._number(make_pairs(checked.segments), checked, part)
        tensors: list[np.ndarray] = []
        meter = StageProgress(self._progress(part), len(pairs.counts), len(groups := group_by_model(backends)))
        for members in groups:
            with meter.stage(len(pairs.texts) * ENCODED) as report:
                backends[members[0]].sum_up([backends[i] for i in members], pairs, collect(tensors), report)
        return CorpusTotals(tensors, 1)

    def _score(self, part: int, folder: OutputFolder) -> dict[str, Any]:
        finished = _read_summary(folder, part, self.plan.hash)
        if finished is not None:
            return finished
        checked = self._read(part)
        with collect_warnings() as held:
            found = self._score_rows(checked, part) if checked.places else []
        summary = {
            "plan": self.plan.hash,
            "part": part,
            "rows": len(checked.places),
            "rejected": len(checked.rejects),
            "texts": found[0].texts if found else "",
            "references": checked.references,
            "metrics": [_sums(one) for one in found],
            "warnings": held,
            "environment": environment(self.scorers[0].options.device),
        }
        if checked.rejects:  # before the part: where that is finished, these are there
            folder.write(rejects_name(part), "".join(checked.rejects).encode())
        folder.write(f"{part_name(part)}.parquet", _parquet(checked, columns_of(self.scorers, found), summary))
        return summary

    def _read(self, part: int) -> CheckedRows:
        checked, read = CheckedRows(Segments([], []), [], [], ()), dict[str, None]()
        row, columns = part * self.plan.part_rows, self.plan.columns
        for one in self.plan.parts[part]:
            table = self.plan.tables[one.table]
            with open_table(table.file[0], table.file) as opened:
                raws = opened.read(one.first, one.rows, one.offset, (*columns.wanted, ID))
            if len(raws) != one.rows:
                raise FileError(f"{table.file[0]} has changed since its rows were counted: it has fewer of them.")
            for at, (raw, values) in enumerate(raws, one.first):
                name = None if isinstance(values, str) else _id_of(values)
                place = (row, table.name, at, name)
                where = f"row {row + 1} ({table.name}, row {at + 1} there)"
                row += 1
                try:
                    if isinstance(values, str):
                        raise FileError(f"{where}: {values}.")  # noqa: TRY301 (as all other reasons)
                    own = TableRow(where, values)
                    prediction, references = own.segment(columns)
                except FileError as error:
                    if self.strict:
                        raise InputError(str(error)) from error
                    reason = str(error).removeprefix(f"{where}: ").removesuffix(".")
                    shown = raw.decode("utf-8", "replace").strip("\r\n") or json.dumps(values, default=str)
                    checked.rejects.append(_reject_line(place, reason, shown[:_SHOWN]))
                    continue
                checked.segments.predictions.append(prediction)
                checked.segments.references.append(references)
                checked.places.append(place)
                read |= dict.fromkeys(columns.references or own.usual_references())
        return checked._replace(references=tuple(read))

    def _check_models(self) -> None:
        """Refuse a model that is not the one of the plan: every worker finds it by itself."""
        for one, planned in zip(self.scorers, self.plan.signatures, strict=True):
            check_signature(one, planned)

    def _score_rows(self, checked: CheckedRows, part: int) -> list[ScoreSet]:
        self._check_models()
        total = replay(self.totals.tensors) if self.totals else alone

        def score_group(group: Sequence[Backend], pairs: Pairs, progress: Progress | None) -> Scored:
            return group[0].score_group(group, self._number(pairs, checked, part), progress, total)

        rows = [place[0] for place in checked.places]
        return score_segments(
            self.scorers, checked.segments, progress=self._progress(part), score_group=score_group, rows=rows
        )

    def _progress(self, part: int) -> Progress | None:
        """Return what adds up the rows of a part that are done, and reports their number."""
        if self.report is None:
            return None
        report, done = self.report, 0

        def add(rows: int) -> None:
            nonlocal done
            done += rows
            report(part, done)

        return add

    def _number(self, pairs: Pairs, checked: CheckedRows, part: int) -> Pairs:
        """Number segments by their rows: one that is missing leaves its place in a centering batch empty."""
        numbers = np.array([place[0] for place in checked.places], dtype=np.int64) - part * self.plan.part_rows
        return pairs._replace(segment=np.repeat(numbers, pairs.counts))


def check_signature(one: Scorer, wanted: object) -> None:
    """Refuse a scorer whose signature, with the model of this machine, is not `wanted`, by a `ModelError`."""
    if one.signature != wanted:
        hint = "install the same model and package on all"
        raise ModelError(f"this worker would score by {one.signature}, not by {wanted}: {hint}.")


def _id_of(values: dict[str, Any]) -> str | None:
    """Return the ``id`` of a row as text; other values than texts as JSON, for a column of Parquet has one type."""
    value = values.get(ID)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate has no place in Parquet


def _reject_line(place: tuple[int, str, int, str | None], reason: str, raw: str) -> str:
    named = {name: value for name, value in zip(_PLACE, place, strict=True) if value is not None}
    return json.dumps(named | {"reason": reason, "raw": raw}) + "\n"


def rejects_name(part: int) -> str:
    """Name the file that holds a part's rejected rows until all parts are finished."""
    return f"{part_name(part)}.rejects.jsonl"


def names_of(scorers: Iterable[Scorer]) -> list[str]:
    """Name a column for every scorer: its metric; from the second of one metric on, with a number."""
    metrics = [str(one.requested.metric) for one in scorers]
    times = [metrics[: i + 1].count(metric) for i, metric in enumerate(metrics)]
    return [metric if time == 1 else f"{metric}_{time}" for metric, time in zip(metrics, times, strict=True)]


def columns_of(scorers: Sequence[Scorer], found: Sequence[ScoreSet]) -> dict[str, list[float]]:
    """Return scores as columns: the score under the metric's name, and the sides of a two-sided metric behind it.

    Args:
        scorers: The scorers.
        found: Their scores; nothing for no rows, which have the same columns.
    """
    columns: dict[str, list[float]] = {}
    for i, (name, one) in enumerate(zip(names_of(scorers), scorers, strict=True)):
        columns[name] = list(found[i].scores) if found else []
        for output in Output if one.requested.output is not None else ():
            columns[f"{name}_{output}"] = list(getattr(found[i], output)) if found else []
    return columns


def _sums(found: ScoreSet) -> dict[str, Any]:
    sides = {str(side): float(np.sum(values)) for side in Output if (values := getattr(found, side)) is not None}
    score, nrefs = float(np.sum(found.scores)), found.signature.nrefs or ""
    return {"nrefs": nrefs, "score": score, "sides": sides, "counts": found.counts._asdict()}


def _parquet(checked: CheckedRows, scores: dict[str, list[float]], summary: dict[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    places = zip(*checked.places, strict=True) if checked.places else [()] * len(_PLACE)
    types = (pa.int64(), pa.string(), pa.int64(), pa.string())
    columns = {name: pa.array(values, kind) for name, values, kind in zip(_PLACE, places, types, strict=True)}
    columns |= {name: pa.array(values, pa.float64()) for name, values in scores.items()}
    written = io.BytesIO()
    pyarrow.parquet.write_table(
        pa.table(columns).replace_schema_metadata({_SUMMARY: json.dumps(summary).encode()}), written
    )
    return written.getvalue()


def _read_summary(folder: OutputFolder, part: int, plan: str) -> dict[str, Any] | None:
    """Read the summary of a finished part; None for one that is not there, damaged, or scored by another plan."""
    import pyarrow.parquet

    name = f"{part_name(part)}.parquet"
    if not folder.has(name):
        return None
    try:
        metadata = pyarrow.parquet.read_table(io.BytesIO(folder.read(name))).schema.metadata or {}
        summary: dict[str, Any] = json.loads(metadata[_SUMMARY])
        return summary if summary["plan"] == plan else None
    except (FileError, OSError, ValueError, KeyError, TypeError):
        return None
