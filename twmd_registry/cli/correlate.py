"""``twmd correlate``."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path

from twmd_registry.cli.compared import compared, printed, write_tables
from twmd_registry.cli.files import check_folder, write_file
from twmd_registry.cli.options import options_of
from twmd_registry.cli.terminal import Rule, Style, best, matches, progress_bar, say
from twmd_registry.errors import SpecError
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.judgments.sets import content_of, read_rated, title_of
from twmd_registry.metaeval.agreement import Averaging
from twmd_registry.metaeval.correlation import Statistic, statistic_named
from twmd_registry.metaeval.pairwise import THRESHOLD
from twmd_registry.metaeval.study import Level, Study, StudyResult, run_study


def run_correlate(arguments: argparse.Namespace) -> int:
    """Measure how metrics agree with people on rated data; print the tables, and write them with every segment's scores if asked to.

    Raises:
        SpecError: ``--threshold`` without the correlation that has one.
    """
    options = options_of(arguments)
    check_folder(arguments.output)
    metrics = compared(arguments)
    if arguments.threshold is not None and Statistic.DARR not in arguments.correlation:
        raise SpecError("--threshold is of darr: ask for --correlation darr, or leave it out.")
    rated = read_rated(arguments.data)
    study = Study(
        data=title_of(arguments.data),
        content=content_of(rated),
        metrics=metrics,
        statistics=tuple(statistic_named(name) for name in arguments.correlation),
        averaging=Averaging(arguments.by),
        level=Level(arguments.level),
        resamples=arguments.resamples,
        trials=arguments.trials,
        seed=arguments.seed,
        threshold=THRESHOLD if arguments.threshold is None else arguments.threshold,
    )
    with progress_bar(total=len(rated.ratings)) as progress:
        found = run_study(study, rated, options, progress)
    say(printed(found, arguments.format), *(_marked(study) if arguments.format == "text" else ()))
    if arguments.output:
        _write(found, rated, arguments.output)
    return 0


def _marked(study: Study) -> tuple[Rule, ...]:
    """What a terminal shows in colour: the highest averages, and p below 0.05, which stands between two columns or ends a line."""
    averages = {statistic.value: True for statistic in study.statistics} | {"accuracy": True}
    return best(averages), matches(r"(?<=  )0\.0[0-4]\d\d(?=  | ?$)", Style.GOOD)


def _write(found: StudyResult, rated: RatedSegments, folder: Path) -> None:
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
