"""``twmd report``: compare systems, or metrics with human ratings, in one HTML file."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.cli import declare
from twmd_registry.cli.arguments import refuse, refuse_run_options_of_sacrebleu
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import ScoringTask, read_tasks
from twmd_registry.cli.metrics import options_of, parse_metrics
from twmd_registry.cli.score import DEFAULT_RESAMPLES, check_output, sacrebleu_seed, score_and_compare
from twmd_registry.cli.terminal import HEADER, complain, printed, progress_bar
from twmd_registry.comparison.cells import Resampling
from twmd_registry.errors import SpecError
from twmd_registry.judgments.sets import content_of, read_all_rated, title_of
from twmd_registry.messages import warn
from twmd_registry.registry.names import LEXICAL_NAMES, SEGMENT_LEXICAL, MetricName, Statistic
from twmd_registry.registry.paths import write_file

REPORTED = (MetricName.TWMD, MetricName.BERTSCORE_CENTERED, MetricName.MOVERSCORE, "bleu", "chrf")
HIGHLIGHTS = 20


def _html_file(value: str) -> Path:
    path = Path(value)
    if path.suffix.lower() not in {".html", ".htm"}:
        what = "a report is an HTML file; choose a name ending in .html. For a PDF, print the page in a browser"
        raise SpecError(f"-o {path}: {what}.")
    return path


def _read_reported(arguments: Arguments) -> list[ScoringTask]:
    if not arguments.input:
        raise SpecError("Missing option '-i' / '--input': name a file per system, or rated data with --agreement.")
    if not any(metric.spec for metric in arguments.requested):
        raise SpecError("a report needs a metric of this package: add one to -m, such as twmd.")
    check_output(arguments.output, arguments)
    tasks = read_tasks(arguments)
    if not any(tasks[0].references):
        raise SpecError("a report shows references and groups segments by them: name reference files before -i.")
    return tasks


@command("report", example="twmd report ref.txt -i system_a.txt system_b.txt -o report.html")
@declare.argument("references", nargs=-1, type=declare.INPUT, metavar="[REF]...")
@declare.many("-i --input", "HYP", "One file per system, the baseline first.", type=declare.INPUT)
@declare.many(
    "--agreement", "DATA", f"Report agreement with human ratings instead of systems. {declare.RATED}", type=declare.DATA
)
@declare.output("The HTML file to write.", "FILE", type=declare.CheckedPath(_html_file), required=True)
@declare.metrics(
    dict.fromkeys([*LEXICAL_NAMES, *SEGMENT_LEXICAL]),
    f"As for score, with --agreement as for correlate (default: {' '.join(REPORTED)}).",
    default=list(map(str, REPORTED)),
)
@declare.source
@declare.columns
@declare.settings
@declare.other_scores
@sacrebleu_seed
@declare.parts
@declare.drop_missing
@declare.run_options
def report_command(arguments: Arguments) -> int:
    """Compare systems in one HTML file: scores with intervals and tests, distributions, correlations, alignments, every
    segment, the record.

    REF are reference files, one per reference stream. With --agreement, the page shows the metrics' agreement with
    human ratings on every data set, with intervals and pictures.
    """
    lexical = SEGMENT_LEXICAL if arguments.agreement else tuple(LEXICAL_NAMES)
    arguments.requested = requested = parse_metrics(arguments.metrics, arguments, lexical)
    refuse_run_options_of_sacrebleu(arguments)
    if arguments.agreement:
        texts = ("references", "input", "src", "scores", "prediction_column", "reference_column", "lines", "quoted_tsv")
        refuse(texts, "is not used with --agreement, which reports on rated data: leave it out")
        return _report_agreement(arguments)
    tasks = _read_reported(arguments)
    from twmd_registry.comparison.tables import text_table
    from twmd_registry.comparison.verdict import verdict
    from twmd_registry.metaeval.overlap import warn_about_overlap
    from twmd_registry.report.html_report import align_highlight, report_page
    from twmd_registry.report.segments import choose_highlights

    references, samples = tasks[0].references, DEFAULT_RESAMPLES
    if len(references) == 1:
        warn("there is only one segment: the report has no intervals and tests.")
        resampling = Resampling(seed=arguments.seed)
    elif len(tasks) == 1:
        resampling = Resampling(resamples=samples, seed=arguments.seed)
    else:  # the paired bootstrap computes its own intervals
        resampling = Resampling("bs", samples, seed=arguments.seed)
    shown = {"segments": True, "keep_resamples": True, "against_all": True}
    comparison, record, scorers, scores = score_and_compare(tasks, arguments, resampling, **shown)
    labels = [column.name for column, metric in zip(comparison.columns, requested, strict=False) if metric.spec]
    data = ", ".join(file.name for file in tasks[0].files if file.role == "references") or tasks[0].name
    with printed(text_table(comparison, None)):
        chosen = choose_highlights(comparison, HIGHLIGHTS)
        highlights = [(highlight, align_highlight(highlight, scores)) for highlight in chosen]
        page = report_page(
            comparison,
            [task.predictions for task in tasks],
            references,
            highlights,
            record(),
            overlaps=warn_about_overlap(labels, scorers, references, data),
            sources=next((task.sources for task in tasks if task.sources is not None), None),
        )
        write_file(arguments.output, page.encode())
    complain("twmd:", HEADER, " ".join(verdict(comparison)))
    print(f"wrote {arguments.output}")
    return 0


def _report_agreement(arguments: Arguments) -> int:
    """Write the page of ``twmd report --agreement``: Pearson, Kendall, and ``acc_eq`` if the data have items."""
    from twmd_registry.metaeval.study import Study, run_study
    from twmd_registry.report.agreement_page import agreement_page
    from twmd_registry.report.figures import require_matplotlib

    require_matplotlib()
    data, options = read_all_rated(arguments.agreement), options_of(arguments)
    metrics = tuple(metric.spec or metric.name for metric in arguments.requested)
    measured = []
    first = "loading the model" if any(metric.spec for metric in arguments.requested) else ""
    with progress_bar(first=first) as progress:
        for text, rated in data.items():
            statistics: tuple[Statistic, ...] = ("pearson", "kendall", *(("acc_eq",) if rated.item else ()))
            if text.startswith("demetr:"):
                statistics = ("accuracy",)
            study = Study(title_of(text), content_of(rated), metrics, statistics, seed=arguments.seed)
            measured.append((run_study(study, rated, options, progress), rated))
    with printed("\n\n".join(result.as_text("txt") for result, _ in measured)):
        write_file(arguments.output, agreement_page(measured).encode())
    print(f"wrote {arguments.output}")
    return 0
