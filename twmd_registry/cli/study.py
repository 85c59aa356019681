"""``twmd study``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from twmd_registry.cli.files import write_file
from twmd_registry.cli.options import options_of
from twmd_registry.cli.reproduce import write_tables
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import FileError, InputError
from twmd_registry.papers.experiment import read_experiment
from twmd_registry.papers.measures import roc_curve
from twmd_registry.papers.reproduction import Reproduction
from twmd_registry.papers.run import reproduce
from twmd_registry.report import figures

MEMBERS = {"stsscore": "STSScore", "bertscore": "BERTScore", "sbert": "S-BERT"}
"""By option, the paper's row whose metric it puts in place."""
TABLES = ("table1", "table2", "table3", "table4", "auc")


def run_study(arguments: argparse.Namespace) -> int:
    """Score the data sets that are here by every measure, and write tables and figures.

    Raises:
        InputError: Neither a folder nor the Hub is named.
        FileError: The folder to write is not empty.
    """
    figures.require_matplotlib()
    if not arguments.data_dir and not arguments.hub:
        raise InputError("no data: give --data-dir DIR, --hub, or both.")
    _check_empty(arguments.output)
    options = options_of(arguments)
    members = {row: given for option, row in MEMBERS.items() if (given := getattr(arguments, option))}
    experiments = [read_experiment(f"{arguments.paper}-{name}", members) for name in TABLES]
    with progress_bar() as progress:
        found = dict(
            zip(
                TABLES,
                reproduce(experiments, arguments.data_dir, hub=arguments.hub, options=options, progress=progress),
                strict=True,
            )
        )
    rated = {name: next(iter(groups.values())) for name, groups in found["table1"].rated.items()}
    sizes = "".join(f"{name}\t{len(own.ratings)}\n" for name, own in rated.items())
    write_file(arguments.output / "data.txt", sizes.encode())
    write_tables(found, arguments.output)
    rows: dict[str, str] = {}
    for table in found.values():
        for setting, signature in zip(table.settings, table.signatures, strict=True):
            rows.setdefault(signature, setting.row)
    signatures = "".join(f"{row}\t{signature}\n" for signature, row in rows.items())
    write_file(arguments.output / "signatures.txt", signatures.encode())
    _draw(found, arguments.output)
    say("\n\n".join(one.text("txt") for one in found.values()))
    print(f"\n{signatures}", end="")
    return 0


def _check_empty(output: Path) -> None:
    """Refuse a folder with files: those of a run on other data would stay beside the new ones."""
    if output.is_dir() and any(output.iterdir()):
        raise FileError(f"{output} is not empty: give a new folder, so that all files in it are of one run.")


def _draw(found: Mapping[str, Reproduction], output: Path) -> None:
    """Write the figures of every data set, each as PNG and SVG, with its data as CSV."""
    scores = {**found["table1"].scores, **found["table3"].scores}
    classes = found["auc"].rated
    for name, groups in found["table1"].rated.items():
        (group, rated), *_ = groups.items()
        own, stem = {measure: places[name, group] for measure, places in scores.items()}, name.lower()
        write_file(output / f"{stem}.csv", figures.as_csv({"rating": rated.ratings, **own}))
        draw = figures.densities if name in classes else figures.scatter
        for suffix in figures.SUFFIXES:
            write_file(output / f"{stem}{suffix}", draw(rated.ratings, own, name, suffix))
        if name in classes and 0 < rated.ratings.sum() < len(rated.ratings):
            curves = {measure: roc_curve(values, rated.ratings == 1) for measure, values in own.items()}
            for suffix in figures.SUFFIXES:
                write_file(output / f"{stem}-roc{suffix}", figures.roc(curves, name, suffix))
