"""The record of a finished run."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from twmd_registry.errors import FileError
from twmd_registry.record.content import spec_keys
from twmd_registry.record.file import DATASET_FORMAT, digest_of
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.scale.plan import ScalePlan

RECORD = "record.json"
_FORMAT_VERSION = 1
_WARNINGS = 20
"""Warnings that a record keeps, the most common first."""


@dataclass(frozen=True)
class ScoredMetric:
    """The scores of a data set by one metric.

    Attributes:
        signature: The long form, number of references included.
        keys: The keys of the signature once more, as text.
        column: The column of the parts that holds the scores.
        score: The mean over all rows that were scored.
        sides: Means of precision, recall and F1 of a two-sided metric; empty for others.
        counts: As in `twmd_registry.engine.result.Counts`, summed over parts: a text in two parts counts twice among
            different texts.
    """

    signature: str
    keys: dict[str, str]
    column: str
    score: float
    sides: dict[str, float]
    counts: dict[str, int]


@dataclass(frozen=True)
class ScoredDataset:
    """What `twmd score --engine ray` writes as ``record.json``; scores of single rows are in the parts.

    Attributes:
        created: When, in UTC, ISO 8601.
        inputs: The files: name without the folder that all have in common, bytes, rows.
        columns: Where texts stood: the column of the predictions, and those from which references were read.
        part_rows: Rows of a part.
        parts: How many parts there are.
        rows: Rows scored.
        rejected: Rows that could not be.
        texts: sha256 of the parts' digests of their texts, in order.
        metrics: By every metric.
        warnings: Warnings, the most common first, each with the number of parts that gave it.
        environments: The machines that scored, each different one once.
        workers: Workers of the last run.
        seconds: Wall time of the last run; where it went on after another, not of that one.
    """

    created: str
    inputs: tuple[dict[str, Any], ...]
    columns: dict[str, Any]
    part_rows: int
    parts: int
    rows: int
    rejected: int
    texts: str
    metrics: tuple[ScoredMetric, ...]
    warnings: dict[str, int]
    environments: tuple[dict[str, str], ...]
    workers: int
    seconds: float

    def to_json(self) -> str:
        """Write the content of ``record.json``."""
        content: dict[str, Any] = {"format": DATASET_FORMAT, "format_version": _FORMAT_VERSION} | asdict(self)
        return json.dumps(content | {"sha256": digest_of(content)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> ScoredDataset:
        """Read a record that this package wrote.

        Raises:
            FileError: It is none, or was edited.
        """
        try:
            content = json.loads(text)
            if content["sha256"] != digest_of(content):
                hint = "remove it, and go on by --resume, which writes it again"
                raise FileError(f"{RECORD} was edited after it had been written: {hint}.")
            del content["sha256"]
            if (content.pop("format"), content.pop("format_version")) != (DATASET_FORMAT, _FORMAT_VERSION):
                raise FileError(f"{RECORD} is no record of a data set of this version of the package.")
            lists = {name: tuple(content[name]) for name in ("inputs", "environments")}
            metrics = tuple(ScoredMetric(**one) for one in content["metrics"])
            return cls(**{**content, **lists, "metrics": metrics})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FileError(f"{RECORD} is no record of a data set that this package wrote.") from error


def make_record(
    plan: ScalePlan, names: Sequence[str], summaries: Sequence[dict[str, Any]], *, workers: int, seconds: float
) -> ScoredDataset:
    """Make the record of all parts.

    Args:
        plan: The plan.
        names: The metrics' columns.
        summaries: Of all parts, in order.
        workers: How many workers there were.
        seconds: Wall time.

    Raises:
        FileError: Not one row could be scored.
    """
    rows, rejected = sum(one["rows"] for one in summaries), sum(one["rejected"] for one in summaries)
    if not rows:
        raise FileError(f"not one of {rejected} rows could be scored: see rejects.jsonl.")
    references = list(dict.fromkeys(name for one in summaries for name in one["references"]))
    warnings = Counter(message for one in summaries for message in one["warnings"])
    scored = [one["metrics"] for one in summaries if one["metrics"]]
    return ScoredDataset(
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        inputs=tuple({"name": table.name, "bytes": table.file[1], "rows": table.rows} for table in plan.tables),
        columns={"prediction": plan.columns.prediction, "references": references},
        part_rows=plan.part_rows,
        parts=len(plan.parts),
        rows=rows,
        rejected=rejected,
        texts=sha256("".join(one["texts"] for one in summaries).encode()).hexdigest(),
        metrics=tuple(_mean(*one, rows) for one in zip(plan.signatures, names, zip(*scored, strict=True), strict=True)),
        warnings=dict(warnings.most_common(_WARNINGS)),
        environments=tuple(
            json.loads(one) for one in dict.fromkeys(json.dumps(one["environment"]) for one in summaries)
        ),
        workers=workers,
        seconds=round(seconds, 3),
    )


def _mean(signature: str, name: str, sums: Sequence[dict[str, Any]], rows: int) -> ScoredMetric:
    numbers = {one["nrefs"] for one in sums}
    whole = Signature(parse_signature(signature).spec, numbers.pop() if len(numbers) == 1 else "var")
    return ScoredMetric(
        signature=str(whole),
        keys=spec_keys(whole),
        column=name,
        score=math.fsum(one["score"] for one in sums) / rows,
        sides={side: math.fsum(one["sides"][side] for one in sums) / rows for side in sums[0]["sides"]},
        counts={count: sum(one["counts"][count] for one in sums) for count in sums[0]["counts"]},
    )
