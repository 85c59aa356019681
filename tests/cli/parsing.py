"""Texts for the tests of commands, and functions that parse command lines without running them."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import rich_click as click

from twmd_registry.cli import twmd
from twmd_registry.cli.terminal import null_stream

REFERENCES = ["a cat was sitting on the mat", "it is raining", "the shop opens at nine"]
GOOD = ["the cat sat on the mat", "it rains", "the shop opens at nine"]
POOR = ["cat mat", "it is sunny", "nine shops"]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def parse(arguments: Sequence[str], program: click.Group = twmd) -> dict[str, Any]:
    """Return the parameters of a command and of its groups."""
    with redirect_stderr(sys.stderr):  # restored on exit, because --quiet removes it
        context = program.make_context(str(program.name), list(arguments))
        found = dict(context.params)
        command: click.Command | None = program
        while isinstance(command, click.Group):
            name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert command is not None
            context = command.make_context(name, rest, parent=context)
            found |= context.params
        return found | {"quiet": sys.stderr is null_stream()}


def all_commands(command: click.Command = twmd, path: str = "twmd") -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group with its words on the command line."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            yield from all_commands(sub, f"{path} {name}")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a CSV or TSV file with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


def create_inputs(arguments: Sequence[str]) -> None:
    """Create a file or folder for every word that looks like a path, because commands refuse missing inputs."""
    for word in arguments:
        path = (word.partition(":")[2] or word).partition(",")[0]
        if re.fullmatch(r"[\w./]+\.\w+", path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
        elif re.fullmatch(r"[\w./]+/", path):
            Path(path).mkdir(exist_ok=True)
