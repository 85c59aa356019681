"""``twmd robustness``."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.correlate import compared, resamples
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
from twmd_registry.cli.files import check_folder, write_file
from twmd_registry.cli.output import as_json, format_result, write_tables
from twmd_registry.cli.requested import metrics_of, options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.registry.names import SEGMENT_LEXICAL

if TYPE_CHECKING:
    from twmd_registry.metaeval.robustness import RobustnessResult


@command("robustness", lexical=SEGMENT_LEXICAL, example="twmd robustness --data wmt:wmt17.jsonl -m twmd 'twmd;adapter=tuned/' bleu")
@many("--data", type=DATA, required=True, metavar="DATA", help=RATED)
@compared
@settings
@resamples
@output_format(*RESULT_FORMATS)
@seed("Of the edits and the bootstrap")
@option("-o", "--output", type=FOLDER, metavar="DIR", help="Write the tables, everything as JSON, and every edit with its scores (CSV).")
@run_options
def robustness_command(arguments: Arguments) -> int:
    """Measure whether metrics prefer good translations to the same texts after small edits that change the meaning (English)."""
    from twmd_registry.judgments.sets import content_of, read_all_rated, title_of
    from twmd_registry.metaeval.robustness import RobustnessStudy, run_robustness

    options = options_of(arguments)
    check_folder(arguments.output)
    metrics = metrics_of(arguments)
    data = read_all_rated(arguments.data)
    study = RobustnessStudy(
        data=tuple(f"{title_of(name)}@{content_of(rated)}" for name, rated in data.items()),
        metrics=metrics,
        resamples=arguments.resamples,
        seed=arguments.seed,
    )
    with progress_bar() as progress:
        found = run_robustness(study, list(data.values()), options, progress)
    say(format_result(found, arguments.format))
    if arguments.output:
        _write(found, arguments.output)
    return 0


def _write(found: RobustnessResult, folder: Path) -> None:
    """Write the tables in every format, everything as JSON, and every edit with its scores."""
    write_tables(found.tables, folder)
    write_file(folder / "robustness.json", f"{as_json(found.as_dict())}\n".encode())
    file, pairs = io.StringIO(newline=""), found.pairs
    writer = csv.writer(file)
    writer.writerow(["edit", "text", "edited", "reference", *(name for one in found.measured for name in (one.label, f"{one.label} edited"))])
    for row in range(0, len(pairs.group), 2):
        scores = (score for one in found.measured for score in one.scores[row : row + 2])
        writer.writerow([pairs.group[row], *pairs.predictions[row : row + 2], "\n".join(pairs.references[row]), *scores])
    write_file(folder / "edits.csv", file.getvalue().encode())
