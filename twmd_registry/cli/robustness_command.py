"""``twmd robustness``."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.correlate_command import compared, resamples
from twmd_registry.cli.declare import (
    DATA,
    FOLDER,
    RATED,
    RESULT_FORMATS,
    Arguments,
    command,
    many,
    option,
    output_format,
    run_options,
    seed,
    settings,
)
from twmd_registry.cli.inputs import check_folder, write_file
from twmd_registry.cli.output import as_json, format_result, write_tables
from twmd_registry.cli.requested import metrics_of, options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.registry.names import SEGMENT_LEXICAL

if TYPE_CHECKING:
    from twmd_registry.metaeval.study import RobustnessResult


@command(
    "robustness",
    lexical=SEGMENT_LEXICAL,
    example="twmd robustness --data demetr:demetr.jsonl.xz,first=100 -m twmd 'twmd;adapter=tuned/' bleu",
)
@many("--data", type=DATA, required=True, metavar="DATA", help=RATED)
@compared
@settings
@resamples
@output_format(*RESULT_FORMATS)
@seed("Of the bootstrap")
@option(
    "-o",
    "--output",
    type=FOLDER,
    metavar="DIR",
    help="Write the tables, everything as JSON, and every pair with its scores (CSV).",
)
@run_options
def robustness_command(arguments: Arguments) -> int:
    """Measure whether metrics prefer texts to the same texts after a small edit, on a published challenge set such as
    DEMETR.

    Any rated data with two texts of each item will do: the better rated one is to score higher.
    """
    from twmd_registry.judgments.sets import content_of, read_all_rated, title_of
    from twmd_registry.metaeval.study import run_robustness

    options = options_of(arguments)
    check_folder(arguments.output)
    data = {f"{title_of(name)}@{content_of(rated)}": rated for name, rated in read_all_rated(arguments.data).items()}
    with progress_bar() as progress:
        found = run_robustness(
            data, metrics_of(arguments), options, resamples=arguments.resamples, seed=arguments.seed, progress=progress
        )
    say(format_result(found, arguments.format))
    if arguments.output:
        _write(found, arguments.output)
    return 0


def _write(found: RobustnessResult, folder: Path) -> None:
    """Write the tables in every format, everything as JSON, and every pair with its scores."""
    write_tables(found.tables, folder)
    write_file(folder / "robustness.json", f"{as_json(found.as_dict())}\n".encode())
    file, pairs = io.StringIO(newline=""), found.pairs
    writer = csv.writer(file)
    writer.writerow(
        [
            "edit",
            "better",
            "worse",
            "reference",
            *(f"{one.label} {side}" for one in found.scored for side in ("better", "worse")),
        ]
    )
    for row in range(0, len(pairs.group), 2):
        scores = (score for one in found.scored for score in one.scores[row : row + 2])
        reference = pairs.references[row]
        shown = reference if isinstance(reference, str) else "\n".join(reference)
        writer.writerow([pairs.group[row], *pairs.predictions[row : row + 2], shown, *scores])
    write_file(folder / "pairs.csv", file.getvalue().encode())
