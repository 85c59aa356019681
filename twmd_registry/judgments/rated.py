"""Rated texts as a value, and the reader of a user's own table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.files.compressed import read_content
from twmd_registry.files.tables import TABLE_SUFFIXES, TableRow, check_present, check_quoted, form_of, read_rows
from twmd_registry.messages import listed, menu, warn
from twmd_registry.registry.references import present_references

if TYPE_CHECKING:  # a command checks its files before it loads numpy
    import numpy as np

_UNRATED = "rows without a rating"
_NAMED = 5


class RatedSegments(NamedTuple):
    """Rated segments, with one entry per segment. A field that the data lack is None.

    Attributes:
        group: Language pairs or other groups; one name for all if the data have no groups.
        predictions: The rated texts.
        references: Texts, or lists of texts.
        ratings: Human ratings; shape (segments,).
        dropped: Rows that were left out.
        item: Items, such as source sentences; segments of one item can be compared.
        system: Systems.
        source: Source texts.
        system_ratings: Ratings of systems by group and system, if they are not means of their segments' ratings.
        domain: Domains.
        by_person: Whether a human wrote the text.
    """

    group: list[str]
    predictions: list[str]
    references: list[Any]
    ratings: np.ndarray
    dropped: int
    item: list[str] | None = None
    system: list[str] | None = None
    source: list[str] | None = None
    system_ratings: dict[tuple[str, str], float] | None = None
    domain: list[str] | None = None
    by_person: list[bool] | None = None


class RatedRow(NamedTuple):
    """One row of rated data, to be left out if it has no rating; `place` is its position in messages: ``row 3``."""

    group: str | None = None
    prediction: str = ""
    reference: str | list[str] = ""
    rating: float | None = None
    item: str | None = None
    system: str | None = None
    place: str = ""
    source: str | None = None
    domain: str | None = None


def read_json_lines(path: Path, read: Callable[[TableRow], RatedRow], unread: str = _UNRATED) -> RatedSegments:
    """Read JSON lines, row by row; `unread` as for `gather`."""
    rows = read_rows(path, read_content(path), ".jsonl")
    return gather((read(row)._replace(place=f"row {row.number}") for row in rows), path, unread)


def gather(read: Iterable[RatedRow], where: Path | str, unread: str = _UNRATED) -> RatedSegments:
    """Collect rated rows.

    If any row has a list of references, all get lists. Warns about rows that were left out. The warning describes them
    as `unread`, and names the first rows and the groups without any left.
    """
    import numpy as np

    collected = list(read)
    rows, left = ([row for row in collected if (row.rating is None) is unrated] for unrated in (False, True))
    if not rows:
        raise FileError(f"{where} contains no rated segment{f' ({len(left)} rows left out)' if left else ''}.")
    first: dict[tuple[str | None, str, str], str] = {}
    for row in rows:
        if row.place and row.item is not None and row.system is not None:
            same = first.setdefault((row.group, row.item, row.system), row.place)
            if same != row.place:
                both = f"{same} and {row.place} both rate item {row.item} of system {row.system}"
                raise FileError(f"{where}: {both}: keep one of them, or their mean.")
    if left:
        places = listed((row.place for row in left), _NAMED)
        lost = sorted({str(row.group) for row in left if row.group} - {str(row.group) for row in rows})
        nothing = f"; nothing is left of {', '.join(lost)}" if lost else ""
        name = where.name if isinstance(where, Path) else where
        warn(f"{name}: {unread}, left out: {len(left)} ({places}){nothing}.")
    group, predictions, references, ratings, item, system, _, source, domain = map(list, zip(*rows, strict=True))
    references = [[texts] if isinstance(texts, str) else present_references(texts) for texts in references]
    if max(map(len, references)) == 1:
        references = [texts[0] for texts in references]
    scores = np.array(ratings, dtype=np.float64)
    items, systems, sources, domains = (None if None in names else names for names in (item, system, source, domain))
    return RatedSegments(group, predictions, references, scores, len(left), items, systems, sources, domain=domains)


def require_labels(rated: RatedSegments, role: str, what: str) -> list[str]:
    """Return the ``group``, ``item`` or ``system`` of every segment; raise InputError if the data lack it."""
    labels: list[str] | None = getattr(rated, role)
    if labels is None:
        needed = f"{what} needs the {role} of every segment, which these data do not name"
        remedy = f"for a table, name its column: table:FILE,{role}=COLUMN; for other data, choose what needs no {role}"
        raise InputError(f"{needed}: {remedy}.")
    return labels


def select(rated: RatedSegments, rows: np.ndarray) -> RatedSegments:
    """Return the segments with numbers `rows`, shape (chosen,), without ratings of systems."""
    chosen: dict[str, Any] = {
        name: [column[i] for i in rows.tolist()]
        for name, column in rated._asdict().items()
        if name not in {"ratings", "dropped", "system_ratings"} and column is not None
    }
    return rated._replace(**chosen, ratings=rated.ratings[rows], system_ratings=None)


def read_table_rows(path: Path, *, quoted_tsv: bool = False) -> list[TableRow]:
    """Read the rows of a table; raise FileError if the suffix is none of `TABLE_SUFFIXES`."""
    form = form_of(path.name)
    if form not in TABLE_SUFFIXES:
        raise FileError(f"{path}: expected a table with a suffix of {', '.join(TABLE_SUFFIXES)}, not {form!r}.")
    return read_rows(path, read_content(path), form, quoted_tsv=quoted_tsv)


def read_table(
    path: Path,
    *,
    prediction: str = "prediction",
    reference: str | None = None,
    rating: str = "rating",
    group: str | None = None,
    item: str | None = None,
    system: str | None = None,
    source: str | None = None,
    quoted: str = "no",
) -> RatedSegments:
    """Read a user's own table.

    Columns default to ``prediction``, ``reference`` or ``references``, and ``rating``. ``group``, ``item``, ``system``
    and ``source`` are read if present. A table without groups is one group, named after the file. Unrated rows are
    dropped.

    Args:
        path: A file with a suffix of `TABLE_SUFFIXES`.
        prediction: A column, like the following arguments.
        reference: The references.
        rating: The ratings.
        group: The groups.
        item: The items.
        system: The systems.
        source: The source texts.
        quoted: ``yes`` if the cells of a TSV file are quoted as in CSV.

    Returns:
        The rated segments.
    """
    if quoted not in {"yes", "no"}:
        raise SpecError(f"quoted={quoted}: expected yes or no.")
    if quoted == "yes":
        check_quoted("quoted=yes", [form_of(path.name)])
    rows = read_table_rows(path, quoted_tsv=quoted == "yes")
    present = dict.fromkeys(name for row in rows for name in row.values)
    prediction, rating = _guess(path, rows, "prediction", prediction), _guess(path, rows, "rating", rating)
    if reference is None and not {"reference", "references"} & present.keys():
        reference = next((name for name in GUESSES["reference"] if name in present), None)
    columns = {"prediction": prediction, "rating": rating} | ({"reference": reference} if reference else {})
    for role, column in {"group": group, "item": item, "system": system, "source": source}.items():
        if column or role in present:
            columns[role] = column or role
    for role, name in columns.items():
        if rows and name not in present:
            fix = f"name it, as in {path},{role}=COLUMN"
            raise FileError(f"{path}: no column {name!r} for the {role}; {menu(name, present)}; {fix}.")
    rated = [row for row in rows if columns["rating"] in row.values and row.rating(columns["rating"]) is not None]
    check_present(rated, columns["prediction"])
    read = (_read_row(row, columns, path.stem)._replace(place=f"row {row.number}") for row in rows)
    return _qualify_items(gather(read, path), path)


GUESSES = {
    "prediction": ("candidate", "hypothesis", "hyp", "mt", "output", "translation", "summary", "system_output"),
    "reference": ("ref", "gold", "target", "reference_text"),
    "rating": ("score", "human", "human_score", "raw", "da", "mqm", "mos", "label", "stars"),
}
"""Usual column names by role, tried if no column has the role's name."""


def _guess(path: Path, rows: Sequence[TableRow], role: str, column: str) -> str:
    """Return the column of a role.

    If the default column is missing, a usual name takes its place, with a warning. For ratings, the only column of
    numbers may too.
    """
    present = dict.fromkeys(name for row in rows for name in row.values)
    if column in present or column != role or not rows:
        return column
    found = [name for name in GUESSES[role] if name in present][:1]
    if not found and role == "rating":
        found = [name for name in present if all(_is_number(row.values.get(name)) for row in rows)]
    if len(found) != 1:
        return column
    warn(f"{path.name}: reading the {role} from column {found[0]} ({path},{role}=COLUMN takes another).")
    return found[0]


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _read_row(row: TableRow, columns: dict[str, str], name: str) -> RatedRow:
    """Read a row. An unrated row of JSON lines may lack the rating field."""
    rating = row.rating(columns["rating"]) if columns["rating"] in row.values else None
    if rating is None:
        group = str(row.values.get(columns["group"])) if "group" in columns else None
        return RatedRow(group)
    labels = {role: row.label(columns[role]) for role in ("group", "item", "system") if role in columns}
    texts = row.text(columns["prediction"]), row.references((columns["reference"],) if "reference" in columns else ())
    source = row.values.get(columns.get("source", ""))
    source = source if isinstance(source, str) else None
    return RatedRow(labels.pop("group", name), *texts, rating, **labels, source=source)


def _qualify_items(rated: RatedSegments, path: Path) -> RatedSegments:
    """Prefix items with their groups if a name has different references in different groups."""
    if rated.item is None:
        return rated
    first: dict[str, tuple[str, Any]] = {}
    for name, group, reference in zip(rated.item, rated.group, rated.references, strict=True):
        before = first.setdefault(name, (group, reference))
        if before[0] != group and before[1] != reference:
            which = f"item {name} of {before[0]} and of {group} have different references"
            warn(f"{path.name}: {which}: items of different groups are treated as different items.")
            return rated._replace(item=[f"{of}:{item}" for of, item in zip(rated.group, rated.item, strict=True)])
    return rated
