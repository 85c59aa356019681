"""``twmd score --engine ray``."""

from __future__ import annotations

import errno
import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.requested import columns_of, make_scorers, options_of
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.errors import FileError, SpecError
from twmd_registry.registry.names import LEXICAL_NAMES

if TYPE_CHECKING:
    from twmd_registry.scale.runner import ScoredDataset

LOCAL_OPTIONS = {
    "references": "a reference file",
    "record": "--record",
    "score_only": "-b",
    "short": "-sh",
    "sentence_level": "-sl",
    "paired_bs": "--paired-bs",
    "paired_ar": "--paired-ar",
    "confidence": "--confidence",
}
"""What means nothing to a data set."""


def score_on_ray(arguments: Arguments) -> int:
    """Score a data set, and print its scores."""
    _check(arguments)
    from twmd_registry.scale.plan import PART_ROWS
    from twmd_registry.scale.runner import ScaleOptions, score_files
    from twmd_registry.scale.workers import WorkerOptions

    found: list[ScoredDataset] = []
    try:  # scores are printed even if their record cannot be written
        with progress_bar("rows", first="starting Ray") as progress:
            scorers = make_scorers(arguments.asked, options_of(arguments))
            part_rows = arguments.part_rows or PART_ROWS
            manner = ScaleOptions(
                columns_of(arguments), part_rows, bool(arguments.resume), bool(arguments.strict), progress, found.append
            )
            workers = WorkerOptions(arguments.num_workers, arguments.num_gpus)
            score_files(scorers, list(map(str, arguments.input)), arguments.output, manner, workers)
    finally:
        for record in found:
            print(_render(record, arguments))
    return 0


def _check(arguments: Arguments) -> None:
    """Refuse what means nothing to a data set, before Ray is imported.

    Raises:
        SpecError: An option of the local engine, a metric of SacreBLEU, or no input or output.
        FileError: An input does not exist.
    """
    for name, option in LOCAL_OPTIONS.items():
        if getattr(arguments, name):
            raise SpecError(
                f"{option} means nothing to --engine ray: references are a column, and scores and the record go "
                "to --output."
            )
    if arguments.format not in {"text", "json"}:
        raise SpecError(f"--format {arguments.format} means nothing to --engine ray: give text or json.")
    if not arguments.input or not arguments.output:
        raise SpecError("--engine ray needs --input PATH_OR_PATTERN... and --output DIR.")
    for name in arguments.metrics:
        if name in LEXICAL_NAMES:
            raise SpecError(
                f"--engine ray scores by this package's metrics: {name} is SacreBLEU's, and no mean over rows."
            )
    for name in map(str, arguments.input):
        if "://" not in name and not Path(name).exists() and not glob.has_magic(name):
            raise FileError(f"{name}: {os.strerror(errno.ENOENT)}.")


def _render(record: ScoredDataset, arguments: Arguments) -> str:
    if arguments.format == "json":
        return record.to_json().rstrip("\n")
    lines = [f"{one.signature} = {one.score:.{arguments.width or 4}f}" for one in record.metrics]
    return "\n".join(
        [
            *lines,
            f"rows scored: {record.rows}, rejected: {record.rejected}; parts: {record.parts}, in {arguments.output}",
        ]
    )
