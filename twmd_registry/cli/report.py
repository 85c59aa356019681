"""``twmd report``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from twmd_registry.cli.declare import (
    INPUT,
    Arguments,
    MetricParameter,
    argument,
    columns,
    command,
    many,
    option,
    parts,
    run_options,
    settings,
)
from twmd_registry.cli.files import write_file
from twmd_registry.cli.score import check_output, check_shared, compare, marked, record_of, sacrebleu_seed, score_tasks
from twmd_registry.cli.tasks import ScoringTask, read_tasks
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import SpecError, warn
from twmd_registry.record.file import check_writable
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

if TYPE_CHECKING:
    from twmd_registry.record.content import Resampling

REPORTED = (MetricName.TWMD, MetricName.BERTSCORE_CENTERED, MetricName.MOVERSCORE, "bleu", "chrf")
RESAMPLES = 1000
"""SacreBLEU's number of bootstrap resamples, as `twmd score` has it."""
HIGHLIGHTS = 20


class _HtmlFile(click.Path):
    """The name of an HTML file."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(value))
        if path.suffix.lower() not in {".html", ".htm"}:
            raise SpecError(
                f"-o {path}: a report is an HTML file; give a name that ends in .html. For a PDF, print the "
                "page in a browser."
            )
        return path


@command(
    "report",
    lexical=tuple(LEXICAL_NAMES),
    example="twmd report ref.txt -i system_a.txt system_b.txt -o report.html",
)
@argument("references", nargs=-1, type=INPUT, metavar="[REF]...")
@many("-i", "--input", type=INPUT, required=True, metavar="HYP", help="One file per system, the baseline first.")
@option("-o", "--output", type=_HtmlFile(), required=True, metavar="FILE", help="The HTML file to write.")
@many(
    "-m",
    "--metrics",
    type=MetricParameter([*MetricName, *LEXICAL_NAMES]),
    default=list(map(str, REPORTED)),
    metavar="METRIC",
    help=f"As for score (default: {' '.join(REPORTED)}).",
)
@columns
@settings
@sacrebleu_seed
@parts
@run_options
def report_command(arguments: Arguments) -> int:
    """Compare systems in one HTML file: scores with intervals and tests, distributions, correlations, alignments, every
    segment, the record.

    REF are reference files, one per reference stream.

    Raises:
        FileError: The page cannot be written.
        SpecError: The output is no HTML file, or none of the metrics is of this package.
    """
    asked = arguments.asked
    if not any(one.spec for one in asked):
        raise SpecError("a report keeps a record of this package's metrics: name one of them in -m.")
    check_output(arguments.output, arguments)
    tasks = read_tasks(arguments)
    check_shared(tasks)
    from twmd_registry.metaeval.overlap import warn_about_overlap
    from twmd_registry.report.html_report import Report, align_highlight, report_page
    from twmd_registry.report.segments import choose_highlights
    from twmd_registry.report.table import text_table

    scorers, scores, seconds = score_tasks(tasks, arguments)
    references = tasks[0].references
    resampling = _resampling(len(tasks), len(references), arguments.seed)
    comparison = compare(tasks, asked, scorers, scores, resampling, segments=True, keep_resamples=True)
    labels = [column.name for column, one in zip(comparison.columns, asked, strict=True) if one.spec]
    data = ", ".join(source.short_name for source in tasks[0].reference_sources) or tasks[0].name
    try:  # as for `twmd score`: neither the scores nor the page are lost when the other cannot be written
        say(text_table(comparison, None), *marked(comparison))
        sys.stdout.flush()
    finally:
        check_writable(arguments.output)
        chosen = choose_highlights(comparison, HIGHLIGHTS)
        highlights = []
        with progress_bar("alignments", len(chosen), first="") as progress:
            for highlight in chosen:
                highlights.append((highlight, align_highlight(highlight, scores)))
                if progress:
                    progress(1)
        report = Report(
            comparison=comparison,
            overlaps=warn_about_overlap(labels, scorers, references, data),
            predictions=[task.system.predictions for task in tasks],
            references=references,
            highlights=highlights,
            record=record_of(tasks, scores, comparison, seconds, arguments.device),
            sources=shared_originals(tasks),
        )
        write_file(arguments.output, report_page(report).encode())
    print(f"wrote {arguments.output}")
    return 0


def _resampling(systems: int, segments: int, seed: int) -> Resampling:
    """Ask for intervals of one system; of several, for the paired bootstrap, which brings its own; for neither of a
    single segment.
    """
    from twmd_registry.record.content import Resampling

    if segments == 1:
        warn("there is one segment: the report has no intervals and no tests.")
        return Resampling(seed=seed)
    if systems == 1:
        return Resampling(resamples=RESAMPLES, seed=seed)
    return Resampling("bs", RESAMPLES, seed=seed)


def shared_originals(tasks: Sequence[ScoringTask]) -> list[str] | None:
    """Return the texts that were translated, from the first table with a column ``source``; None where there is
    none.
    """
    return next((task.originals for task in tasks if task.originals is not None), None)
