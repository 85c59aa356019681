"""``twmd score``."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from twmd_registry.cli.options import options_of
from twmd_registry.cli.parser.scoring import RAY_OPTIONS
from twmd_registry.cli.tasks import Task, read_tasks
from twmd_registry.cli.terminal import Rule, Style, best, matches, say
from twmd_registry.comparison import LEXICAL_NAMES, Comparison, SignificanceTest
from twmd_registry.errors import FileError, InputError, SpecError, menu, warn
from twmd_registry.plugins.sacrebleu.compare import Request, Scored, compare_systems
from twmd_registry.record.content import Record, make_record
from twmd_registry.record.file import check_target, check_writable, write_record
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.members import split_name, with_members
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.parts import Parts, check_parts
from twmd_registry.registry.signature import parse_signature
from twmd_registry.registry.spec import make_spec, member_specs
from twmd_registry.report.table import json_table, latex_table, number, sentence_lines, text_table, tsv_table
from twmd_registry.scores import ScoreSet
from twmd_registry.scoring import Scorer, score_all, scorer_of

PATIENCE_S = 2.0
"""Seconds after which work counts as long and a progress bar appears."""


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
    lexical, scorers = lexical_names(arguments), own_scorers(arguments)
    if arguments.record:
        if not scorers:
            raise SpecError("--record keeps the scores of this package's metrics, and SacreBLEU's beside them: name one of ours in -m.")
        check_output(arguments.record, arguments)
    tasks = read_tasks(arguments)
    check_shared(tasks)
    started = time.perf_counter()
    scores = score_tasks(tasks, scorers)
    seconds = time.perf_counter() - started
    comparison = compare(tasks, scorers, scores, lexical, _request(arguments))
    try:  # neither the scores nor the record are lost when the other cannot be written
        say(render(comparison, arguments), *(marked(comparison) if arguments.format in {"text", "table"} else ()))
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


def lexical_names(arguments: argparse.Namespace) -> list[str]:
    """SacreBLEU's metrics among those asked for."""
    return [name for name in dict.fromkeys(arguments.metrics) if name in LEXICAL_NAMES]


def own_scorers(arguments: argparse.Namespace) -> list[Scorer]:
    """The scorers of the others; errors as for `scorers_by_name`."""
    return make_scorers([name for name in arguments.metrics if name not in LEXICAL_NAMES], arguments, options_of(arguments), parts_of(arguments))


def score_tasks(tasks: list[Task], scorers: list[Scorer]) -> list[list[ScoreSet]]:
    """Every system's scores by every scorer, with a progress bar; errors as for `score_all`."""
    with progress_bar() as progress:
        return [score_all(scorers, task.system.predictions, task.references, progress=progress) if scorers else [] for task in tasks]


def record_of(tasks: list[Task], scores: list[list[ScoreSet]], comparison: Comparison, seconds: float, device: str) -> Record:
    """The record of what was scored, and of what is published of it."""
    files = dict.fromkeys(file for task in tasks for file in task.files)
    systems = [(task.name, sets) for task, sets in zip(tasks, scores, strict=True)]
    return make_record(systems, inputs=tuple(files), seconds=seconds, device=device, comparison=comparison)


def parts_of(arguments: argparse.Namespace) -> Parts:
    """Where the parts of signatures are, as the command line says."""
    return Parts(**{name: getattr(arguments, name) for name in Parts._fields})


def make_scorers(metrics: list[str], arguments: argparse.Namespace, options: RunOptions, parts: Parts = Parts()) -> list[Scorer]:  # noqa: B008 (frozen)
    """Scorers of metrics and signatures, each once; arguments and errors as for `scorers_by_name`."""
    return list({one.requested: one for one in scorers_by_name(metrics, arguments, options, parts).values()}.values())


def scorers_by_name(metrics: list[str], arguments: argparse.Namespace, options: RunOptions, parts: Parts = Parts()) -> dict[str, Scorer]:  # noqa: B008 (frozen)
    """Scorers by what the user wrote: a metric, to which go ``--preset`` and every ``--set`` key that it uses; one with keys of its own
    (``twmd;layer=6;adapter=DIR``), which gets neither; or a signature.

    Raises:
        SpecError: Unknown metric, preset or key, an impossible value, or a key that none of the metrics uses.
    """
    given: dict[str, str] = {}
    for assignment in arguments.set:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SpecError(f"--set {assignment!r}: expected KEY=VALUE.")
        given[name] = value
    whole = {metric: scorer_with_keys(metric, options) for metric in metrics if ";" in metric and not {"|", "("} & set(metric)}
    named = [split_name(metric)[0] for metric in metrics if "|" not in metric and metric not in whole]
    for metric in named:
        if metric not in set(MetricName):
            raise SpecError(f"there is no metric {metric!r}; {menu(metric, [*MetricName, *LEXICAL_NAMES])}.")
    if not named and (given or arguments.preset):
        alone = "a signature says everything, and SacreBLEU's metrics have no keys here"
        raise SpecError(f"--set and --preset are for metrics that are named without keys of their own: {alone}.")
    used = {key for metric in named for key in entry(metric).keys}
    for name in given:
        if name not in used:
            raise SpecError(f"--set {name}: no key {name!r} of {', '.join(named)}; {menu(name, [key for key in KEYS if key in used])}.")
    check_parts(parts, [parse_signature(metric).spec for metric in metrics if "|" in metric])
    scorers: dict[str, Scorer] = {}
    for metric in metrics:
        if metric in whole:
            scorers[metric] = whole[metric]
        elif "|" in metric:
            asked = parse_signature(metric)
            scorers[metric] = scorer_of(asked.spec, options, parts, asked.nrefs)
        else:
            allowed = entry(split_name(metric)[0]).keys
            name, own = with_members(metric, {key: value for key, value in given.items() if key in allowed})
            scorers[metric] = scorer_of(make_spec(name, arguments.preset, **own), options)
    return scorers


def scorer_with_keys(metric: str, options: RunOptions) -> Scorer:
    """The scorer of one metric with keys, written as a member of an ensemble is.

    Raises:
        SpecError: It is none, or several.
    """
    specs = member_specs(make_spec(MetricName.ENSEMBLE, members=metric))
    if len(specs) != 1:
        raise SpecError(f"expected one metric with its keys, not {len(specs)}: {metric}.")
    return scorer_of(specs[0][1], options)


def _request(arguments: argparse.Namespace) -> Request:
    test = None
    if arguments.paired_bs:
        test = SignificanceTest("bs", arguments.paired_bs_n, arguments.seed)
    elif arguments.paired_ar:
        test = SignificanceTest("ar", arguments.paired_ar_n, arguments.seed)
    return Request(test, arguments.confidence_n if arguments.confidence else 0, arguments.seed, arguments.short, arguments.sentence_level)


def check_shared(tasks: list[Task]) -> None:
    """Refuse systems that bring different references: their scores do not belong side by side.

    Raises:
        InputError: Two of them do; the message names both.
    """
    for task in tasks:
        if task.references != tasks[0].references:
            raise InputError(f"{task.name} and {tasks[0].name} hold different references: score them one by one.")


def compare(tasks: list[Task], scorers: list[Scorer], scores: list[list[ScoreSet]], lexical: list[str], request: Request) -> Comparison:
    """Lay all scores out as a table, with tests and intervals; errors as for `compare_systems`."""
    scored = [Scored(scorer, tuple(sets)) for scorer, sets in zip(scorers, zip(*scores, strict=True), strict=True)] if scorers else []
    systems = [(task.name, task.system.predictions) for task in tasks]
    return compare_systems(systems, tasks[0].references, scored, lexical=lexical, request=request)


def marked(comparison: Comparison) -> tuple[Rule, ...]:
    """What a terminal shows in colour: every metric's best score, and differences that a test calls significant."""
    return best({column.name: not column.errors for column in comparison.columns}), matches(r"\(p = \d\.\d+\)\*", Style.GOOD)


@contextlib.contextmanager
def progress_bar(unit: str = " texts", total: int | None = None) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr when that is a terminal and the work turns out to be long; else nothing. With a total it says how long is left."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, delay=PATIENCE_S, leave=False) as bar:

        def advance(done: int) -> None:
            bar.update(done)

        yield advance


def render(comparison: Comparison, arguments: argparse.Namespace) -> str:
    """The output in the form that was asked for."""
    digits = arguments.width
    if arguments.format == "json":
        return json_table(comparison, segments=arguments.sentence_level)
    if arguments.sentence_level:
        return sentence_lines(comparison, digits, header=arguments.format == "tsv")
    if arguments.score_only:
        cells = [(column, column.cells[i]) for i in range(len(comparison.systems)) for column in comparison.columns]
        return "\n".join(number(column, cell.score, digits) for column, cell in cells)
    return {"tsv": tsv_table, "latex": latex_table}.get(arguments.format, text_table)(comparison, digits)
