"""``twmd diagnose``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import read_texts
from twmd_registry.cli.output import as_json, check_folder, format_table, write_file
from twmd_registry.cli.requested import columns_of, options_of
from twmd_registry.cli.terminal import progress_bar, say

if TYPE_CHECKING:
    from twmd_registry.metaeval.diagnosis import Diagnosis

TEXTS = f"Texts, one per line, or a table. {declare.RATED}"
UNDEFINED = "undefined"
WORDS = {True: "pass", False: "fail", None: UNDEFINED}


@command("diagnose", example="twmd diagnose embedded --data corpus.txt -o out/")
@declare.argument("model", metavar="MODEL")
@declare.option("--data", "DATA", TEXTS, type=declare.TEXTS, required=True)
@declare.columns
@declare.seed("Of the draw of word pairs")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.output("Write the numbers (CSV) and the figure (PNG, SVG).")
@declare.placement
def diagnose_command(arguments: Arguments) -> int:
    """Measure how similar a model's word vectors are, layer by layer, for every centering (TWMD paper, section 5,
    Figures 1 and 2).

    MODEL is a Hub id, a folder, or 'embedded'.
    """
    check_folder(arguments.output)
    options = options_of(arguments)
    texts = _read(arguments)
    from twmd_registry.metaeval.diagnosis import diagnose
    from twmd_registry.report.figures import require_matplotlib

    if arguments.output:
        require_matplotlib()
    with progress_bar("texts") as progress:
        diagnosis = diagnose(arguments.model, texts, options, seed=arguments.seed, progress=progress)
    say(_format(diagnosis, arguments.format))
    if arguments.output:
        write_diagnosis(diagnosis, arguments.output, "diagnosis")
    return 0


def _read(arguments: Arguments) -> list[str]:
    """Read the texts of a file, or the predictions and references of rated data."""
    if isinstance(arguments.data, Path):
        return read_texts([arguments.data], columns_of(arguments))
    from twmd_registry.judgments.sets import read_rated

    rated = read_rated(arguments.data)
    references = [text for own in rated.references for text in ([own] if isinstance(own, str) else own)]
    return list(dict.fromkeys([*rated.predictions, *references]))


def _format(diagnosis: Diagnosis, form: str) -> str:
    if form == "json":
        return as_json(diagnosis.as_dict())
    from twmd_registry.metaeval.diagnosis import PROPERTIES

    rows = [
        [centering, layer, *(_format_mean(own["mean"], own["error"]) for own in estimates.values())]
        for centering, layer, estimates in diagnosis.rows
    ]
    table = format_table(["centering", "layer", *(f"{name} (se)" for name in PROPERTIES)], rows, form)
    if form != "text":
        return table
    lines = [f"{diagnosis.model}: {diagnosis.words} words in {diagnosis.texts} texts", table]
    if left_out := diagnosis.estimates["left_out"].max():
        lines.append(f"pairs with a word of which centering leaves nothing, left out: up to {left_out} of a number")
    for (centering, similarity), (holds, evidence) in diagnosis.verdicts.items():
        lines.append(f"{WORDS[holds]:9}  {centering}: {PROPERTIES[similarity]} ({evidence})")
    lines.insert(-len(diagnosis.verdicts), "")
    return "\n".join(lines)


def _format_mean(mean: float, error: float) -> str:
    if math.isnan(mean):
        return UNDEFINED
    return f"{mean:.3f} ({'-' if math.isnan(error) else f'{error:.3f}'})"


def write_diagnosis(diagnosis: Diagnosis, folder: Path, stem: str) -> None:
    """Write the numbers as CSV, and the figure, to files of this stem."""
    import numpy as np

    from twmd_registry.metaeval.diagnosis import Similarity
    from twmd_registry.report.figures import SUFFIXES, as_csv, curves

    centerings, layers, _ = diagnosis.estimates.shape
    numbers = {
        "centering": np.repeat([str(centering) for centering in diagnosis.centerings], layers),
        "layer": np.tile(np.arange(layers), centerings),
    }
    for s, name in enumerate(Similarity):
        own = diagnosis.estimates[:, :, s].ravel()
        numbers |= {name: own["mean"]} | {f"{name}_{field}": own[field] for field in ("error", "pairs", "left_out")}
    write_file(folder / f"{stem}.csv", as_csv(numbers))
    panels = {
        str(centering): {
            str(name): (np.arange(layers), own[:, s]["mean"], own[:, s]["error"]) for s, name in enumerate(Similarity)
        }
        for centering, own in zip(diagnosis.centerings, diagnosis.estimates, strict=True)
    }
    for suffix in SUFFIXES:
        write_file(folder / f"{stem}{suffix}", curves(panels, ("layer", "cosine"), diagnosis.model, suffix))
