"""``twmd correlate``."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path

from twmd_registry.cli.files import write_file
from twmd_registry.cli.score import make_scorers, progress_bar
from twmd_registry.errors import warn
from twmd_registry.metaeval.agreement import Averaging
from twmd_registry.metaeval.correlation import statistic_named
from twmd_registry.metaeval.study import Level, Study, StudyResult, run_study
from twmd_registry.metaeval.table import FORMATS, as_text
from twmd_registry.rated.rows import Rated
from twmd_registry.rated.sets import content_of, read_rated, title_of
from twmd_registry.registry.options import RunOptions


def run_correlate(arguments: argparse.Namespace) -> int:
    """Measure how metrics agree with people on rated data; print the tables, and write them with every segment's scores if asked to."""
    options = RunOptions(device=arguments.device, batch_tokens=arguments.batch_tokens)
    specs = tuple(scorer.requested for scorer in make_scorers(arguments.metrics, arguments, options))
    rated = read_rated(arguments.data)
    if rated.dropped:
        warn(f"{title_of(arguments.data)}: rows without a rating or a text, left out: {rated.dropped}.")
    study = Study(
        data=title_of(arguments.data),
        content=content_of(rated),
        metrics=specs,
        statistics=tuple(statistic_named(name) for name in arguments.correlation),
        averaging=Averaging(arguments.by),
        level=Level(arguments.level),
        resamples=arguments.resamples,
        trials=arguments.trials,
        seed=arguments.seed,
    )
    with progress_bar() as progress:
        found = run_study(study, rated, options, progress)
    print(_whole(found, FORMATS[arguments.format]) if arguments.format != "json" else json.dumps(found.as_dict(), indent=1, ensure_ascii=False))
    if arguments.output:
        _write(found, rated, arguments.output)
    return 0


def _whole(found: StudyResult, form: str) -> str:
    """Every table, and what is needed to do it again."""
    tables = [as_text(table, form) for table in found.tables.values()]
    return "\n\n".join([*tables, "\n".join([found.study.name, *(f"{one.label}: {one.signature}" for one in found.measured)])])


def _write(found: StudyResult, rated: Rated, folder: Path) -> None:
    """The tables in every format, everything as JSON, and the scores of every segment."""
    for name, table in found.tables.items():
        for suffix, form in FORMATS.items():
            write_file(folder / f"{name}.{suffix}", f"{as_text(table, form)}\n".encode())
    write_file(folder / "study.json", json.dumps(found.as_dict(), indent=1, ensure_ascii=False).encode() + b"\n")
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["group", "item", "system", "rating", *(one.label for one in found.measured)])
    blank = [""] * len(rated.group)
    columns = (rated.group, rated.item or blank, rated.system or blank, rated.ratings.tolist(), *(one.scores for one in found.measured))
    writer.writerows(zip(*columns, strict=True))
    write_file(folder / "segments.csv", file.getvalue().encode())
