"""Tables in JSON lines, JSON arrays, CSV, TSV and Parquet, and the cells of their rows."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from twmd_registry.errors import FileError, SpecError, refuse_repeated_keys, shown
from twmd_registry.files import compressed
from twmd_registry.files.compressed import PACKED, PARQUET
from twmd_registry.files.lines import decode, find_encoding_problem, read_lines
from twmd_registry.messages import listed, no_column, warn
from twmd_registry.registry.references import is_absent, is_missing, present_references

DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}  # spreadsheets write ; if a comma is the decimal point
"""Delimiters by suffix. The one that splits the header into most names is used, the first of several."""
PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (*DELIMITERS, ".jsonl", ".ndjson", *PARQUET_SUFFIXES, ".json")
USUAL_REFERENCES = ("references", "reference")
_LIST = re.compile(r"\[\s*(['\"].*|null\s*(,.*)?)?\]\s*", re.DOTALL)
_BLANK_LINES = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*\r?\n)*")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_CR = "\udc0d"
"""Replaces CR while `csv` splits a line, because `csv` would end the row there. Decoded text never has it."""
SAY_QUOTED = "if cells are quoted as in CSV, add --quoted-tsv (or table:FILE,quoted=yes), or rename the file to .csv"
Values = dict[str, Any] | str
"""A row's values by column, or the reason why it has none."""


def check_quoted(option: str, forms: Iterable[str | None]) -> None:
    """Raise SpecError if an option concerns the quoting of TSV, but no file is TSV."""
    if ".tsv" not in forms:
        raise SpecError(f"{option} applies to TSV, but no file is TSV: leave it out.")


def form_of(name: str) -> str:
    """Return the suffix of a file's format in lower case, without a compressed file's .gz or .xz."""
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def detect_form(name: str, content: bytes, columns: Sequence[str], *, quoted_tsv: bool = False) -> str | None:
    """Return a table's format by its name or content; None for lines of text.

    JSON is recognised by its syntax, delimited text by a header with one of `columns`.
    """
    form = form_of(name)
    if form in TABLE_SUFFIXES:
        return form
    if content.startswith(PARQUET) and content.endswith(PARQUET) and b"\0" in content:
        return ".parquet"
    start = _BLANK_LINES.match(content).end()  # type: ignore[union-attr]
    end = content.find(b"\n", start)
    line = content[start : end if end >= 0 else None]
    if line.lstrip()[:1] in {b"[", b"{"}:
        return _detect_json(content[start:].strip(), line, columns)
    header = line.removesuffix(b"\r").decode("utf-8", "replace")
    for delimiter, form in (("\t", ".tsv"), (",", ".csv"), (";", ".csv")):
        names = _split_fields(header, delimiter, quoted=quoted_tsv or delimiter != "\t", strict=True)
        plain = len(names) > 1 and all(name and name == name.strip() for name in names)
        if plain and len(set(names)) == len(names) and not set(columns).isdisjoint(names):
            return form
    return None


def _detect_json(content: bytes, line: bytes, columns: Sequence[str]) -> str | None:
    """Return the format of text that starts with a bracket; None unless it is JSON with rows or texts."""
    if isinstance(values := _parse_row(line), dict):
        rows = (row.strip() for row in io.BytesIO(content))
        is_table = not set(columns).isdisjoint(values) or all(row[:1] + row[-1:] in {b"", b"{}"} for row in rows)
        return ".jsonl" if is_table else None
    if content[-1:] not in {b"]", b"}"}:
        return None
    try:
        value = parse_json(content.decode("utf-8"))
    except ValueError:
        return None
    is_rows = isinstance(value, dict) or all(isinstance(item, dict | str | None) for item in value)
    return ".json" if is_rows else None


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow cells as long as lines; csv's process-wide limit is 131,072 characters."""
    before = csv.field_size_limit(compressed.LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _split_fields(line: str, delimiter: str, *, quoted: bool, strict: bool = False) -> list[str]:
    """Split a line; return no fields if a quote is misplaced."""
    if not quoted:
        return line.split(delimiter)
    try:
        with _long_cells():
            return next(csv.reader([line.replace("\r", _CR)], delimiter=delimiter, strict=strict), [])
    except csv.Error:
        return []


def parse_json(text: str) -> Any:
    """Parse JSON; raise ValueError for anything else or a repeated key."""
    try:
        return json.loads(text, object_pairs_hook=refuse_repeated_keys)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _csv_problem(error: csv.Error) -> str:
    limit = csv.field_size_limit()
    if "field limit" in str(error):
        return f"a cell has more than {limit:,} characters: close its quote, or write such long texts as JSON lines"
    return f"{error}; is a quote not closed?"


def _restore(fields: list[str]) -> list[str]:
    """Restore CRs in the fields of a record."""
    return [field.replace(_CR, "\r") for field in fields]


def read_csv(path: Path, delimiter: str = ",") -> list[list[str]]:
    """Read a file without a header whose fields may be quoted; a quote elsewhere is an ordinary character."""
    records: list[list[str]] = []
    text = "\n".join(read_lines(path)).replace("\r", _CR)
    try:
        records.extend(map(_restore, csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter)))
    except csv.Error as error:
        raise FileError(f"{path}, row {len(records) + 1}: {_csv_problem(error)}.") from error
    return records


def read_tsv(path: Path) -> list[list[str]]:
    """Read a tab-separated file without a header; quotes are ordinary characters."""
    return [line.split("\t") for line in read_lines(path)]


class Columns(NamedTuple):
    """The columns with a row's texts. Without `references` the usual columns are read.

    Attributes:
        prediction: The column with the prediction.
        references: The columns with the references.
        quoted_tsv: Whether TSV cells are quoted as in CSV. Otherwise a quote is an ordinary character.
    """

    prediction: str = "prediction"
    references: tuple[str, ...] = ()
    quoted_tsv: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        """All columns that may be read."""
        return (self.prediction, *(self.references or USUAL_REFERENCES))


class TableRow(NamedTuple):
    """A row of a table. Methods raise a FileError with its location if a column is missing or has a wrong value.

    Attributes:
        where: Location of the row, for messages.
        values: Values by column.
        number: Number of the row in the file, from 1, counting the header.
        header: Location of the table's header, for messages.
    """

    where: str
    values: Mapping[str, Any]
    number: int = 0
    header: str | None = None

    def take(self, *names: str) -> Any:
        """Return the value of a column, or of the last of several required ones."""
        if missing := [name for name in names if name not in self.values]:
            raise FileError(f"{self.header or self.where}: {no_column(missing, self.values)}.")
        return self.values[names[-1]]

    def text(self, name: str) -> str:
        """Return a text."""
        return self._check_text(self.take(name), name)

    def _check_text(self, value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise FileError(f"{self.where}: expected a text as {name}, not {shown(value)}.")
        try:
            value.encode("utf-8")  # JSON may contain a lone surrogate
        except UnicodeEncodeError as error:
            position = f"lone surrogate at character {error.start}"
            raise FileError(f"{self.where}: {name} is not valid Unicode: {position}.") from error
        return value

    def lacks(self, column: str) -> bool:
        """Return whether a cell is missing: null or, in delimited text, which has no null, empty."""
        value = self.values.get(column, "a column that is not there")
        return is_missing(value) or (value == "" and self.header is not None)

    def segment(self, columns: Columns) -> tuple[str, list[str]]:
        """Return the prediction and its references."""
        check_present([self], columns.prediction)
        return self.text(columns.prediction), self.references(columns.references)

    def references(self, columns: tuple[str, ...] = ()) -> list[str]:
        """Return the references that are present, at least one; see `reference_cells`."""
        return present_references(self.reference_cells(columns))

    def reference_cells(self, columns: tuple[str, ...] = ()) -> list[str | None]:
        """Return the references, at least one; None for a missing one.

        Without `columns`, the column of `USUAL_REFERENCES` that is present and not null is read. A single column not
        called ``reference`` may contain a JSON list of texts as text, because CSV has no lists.
        """
        columns = columns or self.usual_references()
        self.take(*(columns or USUAL_REFERENCES))
        cells = [self._parse_list(columns[0])] if len(columns) == 1 else [self.values[name] for name in columns]
        texts = [text for cell in cells for text in (cell if isinstance(cell, list) else [cell])]
        if not texts:
            raise FileError(f"{self.where}: an empty list of references: every row needs at least one.")
        return [None if is_absent(text) else self._check_text(text, "a reference") for text in texts]

    def candidates(self) -> list[str]:
        """Return the texts of the column ``candidates``, at least one."""
        self.take("candidates")
        texts = self._parse_list("candidates")
        if not isinstance(texts, list):
            raise FileError(f'{self.where}: expected a list of candidates, not a text; write ["one", "another"].')
        if not texts:
            raise FileError(f"{self.where}: an empty list of candidates: every row needs at least one.")
        return [self._check_text(text, "a candidate") for text in texts]

    def usual_references(self) -> tuple[str, ...]:
        """Return the column of `USUAL_REFERENCES` that is present; if both are, the one that is not null."""
        present = [name for name in USUAL_REFERENCES if name in self.values]
        filled = [name for name in present if self.values[name] is not None]
        if len(filled) > 1:
            names = " and ".join(map(repr, filled))
            raise FileError(f"{self.where}: both {names} are present: keep one, or name the column to read.")
        return tuple(filled or present[:1])

    def _parse_list(self, name: str) -> Any:
        value = self.values[name]
        if name == "reference" or not isinstance(value, str) or not _LIST.fullmatch(value):
            return value
        try:
            texts = json.loads(value)
        except (ValueError, RecursionError):
            texts = None
        if not isinstance(texts, list) or not all(text is None or isinstance(text, str) for text in texts):
            hint = 'write ["one", "another"], or call a column of single texts reference'
            raise FileError(f"{self.where}: {name} looks like a list but is not a JSON list of texts: {hint}.")
        return texts

    def objects(self, name: str, what: str) -> list[TableRow]:
        """Return a list of objects as rows. Errors call them `what` and their number."""
        value = self.take(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise FileError(f"{self.where}: expected a list of objects as {name}, not {shown(value)}.")
        return [TableRow(f"{self.where}, {what} {number}", item, number) for number, item in enumerate(value, 1)]

    def label(self, name: str) -> str:
        """Return the name of a group, item or system, which may be a number."""
        value = self.take(name)
        if value is None or value == "" or value != value:  # noqa: PLR0124 (NaN means an empty cell)
            raise FileError(f"{self.where}: expected a name as {name}, not {value!r}.")
        return str(value)

    def rating(self, name: str) -> float | None:
        """Return a rating as a finite number; None for an unrated row (null, NaN or an empty text)."""
        value = self.take(name)
        if str(value).strip().lower() in {"", "nan", "none", "null"}:
            return None
        return read_rating(value, f"{self.where}, {name}")


def check_present(rows: Sequence[TableRow], column: str) -> None:
    """Raise a FileError that names every row without a text in a column."""
    if missing := [row for row in rows if row.lacks(column)]:
        first, *others = missing
        also = f"; other rows without a text: {listed(row.number for row in others)}" if others else ""
        hint = "Fill in what is missing, or leave these rows out (score, report: --drop-missing)"
        raise FileError(f"{first.where}: expected a text as {column}, not None{also}. {hint}.")


def read_rating(
    value: Any, where: str, lowest: float = -math.inf, highest: float = math.inf, *, what: str = "rating"
) -> float:
    """Return a finite number within bounds, from a number or from text in ASCII digits.

    Raises FileError, prefixed by `where`, for anything else, including Python's own spellings such as ``1_000``.
    """
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    is_text = isinstance(value, str) and _NUMBER.fullmatch(value.strip(" \t\r"))
    try:
        number = float(value) if is_number or is_text else math.nan
    except (ValueError, OverflowError):  # a signalling NaN, or an integer beyond any float
        number = math.nan
    if not (math.isfinite(number) and lowest <= number <= highest):
        expected = "a finite number" if math.isinf(highest) else f"a number from {lowest:g} to {highest:g}"
        raise FileError(f"{where}: expected a {what}, {expected}, not {shown(value)}.")
    return number


def read_rows(name: object, content: bytes, form: str, *, quoted_tsv: bool = False) -> list[TableRow]:
    """Read all rows of a table, given its unpacked content and its format of `TABLE_SUFFIXES`; skip blank lines."""
    if form not in PARQUET_SUFFIXES:
        text = decode(name, content)  # one error for a file that is compressed or in another encoding
        if form == ".json":
            items = read_array(name, text)
            if items is not None:
                return [TableRow(f"{name}, item {number}", item, number) for number, item in enumerate(items, 1)]
    rows = []
    try:
        table = OpenTable(io.BytesIO(content), form, quoted_tsv=quoted_tsv)
        counted = f" (row {table.header_row} is the header)" if form in DELIMITERS else ""
        header = f"{name}, row {table.header_row} (the header)" if form in DELIMITERS else None
        for number, (_, values) in enumerate(table.records(), table.header_row + 1):
            where = f"{name}, row {number}{counted}"
            if isinstance(values, str):
                raise FileError(f"{where}: {values}.")
            if values is not None:
                rows.append(TableRow(where, values, number, header))
    except ValueError as error:
        raise FileError(f"{name}: {error}.") from error
    if form == ".tsv" and not quoted_tsv and (quoted := next((row for row in rows if seems_quoted(row.values)), None)):
        warn(f"{quoted.where}: quotes are ordinary characters in TSV, but a cell looks quoted: {SAY_QUOTED}.")
    return rows


def seems_quoted(values: Mapping[str, Any]) -> bool:
    """Return whether a cell looks quoted: it has quotes around it and doubled quotes inside."""
    insides = (cell[1:-1] for cell in values.values() if len(cell) > 2 and cell[0] == cell[-1] == '"')
    return any('"' in inside and '"' not in inside.replace('""', "") for inside in insides)


def read_array_of_texts(name: object, content: bytes) -> list[str | None]:
    """Read a JSON array of texts, null for a missing one; return no texts for other content."""
    try:
        value = parse_json(decode(name, content))
    except ValueError:
        return []
    is_texts = isinstance(value, list) and all(isinstance(item, str | None) for item in value)
    return value if is_texts else []


def read_array(name: object, text: str) -> list[dict[str, Any]] | None:
    """Read the objects of a JSON array; None for JSON lines. Raises FileError for other JSON."""
    try:
        value = parse_json(text)
    except ValueError as error:
        first = text.lstrip().partition("\n")[0]
        if text.lstrip()[:1] == "{" and isinstance(_parse_row(first.encode()), dict):
            return None
        raise FileError(f"{name} cannot be read as JSON ({error}): was it cut off?") from error
    if isinstance(value, dict) and "\n" not in text.strip():
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        example = '[{"prediction": "...", "references": ["...", "..."]}]'
        raise FileError(f"{name}: expected JSON lines or an array of objects, {example}, not {shown(value)}.")
    return value


class OpenTable:
    """An open table.

    Attributes:
        columns: Column names; empty for JSON lines.
        header_row: Number of the header, the first row that is not blank, from 1; 0 without a header.
    """

    def __init__(self, file: io.BufferedIOBase, form: str, *, quoted_tsv: bool = False) -> None:
        """Read the header of unpacked content in a format of `TABLE_SUFFIXES` other than ``.json``."""
        self._file, self._delimiter = file, ""
        self._quoted = form != ".tsv" or quoted_tsv
        self._parquet: Any = None
        self.columns: tuple[str, ...] = ()
        self.header_row = 0
        if form in PARQUET_SUFFIXES:
            import pyarrow.parquet

            try:
                self._parquet = pyarrow.parquet.ParquetFile(file)
            except (OSError, ValueError) as error:  # pyarrow's errors derive from these
                raise ValueError(str(error).splitlines()[0].removesuffix(".")) from error
            self.columns = tuple(self._parquet.schema_arrow.names)
        elif form in DELIMITERS:
            self._read_header(DELIMITERS[form])

    def _read_header(self, delimiters: str) -> None:
        lines = (line.decode("utf-8", "replace") for line in _split_lines(self._file))
        first = next(filter(str.strip, lines), "")
        self._delimiter = max(delimiters, key=lambda sign: len(_split_fields(first, sign, quoted=self._quoted)))
        for number, (raw, names) in enumerate(self._split(_split_lines(self._file)), 1):
            self.header_row = number
            problem = names if isinstance(names, str) else ""
            if not problem and raw.strip():
                self.columns = tuple(names)
                if len(set(names)) < len(names):
                    problem = f"a column's name occurs twice: {', '.join(names)}"
                elif not self._quoted and any(len(name) > 2 and name[0] == name[-1] == '"' for name in names):
                    problem = f"names are quoted, but quotes are ordinary characters in TSV: {SAY_QUOTED}"
            if problem:
                raise ValueError(f"row {number} (the header): {problem}")
            if self.columns:
                return

    def records(self) -> Iterator[tuple[bytes, Values | None]]:
        """Yield every row's bytes (none for Parquet) and its values, None for a blank row."""
        if self._parquet:
            yield from ((b"", values) for values in _read_parquet(self._parquet))
            return
        lines = _split_lines(self._file)
        if not self._delimiter:
            yield from ((raw, _parse_row(raw)) for raw in lines)
            return
        for raw, fields in itertools.islice(self._split(lines), self.header_row, None):
            if isinstance(fields, str) or not fields:
                yield raw, fields or None  # type: ignore[misc]
            elif len(fields) != len(self.columns):
                names = ", ".join(self.columns)
                problem = f"expected {len(self.columns)} fields ({names}), got {len(fields)}"
                yield raw, problem if self._quoted or b'"' not in raw else f"{problem}; {SAY_QUOTED}"
            else:
                yield raw, dict(zip(self.columns, fields, strict=True))

    def _split(self, lines: Iterator[bytes]) -> Iterator[tuple[bytes, list[str] | str]]:
        """Yield records of delimited text: bytes, and the fields or the reason why there are none.

        A blank line has no fields. In TSV with a single column it is an empty text.
        """
        if self._quoted:
            yield from _split_records(lines, self._delimiter)
            return
        for raw in lines:
            try:
                line = _decode_line(raw)
            except UnicodeDecodeError as error:
                yield raw, _not_utf8(error)
            else:
                yield raw, line.split(self._delimiter) if line or len(self.columns) == 1 else []


def _read_parquet(file: Any) -> Iterator[Values]:
    try:
        for batch in file.iter_batches():
            yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        raise ValueError(str(error).splitlines()[0].removesuffix(".")) from error


def _parse_row(raw: bytes) -> Values | None:
    try:
        text = raw.decode("utf-8")
        values = parse_json(text) if text.strip() else None
    except UnicodeDecodeError as error:
        return _not_utf8(error)
    except json.JSONDecodeError as error:
        return f"expected a JSON object ({error.msg} at character {error.pos + 1})"
    except ValueError as error:
        return f"expected a JSON object ({error})"
    is_object = isinstance(values, dict) or not text.strip()
    return values if is_object else f"expected a JSON object, not {shown(values)}"


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"not UTF-8: byte 0x{error.object[error.start]:02x}"


def _split_lines(file: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield all lines, without the byte-order mark."""
    longest, offset = compressed.LONGEST_LINE, 0
    file.seek(0)
    while line := file.readline(longest + 1):
        if len(line) > longest:
            raise ValueError(f"the line at byte {offset} has more than {longest} bytes: it is not text")
        if offset == 0 and (problem := find_encoding_problem(line)):
            raise ValueError(f"it {problem}")
        if offset == 0 and line.startswith(codecs.BOM_UTF8):
            offset, line = len(codecs.BOM_UTF8), line.removeprefix(codecs.BOM_UTF8)
        yield line
        offset += len(line)


def _decode_line(raw: bytes) -> str:
    return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")


def _split_records(lines: Iterator[bytes], delimiter: str) -> Iterator[tuple[bytes, list[str] | str]]:
    """Yield records of quoted text like `OpenTable._split`.

    Reading is strict, because a lenient reader would drop a stray quote from a text, or
    read the rest of the file into it. After a quote that is not closed, reading continues on the next line.
    """
    pending, held = deque[bytes](), list[bytes]()

    def feed() -> Iterator[str]:
        while line := pending.popleft() if pending else next(lines, None):
            held.append(line)
            yield f"{_decode_line(line)}\n".replace("\r", _CR)

    while True:
        held.clear()
        fields: list[str] | str
        try:
            with _long_cells():
                fields = next(csv.reader(feed(), delimiter=delimiter, strict=True))
            fields = _restore(fields) if any(b"\r" in line for line in held) else fields
        except StopIteration:
            return
        except (csv.Error, UnicodeDecodeError) as error:
            fields = _not_utf8(error) if isinstance(error, UnicodeDecodeError) else _csv_problem(error)
            pending.extendleft(reversed(held[1:]))
            del held[1:]
        yield b"".join(held), fields
