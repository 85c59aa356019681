"""A user's own rated data: CSV, TSV, JSON lines or Parquet with named columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, menu, warn
from twmd_registry.judgments.fields import Fields, parse_jsonl
from twmd_registry.judgments.rows import RatedRow, RatedSegments, SkippedRow, decode, form_of, gather, read_content, read_csv


class RatedColumns(NamedTuple):
    """What the columns of a table are called; None for one that there is not."""

    prediction: str
    reference: str
    rating: str
    group: str | None
    item: str | None
    system: str | None


def read_table(
    path: Path,
    *,
    prediction: str = "prediction",
    reference: str | None = None,
    rating: str = "rating",
    group: str | None = None,
    item: str | None = None,
    system: str | None = None,
) -> RatedSegments:
    """Read a table with a header; its form is told by the suffix, one of `FORMS`.

    In CSV and TSV a field may be in double quotes, with quotes inside doubled. In JSON lines and Parquet a reference may be a list of texts.

    Args:
        path: The file.
        prediction: The column of the predictions.
        reference: The column of the references; None for ``reference`` or ``references``.
        rating: The column of the ratings.
        group: The column of the groups; None for ``group``, or where there is none for one group that is called like the file.
        item: The column that says what a row is a version of; None for ``item``, if there is one.
        system: The column that says what wrote a row; None for ``system``, if there is one.

    Returns:
        The rated rows; unrated ones (empty, null or NaN) are dropped, and counted.

    Raises:
        FileError: The file cannot be read or has no rated row, there is no such column (with the menu of columns), or a row has a rating that
            is no finite number, or no text; names the row.
    """
    form = form_of(path.name)
    if form not in FORMS:
        raise FileError(f"{path}: the suffix of a table is one of {', '.join(FORMS)}, not {form!r}.")
    rows = FORMS[form](path, read_content(path))
    present = dict.fromkeys(name for row in rows for name in row.values)
    if reference is None:
        for row in rows:
            row.refuse_both_references()
        reference = next((name for name in ("reference", "references") if name in present), "reference")
    group, item, system = (given or (role if role in present else None) for role, given in (("group", group), ("item", item), ("system", system)))
    columns = RatedColumns(prediction, reference, rating, group, item, system)
    for role, name in columns._asdict().items():
        if rows and name is not None and name not in present:
            raise FileError(f"{path}: no column {name!r} to take the {role} from; {menu(name, present)}.")
    return _qualify_items(gather((_read(one, columns, path.stem) for one in rows), path), path)


def _qualify_items(rated: RatedSegments, path: Path) -> RatedSegments:
    """Name items by their groups, too, where one name stands for different references in different groups.

    Segments are often numbered anew in every language pair, and number 1 of one pair is not to be compared with number 1 of another.

    Warns:
        TwmdWarning: It is so.
    """
    if rated.item is None:
        return rated
    first: dict[str, tuple[str, Any]] = {}
    for name, group, reference in zip(rated.item, rated.group, rated.references, strict=True):
        own = first.setdefault(name, (group, reference))
        if own[0] != group and own[1] != reference:
            warn(f"{path.name}: item {name} of {own[0]} and of {group} have different references: items of different groups are told apart.")
            return rated._replace(item=[f"{of}:{item}" for of, item in zip(rated.group, rated.item, strict=True)])
    return rated


def _read(fields: Fields, columns: RatedColumns, name: str) -> RatedRow | SkippedRow:
    """One row; of an unrated one a line of JSON may have no rating at all."""
    rating = fields.rating(columns.rating) if columns.rating in fields.values else None
    if rating is None:
        return SkippedRow(fields.place, str(fields.values.get(columns.group)) if columns.group else None)
    group, item, system = (fields.label(column) if column else None for column in columns[3:])
    return RatedRow(group or name, fields.text(columns.prediction), fields.texts(columns.reference), rating, item, system)


def _parse_delimited(name: object, content: bytes, delimiters: str) -> list[Fields]:
    """Take a table apart by the delimiter that splits its header into most names; the first of those that do.

    Raises:
        FileError: It is no such table; names the row, with the header as row 1.
    """
    text = decode(name, content)
    header_line = text.partition("\n")[0]
    delimiter = max(delimiters, key=lambda one: max(map(len, read_csv(name, header_line, delimiter=one)), default=0))
    # Strict: a stray quote is refused, where a lenient reader would take it, or the rest of the file, out of a text.
    rows = read_csv(name, text, delimiter=delimiter, strict=True)
    header, header_place = rows[0] if rows else [], f"{name}, row 1 (the header)"
    if len(set(header)) < len(header):
        raise FileError(f"{header_place}: a column's name occurs twice: {', '.join(header)}.")
    found = []
    for number, row in enumerate(rows[1:], 2):
        place = f"{name}, row {number} (row 1 is the header)"
        if row and len(row) != len(header):
            raise FileError(f"{place}: expected {len(header)} fields ({', '.join(header)}), got {len(row)}.")
        if row:
            found.append(Fields(place, dict(zip(header, row, strict=True)), header_place))
    return found


def _parse_parquet(name: object, content: bytes) -> list[Fields]:
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(pyarrow.BufferReader(content)).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors are of these two kinds
        raise FileError(f"{name}: {str(error).splitlines()[0]}") from error
    return [Fields(f"{name}, row {number}", row) for number, row in enumerate(rows, 1)]


FORMS: dict[str, Callable[[object, bytes], list[Fields]]] = {
    ".csv": partial(_parse_delimited, delimiters=",;\t"),  # spreadsheets write ; where a comma is the decimal point
    ".tsv": partial(_parse_delimited, delimiters="\t"),
    ".jsonl": parse_jsonl,
    ".ndjson": parse_jsonl,
    ".parquet": _parse_parquet,
}
"""By suffix, what takes the content of a table apart; its first argument is the file's name, for messages."""
