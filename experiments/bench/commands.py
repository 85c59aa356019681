"""``bench``: run one of the benchmarks in this folder."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import rich_click as click

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command

PROGRAMS = {
    path.stem: ast.get_docstring(tree) or ""
    for path in sorted(Path(__file__).parent.glob("*.py"))
    for tree in [ast.parse(path.read_text(encoding="utf-8"))]
    if any(isinstance(node, ast.If) for node in tree.body)  # modules that run as programs
}
"""By name, the docstring of every benchmark."""


@command("bench", example="python -m experiments bench pace --quick")
@declare.argument("name", required=False, type=click.Choice([*PROGRAMS]), metavar="[NAME]")
@declare.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT]...")
def bench_command(arguments: Arguments) -> int:
    """Measure speed, memory or load compared with other programs. Without NAME, list all benchmarks.

    `make bench` and `make load` run them all.
    """
    if arguments.name is None:
        for name, about in PROGRAMS.items():
            print(f"{name:14} {' '.join(about.partition(': ``')[0].partition(chr(10) * 2)[0].split())}")
        return 0
    sys.argv = [f"experiments bench {arguments.name}", *arguments.words]
    runpy.run_module(f"experiments.bench.{arguments.name}", run_name="__main__")
    return 0


bench_command.ignore_unknown_options = True
