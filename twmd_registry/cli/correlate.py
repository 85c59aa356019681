"""``twmd correlate``."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path

from twmd_registry.cli.files import write_file
from twmd_registry.cli.score import make_scorers, progress_bar
from twmd_registry.errors import FileError, SpecError, menu
from twmd_registry.metaeval.agreement import Averaging
from twmd_registry.metaeval.correlation import statistic_named
from twmd_registry.metaeval.lexical import LEXICAL
from twmd_registry.metaeval.study import Level, Study, StudyResult, run_study
from twmd_registry.metaeval.table import FORMATS, Table, as_text
from twmd_registry.rated.rows import Rated
from twmd_registry.rated.sets import content_of, read_rated, title_of
from twmd_registry.registry.members import split_name
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec


def run_correlate(arguments: argparse.Namespace) -> int:
    """Measure how metrics agree with people on rated data; print the tables, and write them with every segment's scores if asked to."""
    options = RunOptions(device=arguments.device, batch_tokens=arguments.batch_tokens)
    check_folder(arguments.output)
    own = [metric for metric in arguments.metrics if metric not in LEXICAL]
    specs = specs_of(own, arguments, options)
    rated = read_rated(arguments.data)
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
        lexical=tuple(metric for metric in arguments.metrics if metric in LEXICAL),
        threshold=arguments.threshold,
    )
    with progress_bar() as progress:
        found = run_study(study, rated, options, progress)
    print(found.as_text(FORMATS[arguments.format]) if arguments.format != "json" else json.dumps(found.as_dict(), indent=1, ensure_ascii=False))
    if arguments.output:
        _write(found, rated, arguments.output)
    return 0


def check_folder(output: Path | None) -> None:
    """Refuse to write into a file.

    Raises:
        FileError: The folder to write is one.
    """
    if output and output.exists() and not output.is_dir():
        raise FileError(f"{output} is a file: give a folder.")


def specs_of(metrics: list[str], arguments: argparse.Namespace, options: RunOptions) -> tuple[MetricSpec, ...]:
    """The specifications of metrics and signatures; none of nothing.

    Raises:
        SpecError: As for `make_scorers`; the menu holds SacreBLEU's metrics of a study.
    """
    for metric in metrics:
        if "|" not in metric and split_name(metric)[0] not in set(MetricName):
            raise SpecError(f"there is no metric {metric!r}; {menu(metric, [*MetricName, *LEXICAL])}.")
    return tuple(scorer.requested for scorer in make_scorers(metrics, arguments, options)) if metrics else ()


def write_tables(tables: Mapping[str, Table], folder: Path) -> None:
    """Write every table in every format."""
    for name, table in tables.items():
        for suffix, form in FORMATS.items():
            write_file(folder / f"{name}.{suffix}", f"{as_text(table, form)}\n".encode())


def _write(found: StudyResult, rated: Rated, folder: Path) -> None:
    """The tables in every format, everything as JSON, and the scores of every segment."""
    write_tables(found.tables, folder)
    write_file(folder / "study.json", json.dumps(found.as_dict(), indent=1, ensure_ascii=False).encode() + b"\n")
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["group", "item", "system", "rating", *(one.label for one in found.measured)])
    blank = [""] * len(rated.group)
    columns = (rated.group, rated.item or blank, rated.system or blank, rated.ratings.tolist(), *(one.scores for one in found.measured))
    writer.writerows(zip(*columns, strict=True))
    write_file(folder / "segments.csv", file.getvalue().encode())
