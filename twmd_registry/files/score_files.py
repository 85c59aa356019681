"""Per-segment scores from other programs: lines of numbers, tables, comet-score's JSON, mt-metrics-eval's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.files.compressed import PACKED, read_whole, unpack
from twmd_registry.files.lines import decode, digest_of_file, split_lines
from twmd_registry.files.tables import TABLE_SUFFIXES, TableRow, form_of, parse_json, read_rating, read_rows
from twmd_registry.messages import menu, no_column

USUAL_NAMES = ("COMET", "score")
"""Score columns to try if none has the metric's name."""
SYSTEM = "system"
"""Column of the row's system."""


class ScoreFile(NamedTuple):
    """The scores in a file, in order, by system, or under None without systems.

    `locations` names the first score of every system for messages.
    """

    name: str
    sha256: str
    scores: dict[str | None, list[float]]
    locations: dict[str | None, str]

    @property
    def short_name(self) -> str:
        """The name without its folder."""
        return Path(self.name).name

    def by_system(self, systems: Sequence[str]) -> dict[str, list[float]]:
        """Return the scores by the names in `systems`. A system may be named like the file with its texts.

        Raises FileError for an unknown system, or for two names of the same system.
        """
        found = dict[str, list[float]]()
        for name, values in self.scores.items():
            names = {str(name), Path(str(name)).name}
            same = (
                [system for system in systems if system == name]
                or [system for system in systems if names & _names_of(system)]
                or [system for system in systems if {_plain_name(one) for one in names} & _names_of(system)]
            )
            if len(same) != 1:
                raise FileError(f"{self.locations[name]}: no system {name!r}; {menu(str(name), systems)}.")
            if same[0] in found:
                raise FileError(
                    f"{self.locations[name]}: {name!r} and another name both stand for {same[0]}: keep one."
                )
            found[same[0]] = values
        return found


def read_score_file(path: Path, metric: str) -> ScoreFile:
    """Read a file of per-segment scores.

    Formats are one number per line; ``SYSTEM<TAB>SCORE`` per line, as in mt-metrics-eval's ``.seg.score``; a table with
    a column of the metric's name (or ``COMET`` or ``score``) and an optional ``system``; and the JSON of
    ``comet-score --to_json``.

    Raises:
        FileError: Anything else; names the row.
    """
    name = str(path)
    packed = read_whole(name, lambda: path.open("rb"))
    content, form = unpack(name, packed), form_of(name)
    scores = dict[str | None, list[float]]()
    locations = dict[str | None, str]()

    def add(system: str | None, value: Any, where: str) -> None:
        locations.setdefault(system, where)
        scores.setdefault(system, []).append(read_rating(value, where, what="score"))

    if form == ".json" and content.lstrip().startswith(b"{"):
        _add_comet(name, content, metric, add)
    elif form in TABLE_SUFFIXES:
        rows = read_rows(name, content, form)
        for row in rows:
            value = row.take(_find_column(row, metric))
            add(row.label(SYSTEM) if SYSTEM in row.values else None, value, row.where)
    else:
        for number, line in enumerate(split_lines(decode(name, content)), 1):
            *system, value = line.split() or [line]
            add(" ".join(system) or None, value, f"{name}, row {number}")
    if not scores:
        raise FileError(f"{name} contains no scores.")
    return ScoreFile(name, digest_of_file(packed), scores, locations)


def _add_comet(name: str, content: bytes, metric: str, add: Callable[[str | None, Any, str], None]) -> None:
    """Add the scores of a JSON object with a list of objects or numbers per system."""
    try:
        table = parse_json(decode(name, content))
    except ValueError as error:
        raise FileError(f"{name} is not JSON: {error}.") from error
    for system, rows in table.items():
        if not isinstance(rows, list):
            raise FileError(f"{name}, {system}: expected a list of segments, as comet-score --to_json writes.")
        for number, row in enumerate(rows, 1):
            where = f"{name}, {system}, row {number}"
            cells = TableRow(where, row if isinstance(row, dict) else {metric: row}, number)
            add(system, cells.take(_find_column(cells, metric)), where)


def _find_column(row: TableRow, metric: str) -> str:
    """Return the column with a metric's scores; raise FileError if there is none."""
    found = next((column for column in (metric, *USUAL_NAMES) if column in row.values), None)
    if found is None:
        raise FileError(f"{row.header or row.where}: {no_column([metric], row.values)}.")
    return found


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
