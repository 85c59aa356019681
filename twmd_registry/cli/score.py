"""``twmd score``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twmd_registry.cli.options import RequestedMetric, make_scorers, options_of
from twmd_registry.cli.parser.scoring import RAY_OPTIONS
from twmd_registry.cli.tasks import ScoringTask, read_tasks
from twmd_registry.cli.terminal import Rule, Style, best, matches, progress_bar, say
from twmd_registry.errors import FileError, InputError, SpecError, collect_warnings, warn
from twmd_registry.record.file import check_target, check_writable, write_record

if TYPE_CHECKING:  # what needs numpy or torch is imported when arguments and files are known to be good
    from twmd_registry.engine.result import ScoreSet
    from twmd_registry.engine.scorer import Scorer
    from twmd_registry.plugins.sacrebleu.compare import ComparisonRequest
    from twmd_registry.record.comparison import SystemComparison
    from twmd_registry.record.content import Record


def run(arguments: argparse.Namespace) -> int:
    """Score every system by every metric and print; then write the record.

    Raises:
        FileError: The record cannot be written.
        SpecError: An option of the other engine, or ``--record`` without a metric of this package.
    """
    for name in RAY_OPTIONS:
        if getattr(arguments, name) is not None:
            raise SpecError(f"--{name.replace('_', '-')} is for --engine ray, which scores files of rows.")
    for path in arguments.input or []:
        if isinstance(path, str):
            raise SpecError(f"{path}: a URL is read by --engine ray only.")
    asked = arguments.asked
    if arguments.record:
        if not any(one.spec for one in asked):
            raise SpecError("--record keeps the scores of this package's metrics, and SacreBLEU's beside them: name one of ours in -m.")
        check_output(arguments.record, arguments)
    tasks = read_tasks(arguments)
    check_shared(tasks)
    from twmd_registry.plugins.sacrebleu.compare import check_request

    request = _request(arguments)
    with collect_warnings():  # they come again
        check_request(request, len(tasks), len(tasks[0].references))
    scorers = make_scorers(asked, options_of(arguments))
    started = time.perf_counter()
    scores = score_tasks(tasks, scorers)
    seconds = time.perf_counter() - started
    comparison = compare(tasks, asked, scorers, scores, request)
    try:  # neither the scores nor the record are lost when the other cannot be written
        say(render(comparison, arguments), *(marked(comparison) if arguments.format == "text" else ()))
        sys.stdout.flush()
    finally:
        if arguments.record:
            check_writable(arguments.record)
            write_record(record_of(tasks, scores, comparison, seconds, arguments.device), arguments.record)
    return 0


def check_output(path: Path, arguments: argparse.Namespace) -> None:
    """Refuse an output file that is an input or no regular file; warn at a terminal that a file cannot be written.

    The warning comes before the work, so that a user who watches can stop it. Scores are printed in any case.

    Raises:
        FileError: As for `check_target`.
    """
    check_target(path, [*arguments.references, *(arguments.input or [])])
    if sys.stderr.isatty():
        try:
            check_writable(path)
        except FileError as error:
            warn(f"{error} Only the scores will be printed.")


def score_tasks(tasks: list[ScoringTask], scorers: list[Scorer]) -> list[list[ScoreSet]]:
    """Every system's scores by every scorer, with a progress bar; errors as for `score_all`."""
    if not scorers:
        return [[] for _ in tasks]
    from twmd_registry.engine.scorer import score_all

    with progress_bar(total=sum(len(task.system.predictions) for task in tasks)) as progress:
        return [score_all(scorers, task.system.predictions, task.references, progress=progress) for task in tasks]


def record_of(tasks: list[ScoringTask], scores: list[list[ScoreSet]], comparison: SystemComparison, seconds: float, device: str) -> Record:
    """The record of what was scored, and of what is published of it."""
    from twmd_registry.record.content import make_record

    files = dict.fromkeys(file for task in tasks for file in task.files)
    systems = [(task.name, sets) for task, sets in zip(tasks, scores, strict=True)]
    return make_record(systems, inputs=tuple(files), seconds=seconds, device=device, comparison=comparison)


def _request(arguments: argparse.Namespace) -> ComparisonRequest:
    from twmd_registry.plugins.sacrebleu.compare import ComparisonRequest
    from twmd_registry.record.comparison import SignificanceTest

    test = None
    if arguments.paired_bs:
        test = SignificanceTest("bs", arguments.paired_bs_n, arguments.seed)
    elif arguments.paired_ar:
        test = SignificanceTest("ar", arguments.paired_ar_n, arguments.seed)
    return ComparisonRequest(test, arguments.confidence_n if arguments.confidence else 0, arguments.seed, arguments.short, arguments.sentence_level)


def check_shared(tasks: list[ScoringTask]) -> None:
    """Refuse systems that bring different references: their scores do not belong side by side.

    Raises:
        InputError: Two of them do; the message names both.
    """
    for task in tasks:
        if task.references != tasks[0].references:
            raise InputError(f"{task.name} and {tasks[0].name} hold different references: score them one by one.")


def compare(
    tasks: list[ScoringTask], asked: Sequence[RequestedMetric], scorers: list[Scorer], scores: list[list[ScoreSet]], request: ComparisonRequest
) -> SystemComparison:
    """Lay all scores out as a table, in the order of ``-m``, with tests and intervals; errors as for `compare_systems`.

    Args:
        tasks: The systems.
        asked: The metrics.
        scorers: Of those that are not SacreBLEU's, in their order.
        scores: By system, the scores by these.
        request: Tests and intervals.
    """
    from twmd_registry.plugins.sacrebleu.compare import ScoredMetricColumn, compare_systems

    own = iter([ScoredMetricColumn(scorer, sets) for scorer, sets in zip(scorers, zip(*scores, strict=True), strict=True)] if scorers else [])
    systems = [(task.name, task.system.predictions) for task in tasks]
    metrics = [one.name if one.spec is None else next(own) for one in asked]
    with progress_bar("steps") as progress:
        return compare_systems(systems, tasks[0].references, metrics, request=request, progress=progress)


def marked(comparison: SystemComparison) -> tuple[Rule, ...]:
    """What a terminal shows in colour: every metric's best score, and differences that a test calls significant."""
    return best({column.name: not column.errors for column in comparison.columns}), matches(r"\(p = \d\.\d+\)\*", Style.GOOD)


def render(comparison: SystemComparison, arguments: argparse.Namespace) -> str:
    """The output in the form that was asked for."""
    from twmd_registry.report.table import json_table, latex_table, number, sentence_lines, text_table, tsv_table

    digits = arguments.width
    if arguments.format == "json":
        return json_table(comparison, segments=arguments.sentence_level)
    if arguments.sentence_level:
        return sentence_lines(comparison, digits, header=arguments.format == "tsv")
    if arguments.score_only:
        cells = [(column, column.cells[i]) for i in range(len(comparison.systems)) for column in comparison.columns]
        return "\n".join(number(column, cell.score, digits) for column, cell in cells)
    return {"tsv": tsv_table, "latex": latex_table}.get(arguments.format, text_table)(comparison, digits)
