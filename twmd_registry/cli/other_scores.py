"""Read ``--scores NAME=FILE``: scores of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twmd_registry.comparison.external import ExternalScores, check_name
from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.score_files import ScoreFile, read_score_file
from twmd_registry.record.content import InputFile


def named_files(options: Sequence[str]) -> list[tuple[str, Path]]:
    """Return the name and file of every ``NAME=FILE``; raise SpecError for anything else."""
    named = []
    for text in options:
        name, equals, file = text.partition("=")
        if not (equals and name and file):
            raise SpecError(f"--scores {text}: expected NAME=FILE, as in COMET=comet.json.")
        check_name(name)
        named.append((name, Path(file)))
    return named


def by_name(options: Sequence[str]) -> dict[str, list[Path]]:
    """Return the files of every ``NAME=FILE`` by name."""
    files = dict[str, list[Path]]()
    for name, path in named_files(options):
        files.setdefault(name, []).append(path)
    return files


def read_other_scores(
    options: Sequence[str], systems: Sequence[str], segments: int
) -> tuple[dict[str, ExternalScores], list[InputFile]]:
    """Read the files of ``--scores``: one per system, in order, or one for all that names the systems.

    Returns the scores, and the files for a record. Raises FileError with file and row.
    """
    scores, files = dict[str, ExternalScores](), list[InputFile]()
    for name, paths in by_name(options).items():
        read = [read_score_file(path, name) for path in paths]
        by_system = [_scores_of(file, systems) for file in read]
        if len(read) == 1 and len(by_system[0]) == len(systems):
            (columns,) = by_system
        elif len(read) == len(systems) and all(len(columns) == 1 for columns in by_system):
            columns = [column for (column,) in by_system]
        else:
            held = sum(map(len, by_system))
            raise FileError(
                f"--scores {name}: {', '.join(file.name for file in read)} have scores of {held} systems, but "
                f"{len(systems)} are compared: pass one file per system, in order, or one that names all systems."
            )
        for system, (file, values) in zip(systems, columns, strict=True):
            if len(values) != segments:
                few = len(values) < segments
                gap = f"segment {len(values) + 1} has none" if few else f"row {segments + 1} is one too many"
                raise FileError(f"{file.name} has {len(values)} scores of {system} for {segments} segments: {gap}.")
        sources = tuple((file.short_name, file.sha256) for file in read)
        scores[name] = ExternalScores(name, tuple(tuple(values) for _, values in columns), sources)
        files += [InputFile("scores", *source) for source in sources]
    return scores, files


def _scores_of(file: ScoreFile, systems: Sequence[str]) -> list[tuple[ScoreFile, list[float]]]:
    """Return a file's scores, of its only system if it names none, otherwise by system."""
    if list(file.scores) == [None]:
        return [(file, file.scores[None])]
    found = file.by_system(systems)
    return [(file, found[system]) for system in systems if system in found]
