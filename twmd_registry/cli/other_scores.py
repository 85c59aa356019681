"""Read ``--scores NAME=FILE``: scores of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twmd_registry.comparison.external import ExternalScores, check_name
from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.compressed import PACKED
from twmd_registry.files.score_files import ScoreFile, read_score_file
from twmd_registry.files.tables import TABLE_SUFFIXES
from twmd_registry.messages import menu
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
                f"--scores {name}: {', '.join(file.name for file in read)} hold scores of {held} systems, but "
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
    found = dict[str, list[float]]()
    for name, values in file.scores.items():
        own = {str(name), Path(str(name)).name}
        same = [system for system in systems if own & _names_of(system)] or [
            system for system in systems if {_plain_name(one) for one in own} & _names_of(system)
        ]
        if len(same) != 1:
            raise FileError(f"{file.places[name]}: no system {name!r}; {menu(str(name), systems)}.")
        if same[0] in found:
            raise FileError(
                f"{file.places[name]}: {name!r} and another name both stand for {same[0]}: keep one of them."
            )
        found[same[0]] = values
    return [(file, found[system]) for system in systems if system in found]


def _names_of(system: str) -> set[str]:
    """Return a system's names: its file with and without folders, and without suffixes other than version numbers."""
    names = {system, Path(system).name}
    name = _plain_name(Path(system).name)
    while name not in names:
        names.add(name)
        name = name if Path(name).suffix[1:].isdigit() else Path(name).stem
    return names


def _plain_name(name: str) -> str:
    """Return a file's name without a suffix of text or tables. Other suffixes may tell systems apart."""
    name = name.removesuffix(Path(name).suffix if Path(name).suffix in PACKED else "")
    return name.removesuffix(Path(name).suffix if Path(name).suffix in {".txt", *TABLE_SUFFIXES} else "")
