"""``twmd diagnose``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from twmd_registry.cli.files import check_folder, read_texts, write_file
from twmd_registry.cli.options import columns_of, options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.metaeval.diagnose import Diagnosis, diagnose
from twmd_registry.report.curves import PlotAxis, PlotCurve, curves
from twmd_registry.report.figures import SUFFIXES, as_csv, require_matplotlib

UNDEFINED = "undefined"
WORDS = {True: "pass", False: "fail", None: UNDEFINED}


def run_diagnose(arguments: argparse.Namespace) -> int:
    """Measure the similarities of words in every layer, print them and the properties, and draw them where a folder is given."""
    check_folder(arguments.output)
    if arguments.output:
        require_matplotlib()
    options = options_of(arguments)
    texts = read_texts([arguments.data], columns_of(arguments))
    with progress_bar("texts") as progress:
        found = diagnose(arguments.model, texts, options, seed=arguments.seed, progress=progress)
    say(_as_text(found))
    if arguments.output:
        write_diagnosis(found, arguments.output, "diagnosis")
    return 0


def _as_text(found: Diagnosis) -> str:
    rows = [
        {"centering": str(row.centering), "layer": row.layer} | {f"{name} (se)": _number(*one[:2]) for name, one in row.similarities.items()}
        for row in found.rows
    ]
    verdicts = [f"{WORDS[one.holds]:9}  {one.centering}: {one.property} ({one.evidence})" for one in found.verdicts]
    left_out = max(one.left_out for row in found.rows for one in row.similarities.values())
    note = [f"pairs with a word of which centering leaves nothing, left out: up to {left_out} of a number"] if left_out else []
    return "\n".join(
        [
            f"{found.model}: {found.words} words in {found.texts} texts",
            tabulate(rows, headers="keys", disable_numparse=True, stralign="right"),
            *note,
            "",
            *verdicts,
        ]
    )


def _number(mean: float, error: float) -> str:
    if np.isnan(mean):
        return UNDEFINED
    return f"{mean:.3f} ({'-' if np.isnan(error) else f'{error:.3f}'})"


def write_diagnosis(found: Diagnosis, folder: Path, stem: str) -> None:
    """Write the numbers as CSV, and the figure.

    Args:
        found: What to write.
        folder: Where.
        stem: Of the files' names.

    Raises:
        FileError: A file cannot be written.
    """
    columns: dict[str, list[Any]] = {"centering": [str(row.centering) for row in found.rows], "layer": [row.layer for row in found.rows]}
    names = list(found.rows[0].similarities)
    for name in names:
        estimates = [row.similarities[name] for row in found.rows]
        columns |= {name: [one.mean for one in estimates]} | {f"{name}_error": [one.error for one in estimates]}
        columns |= {f"{name}_pairs": [one.pairs for one in estimates], f"{name}_left_out": [one.left_out for one in estimates]}
    write_file(folder / f"{stem}.csv", as_csv({name: np.array(values) for name, values in columns.items()}))
    panels = {}
    for centering in dict.fromkeys(row.centering for row in found.rows):
        own = [row for row in found.rows if row.centering is centering]
        layers = np.array([row.layer for row in own])
        panels[str(centering)] = [
            PlotCurve(name, layers, np.array([row.similarities[name].mean for row in own]), np.array([row.similarities[name].error for row in own]))
            for name in names
        ]
    for suffix in SUFFIXES:
        write_file(folder / f"{stem}{suffix}", curves(panels, PlotAxis("layer"), PlotAxis("cosine"), found.model, suffix))
