"""``twmd report`` and ``twmd align``: pages and pictures of scores."""

from __future__ import annotations

import sys
from pathlib import Path

from twmd_registry.cli import declare, score_command
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import read_tasks
from twmd_registry.cli.output import as_json, format_table, write_file
from twmd_registry.cli.requested import make_scorers, options_of
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import SpecError, visible, warn
from twmd_registry.record.file import check_writable
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

SHOWN_LINKS = 15
COLUMNS = ("hypothesis", "reference", "carries", "similarity")


@command(
    "align", lexical=(), example='twmd align moverscore "It rained all day." "The whole day was rainy." -o plan.png'
)
@declare.metric()
@declare.argument("hypothesis", metavar="HYP")
@declare.argument("reference", metavar="REF")
@declare.output("Draw it: a .png, .svg, .pdf or .html file.", "FILE")
@declare.output_format("text", "json")
@declare.settings
@declare.parts
@declare.run_options
def align_command(arguments: Arguments) -> int:
    """Show how the score of two texts comes about: which token carries how much to which.

    METRIC is a metric or a signature, HYP and REF are texts.
    """
    from twmd_registry.report.alignment_picture import check_picture_file, draw

    if arguments.output is not None:
        check_picture_file(arguments.output)
    (scorer,) = make_scorers(arguments.asked, options_of(arguments))
    scores = scorer.score([arguments.hypothesis], [[arguments.reference]])
    alignment = scores.explain(0)
    predicted, expected = alignment.hypothesis, alignment.reference
    links = {
        side: [
            (predicted[link.hypothesis], expected[link.reference], link.amount, link.similarity)
            for link in alignment.links(side)
        ]
        for side in alignment.sides
    }
    if arguments.format == "json":
        sides = {side: [dict(zip(COLUMNS, link, strict=True)) for link in links[side]] for side in links}
        print(as_json({"signature": str(scores.signature), "score": scores.score, "sides": sides}))
    else:
        print(scores)
        for side, own in links.items():
            rows = [[visible(token), visible(other), f"{much:.4f}", f"{near:.4f}"] for token, other, much, near in own]
            print(f"\n{side}:\n{format_table(COLUMNS, rows[:SHOWN_LINKS], 'text')}")
            if len(rows) > SHOWN_LINKS:
                print(f"... and {len(rows) - SHOWN_LINKS} more")
    if arguments.output is not None:
        draw(alignment, arguments.output)
        if arguments.format == "text":
            print(f"\nwrote {arguments.output}")
    return 0


REPORTED = (MetricName.TWMD, MetricName.BERTSCORE_CENTERED, MetricName.MOVERSCORE, "bleu", "chrf")
HIGHLIGHTS = 20


def _html_file(value: str) -> Path:
    path = Path(value)
    if path.suffix.lower() not in {".html", ".htm"}:
        what = "a report is an HTML file; give a name that ends in .html. For a PDF, print the page in a browser"
        raise SpecError(f"-o {path}: {what}.")
    return path


@command(
    "report", lexical=tuple(LEXICAL_NAMES), example="twmd report ref.txt -i system_a.txt system_b.txt -o report.html"
)
@declare.argument("references", nargs=-1, type=declare.INPUT, metavar="[REF]...")
@declare.many("-i --input", "HYP", "One file per system, the baseline first.", type=declare.INPUT, required=True)
@declare.output("The HTML file to write.", "FILE", type=declare.CheckedPath(_html_file), required=True)
@declare.metrics(LEXICAL_NAMES, f"As for score (default: {' '.join(REPORTED)}).", default=list(map(str, REPORTED)))
@declare.columns
@declare.settings
@score_command.sacrebleu_seed
@declare.parts
@declare.run_options
def report_command(arguments: Arguments) -> int:
    """Compare systems in one HTML file: scores with intervals and tests, distributions, correlations, alignments, every
    segment, the record.

    REF are reference files, one per reference stream.
    """
    asked = arguments.asked
    if not any(metric.spec for metric in asked):
        raise SpecError("a report keeps a record of this package's metrics: name one of them in -m.")
    score_command.check_output(arguments.output, arguments)
    tasks = read_tasks(arguments)
    from twmd_registry.metaeval.overlap import warn_about_overlap
    from twmd_registry.record.content import Resampling
    from twmd_registry.report.html_report import Report, align_highlight, report_page
    from twmd_registry.report.segments import choose_highlights
    from twmd_registry.report.table import text_table

    references, samples = tasks[0].references, score_command.DEFAULT_RESAMPLES
    if len(references) == 1:
        warn("there is one segment: the report has no intervals and no tests.")
        resampling = Resampling(seed=arguments.seed)
    elif len(tasks) == 1:
        resampling = Resampling(resamples=samples, seed=arguments.seed)
    else:  # the paired bootstrap has intervals of its own
        resampling = Resampling("bs", samples, seed=arguments.seed)
    shown = {"segments": True, "keep_resamples": True}
    scored = score_command.score_and_compare(tasks, arguments, resampling, **shown)
    scorers, scores, _, comparison = scored
    labels = [column.name for column, metric in zip(comparison.columns, asked, strict=True) if metric.spec]
    data = ", ".join(file.name for file in tasks[0].files if file.role == "references") or tasks[0].name
    try:  # as for `twmd score`: neither the scores nor the page are lost when the other cannot be written
        say(text_table(comparison, None), *score_command.best_and_significant(comparison))
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
            predictions=[task.predictions for task in tasks],
            references=references,
            highlights=highlights,
            record=score_command.record_of(tasks, arguments, *scored),
            sources=next((task.originals for task in tasks if task.originals is not None), None),
        )
        write_file(arguments.output, report_page(report).encode())
    print(f"wrote {arguments.output}")
    return 0
