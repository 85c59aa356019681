"""``twmd score``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from twmd_registry.cli.declare import (
    COUNT,
    FILE,
    FINITE,
    POSITIVE,
    RESULT_FORMATS,
    Arguments,
    MetricParameter,
    argument,
    columns,
    command,
    digits,
    many,
    option,
    output_format,
    parts,
    run_options,
    settings,
)
from twmd_registry.cli.requested import RequestedMetric, make_scorers, options_of
from twmd_registry.cli.tasks import ScoringTask, read_tasks
from twmd_registry.cli.terminal import Rule, Style, best, matches, progress_bar, say
from twmd_registry.errors import FileError, InputError, SpecError, collect_warnings, warn
from twmd_registry.record.file import check_target, check_writable, write_record
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

if TYPE_CHECKING:  # what needs numpy or torch is imported when arguments and files are known to be good
    from twmd_registry.engine.result import ScoreSet
    from twmd_registry.engine.scorer import Scorer
    from twmd_registry.record.content import Record, Resampling, SystemComparison

RAY_OPTIONS = ("output", "part_rows", "num_workers", "num_gpus", "resume", "strict")
RAY_PANEL = "With --engine ray"
TESTS_PANEL = "Tests and intervals (SacreBLEU's)"
RESAMPLES = click.IntRange(min=2)
DEFAULT_RESAMPLES = 1000


class _PathOrUrl(click.Path):
    """A path, or a URL, which is kept as text: a path would lose one of its slashes."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        return str(value) if "://" in str(value) else Path(str(value))


def default_seed() -> int:
    """Return SacreBLEU's seed: that of its environment variable where it is a number."""
    found = os.environ.get("SACREBLEU_SEED", "")
    return int(found) if found.isascii() and found.isdecimal() else 12345


sacrebleu_seed = option(
    "--seed",
    type=COUNT,
    default=default_seed,
    metavar="SEED",
    help="Of the resampling (default: $SACREBLEU_SEED, else 12345).",
)


@command(
    "score",
    lexical=tuple(LEXICAL_NAMES),
    example="twmd score ref.txt -i system_a.txt system_b.txt -m twmd bertscore_centered\n"
    "cat out.txt | twmd score ref1.txt ref2.txt -m twmd -b\n"
    "twmd score -i rows.csv.gz --reference-column gold",
)
@argument("references", nargs=-1, type=FILE, metavar="[REF]...")
@many(
    "-i",
    "--input",
    type=_PathOrUrl(),
    metavar="HYP",
    help=(
        "One file per system (default: standard input); with --engine ray: files, patterns, folders or URLs of one "
        "data set."
    ),
)
@many(
    "-m",
    "--metrics",
    type=MetricParameter([*MetricName, *LEXICAL_NAMES]),
    default=[str(MetricName.TWMD)],
    metavar="METRIC",
    help=f"Default: twmd; of {', '.join(MetricName)}, a signature, or SacreBLEU's bleu, chrf, ter.",
)
@settings
@columns
@output_format(*RESULT_FORMATS)
@option("-b", "--score-only", is_flag=True, help="Print the numbers alone.")
@option("-sh", "--short", is_flag=True, help="Short signatures.")
@option("-sl", "--sentence-level", is_flag=True, help="Print one line per segment.")
@digits("4, and 2 for SacreBLEU's metrics, which run to 100")
@option("--record", type=FILE, metavar="FILE", help="Write scores, signatures, hashes and environment to a JSON file.")
@option("--paired-bs", is_flag=True, panel=TESTS_PANEL, help="Paired bootstrap test of every system against the first.")
@option(
    "--paired-ar",
    is_flag=True,
    panel=TESTS_PANEL,
    help="Paired approximate randomisation test of every system against the first.",
)
@option(
    "--paired-bs-n",
    type=RESAMPLES,
    default=1000,
    metavar="N",
    panel=TESTS_PANEL,
    help="Bootstrap resamples (default: 1000).",
)
@option(
    "--paired-ar-n",
    type=RESAMPLES,
    default=10_000,
    metavar="N",
    panel=TESTS_PANEL,
    help="Randomisation trials (default: 10000).",
)
@option("--confidence", is_flag=True, panel=TESTS_PANEL, help="95% confidence intervals by bootstrap.")
@option(
    "--confidence-n",
    type=RESAMPLES,
    metavar="N",
    panel=TESTS_PANEL,
    help="Resamples of the intervals (default: 1000; --paired-bs has them from its own resamples).",
)
@sacrebleu_seed
@option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    help="ray: files with columns on Ray Data (default: local).",
)
@option(
    "--output", metavar="DIR", panel=RAY_PANEL, help="An empty folder, or URL of one, for the scores and the record."
)
@option(
    "--part-rows",
    type=POSITIVE,
    metavar="N",
    panel=RAY_PANEL,
    help="Rows that are scored and written together (default: 10000).",
)
@option(
    "--num-workers",
    type=POSITIVE,
    metavar="N",
    panel=RAY_PANEL,
    help="Workers (default: as many as there are GPUs, or else CPUs).",
)
@option(
    "--num-gpus",
    type=FINITE,
    metavar="N",
    panel=RAY_PANEL,
    help="GPUs of each worker, 0.5 to share one (default: 1 where there are any).",
)
@option(
    "--resume", is_flag=True, panel=RAY_PANEL, help="Continue in an output folder; finished parts are not scored again."
)
@option("--strict", is_flag=True, panel=RAY_PANEL, help="Stop at a row that cannot be scored (default: set it aside).")
@parts
@run_options
def score_command(arguments: Arguments) -> int:
    """Score files: lines of text, or tables (JSON lines, CSV, TSV, Parquet) with columns prediction and reference or
    references.

    REF are reference files, one per reference stream; name them before -i and -m.

    Raises:
        FileError: The record cannot be written.
        SpecError: Two tests, an option of the other engine, or ``--record`` without a metric of this package.
    """
    if arguments.engine == "ray":
        from twmd_registry.cli.scale import score_on_ray

        return score_on_ray(arguments)
    if given := [name for name in RAY_OPTIONS if getattr(arguments, name) not in {None, False}]:
        raise SpecError(f"--{given[0].replace('_', '-')} is for --engine ray, which scores files of rows.")
    if arguments.paired_bs and arguments.paired_ar:
        raise SpecError("--paired-bs and --paired-ar are two tests: give one of them.")
    for path in arguments.input:
        if isinstance(path, str):
            raise SpecError(f"{path}: a URL is read by --engine ray only.")
    asked = arguments.asked
    if arguments.record:
        if not any(one.spec for one in asked):
            raise SpecError(
                "--record keeps the scores of this package's metrics, and SacreBLEU's beside them; got SacreBLEU's "
                f"alone. Add one of ours, as in -m {' '.join(one.name for one in asked)} twmd, or leave out --record: "
                "SacreBLEU's signatures are printed with the scores."
            )
        check_output(arguments.record, arguments)
    tasks = read_tasks(arguments)
    check_shared(tasks)
    from twmd_registry.plugins.sacrebleu.compare import check_resampling

    resampling = _resampling(arguments)
    with collect_warnings():  # they come again
        check_resampling(resampling, len(tasks), len(tasks[0].references))
    scorers, scores, seconds = score_tasks(tasks, arguments)
    segments = arguments.sentence_level
    comparison = compare(tasks, asked, scorers, scores, resampling, short=arguments.short, segments=segments)
    try:  # neither the scores nor the record are lost when the other cannot be written
        say(render(comparison, arguments), *(marked(comparison) if arguments.format == "text" else ()))
        sys.stdout.flush()
    finally:
        if arguments.record:
            check_writable(arguments.record)
            write_record(record_of(tasks, scores, comparison, seconds, arguments.device), arguments.record)
    return 0


def check_output(path: Path, arguments: Arguments) -> None:
    """Refuse an output file that is an input or no regular file; warn at a terminal that a file cannot be written.

    The warning comes before the work, so that a user can stop it. Scores are printed in any case.

    Raises:
        FileError: As for `check_target`.
    """
    check_target(path, [*arguments.references, *arguments.input])
    if sys.stderr.isatty():
        try:
            check_writable(path)
        except FileError as error:
            warn(f"{error} Only the scores will be printed.")


def score_tasks(tasks: list[ScoringTask], arguments: Arguments) -> tuple[list[Scorer], list[list[ScoreSet]], float]:
    """Score every system by every metric of this package that is asked for, with a progress bar.

    Returns:
        The scorers, per system a result of each, and the seconds without those of starting.

    Raises:
        TwmdError: As for `make_scorers` and `score_all`.
    """
    if not any(one.spec for one in arguments.asked):
        return [], [[] for _ in tasks], 0.0
    with progress_bar(total=sum(len(task.system.predictions) for task in tasks)) as progress:
        scorers = make_scorers(arguments.asked, options_of(arguments))
        from twmd_registry.engine.scorer import score_all

        started = time.perf_counter()
        scores = [score_all(scorers, task.system.predictions, task.references, progress=progress) for task in tasks]
    return scorers, scores, time.perf_counter() - started


def record_of(
    tasks: list[ScoringTask], scores: list[list[ScoreSet]], comparison: SystemComparison, seconds: float, device: str
) -> Record:
    """The record of what was scored, and of what is published of it."""
    from twmd_registry.record.content import make_record

    files = dict.fromkeys(file for task in tasks for file in task.files)
    systems = [(task.name, sets) for task, sets in zip(tasks, scores, strict=True)]
    return make_record(systems, inputs=tuple(files), seconds=seconds, device=device, comparison=comparison)


def _resampling(arguments: Arguments) -> Resampling:
    from twmd_registry.record.content import Resampling

    if arguments.paired_bs:  # its intervals come from its own resamples
        return Resampling("bs", arguments.paired_bs_n, arguments.confidence_n or 0, arguments.seed)
    resamples = (arguments.confidence_n or DEFAULT_RESAMPLES) if arguments.confidence else 0
    if arguments.paired_ar:
        return Resampling("ar", arguments.paired_ar_n, resamples, arguments.seed)
    return Resampling(None, 0, resamples, arguments.seed)


def check_shared(tasks: list[ScoringTask]) -> None:
    """Refuse systems that bring different references: their scores do not belong side by side.

    Raises:
        InputError: Two of them do; the message names both.
    """
    for task in tasks:
        if task.references != tasks[0].references:
            raise InputError(f"{task.name} and {tasks[0].name} hold different references: score them one by one.")


def compare(
    tasks: list[ScoringTask],
    asked: Sequence[RequestedMetric],
    scorers: list[Scorer],
    scores: list[list[ScoreSet]],
    resampling: Resampling,
    **shown: bool,
) -> SystemComparison:
    """Lay all scores out as a table, in the order of ``-m``, with tests and intervals; errors as for `compare_systems`.

    Args:
        tasks: The systems.
        asked: The metrics.
        scorers: Of those that are not SacreBLEU's, in their order.
        scores: By system, the scores by these.
        resampling: Test and intervals.
        shown: What else `compare_systems` is asked for.
    """
    from twmd_registry.plugins.sacrebleu.compare import compare_systems

    own = iter(zip(scorers, zip(*scores, strict=True), strict=True) if scorers else ())
    systems = [(task.name, task.system.predictions) for task in tasks]
    metrics = [one.name if one.spec is None else next(own) for one in asked]
    with progress_bar("steps", first="") as progress:
        return compare_systems(systems, tasks[0].references, metrics, resampling=resampling, progress=progress, **shown)


def marked(comparison: SystemComparison) -> tuple[Rule, ...]:
    """What a terminal shows in colour: every metric's best score, and differences that a test calls significant."""
    return best({column.name: not column.errors for column in comparison.columns}), matches(
        r"\(p = \d\.\d+\)\*", Style.GOOD
    )


def render(comparison: SystemComparison, arguments: Arguments) -> str:
    """The output in the form that was asked for."""
    from twmd_registry.report.table import (
        json_table,
        latex_table,
        markdown_table,
        number,
        sentence_lines,
        text_table,
        tsv_table,
    )

    digits = arguments.width
    if arguments.format == "json":
        return json_table(comparison, segments=arguments.sentence_level)
    if arguments.sentence_level:
        return sentence_lines(comparison, digits, header=arguments.format == "tsv")
    if arguments.score_only:
        cells = [(column, column.cells[i]) for i in range(len(comparison.systems)) for column in comparison.columns]
        return "\n".join(number(column, cell.score, digits) for column, cell in cells)
    tables = {"markdown": markdown_table, "latex": latex_table, "tsv": tsv_table}
    return tables.get(arguments.format, text_table)(comparison, digits)
