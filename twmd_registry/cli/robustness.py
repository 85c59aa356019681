"""``twmd robustness``."""

from __future__ import annotations

import argparse
import csv
import io
import json
from pathlib import Path

from twmd_registry.cli.compared import compared, printed, write_tables
from twmd_registry.cli.files import check_folder, write_file
from twmd_registry.cli.options import options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.judgments.sets import content_of, read_all_rated, title_of
from twmd_registry.metaeval.robustness import RobustnessResult, RobustnessStudy, run_robustness


def run_robustness_command(arguments: argparse.Namespace) -> int:
    """Measure which metrics notice edits that change the meaning; print the tables, and write them with every edit if asked to."""
    options = options_of(arguments)
    check_folder(arguments.output)
    metrics = compared(arguments)
    data = read_all_rated(arguments.data)
    study = RobustnessStudy(
        data=tuple(f"{title_of(name)}@{content_of(rated)}" for name, rated in data.items()),
        metrics=metrics,
        resamples=arguments.resamples,
        seed=arguments.seed,
    )
    with progress_bar() as progress:
        found = run_robustness(study, list(data.values()), options, progress)
    say(printed(found, arguments.format))
    if arguments.output:
        _write(found, arguments.output)
    return 0


def _write(found: RobustnessResult, folder: Path) -> None:
    """The tables in every format, everything as JSON, and every edit with its scores."""
    write_tables(found.tables, folder)
    write_file(folder / "robustness.json", json.dumps(found.as_dict(), indent=1, ensure_ascii=False).encode() + b"\n")
    file, pairs = io.StringIO(newline=""), found.pairs
    writer = csv.writer(file)
    writer.writerow(["edit", "text", "edited", "reference", *(name for one in found.measured for name in (one.label, f"{one.label} edited"))])
    for row in range(0, len(pairs.group), 2):
        scores = (score for one in found.measured for score in one.scores[row : row + 2])
        writer.writerow([pairs.group[row], *pairs.predictions[row : row + 2], "\n".join(pairs.references[row]), *scores])
    write_file(folder / "edits.csv", file.getvalue().encode())
