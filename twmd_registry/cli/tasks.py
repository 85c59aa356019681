"""What is to be scored: systems with their references, as the command line names them."""

from __future__ import annotations

import sys
from typing import NamedTuple

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.inputs import STDIN, SourceFile, SystemOutput, check_columns, read_references, read_system
from twmd_registry.cli.requested import columns_of
from twmd_registry.errors import FileError, SpecError
from twmd_registry.record.content import InputFile


class ScoringTask(NamedTuple):
    """One system with its references.

    Attributes:
        name: The system's name, for tables and records: its file's, without the folder where that tells systems apart.
        system: What it wrote.
        references: Per segment its references.
        reference_sources: The files they came from; empty when the system's own file holds them.
        originals: Per segment the text that was translated, where a file holds them.
    """

    name: str
    system: SystemOutput
    references: list[list[str]]
    reference_sources: list[SourceFile]
    originals: list[str] | None = None

    @property
    def files(self) -> list[InputFile]:
        """Its files, references first."""
        sources = [("references", source) for source in self.reference_sources] + [("predictions", self.system.source)]
        return [InputFile(role, source.short_name, source.sha256) for role, source in sources]


def read_tasks(arguments: Arguments) -> list[ScoringTask]:
    """Read all systems and their references.

    Raises:
        FileError: A file cannot be read, or numbers of lines differ; names the files.
        SpecError: References are given twice or not at all.
    """
    if not arguments.references and not arguments.input and (sys.stdin is None or sys.stdin.isatty()):
        raise SpecError("nothing to score: name reference files, and predictions by -i or on standard input.")
    columns = columns_of(arguments)
    sources, shared, originals = read_references(arguments.references, columns)
    systems = [read_system(path, columns) for path in arguments.input or [STDIN]]
    check_columns(columns, [*(system.source for system in systems), *sources])
    tasks = []
    for system in systems:
        name, own = system.source.name, system.references
        if sources and own is not None:
            raise SpecError(
                f"{name} holds references already: leave {arguments.references[0]} out, or take them out of it."
            )
        if not sources and own is None:
            hint = "name a reference file before -i, or give a table with a column reference or references"
            raise SpecError(f"no references for {name}: {hint}.")
        references = shared if own is None else own
        if len(references) != len(system.predictions):
            lengths = (
                f"{name} has {len(system.predictions)} segments but {arguments.references[0]} has {len(references)}"
            )
            raise FileError(f"{lengths}: they must match line by line.")
        tasks.append(ScoringTask(_name(system, systems), system, references, sources, originals or system.originals))
    return tasks


def _name(system: SystemOutput, systems: list[SystemOutput]) -> str:
    short = system.source.short_name
    alike = {other.source.name for other in systems if other.source.short_name == short}
    return short if len(alike) == 1 else system.source.name
