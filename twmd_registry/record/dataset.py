"""The record of a data set whose scores are columns of tables."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import InputError
from twmd_registry.record.content import digest_of, environment, spec_keys
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.registry.signature import Signature, parse_signature

FORMAT = "twmd-dataset-record"
FORMAT_VERSION = 1
SUMMARY = "batch_summary"
"""The column with facts about a batch of rows, as JSON in one of them."""
_MAX_WARNINGS = 10
"""Maximum number of warnings that are recorded; the most common come first."""


class ScoredColumn(NamedTuple):
    """The column of a metric's scores, with its signature and the hashes that `ScoreSet` has."""

    name: str
    signature: str
    hashes: dict[str, tuple[str, ...]]

    def sides(self, present: Iterable[str]) -> dict[str, str]:
        """Return the columns of precision, recall and F1 that are present."""
        return {str(side): name for side in OUTPUTS if (name := f"{self.name}_{side}") in present}


@dataclass(frozen=True)
class DatasetScore:
    """The mean score of a data set by one metric.

    Attributes:
        signature: The signature, with the number of references.
        keys: Its keys, as text.
        hashes: As in `ScoreSet`.
        column: The output column with the scores.
        score: The mean score.
        sides: Mean precision, recall and F1 of a two-sided metric; empty for others.
        counts: As in `Counts`, summed over batches. A text in two batches counts as two distinct texts.
    """

    signature: str
    keys: dict[str, str]
    hashes: dict[str, tuple[str, ...]]
    column: str
    score: float
    sides: dict[str, float]
    counts: dict[str, int]


@dataclass(frozen=True)
class ScoredDataset:
    """The record of a finished run, ``record.json``. The Parquet files in its folder hold every row's scores.

    Attributes:
        created: Date and time in UTC, ISO 8601.
        inputs: The files, with name (without their common folder) and bytes.
        columns: The columns of the predictions and the references, and whether TSV was quoted.
        rows: Rows that were scored.
        rejected: Rows that could not be scored.
        metrics: The mean scores by metric.
        warnings: Warnings with their number of batches, the most common first.
        environments: The distinct environments of the workers.
        seconds: Wall time of the last run.
    """

    created: str
    inputs: tuple[dict[str, Any], ...]
    columns: dict[str, Any]
    rows: int
    rejected: int
    metrics: tuple[DatasetScore, ...]
    warnings: dict[str, int]
    environments: tuple[dict[str, str], ...]
    seconds: float

    def to_json(self) -> str:
        """Return the content of ``record.json``."""
        content: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION} | asdict(self)
        return json.dumps(content | {"sha256": digest_of(content)}, indent=1, ensure_ascii=False) + "\n"


def summarise(scores: Sequence[ScoreSet], warnings: Sequence[str], device: str) -> str:
    """Write what a record needs to know of a batch besides its scores."""
    counts, nrefs = [score.counts.as_dict() for score in scores], [score.signature.nrefs for score in scores]
    return json.dumps({"counts": counts, "nrefs": nrefs, "warnings": warnings, "environment": environment(device)})


def make_dataset_record(
    metrics: Sequence[ScoredColumn], tables: Iterable[tuple[Any, bool]], started: float, **about: Any
) -> ScoredDataset:
    """Make the record of all tables of scores (`pyarrow.Table`), each with whether its rows were rejected.

    Raises InputError if no row was scored.
    """
    rows, rejected, sums = 0, 0, Counter[str]()
    messages, environments = Counter[str](), dict[str, None]()
    counts, numbers = [Counter[str]() for _ in metrics], [set[Any]() for _ in metrics]
    for table, is_rejected in tables:
        for summary in map(json.loads, table[SUMMARY].drop_null().to_pylist()):
            messages.update(summary["warnings"])
            environments[json.dumps(summary["environment"])] = None
            for i, nrefs in enumerate(summary["nrefs"]):
                counts[i].update(summary["counts"][i])
                numbers[i].add(nrefs)
        if is_rejected:
            rejected += table.num_rows
        else:
            rows += table.num_rows
            sums.update({name: float(table[name].to_numpy().sum()) for name in table.column_names if name != SUMMARY})
    if not rows:
        raise InputError(f"none of {rejected} rows could be scored.")
    scores = []
    for metric, nrefs, count in zip(metrics, numbers, counts, strict=True):
        whole = Signature(parse_signature(metric.signature).spec, nrefs.pop() if len(nrefs) == 1 else "var")
        sides = {side: sums[name] / rows for side, name in metric.sides(sums).items()}
        mean = sums[metric.name] / rows
        scores.append(DatasetScore(str(whole), spec_keys(whole), metric.hashes, metric.name, mean, sides, dict(count)))
    return ScoredDataset(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        rows=rows,
        rejected=rejected,
        metrics=tuple(scores),
        warnings=dict(messages.most_common(_MAX_WARNINGS)),
        environments=tuple(map(json.loads, environments)),
        seconds=round(time.perf_counter() - started, 3),
        **about,
    )
