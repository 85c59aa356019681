"""``twmd score``: files on this machine, or a data set on Ray Data."""

from __future__ import annotations

import glob
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click import get_current_context

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import ScoringTask, read_tasks
from twmd_registry.cli.requested import columns_of, make_scorers, options_of
from twmd_registry.cli.terminal import Rule, Style, best, matches, progress_bar, say
from twmd_registry.errors import FileError, InputError, SpecError, collect_warnings, warn
from twmd_registry.record.file import check_target, check_writable, write_record
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

if TYPE_CHECKING:  # imports of numpy and torch wait until arguments and files are checked
    from twmd_registry.engine.result import ScoreSet
    from twmd_registry.engine.scorer import Scorer
    from twmd_registry.record.content import Record, Resampling, SystemComparison
    from twmd_registry.scale.runner import ScoredDataset

RAY = {"panel": "With --engine ray"}
TESTS = {"panel": "Tests and intervals (SacreBLEU's)"}
SAMPLES = {"type": click.IntRange(min=2), **TESTS}
DEFAULT_RESAMPLES = 1000
LOCAL_ONLY = ("references", "record", "score_only", "short", "sentence_level", "paired_bs", "paired_ar", "confidence")
"""Parameters that --engine ray does not accept."""
SYSTEMS = (
    "One file per system (default: standard input); with --engine ray: files, patterns, folders or URLs of one data "
    "set."
)
METRICS = f"One or more of {', '.join(MetricName)}, a signature, or SacreBLEU's bleu, chrf, ter (default: twmd)."
OWN_RESAMPLES = "Resamples of the intervals (default: 1000; --paired-bs uses its own resamples)."
GPUS = "GPUs of each worker, 0.5 to share one (default: 1 where there are any)."
SEED = "Seed of the resampling (default: $SACREBLEU_SEED, else 12345)."


def _path_or_url(value: str) -> Path | str:
    """Return a URL as text: a path would lose one of its slashes."""
    return value if "://" in value else Path(value)


def default_seed() -> int:
    """Return the number in the environment variable SACREBLEU_SEED, or SacreBLEU's default if it is none."""
    given = os.environ.get("SACREBLEU_SEED", "")
    return int(given) if given.isascii() and given.isdecimal() else 12345


sacrebleu_seed = declare.option("--seed", "SEED", SEED, default=default_seed)


@command(
    "score",
    lexical=tuple(LEXICAL_NAMES),
    example="twmd score ref.txt -i system_a.txt system_b.txt -m twmd bertscore_centered\n"
    "cat out.txt | twmd score ref1.txt ref2.txt -m twmd -b\n"
    "twmd score -i rows.csv.gz --reference-column gold",
)
@declare.argument("references", nargs=-1, type=declare.FILE, metavar="[REF]...")
@declare.many("-i --input", "HYP", SYSTEMS, type=declare.CheckedPath(_path_or_url))
@declare.metrics(LEXICAL_NAMES, METRICS, default=[str(MetricName.TWMD)])
@declare.settings
@declare.columns
@declare.output_format(*declare.RESULT_FORMATS)
@declare.flag("-b --score-only", "Print the numbers alone.")
@declare.flag("-sh --short", "Print short signatures.")
@declare.flag("-sl --sentence-level", "Print one line per segment.")
@declare.digits("4, and 2 for SacreBLEU's metrics, which run to 100")
@declare.option("--record", "FILE", "Write scores, signatures, hashes and environment to a JSON file.")
@declare.flag("--paired-bs", "Paired bootstrap test of every system against the first.", **TESTS)
@declare.flag("--paired-ar", "Paired approximate randomisation test of every system against the first.", **TESTS)
@declare.number("--paired-bs-n", 1000, "Bootstrap resamples (default: 1000).", **SAMPLES)
@declare.number("--paired-ar-n", 10_000, "Randomisation trials (default: 10000).", **SAMPLES)
@declare.flag("--confidence", "95% confidence intervals by bootstrap.", **TESTS)
@declare.number("--confidence-n", None, OWN_RESAMPLES, **SAMPLES)
@sacrebleu_seed
@declare.choice("--engine", ["local", "ray"], "local", "ray: files with columns on Ray Data (default: local).")
@declare.option("--output", "DIR", "An empty folder, or URL of one, for the scores and the record.", type=str, **RAY)
@declare.number("--part-rows", None, "Rows that are scored and written together (default: 10000).", **RAY)
@declare.number("--num-workers", None, "Workers (default: as many as there are GPUs, or else CPUs).", **RAY)
@declare.number("--num-gpus", None, GPUS, type=declare.FINITE, **RAY)
@declare.flag("--resume", "Continue in an output folder; finished parts are not scored again.", **RAY)
@declare.flag("--strict", "Stop at a row that cannot be scored (default: set it aside).", **RAY)
@declare.parts
@declare.run_options
def score_command(arguments: Arguments) -> int:
    """Score files: lines of text, or tables (JSON lines, CSV, TSV, Parquet) with columns prediction and reference or
    references.

    REF are reference files, one per reference stream; name them before -i and -m.
    """
    if arguments.engine == "ray":
        return _score_on_ray(arguments)
    _check_local(arguments)
    tasks = read_tasks(arguments)
    display = {"short": arguments.short, "segments": arguments.sentence_level}
    scored = score_and_compare(tasks, arguments, _resampling(arguments), **display)
    try:  # neither the scores nor the record are lost when the other cannot be written
        say(_render(scored[-1], arguments), *(best_and_significant(scored[-1]) if arguments.format == "text" else ()))
        sys.stdout.flush()
    finally:
        if arguments.record:
            check_writable(arguments.record)
            write_record(record_of(tasks, arguments, *scored), arguments.record)
    return 0


def _check_local(arguments: Arguments) -> None:
    """Refuse options of the other engine, two tests, and a record that could not be written."""
    for param in get_current_context().command.params:
        if getattr(param, "panel", None) == RAY["panel"] and getattr(arguments, str(param.name)) not in {None, False}:
            raise SpecError(f"{param.opts[0]} is for --engine ray: add --engine ray, or leave it out.")
    if arguments.paired_bs and arguments.paired_ar:
        raise SpecError("--paired-bs and --paired-ar are two tests: give one of them.")
    for path in arguments.input:
        if isinstance(path, str):
            raise SpecError(f"{path}: a URL is read by --engine ray only: add --engine ray, or give a local file.")
    if arguments.record:
        if not any(metric.spec for metric in arguments.asked):
            names = " ".join(metric.name for metric in arguments.asked)
            raise SpecError(
                "--record keeps the scores of this package's metrics, and SacreBLEU's beside them; got SacreBLEU's "
                f"alone. Add one of ours, as in -m {names} twmd, or leave out --record: SacreBLEU's signatures are "
                "printed with the scores."
            )
        check_output(arguments.record, arguments)


def check_output(path: Path, arguments: Arguments) -> None:
    """Refuse an output file that is an input or no regular file; warn at a terminal that a file cannot be written.

    The warning comes before the work, so that a user can stop it. Scores are printed in any case.
    """
    check_target(path, [*arguments.references, *arguments.input])
    if sys.stderr.isatty():
        try:
            check_writable(path)
        except FileError as error:
            warn(f"{error} Only the scores will be printed.")


def score_and_compare(
    tasks: list[ScoringTask], arguments: Arguments, resampling: Resampling, **shown: bool
) -> tuple[list[Scorer], list[list[ScoreSet]], float, SystemComparison]:
    """Score every system by every metric, and put the scores in a table with tests and intervals.

    Returns:
        The scorers of this package's metrics, one list of results per system, the seconds without startup, and
        the table, in the order of ``-m``, as `compare_systems` makes it.

    Raises:
        InputError: Systems have different references or sources: their scores cannot be compared.
    """
    references = tasks[0].references
    for task in tasks:
        if task.references != references:
            raise InputError(f"{task.name} and {tasks[0].name} hold different references: score them one by one.")
    known = [task for task in tasks if task.originals is not None]
    for task in known:
        if task.originals != known[0].originals:
            hint = "their rows do not belong together: check the files, or score them one by one"
            raise InputError(f"{task.name} and {known[0].name} hold different sources, so that {hint}.")
    from twmd_registry.plugins.sacrebleu.compare import check_resampling, compare_systems

    with collect_warnings():  # compare_systems repeats these warnings
        check_resampling(resampling, len(tasks), len(references))
    scorers: list[Scorer] = []
    scores: list[list[ScoreSet]] = [[] for _ in tasks]
    seconds = 0.0
    if any(metric.spec for metric in arguments.asked):
        with progress_bar(total=sum(len(task.predictions) for task in tasks)) as progress:
            scorers = make_scorers(arguments.asked, options_of(arguments))
            from twmd_registry.engine.scorer import score_all

            started = time.perf_counter()
            scores = [score_all(scorers, task.predictions, references, progress=progress) for task in tasks]
            seconds = time.perf_counter() - started
    scored = iter(zip(scorers, zip(*scores, strict=True), strict=True) if scorers else ())
    metrics = [metric.name if metric.spec is None else next(scored) for metric in arguments.asked]
    systems = [(task.name, task.predictions) for task in tasks]
    with progress_bar("steps", first="") as progress:
        table = compare_systems(systems, references, metrics, resampling=resampling, progress=progress, **shown)
    return scorers, scores, seconds, table


def record_of(
    tasks: list[ScoringTask],
    arguments: Arguments,
    _scorers: list[Scorer],
    scores: list[list[ScoreSet]],
    seconds: float,
    comparison: SystemComparison,
) -> Record:
    """Return the record of what `score_and_compare` returned."""
    from twmd_registry.record.content import make_record

    files = tuple(dict.fromkeys(file for task in tasks for file in task.files))
    systems = [(task.name, sets) for task, sets in zip(tasks, scores, strict=True)]
    return make_record(systems, inputs=files, seconds=seconds, device=arguments.device, comparison=comparison)


def _resampling(arguments: Arguments) -> Resampling:
    from twmd_registry.record.content import Resampling

    if arguments.paired_bs:  # its intervals come from its own resamples
        return Resampling("bs", arguments.paired_bs_n, arguments.confidence_n or 0, arguments.seed)
    resamples = (arguments.confidence_n or DEFAULT_RESAMPLES) if arguments.confidence else 0
    if arguments.paired_ar:
        return Resampling("ar", arguments.paired_ar_n, resamples, arguments.seed)
    return Resampling(None, 0, resamples, arguments.seed)


def best_and_significant(comparison: SystemComparison) -> tuple[Rule, ...]:
    """Return the rules that paint every metric's best score, and significant differences."""
    columns = {column.name: not column.errors for column in comparison.columns}
    return best(columns), matches(r"\(p = \d\.\d+\)\*", Style.GOOD)


def _render(comparison: SystemComparison, arguments: Arguments) -> str:
    from twmd_registry.report import table

    digits = arguments.width
    if arguments.format == "json":
        return table.json_table(comparison, segments=arguments.sentence_level)
    if arguments.sentence_level:
        return table.sentence_lines(comparison, digits, header=arguments.format == "tsv")
    if arguments.score_only:
        cells = [(column, column.cells[i]) for i in range(len(comparison.systems)) for column in comparison.columns]
        return "\n".join(table.number(column, cell.score, digits) for column, cell in cells)
    write = {"markdown": table.markdown_table, "latex": table.latex_table, "tsv": table.tsv_table}
    return write.get(arguments.format, table.text_table)(comparison, digits)


def _score_on_ray(arguments: Arguments) -> int:
    """Score a data set, and print its scores."""
    _check_ray(arguments)
    from twmd_registry.scale.plan import PART_ROWS
    from twmd_registry.scale.runner import ScaleOptions, score_files
    from twmd_registry.scale.workers import WorkerOptions

    records: list[ScoredDataset] = []
    try:  # scores are printed even if their record cannot be written
        with progress_bar("rows", first="starting Ray") as progress:
            scorers = make_scorers(arguments.asked, options_of(arguments))
            rows, resume, strict = arguments.part_rows or PART_ROWS, bool(arguments.resume), bool(arguments.strict)
            options = ScaleOptions(columns_of(arguments), rows, resume, strict, progress, records.append)
            workers = WorkerOptions(arguments.num_workers, arguments.num_gpus)
            score_files(scorers, list(map(str, arguments.input)), arguments.output, options, workers)
    finally:
        for record in records:
            print(_render_dataset(record, arguments))
    return 0


def _check_ray(arguments: Arguments) -> None:
    """Refuse options of the local engine, metrics of SacreBLEU and missing files, before Ray is imported."""
    for param in get_current_context().command.params:
        if param.name in LOCAL_ONLY and getattr(arguments, param.name):
            shown = param.opts[0] if isinstance(param, click.Option) else "a reference file"
            instead = "references are a column, and scores and the record go to --output"
            raise SpecError(f"{shown} cannot be used with --engine ray: {instead}.")
    if arguments.format not in {"text", "json"}:
        raise SpecError(f"--format {arguments.format} cannot be used with --engine ray: give text or json.")
    if not arguments.input or not arguments.output:
        raise SpecError("--engine ray needs --input PATH_OR_PATTERN... and --output DIR.")
    for name in arguments.metrics:
        if name in LEXICAL_NAMES:
            why = f"{name} is SacreBLEU's and is not a mean over rows; leave it out"
            raise SpecError(f"--engine ray scores by this package's metrics: {why}.")
    for name in map(str, arguments.input):
        if "://" in name:
            continue
        if not glob.has_magic(name):
            declare.existing_path(name)
        elif not glob.glob(name, recursive=True):  # noqa: PTH207 (a Path has no absolute patterns)
            raise FileError(f"{name} names no file.")


def _render_dataset(record: ScoredDataset, arguments: Arguments) -> str:
    if arguments.format == "json":
        return record.to_json().rstrip("\n")
    digits = 4 if arguments.width is None else arguments.width
    lines = [f"{metric.signature} = {metric.score:.{digits}f}" for metric in record.metrics]
    counts = f"rows scored: {record.rows}, rejected: {record.rejected}; parts: {record.parts}, in {arguments.output}"
    return "\n".join([*lines, counts])
