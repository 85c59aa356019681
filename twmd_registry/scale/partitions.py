"""A part of a data set: its rows are read, checked, scored by the engine, and written as a Parquet file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twmd_registry.engine.backends import Backend, Scored
from twmd_registry.engine.pairs import Pairs, Segments, make_pairs
from twmd_registry.engine.pipeline import STEPS_PER_TEXT, AllReduce, single_process
from twmd_registry.engine.result import ScoreSet
from twmd_registry.engine.scorer import Scorer, score_segments
from twmd_registry.errors import FileError, InputError, ModelError, TwmdError, collect_warnings
from twmd_registry.judgments.reader import TableRow
from twmd_registry.progress import Progress, Stage, split_progress
from twmd_registry.record.content import environment
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.scale.plan import ScalePlan, part_name
from twmd_registry.scale.storage import OutputFolder, open_table

ReportRows = Callable[[int, int], None]
"""Called with a part and the number of its rows that are done."""
Place = tuple[int, str, int, str | None]
"""The row's number among all, its file, its number there (from 0), and its ``id`` or None."""
CorpusTotals = list[np.ndarray]
"""Sums over a corpus, in the order in which scoring needs them; empty for no rows."""
ID = "id"
"""The input column that names a row; the parts contain it, too."""
MOST_TRIES = 3
"""The number of workers that may die while they score the same part."""
TRIES = ".tries"
"""Suffix of the file that counts the workers that began a part; it is removed when the part is done."""
_SUMMARY = b"twmd"
"""The key of a part's summary in the metadata of its Parquet file."""
_PLACE = ("row", "file", "row_in_file", ID)
_SHOWN = 500
"""Characters of a rejected row in ``rejects.jsonl``."""


@dataclass(frozen=True)
class PartitionScorer:
    """Does a pass over parts of a plan: a callable class for Ray Data's workers.

    Models are loaded with the first part, so that their errors are results.

    Attributes:
        strict: Whether a row that cannot be scored is an error.
        sums: Whether this is the first pass, which computes `CorpusTotals`; otherwise parts are scored.
        totals: The totals of the corpus; None if no score depends on all rows, and in the first pass.
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
        """Do the parts of a batch; an error becomes the name of its class, with its message as content."""
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
        """Return `CorpusTotals`, or the summary (JSON) of a part that is written now or was before.

        A part on which several workers crashed is refused: Ray Data would start new workers forever.
        """
        folder, note = OutputFolder(self.folder), f"{part_name(part)}{TRIES}"
        tries = int(folder.read(note)) if folder.has(note) else 0
        folder.write(note, str(tries + 1).encode())
        if tries >= MOST_TRIES:
            hint = "Finished parts are kept: continue with --resume."
            raise TwmdError(f"{tries} workers crashed on part {part} (killed, or out of memory). {hint}")
        try:
            return write_totals(self._sum(part)) if self.sums else json.dumps(self._score(part, folder)).encode()
        finally:
            folder.remove(note)

    def _sum(self, part: int) -> CorpusTotals:
        segments, places, _, _ = self._read(part)
        totals: CorpusTotals = []
        if places:
            self._check_models()
            backends = [member.backend for scorer in self.scorers for member in scorer.members]
            pairs = self._number(make_pairs(segments), places, part)
            groups: dict[Hashable, list[Backend]] = {}
            for backend in backends:
                groups.setdefault(backend.share_key, []).append(backend)
            stage = split_progress(self._progress(part), len(pairs.counts), len(groups))
            for group in groups.values():
                with stage(len(pairs.texts) * STEPS_PER_TEXT) as report:
                    group[0].sum_up(group, pairs, _collect(totals), report)
        return totals

    def _score(self, part: int, folder: OutputFolder) -> dict[str, Any]:
        finished = _read_summary(folder, part, self.plan.hash)
        if finished is not None:
            return finished
        segments, places, rejects, references = self._read(part)
        with collect_warnings() as held:
            scores = self._score_rows(segments, places, part) if places else []
        summary = {  # `texts` is empty, and so are `metrics`, where no row could be scored
            "plan": self.plan.hash,
            "part": part,
            "rows": len(places),
            "rejected": len(rejects),
            "texts": scores[0].texts if scores else "",
            "references": references,
            "metrics": [_sums(score) for score in scores],
            "warnings": held,
            "environment": environment(self.scorers[0].options.device),
        }
        if rejects:  # before the part: a finished part has its rejects
            folder.write(rejects_name(part), "".join(rejects).encode())
        folder.write(f"{part_name(part)}.parquet", _parquet(places, columns_of(self.scorers, scores), summary))
        return summary

    def _read(self, part: int) -> tuple[Segments, list[Place], list[str], list[str]]:
        """Return the rows that can be scored and their places, rejects as JSON lines, and the reference columns."""
        segments, places, rejects, read = Segments([], []), list[Place](), list[str](), dict[str, None]()
        row, columns = part * self.plan.part_rows, self.plan.columns
        for table, first, number, offset in self.plan.parts[part]:
            file, name, _ = self.plan.tables[table]
            with open_table(file[0], file) as opened:
                raws = opened.read(first, number, offset, (*columns.wanted, ID))
            if len(raws) != number:
                raise FileError(f"{file[0]} has changed since its rows were counted: it has fewer of them.")
            for at, (raw, values) in enumerate(raws, first):
                place = (row, name, at, None if isinstance(values, str) else _id_of(values))
                where = f"row {row + 1} ({name}, row {at + 1} there)"
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
                    named = {key: value for key, value in zip(_PLACE, place, strict=True) if value is not None}
                    rejects.append(json.dumps(named | {"reason": reason, "raw": shown[:_SHOWN]}) + "\n")
                    continue
                segments.predictions.append(prediction)
                segments.references.append(references)
                places.append(place)
                read |= dict.fromkeys(columns.references or own.usual_references())
        return segments, places, rejects, list(read)

    def _check_models(self) -> None:
        """Refuse a model that is not the plan's: every worker loads its own copy."""
        for scorer, planned in zip(self.scorers, self.plan.signatures, strict=True):
            check_signature(scorer, planned)

    def _score_rows(self, segments: Segments, places: Sequence[Place], part: int) -> list[ScoreSet]:
        self._check_models()
        total = _replay(self.totals) if self.totals else single_process

        def score_group(group: Sequence[Backend], pairs: Pairs, stage: Stage) -> Scored:
            return group[0].score_group(group, self._number(pairs, places, part), stage, total)

        rows, progress = [place[0] for place in places], self._progress(part)
        return score_segments(self.scorers, segments, progress=progress, score_group=score_group, rows=rows)

    def _progress(self, part: int) -> Progress | None:
        """Return a function that adds up the rows of a part that are done, and reports their number."""
        if self.report is None:
            return None
        report, done = self.report, 0

        def add(rows: int) -> None:
            nonlocal done
            done += rows
            report(part, done)

        return add

    def _number(self, pairs: Pairs, places: Sequence[Place], part: int) -> Pairs:
        """Number segments by their rows: a rejected row leaves its place in a centering batch empty."""
        numbers = np.array([place[0] for place in places], dtype=np.int64) - part * self.plan.part_rows
        return pairs._replace(segment=np.repeat(numbers, pairs.counts))


def check_signature(scorer: Scorer, wanted: object) -> None:
    """Refuse a scorer whose signature, with the model of this machine, is not `wanted`, by a `ModelError`."""
    if scorer.signature != wanted:
        hint = "install the same model and package on all"
        raise ModelError(f"this worker would score by {scorer.signature}, not by {wanted}: {hint}.")


def write_totals(totals: CorpusTotals, parts: int = 1) -> bytes:
    """Return totals, and the number of parts that they are the sums of, as safetensors."""
    from safetensors.numpy import save

    tensors = {str(i): np.ascontiguousarray(tensor) for i, tensor in enumerate(totals)}
    return save(tensors | {"parts": np.array([parts])})


def read_totals(content: bytes) -> tuple[CorpusTotals, int]:
    """Read what `write_totals` returned."""
    from safetensors.numpy import load

    tensors = load(content)
    parts = int(tensors.pop("parts")[0])
    return [tensors[str(i)] for i in range(len(tensors))], parts


def _collect(into: CorpusTotals) -> AllReduce:
    """Return a reduction that stores the sums of this part."""

    def total(mine: Callable[[], Tensor]) -> Tensor:
        local = mine()
        into.append(local.cpu().numpy())
        return local

    return total


def _replay(known: CorpusTotals) -> AllReduce:
    """Return a reduction that returns known totals, without computing anything."""
    rest = iter(known)
    return lambda _mine: torch.from_numpy(next(rest))


def _id_of(values: dict[str, Any]) -> str | None:
    """Return the ``id`` of a row as text; other values than texts as JSON, as a Parquet column has a single type."""
    value = values.get(ID)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # Parquet stores no lone surrogates


def rejects_name(part: int) -> str:
    """Return the name of the file of a part's rejected rows; it exists until all parts are finished."""
    return f"{part_name(part)}.rejects.jsonl"


def names_of(scorers: Iterable[Scorer]) -> list[str]:
    """Return a column name for every scorer: its metric, numbered from the second of the same metric on."""
    metrics = [str(scorer.requested.metric) for scorer in scorers]
    times = [metrics[: i + 1].count(metric) for i, metric in enumerate(metrics)]
    return [metric if time == 1 else f"{metric}_{time}" for metric, time in zip(metrics, times, strict=True)]


def columns_of(scorers: Sequence[Scorer], scores: Sequence[ScoreSet]) -> dict[str, list[float]]:
    """Return scores as columns, ``NAME``, and ``NAME_SIDE`` for each side of a two-sided metric; without scores, the
    same columns without rows.
    """
    columns: dict[str, list[float]] = {}
    for i, (name, scorer) in enumerate(zip(names_of(scorers), scorers, strict=True)):
        columns[name] = list(scores[i].scores) if scores else []
        for output in OUTPUTS if scorer.requested.output is not None else ():
            columns[f"{name}_{output}"] = list(getattr(scores[i], output)) if scores else []
    return columns


def _sums(scores: ScoreSet) -> dict[str, Any]:
    sides = {str(side): float(np.sum(values)) for side in OUTPUTS if (values := getattr(scores, side)) is not None}
    score, nrefs = float(np.sum(scores.scores)), scores.signature.nrefs or ""
    return {"nrefs": nrefs, "score": score, "sides": sides, "counts": scores.counts.as_dict()}


def _parquet(places: Sequence[Place], scores: dict[str, list[float]], summary: dict[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    values = zip(*places, strict=True) if places else [()] * len(_PLACE)
    types = (pa.int64(), pa.string(), pa.int64(), pa.string())
    columns = {name: pa.array(own, kind) for name, own, kind in zip(_PLACE, values, types, strict=True)}
    columns |= {name: pa.array(own, pa.float64()) for name, own in scores.items()}
    table = pa.table(columns).replace_schema_metadata({_SUMMARY: json.dumps(summary).encode()})
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    return written.getvalue()


def _read_summary(folder: OutputFolder, part: int, plan: str) -> dict[str, Any] | None:
    """Return the summary of a finished part; None if it is missing, damaged, or scored by another plan."""
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
