"""``twmd diagnose``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twmd_registry.cli.declare import (
    FOLDER,
    RATED,
    RESULT_FORMATS,
    TEXTS,
    Arguments,
    argument,
    columns,
    command,
    device,
    option,
    output_format,
    seed,
)
from twmd_registry.cli.files import check_folder, read_texts, write_file
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.requested import columns_of, options_of
from twmd_registry.cli.terminal import progress_bar, say

if TYPE_CHECKING:
    from twmd_registry.metaeval.diagnose import Diagnosis

UNDEFINED = "undefined"
WORDS = {True: "pass", False: "fail", None: UNDEFINED}


@command("diagnose", example="twmd diagnose embedded --data corpus.txt -o out/")
@argument("model", metavar="MODEL")
@option("--data", type=TEXTS, required=True, metavar="DATA", help=f"Texts, one per line, or a table. {RATED}")
@columns
@seed("Of the draw of word pairs")
@output_format(*RESULT_FORMATS)
@option("-o", "--output", type=FOLDER, metavar="DIR", help="Write the numbers (CSV) and the figure (PNG, SVG).")
@device
def diagnose_command(arguments: Arguments) -> int:
    """Measure how similar a model's word vectors are, layer by layer, for every centering (TWMD paper, section 5,
    Figures 1 and 2).

    MODEL is a Hub id, a folder, or 'embedded'.
    """
    check_folder(arguments.output)
    options = options_of(arguments)
    texts = _read(arguments)
    from twmd_registry.metaeval.diagnose import diagnose
    from twmd_registry.report.figures import require_matplotlib

    if arguments.output:
        require_matplotlib()
    with progress_bar("texts") as progress:
        found = diagnose(arguments.model, texts, options, seed=arguments.seed, progress=progress)
    say(_format(found, arguments.format))
    if arguments.output:
        write_diagnosis(found, arguments.output, "diagnosis")
    return 0


def _read(arguments: Arguments) -> list[str]:
    """Read the texts of a file, or the predictions and references of rated data."""
    if isinstance(arguments.data, Path):
        return read_texts([arguments.data], columns_of(arguments))
    from twmd_registry.judgments.sets import read_rated

    rated = read_rated(arguments.data)
    references = [text for own in rated.references for text in ([own] if isinstance(own, str) else own)]
    return list(dict.fromkeys([*rated.predictions, *references]))


def diagnosis_dict(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis by names, for JSON."""
    rows = [
        {"centering": row.centering, "layer": row.layer}
        | {name: one._asdict() for name, one in row.similarities.items()}
        for row in found.rows
    ]
    return {**found._asdict(), "rows": rows, "verdicts": [one._asdict() for one in found.verdicts]}


def _format(found: Diagnosis, form: str) -> str:
    if form == "json":
        return as_json(diagnosis_dict(found))
    names = list(found.rows[0].similarities)
    rows_of_text = [
        [row.centering, row.layer, *(_number(*row.similarities[name][:2]) for name in names)] for row in found.rows
    ]
    table = format_table(["centering", "layer", *(f"{name} (se)" for name in names)], rows_of_text, form)
    if form != "text":
        return table
    verdicts = [f"{WORDS[one.holds]:9}  {one.centering}: {one.property} ({one.evidence})" for one in found.verdicts]
    left_out = max(one.left_out for row in found.rows for one in row.similarities.values())
    note = (
        [f"pairs with a word of which centering leaves nothing, left out: up to {left_out} of a number"]
        if left_out
        else []
    )
    return "\n".join([f"{found.model}: {found.words} words in {found.texts} texts", table, *note, "", *verdicts])


def _number(mean: float, error: float) -> str:
    if math.isnan(mean):
        return UNDEFINED
    return f"{mean:.3f} ({'-' if math.isnan(error) else f'{error:.3f}'})"


def write_diagnosis(found: Diagnosis, folder: Path, stem: str) -> None:
    """Write the numbers as CSV, and the figure.

    Args:
        found: What to write.
        folder: Where.
        stem: Of the files' names.

    Raises:
        FileError: A file cannot be written.
    """
    import numpy as np

    from twmd_registry.report.figures import SUFFIXES, as_csv, curves

    numbers: dict[str, list[Any]] = {
        "centering": [str(row.centering) for row in found.rows],
        "layer": [row.layer for row in found.rows],
    }
    names = list(found.rows[0].similarities)
    for name in names:
        estimates = [row.similarities[name] for row in found.rows]
        numbers |= {name: [one.mean for one in estimates]} | {f"{name}_error": [one.error for one in estimates]}
        numbers |= {
            f"{name}_pairs": [one.pairs for one in estimates],
            f"{name}_left_out": [one.left_out for one in estimates],
        }
    write_file(folder / f"{stem}.csv", as_csv({name: np.array(values) for name, values in numbers.items()}))
    panels = {}
    for centering in dict.fromkeys(row.centering for row in found.rows):
        own = [row for row in found.rows if row.centering is centering]
        layers = np.array([row.layer for row in own])
        panels[str(centering)] = {
            str(name): (
                layers,
                np.array([row.similarities[name].mean for row in own]),
                np.array([row.similarities[name].error for row in own]),
            )
            for name in names
        }
    for suffix in SUFFIXES:
        write_file(folder / f"{stem}{suffix}", curves(panels, ("layer", "cosine"), found.model, suffix))
