"""``twmd report``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from twmd_registry.align import PLANS
from twmd_registry.cli.files import write_file
from twmd_registry.cli.options import make_scorers, options_of
from twmd_registry.cli.score import check_output, check_shared, compare, marked, record_of, score_tasks
from twmd_registry.cli.tasks import ScoringTask, read_tasks
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.engine.result import ScoreSet
from twmd_registry.errors import InputError, SpecError, warn
from twmd_registry.metaeval.correlation import Statistic, correlate
from twmd_registry.metaeval.overlap import warn_about_overlap
from twmd_registry.plugins.sacrebleu.compare import ComparisonRequest
from twmd_registry.record.comparison import SignificanceTest, SystemComparison
from twmd_registry.record.file import check_writable
from twmd_registry.report.highlights import Highlight, remarks, segment_scores
from twmd_registry.report.page_html import AlignmentPicture, Report, report_page
from twmd_registry.report.picture import check_drawable
from twmd_registry.report.table import text_table

RESAMPLES = 1000
"""SacreBLEU's number of bootstrap resamples, as `twmd score` has it."""
DIGITS = 4
"""After the point, as `twmd score` has it."""
SUFFIXES = (".html", ".htm")
REMARKS = 20
MOST_TOKENS = 80
"""Tokens of one side up to which an alignment is drawn."""
CORRELATIONS = (Statistic.PEARSON, Statistic.SPEARMAN, Statistic.KENDALL)


def run(arguments: argparse.Namespace) -> int:
    """Score every system by every metric, print the scores, and write a page about them.

    Raises:
        FileError: The page cannot be written.
        SpecError: The output is no HTML file, or none of the metrics is of this package.
    """
    if arguments.output.suffix.lower() not in SUFFIXES:
        raise SpecError(f"-o {arguments.output}: a report is an HTML file; give a name that ends in .html. For a PDF, print the page in a browser.")
    asked = arguments.asked
    if not any(one.spec for one in asked):
        raise SpecError("a report keeps a record of this package's metrics: name one of them in -m.")
    check_output(arguments.output, arguments)
    tasks = read_tasks(arguments)
    check_shared(tasks)
    scorers = make_scorers(asked, options_of(arguments))
    started = time.perf_counter()
    scores = score_tasks(tasks, scorers)
    seconds = time.perf_counter() - started
    references = tasks[0].references
    comparison = compare(tasks, asked, scorers, scores, _request(len(tasks), len(references), arguments.seed))
    labels = [column.name for column, one in zip(comparison.columns, asked, strict=True) if one.spec]
    data = ", ".join(source.short_name for source in tasks[0].reference_sources) or tasks[0].name
    try:  # as for `twmd score`: neither the scores nor the page are lost when the other cannot be written
        say(text_table(comparison, DIGITS), *marked(comparison))
        sys.stdout.flush()
    finally:
        check_writable(arguments.output)
        chosen = remarks(comparison, REMARKS)
        drawn = []
        with progress_bar("alignments", len(chosen)) as progress:
            for remark in chosen:
                drawn.append((remark, pictures(remark, scores)))
                if progress:
                    progress(1)
        report = Report(
            comparison=comparison,
            overlaps=warn_about_overlap(labels, scorers, references, data),
            predictions=[task.system.predictions for task in tasks],
            references=references,
            correlations={str(statistic): correlations(statistic, comparison) for statistic in CORRELATIONS},
            remarks=drawn,
            record=record_of(tasks, scores, comparison, seconds, arguments.device),
            sources=shared_originals(tasks),
        )
        write_file(arguments.output, report_page(report).encode())
    print(f"wrote {arguments.output}")
    return 0


def _request(systems: int, segments: int, seed: int) -> ComparisonRequest:
    """Intervals of one system; of several, the paired bootstrap, which brings its own; neither of a single segment."""
    if segments == 1:
        warn("there is one segment: the report has no intervals and no tests.")
        return ComparisonRequest(seed=seed, segments=True)
    if systems == 1:
        return ComparisonRequest(resamples=RESAMPLES, seed=seed, segments=True)
    return ComparisonRequest(SignificanceTest("bs", RESAMPLES, seed), seed=seed, segments=True, keep_resamples=True)


def shared_originals(tasks: Sequence[ScoringTask]) -> list[str] | None:
    """Return the texts that were translated, from the first table with a column ``source``; None where there is none."""
    return next((task.originals for task in tasks if task.originals is not None), None)


def correlations(statistic: Statistic, comparison: SystemComparison) -> np.ndarray:
    """Correlate every metric with every other, over the segments of all systems together.

    Args:
        statistic: Of two vectors.
        comparison: The scores, of every segment.

    Returns:
        From -1 to 1, NaN where undefined; shape (metrics, metrics), symmetric.
    """
    scores = [segment_scores(column).ravel() for column in comparison.columns]
    found = np.full((len(scores), len(scores)), np.nan)
    for i, own in enumerate(scores):
        for j in range(i + 1):
            try:
                found[i, j] = found[j, i] = correlate(statistic, own, scores[j])
            except InputError:  # a constant metric, or too few segments: undefined, and the page says so
                continue
    return found


def pictures(remark: Highlight, scores: Sequence[Sequence[ScoreSet]]) -> list[AlignmentPicture]:
    """Align a segment again, by the first metric that aligns anything.

    Args:
        remark: The segment, and whose predictions of it.
        scores: By system, the scores by every metric.

    Raises:
        ModelError: The model is gone, or has changed since.
    """
    which = next((k for k, one in enumerate(scores[0]) if one.metric in PLANS), None)
    if which is None:
        return [AlignmentPicture(system, None, "none of the metrics has an alignment to show.") for system in remark.systems]
    return [_picture(system, scores[system][which], remark.segment) for system in remark.systems]


def _picture(system: int, scores: ScoreSet, segment: int) -> AlignmentPicture:
    alignment = scores.explain(segment)
    try:
        check_drawable(alignment, MOST_TOKENS)
    except (InputError, SpecError) as error:
        return AlignmentPicture(system, None, str(error))
    return AlignmentPicture(system, alignment)
