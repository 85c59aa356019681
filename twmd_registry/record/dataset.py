"""The record of a data set whose scores are columns of tables."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from twmd_registry.comparison.cells import SystemScore
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import InputError
from twmd_registry.record.content import digest_of, environment, spec_keys
from twmd_registry.registry.names import OUTPUTS
from twmd_registry.registry.signature import Signature, parse_signature

Hashes = dict[str, tuple[str, ...]]
FORMAT = "twmd-dataset-record"
FORMAT_VERSION = 1
SUMMARY = "batch_summary"
"""The column with facts about a batch of rows, as JSON in one of them."""
_MAX_WARNINGS = 10
"""Maximum number of warnings that are recorded; the most common come first."""


@dataclass(frozen=True)
class ScoredDataset:
    """The record of a finished run, ``record.json``. The Parquet files in its folder hold every row's scores.

    Attributes:
        created: Date and time in UTC, ISO 8601.
        inputs: The files, with name (without the folder) and bytes.
        columns: The columns of the predictions and the references, and whether TSV was quoted.
        rows: Rows that were scored.
        rejected: Rows that could not be scored.
        metrics: The mean scores, by the column of the scores. `SystemScore.counts` are summed over batches: a text in
            two batches counts as two distinct texts.
        warnings: Warnings with their number of batches, the most common first.
        environments: The distinct environments of the workers.
        seconds: Wall time of the last run.
    """

    created: str
    inputs: tuple[dict[str, Any], ...]
    columns: dict[str, Any]
    rows: int
    rejected: int
    metrics: dict[str, SystemScore]
    warnings: dict[str, int]
    environments: tuple[dict[str, str], ...]
    seconds: float

    def to_json(self) -> str:
        """Return the content of ``record.json``."""
        content: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION} | asdict(self)
        for column, score in content["metrics"].items():
            content["metrics"][column] = {name: value for name, value in score.items() if value not in (None, (), {})}
        return json.dumps(content | {"sha256": digest_of(content)}, indent=1, ensure_ascii=False) + "\n"


def summarise(scores: Sequence[ScoreSet], warnings: Sequence[str], device: str) -> str:
    """Return the facts about a batch, besides its scores, that a record needs, as JSON."""
    counts, nrefs = [score.counts.as_dict() for score in scores], [score.signature.nrefs for score in scores]
    return json.dumps({"counts": counts, "nrefs": nrefs, "warnings": warnings, "environment": environment(device)})


def make_dataset_record(
    metrics: Sequence[tuple[str, str, Hashes]], tables: Iterable[tuple[Any, bool]], started: float, **about: Any
) -> ScoredDataset:
    """Create the record of a data set.

    Args:
        metrics: For every metric the column of its scores, the signature, and the hashes that `ScoreSet` has.
        tables: All tables of scores (`pyarrow.Table`), each with whether its rows were rejected.
        started: The start of the run, by `time.perf_counter`.
        about: `inputs` and `columns` of the record.

    Raises:
        InputError: No row was scored.
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
    means, scores = {name: total / rows for name, total in sums.items()}, dict[str, SystemScore]()
    for (column, signature, hashes), nrefs, count in zip(metrics, numbers, counts, strict=True):
        whole = Signature(parse_signature(signature).spec, nrefs.pop() if len(nrefs) == 1 else "var")
        sides = {str(side): means[name] for side in OUTPUTS if (name := f"{column}_{side}") in means}
        facts: dict[str, Any] = {"signature": str(whole), "keys": spec_keys(whole), "hashes": hashes}
        scores[column] = SystemScore(means[column], sides, (), dict(count), **facts)
    return ScoredDataset(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        rows=rows,
        rejected=rejected,
        metrics=scores,
        warnings=dict(messages.most_common(_MAX_WARNINGS)),
        environments=tuple(map(json.loads, environments)),
        seconds=round(time.perf_counter() - started, 3),
        **about,
    )
