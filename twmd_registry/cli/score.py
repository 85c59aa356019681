"""``twmd score``: score files, or a data set on Ray Data."""

from __future__ import annotations

import glob
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import rich_click as click

from twmd_registry.cli import declare
from twmd_registry.cli.arguments import refuse
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import ScoringTask, columns_of, files_of, read_tasks
from twmd_registry.cli.metrics import make_scorers, options_of
from twmd_registry.cli.other_scores import named_files, read_other_scores
from twmd_registry.cli.output import SUFFIXES
from twmd_registry.cli.terminal import printed, progress_bar
from twmd_registry.comparison.cells import Resampling, number
from twmd_registry.comparison.verdict import SystemComparison
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.messages import collect_warnings, warn
from twmd_registry.record.content import Record, make_record, read_record, write_record
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName

if TYPE_CHECKING:
    from twmd_registry.engine.result import ScoreSet
    from twmd_registry.engine.scorer import Scorer
    from twmd_registry.record.checks import Check

COMMON = (
    *("input", "src", "metrics", "preset", "set", "prediction_column", "reference_column", "paired_bs", "confidence"),
    *("record", "format", "sentence_level", "width", "device"),
)
"""Options that ``--help`` shows first, in this order."""
RAY = ["output", "num_workers", "num_gpus", "resume", "strict"]
LOCAL = ["references", "src", "scores", "drop_missing", "record", "score_only", "short", "sentence_level", "seed"]
LOCAL += ["docs", "doc_column"]
TESTS = ["paired_bs", "paired_ar", "against_all", "paired_bs_n", "paired_ar_n", "confidence", "confidence_n"]
CHECKS = ["fail_under", "fail_if_worse", "alpha"]
"""Options of the Ray engine, and options that only the local engine reads: general, of tests, and of checks."""
SAMPLES = click.IntRange(min=2)
DEFAULT_RESAMPLES, DEFAULT_ALPHA = 1000, 0.05
SYSTEMS = (
    "One file per system (default: standard input); with --engine ray: files, patterns, folders or URLs of one data "
    "set."
)
METRICS = (
    f"Metrics: {', '.join(MetricName)}; 'METRIC;KEY=VALUE;...' with their own keys; signatures; SacreBLEU's bleu, "
    "chrf, ter (default: twmd)."
)
OWN_RESAMPLES = "Resamples of the intervals (default: 1000; --paired-bs uses its own resamples)."
GPUS = "With --engine ray: GPUs per worker, 0.5 to share one (default: 1 if there are any)."
FAIL_UNDER = "Check that every system scores at least X by the first metric (exit status 3 if not)."
FAIL_IF_WORSE = (
    "Check that no system is worse than in RECORD, an earlier --record: lower, with p < alpha by paired randomisation "
    "(exit status 3 if not)."
)
PATH_OR_URL = declare.CheckedPath(lambda value: value if "://" in value else Path(value))
"""A URL stays a string, because a path would lose one of its slashes."""
SEED = "Seed of the resampling (default: $SACREBLEU_SEED, else 12345)."
sacrebleu_seed = declare.option("--seed", "SEED", SEED, default=lambda: 12345, envvar="SACREBLEU_SEED")


@command(
    "score",
    common=COMMON,
    sacrebleu=tuple(LEXICAL_NAMES),
    example="twmd score ref.txt -i system_a.txt system_b.txt -m twmd bertscore_centered\n"
    "cat out.txt | twmd score ref1.txt ref2.txt -m twmd -b\n"
    "twmd score -i rows.csv.gz --reference-column gold",
)
@declare.argument("references", nargs=-1, type=declare.FILE, metavar="[REF]...")
@declare.many("-i --input", "HYP", SYSTEMS, type=PATH_OR_URL)
@declare.source
@declare.metrics(LEXICAL_NAMES, METRICS, default=[str(MetricName.TWMD)])
@declare.settings
@declare.other_scores
@declare.columns
@declare.documents
@declare.output_format(*declare.RESULT_FORMATS)
@declare.flag("-b --score-only", "Print only the scores.")
@declare.flag("-sh --short", "Print short signatures.")
@declare.flag("-sl --sentence-level", "Print one line per segment.")
@declare.digits("4, and 2 for SacreBLEU's metrics, which run to 100")
@declare.option("--record", "FILE", "Write scores, signatures, hashes and environment to a JSON file.")
@declare.flag("--paired-bs", "Paired bootstrap test of every system against the first.")
@declare.flag("--paired-ar", "Paired approximate randomisation test of every system against the first.")
@declare.flag(
    "--against-all", "Test all pairs of systems, and print the matrix of p (by --paired-bs, if no test is chosen)."
)
@declare.option("--paired-bs-n", "N", "Bootstrap resamples (default: 1000).", default=1000, type=SAMPLES)
@declare.option("--paired-ar-n", "N", "Randomisation trials (default: 10000).", default=10_000, type=SAMPLES)
@declare.flag("--confidence", "95% confidence intervals by bootstrap.")
@declare.option("--confidence-n", "N", OWN_RESAMPLES, type=SAMPLES)
@declare.option("--fail-under", "X", FAIL_UNDER, type=float)
@declare.option("--fail-if-worse", "RECORD", FAIL_IF_WORSE, type=declare.FILE)
@declare.option("--alpha", "P", f"Significance level of --fail-if-worse (default: {DEFAULT_ALPHA}).", type=float)
@sacrebleu_seed
@declare.choice("--engine", ["local", "ray"], "local", "ray: score tables on Ray Data (default: local).")
@declare.output("With --engine ray: an empty folder, or its URL, for the scored rows and the record.", type=str)
@declare.option("--num-workers", "N", "With --engine ray: workers (default: the number of GPUs, or else of CPUs).")
@declare.option("--num-gpus", "N", GPUS, type=declare.finite_number)
@declare.flag("--resume", "With --engine ray: continue in an output folder; its rows are not scored again.")
@declare.flag("--strict", "With --engine ray: stop at a row that cannot be scored (default: set it aside).")
@declare.parts
@declare.drop_missing
@declare.run_options
def score_command(arguments: Arguments) -> int:
    """Score files: lines of text, or tables (JSON lines, CSV, TSV, Parquet) with columns prediction and reference or
    references.

    REF are reference files, one per reference stream; name them before -i and -m.
    """
    if arguments.engine == "ray":
        return _score_on_ray(arguments)
    arguments.paired_bs = arguments.paired_bs or (arguments.against_all and not arguments.paired_ar)
    _check_local(arguments)
    arguments.input = tuple(map(Path, arguments.input))
    if arguments.record:
        check_output(arguments.record, arguments)
    baseline = read_record(arguments.fail_if_worse) if arguments.fail_if_worse else None
    specs = [member for metric in arguments.requested if metric.spec for member in metric.spec.members_or_self]
    tasks = read_tasks(arguments, join_documents=any(spec.align for spec in specs))
    if arguments.src:
        from twmd_registry.engine.input_warnings import warn_about_unread_sources

        warn_about_unread_sources([metric.spec for metric in arguments.requested if metric.spec], arguments.src)
    display = {"short": arguments.short, "segments": arguments.sentence_level, "against_all": arguments.against_all}
    comparison, record, *_ = score_and_compare(tasks, arguments, _resampling(arguments), **display)
    with printed(_render(comparison, arguments)):
        if arguments.record:
            write_record(record(), arguments.record)
        checks = _check_scores(comparison, record, baseline, arguments)
    failures = [check.failure for check in checks if check.failure]
    if failures:
        raise click.ClickException("; ".join(failures))
    for check in checks:
        print(f"passed: {check.system}: {check.requirement}", file=sys.stderr)
    return 0


def _check_scores(
    comparison: SystemComparison, record: Callable[[], Record], baseline: Record | None, arguments: Arguments
) -> list[Check]:
    if arguments.fail_under is None and baseline is None:
        return []
    from twmd_registry.record.checks import check_floor, check_not_worse

    checks = [] if arguments.fail_under is None else check_floor(comparison, arguments.fail_under)
    if baseline is not None:
        checks += check_not_worse(record(), baseline, arguments.alpha or DEFAULT_ALPHA, arguments.seed)
    return checks


def _check_local(arguments: Arguments) -> None:
    """Refuse options that do not fit each other or the local engine."""
    refuse(["output"], "requires --engine ray: use --record FILE to keep the scores, or > FILE to keep what is printed")
    refuse(RAY, "requires --engine ray: add it, or leave this out")
    for is_used, name, test in (
        (arguments.paired_bs, "paired_bs_n", "--paired-bs"),
        (arguments.paired_ar, "paired_ar_n", "--paired-ar"),
        (arguments.confidence or arguments.paired_bs, "confidence_n", "--confidence"),
    ):
        if not is_used:
            refuse([name], f"requires {test}: add it")
    is_tested = arguments.paired_bs or arguments.paired_ar or arguments.confidence
    if not (is_tested or arguments.docs or arguments.doc_column or arguments.fail_if_worse):
        drawn = "--paired-bs, --paired-ar, --confidence, --docs, --doc-column and --fail-if-worse"
        refuse(["seed"], f"only affects {drawn}: add one of them")
    ours = any(metric.spec for metric in arguments.requested)
    numbers = (arguments.score_only or arguments.sentence_level) and arguments.format != "json"
    for is_wrong, message in (
        (arguments.docs and arguments.doc_column, "--docs and --doc-column both name documents: pass one of them."),
        (
            (arguments.docs or arguments.doc_column) and numbers,
            "--docs and --doc-column print scores of documents: leave out -b and -sl, or add --format json.",
        ),
        (
            is_tested and numbers and not arguments.record,
            "-b and -sl print only scores, without tests and intervals: leave them out, or add --record.",
        ),
        (arguments.paired_bs and arguments.paired_ar, "--paired-bs and --paired-ar are two tests: pass one of them."),
        (not math.isfinite(arguments.fail_under or 0), "--fail-under: expected a finite number."),
        (arguments.alpha is not None and not arguments.fail_if_worse, "--alpha requires --fail-if-worse RECORD."),
        (not 0 < (DEFAULT_ALPHA if arguments.alpha is None else arguments.alpha) < 1, "--alpha: expected 0 < P < 1."),
        (arguments.fail_if_worse and not ours, "--fail-if-worse compares this package's metrics: name one in -m."),
        (arguments.record and not ours, "--record keeps scores of this package's metrics: name one in -m too."),
    ):
        if is_wrong:
            raise SpecError(message)


def check_output(path: Path, arguments: Arguments) -> None:
    """Refuse an output file that is an input or cannot be written."""
    inputs = (arguments.src, vars(arguments).get("docs"), vars(arguments).get("fail_if_worse"))
    scores = [path for _, path in named_files(arguments.scores)]
    declare.check_output(path, [*arguments.references, *arguments.input, *scores, *filter(None, inputs)])


class ScoredSystems(NamedTuple):
    """The table of all scores, a function that makes its record, the scorers, and the results by system."""

    comparison: SystemComparison
    record: Callable[[], Record]
    scorers: list[Scorer]
    scores: list[list[ScoreSet]]


def score_and_compare(
    tasks: list[ScoringTask], arguments: Arguments, resampling: Resampling, **shown: bool
) -> ScoredSystems:
    """Score systems with all metrics of a command line, and compare them."""
    references = tasks[0].references
    _check_same_texts(tasks)
    compared = references if any(references) else None
    from twmd_registry.comparison.systems import check_resampling, compare_systems

    others, score_files = read_other_scores(arguments.scores, [task.name for task in tasks], len(references))
    with collect_warnings():  # fails before a model is loaded; compare_systems repeats the warnings
        check_resampling(resampling, len(tasks), len(references))
    scorers: list[Scorer] = []
    scores: list[list[ScoreSet]] = [[] for _ in tasks]
    seconds = 0.0
    if any(metric.spec for metric in arguments.requested):
        with progress_bar(total=sum(len(task.predictions) for task in tasks)) as progress:
            scorers = make_scorers(arguments.requested, options_of(arguments))
            from twmd_registry.engine.scorer import score_with

            started = time.perf_counter()
            scores, systems_of = [], dict[str, list[str]]()
            for task in tasks:
                with collect_warnings() as messages:
                    results = score_with(scorers, task.predictions, compared, sources=task.sources, progress=progress)
                scores.append(results)
                for message in messages:
                    systems_of.setdefault(message, []).append(task.name)
            for message, names in systems_of.items():
                warn(message if len(names) == len(tasks) else f"{', '.join(names)}: {message}")
            seconds = time.perf_counter() - started
    elif compared:
        from twmd_registry.engine.input_warnings import warn_about_blanks
        from twmd_registry.engine.pairs import Segments

        for task in tasks:
            with collect_warnings() as messages:
                warn_about_blanks(Segments(task.predictions, references))
            for message in messages:
                warn(f"{task.name}: {message}" if len(tasks) > 1 else message)
    # The scorer of each of our metrics with its scores of all systems, in the order of the metrics.
    scored = iter(zip(scorers, zip(*scores, strict=True), strict=True) if scorers else ())
    metrics = [metric.name if metric.spec is None else next(scored) for metric in arguments.requested]
    systems = [(task.name, task.predictions) for task in tasks]
    with progress_bar("steps", first="") as progress:
        settings: dict[str, Any] = {"documents": tasks[0].documents, "scores": others, "progress": progress}
        table = compare_systems(systems, references, metrics, resampling=resampling, **settings | shown)
    sets = [(task.name, results) for task, results in zip(tasks, scores, strict=True)]
    about: dict[str, Any] = {"inputs": (*files_of(tasks), *score_files), "references": references}
    about |= {"seconds": seconds, "device": arguments.device, "comparison": table}
    return ScoredSystems(table, partial(make_record, sets, **about), scorers, scores)


def _check_same_texts(tasks: list[ScoringTask]) -> None:
    for field, what in (("references", "references"), ("documents", "documents"), ("sources", "sources")):
        known = [task for task in tasks if getattr(task, field) is not None]
        for task in known:
            if getattr(task, field) != getattr(known[0], field):
                raise InputError(f"{task.name} and {known[0].name} have different {what}: score them one by one.")


def _resampling(arguments: Arguments) -> Resampling:
    if arguments.paired_bs:  # computes intervals from its own resamples
        return Resampling("bs", arguments.paired_bs_n, arguments.confidence_n or 0, arguments.seed)
    resamples = (arguments.confidence_n or DEFAULT_RESAMPLES) if arguments.confidence else 0
    if arguments.paired_ar:
        return Resampling("ar", arguments.paired_ar_n, resamples, arguments.seed)
    return Resampling(None, 0, resamples, arguments.seed)


def _render(comparison: SystemComparison, arguments: Arguments) -> str:
    from twmd_registry.comparison import tables as table

    digits = arguments.width
    if arguments.format == "json":
        return table.json_table(comparison, segments=arguments.sentence_level)
    if arguments.sentence_level:
        return table.sentence_lines(comparison, digits, header=arguments.format == "tsv")
    if arguments.score_only:
        cells = [(column, column.cells[i]) for i in range(len(comparison.systems)) for column in comparison.columns]
        return "\n".join(number(column, cell.score, digits) for column, cell in cells)
    if arguments.format in {"markdown", "latex"}:
        return table.paper_table(comparison, digits, SUFFIXES[arguments.format])
    return (table.tsv_table if arguments.format == "tsv" else table.text_table)(comparison, digits)


def _score_on_ray(arguments: Arguments) -> int:
    _check_ray(arguments)
    from twmd_registry.scale.runner import score_files

    with progress_bar("rows", first="scoring on Ray"):
        record = score_files(
            make_scorers(arguments.requested, options_of(arguments)),
            list(map(str, arguments.input)),
            arguments.output,
            columns_of(arguments),
            num_workers=arguments.num_workers,
            num_gpus=arguments.num_gpus,
            resume=arguments.resume,
            strict=arguments.strict,
        )
    if arguments.format == "json":
        print(record.to_json().rstrip("\n"))
        return 0
    digits = 4 if arguments.width is None else arguments.width
    for metric in record.metrics.values():
        print(f"{metric.signature} = {metric.score:.{digits}f}")
    print(f"rows scored: {record.rows}, rejected: {record.rejected}, in {arguments.output}")
    return 0


def _check_ray(arguments: Arguments) -> None:
    """Refuse options of the local engine, metrics of SacreBLEU and missing files before Ray is imported."""
    instead = "references are a column, and scores and the record go to --output"
    refuse([*LOCAL, *TESTS, *CHECKS], f"cannot be used with --engine ray: {instead}")
    refuse(["lines"], "cannot be used with --engine ray: it reads tables")
    if arguments.format not in {"text", "json"}:
        raise SpecError(f"--format {arguments.format} cannot be used with --engine ray: use text or json.")
    if not arguments.input or not arguments.output:
        raise SpecError("--engine ray needs --input PATH_OR_PATTERN... and --output DIR.")
    if others := [metric.name for metric in arguments.requested if metric.spec is None]:
        raise SpecError(f"--engine ray supports only this package's metrics: leave out {', '.join(others)}.")
    for name in map(str, arguments.input):
        if "://" not in name and not Path(name).exists() and not glob.glob(name, recursive=True):  # noqa: PTH207
            raise FileError(f"{name}: no such file.")
