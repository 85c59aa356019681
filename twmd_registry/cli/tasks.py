"""What is to be scored: systems with their references, as the command line names them."""

from __future__ import annotations

import sys
from typing import NamedTuple

from twmd_registry.cli.declare import Arguments
from twmd_registry.cli.files import STDIN, References, SourceFile, SystemOutput, check_columns, read_references, read_system
from twmd_registry.cli.requested import columns_of
from twmd_registry.errors import FileError, SpecError
from twmd_registry.record.content import InputFile


class ScoringTask(NamedTuple):
    """One system with its references.

    Attributes:
        name: The system's name, for tables and records: its file's, without the folder as long as that tells systems apart.
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
    shared = read_references(arguments.references, columns) if arguments.references else None
    systems = [read_system(path, columns) for path in arguments.input or [STDIN]]
    check_columns(columns, [*systems, *([shared] if shared else [])])
    tasks = []
    for system in systems:
        if shared is not None and system.references is not None:
            raise SpecError(f"{system.source.name} holds references already: leave {arguments.references[0]} out, or take them out of it.")
        found = shared or (References([], system.references) if system.references is not None else None)
        if found is None:
            raise SpecError(
                f"no references for {system.source.name}: name a reference file before -i, or give a table with a column reference or references."
            )
        references = found.segments
        if len(references) != len(system.predictions):
            name, source = system.source.name, arguments.references[0] if arguments.references else system.source.name
            raise FileError(f"{name} has {len(system.predictions)} segments but {source} has {len(references)}: they must match line by line.")
        tasks.append(ScoringTask(_name(system, systems), system, references, found.sources, found.originals or system.originals))
    return tasks


def _name(system: SystemOutput, systems: list[SystemOutput]) -> str:
    short = system.source.short_name
    alike = {other.source.name for other in systems if other.source.short_name == short}
    return short if len(alike) == 1 else system.source.name
