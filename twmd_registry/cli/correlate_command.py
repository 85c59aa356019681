"""``twmd correlate``."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from twmd_registry.cli.declare import (
    COUNT,
    DATA,
    FINITE,
    FOLDER,
    RATED,
    RESULT_FORMATS,
    Arguments,
    MetricParameter,
    argument,
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
from twmd_registry.cli.terminal import Rule, Style, best, matches, progress_bar, say
from twmd_registry.errors import SpecError
from twmd_registry.registry.names import SEGMENT_LEXICAL, MetricName

if TYPE_CHECKING:
    from twmd_registry.judgments.rated import RatedSegments
    from twmd_registry.metaeval.study import Study, StudyResult

compared = many(
    "-m",
    "--metrics",
    type=MetricParameter([*MetricName, *SEGMENT_LEXICAL]),
    required=True,
    metavar="METRIC",
    help=(
        "Metrics, 'METRIC;KEY=VALUE;...' with keys of their own, signatures, bleu, chrf, chrf++; others are tested "
        "against the first."
    ),
)
resamples = option(
    "--resamples", type=COUNT, default=1000, metavar="N", help="Of the bootstrap intervals; 0 for none (default: 1000)."
)


@command(
    "correlate",
    lexical=SEGMENT_LEXICAL,
    example="twmd correlate wmt:wmt17.jsonl -m twmd bertscore_centered --correlation pearson kendall --trials 1000",
)
@argument("data", required=False, type=DATA, metavar="[DATA]")
@option("--data", "named_data", type=DATA, metavar="DATA", help=f"The same as DATA, as other commands have it. {RATED}")
@compared
@settings
@resamples
@output_format(*RESULT_FORMATS)
@many(
    "--correlation", default=["pearson"], metavar="NAME", help="pearson (the default), spearman, kendall, darr, acc_eq."
)
@option(
    "--by",
    type=click.Choice(["none", "group", "item", "system"]),
    default="group",
    help="What is averaged over (default: group).",
)
@option(
    "--level",
    type=click.Choice(["segment", "system"]),
    default="segment",
    help="system: means of systems, and their pairwise accuracy.",
)
@option(
    "--trials",
    type=COUNT,
    default=0,
    metavar="N",
    help="Of a paired permutation test against the first metric (default: 0).",
)
@seed("Of both")
@option(
    "--threshold", type=FINITE, metavar="X", help="Of darr: ratings that differ by less are not compared (default: 25)."
)
@option(
    "-o",
    "--output",
    type=FOLDER,
    metavar="DIR",
    help="Write the tables, everything as JSON, and every segment's scores (CSV).",
)
@run_options
def correlate_command(arguments: Arguments) -> int:
    """Measure how metrics agree with people on rated data, with intervals, and whether one agrees better than another.

    Raises:
        SpecError: No data, data twice, or ``--threshold`` without the correlation that has one.
    """
    if (arguments.data is None) == (arguments.named_data is None):
        raise SpecError("name rated data once: twmd correlate DATA -m METRIC..., or --data DATA.")
    data = arguments.data or arguments.named_data
    if arguments.threshold is not None and "darr" not in arguments.correlation:
        raise SpecError("--threshold is of darr: ask for --correlation darr, or leave it out.")
    from twmd_registry.judgments.sets import content_of, read_rated, title_of
    from twmd_registry.metaeval.agreement import Averaging
    from twmd_registry.metaeval.correlation import THRESHOLD, statistic_named
    from twmd_registry.metaeval.study import Study, run_study

    options = options_of(arguments)
    check_folder(arguments.output)
    metrics = metrics_of(arguments)
    rated = read_rated(data)
    study = Study(
        data=title_of(data),
        content=content_of(rated),
        metrics=metrics,
        statistics=tuple(statistic_named(name) for name in arguments.correlation),
        averaging=Averaging(arguments.by),
        level=arguments.level,
        resamples=arguments.resamples,
        trials=arguments.trials,
        seed=arguments.seed,
        threshold=THRESHOLD if arguments.threshold is None else arguments.threshold,
    )
    with progress_bar(total=len(rated.ratings)) as progress:
        found = run_study(study, rated, options, progress)
    say(format_result(found, arguments.format), *(_marked(study) if arguments.format == "text" else ()))
    if arguments.output:
        _write(found, rated, arguments.output)
    return 0


def _marked(study: Study) -> tuple[Rule, ...]:
    """Return what a terminal shows in colour: the highest averages, and p below 0.05, which stands between two columns
    or ends a line.
    """
    averages = {statistic.value: True for statistic in study.statistics} | {"accuracy": True}
    return best(averages), matches(r"(?<=  )0\.0[0-4]\d\d(?=  | ?$)", Style.GOOD)


def _write(found: StudyResult, rated: RatedSegments, folder: Path) -> None:
    """Return the tables in every format, everything as JSON, and the scores of every segment."""
    write_tables(found.tables, folder)
    write_file(folder / "study.json", f"{as_json(found.as_dict())}\n".encode())
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["group", "item", "system", "rating", *(one.label for one in found.scored)])
    blank = [""] * len(rated.group)
    columns = (
        rated.group,
        rated.item or blank,
        rated.system or blank,
        rated.ratings.tolist(),
        *(one.scores for one in found.scored),
    )
    writer.writerows(zip(*columns, strict=True))
    write_file(folder / "segments.csv", file.getvalue().encode())
