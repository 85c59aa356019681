"""``twmd score``."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from twmd_registry.cli.files import STDIN, System, read_references, read_system
from twmd_registry.errors import FileError, SpecError, menu
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.spec import MetricSpec, make_spec
from twmd_registry.report.table import Results, score_table, sentence_lines, tsv
from twmd_registry.scores import ScoreSet
from twmd_registry.scoring import Scorer, score_all

PATIENCE_S = 2.0
"""Seconds after which work counts as long and a progress bar appears."""


class Task(NamedTuple):
    """One system with its references."""

    system: System
    references: list[list[str]]


def run(arguments: argparse.Namespace) -> int:
    """Score every system by every metric and print."""
    specs = make_specs(arguments.metrics, arguments.preset, arguments.set)
    options = RunOptions(device=arguments.device, batch_tokens=arguments.batch_tokens)
    tasks = read_tasks(arguments)
    scorers = [Scorer(spec, options) for spec in specs]
    with progress_bar() as progress:
        results = [(task.system.name, score_all(scorers, task.system.predictions, task.references, progress=progress)) for task in tasks]
    print(render(results, arguments))
    return 0


def make_specs(metrics: list[str], preset: str | None, assignments: list[str]) -> list[MetricSpec]:
    """Specifications of several metrics; a ``--set`` key goes to every metric that uses it.

    Raises:
        SpecError: Unknown metric, preset or key, an impossible value, or a key that none of the metrics uses.
    """
    given: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SpecError(f"--set {assignment!r}: expected KEY=VALUE.")
        given[name] = value
    used = {key for metric in metrics for key in entry(metric).keys}
    for name in given:
        if name not in used:
            raise SpecError(f"--set {name}: no key {name!r} of {', '.join(metrics)}; {menu(name, [key for key in KEYS if key in used])}.")
    return [make_spec(metric, preset, **{name: value for name, value in given.items() if name in entry(metric).keys}) for metric in metrics]


def read_tasks(arguments: argparse.Namespace) -> list[Task]:
    """Read all systems and their references.

    Raises:
        FileError: A file cannot be read, or numbers of lines differ; names the files.
        SpecError: References are given twice or not at all.
    """
    if not arguments.references and not arguments.input and (sys.stdin is None or sys.stdin.isatty()):
        raise SpecError("nothing to score: name reference files, and predictions by -i or on standard input.")
    shared = read_references(arguments.references).segments if arguments.references else None
    systems = [read_system(path) for path in arguments.input or [STDIN]]
    tasks = []
    for system in systems:
        if shared is not None and system.references is not None:
            raise SpecError(f"{system.name} holds references already: leave {arguments.references[0]} out, or take them out of it.")
        references = shared if shared is not None else system.references
        if references is None:
            raise SpecError(f"no references for {system.name}: name a reference file, or give JSON lines with reference or references.")
        if len(references) != len(system.predictions):
            source = arguments.references[0] if arguments.references else system.name
            raise FileError(f"{system.name} has {len(system.predictions)} segments but {source} has {len(references)}: they must match line by line.")
        tasks.append(Task(system, references))
    return tasks


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr when that is a terminal and the work turns out to be long; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(unit=" texts", delay=PATIENCE_S, leave=False) as bar:

        def advance(done: int) -> None:
            bar.update(done)

        yield advance


def render(results: Results, arguments: argparse.Namespace) -> str:
    """The output in the form that was asked for."""
    digits = arguments.width
    if arguments.format == "json":
        return json.dumps([_as_json(name, scores, whole=arguments.sentence_level) for name, sets in results for scores in sets], indent=2)
    if arguments.sentence_level:
        return sentence_lines(results, digits, header=arguments.format == "tsv")
    if arguments.score_only:
        return "\n".join(f"{scores.score:.{digits}f}" for _, sets in results for scores in sets)
    return tsv(results, digits) if arguments.format == "tsv" else score_table(results, digits)


def _as_json(name: str, scores: ScoreSet, *, whole: bool) -> dict[str, object]:
    fields = {"system": name, "metric": str(scores.metric), "score": scores.score} | scores.as_dict() | scores.counts._asdict()
    if not whole:
        del fields["scores"]
    return fields
