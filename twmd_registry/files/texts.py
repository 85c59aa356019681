"""Read predictions, references and sources from lines of text or tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError
from twmd_registry.files.compressed import read_whole, unpack
from twmd_registry.files.lines import check_lines, decode, digest_of_file, read_nbest, split_lines
from twmd_registry.files.tables import (
    USUAL_REFERENCES,
    Columns,
    TableRow,
    check_present,
    detect_form,
    read_array_of_texts,
    read_rows,
)
from twmd_registry.messages import warn
from twmd_registry.registry.references import is_blank, present_references

STDIN = Path("-")


class TextFile(NamedTuple):
    """A file of lines of text or a table. A table's `rows` are not None, and its `form` is a suffix.

    `documents` names every row's document, if known. With `join_documents` each document is one segment, and its rows
    are joined as lines of one text.
    """

    name: str
    sha256: str
    lines: list[str]
    rows: list[TableRow] | None
    documents: tuple[str, ...] = ()
    join_documents: bool = False
    form: str | None = None

    @property
    def short_name(self) -> str:
        """The name without its folder, which a published record must not reveal."""
        return Path(self.name).name

    def segments(self, rows: Iterable[Sequence[str | None]]) -> list[Sequence[str | None]]:
        """Return the texts of every segment from the texts of every row; a missing text joins as an empty line."""
        if not self.join_documents:
            return [*rows]
        groups = dict[str, list[Sequence[str | None]]]()
        for document, texts in zip(self.documents, rows, strict=True):
            groups.setdefault(document, []).append(texts)
        for document, document_rows in groups.items():
            if len(set(map(len, document_rows))) > 1:
                raise FileError(f"{self.name}: the rows of document {document} have different numbers of references.")
        columns = (zip(*rows, strict=True) for rows in groups.values())
        return [["\n".join(text or "" for text in texts) for texts in streams] for streams in columns]

    def texts(self, rows: Iterable[str]) -> list[str]:
        """Return the text of every segment, given the text of every row."""
        return [texts[0] or "" for texts in self.segments([text] for text in rows)]

    def sources(self) -> list[str] | None:
        """Return the column ``source``, empty where a row lacks one; None if every row does."""
        texts = [row.values.get("source") for row in self.rows or []]
        if not any(isinstance(text, str) for text in texts):
            return None
        return self.texts(text if isinstance(text, str) else "" for text in texts)


def read_file(path: Path, columns: Columns, *, as_lines: bool = False, nbest: bool = False) -> TextFile:
    """Read a file, or standard input for ``-``.

    Args:
        path: The file.
        columns: The columns of a table.
        as_lines: Whether to read any content as lines of text; otherwise the name or content reveals a table.
        nbest: Whether to accept an n-best list.

    Returns:
        The lines or rows.
    """
    name = "standard input" if path == STDIN else str(path)
    packed = read_whole(name, lambda: nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb"))
    content, sha256 = unpack(name, packed), digest_of_file(packed)
    if not content:
        hint = " Pipe predictions in, or pass them with -i (twmd score -i FILE.jsonl if one file has everything)."
        raise FileError(f"{name} is empty.{hint if path == STDIN else ''}")
    # Check the usual columns too: a table without the requested columns is an error, not lines of text.
    names = (*columns.wanted, *Columns().wanted)
    form = None if as_lines else detect_form(name, content, names, quoted_tsv=columns.quoted_tsv)
    if form is None:
        lines = split_lines(decode(name, content))
        if not as_lines and not (nbest and read_nbest(name, lines)):
            check_lines(name, lines, " If each line is one text, add --lines.")
        return TextFile(name, sha256, lines, None)
    if form == ".json" and (texts := read_array_of_texts(name, content)):
        lines = [text for text in texts if text is not None]
        if len(lines) == len(texts):
            return TextFile(name, sha256, lines, None)
        cells = ({columns.prediction: text, "reference": text} for text in texts)
        items = [TableRow(f"{name}, item {i}", values, i) for i, values in enumerate(cells, 1)]
        return TextFile(name, sha256, [], items)
    rows = read_rows(name, content, form, quoted_tsv=columns.quoted_tsv)
    if not rows:
        raise FileError(f"{name}: no rows below the header.")
    return TextFile(name, sha256, [], rows, form=form)


def read_system(file: TextFile, columns: Columns) -> tuple[list[str], list[list[str]] | None]:
    """Return a system's predictions, and its references if the file is a table that has them."""
    if file.rows is None:
        return file.texts(file.lines), None
    check_present(file.rows, columns.prediction)
    predictions = file.texts(row.text(columns.prediction) for row in file.rows)
    _warn_of_more_references(file, columns)
    names = columns.references or USUAL_REFERENCES
    if not any(name in row.values for row in file.rows for name in names):
        return predictions, None
    cells = file.segments(row.reference_cells(columns.references) for row in file.rows)
    return predictions, [present_references(texts) for texts in cells]


def _warn_of_more_references(file: TextFile, columns: Columns) -> None:
    """Warn about numbered reference columns that are not read."""
    names = list(file.rows[0].values) if file.rows and not columns.references else []
    more = [name for name in names if re.fullmatch(r"ref(erence)?s?[ _.-]?[0-9]+", name, re.IGNORECASE)]
    if more and not set(names).isdisjoint(USUAL_REFERENCES):
        hint = "name all columns to read with --reference-column"
        warn(f"{file.name}: not read: {', '.join(more)}; {hint}.")


def read_references(files: Sequence[TextFile], columns: Columns) -> list[list[str]]:
    """Return the references of every segment; several files are merged line by line."""
    streams: list[list[Sequence[str | None]]] = []
    for file in files:
        rows: Iterable[Sequence[str | None]] = ([line] for line in file.lines)
        if file.rows is not None:
            _warn_of_more_references(file, columns)
            rows = [row.reference_cells(columns.references) for row in file.rows]
        streams.append(file.segments(rows))
        if len(streams[-1]) != len(streams[0]):
            lengths = f"{file.name} has {len(streams[-1])} lines but {files[0].name} has {len(streams[0])}"
            raise FileError(f"{lengths}: reference files must match line by line.")
    return [present_references(chain.from_iterable(segment)) for segment in zip(*streams, strict=True)]


def read_sources(file: TextFile) -> list[str]:
    """Return the texts of a ``--src`` file: its lines, or a table's column ``source``."""
    if not (texts := file.sources() or file.texts(file.lines)):
        raise FileError(f"{file.name}: its column source is missing or empty.")
    if empty := [str(i) for i, text in enumerate(texts, 1) if is_blank(text)]:
        warn(f"{file.name} has no text in {len(empty)} rows, the first of them row {empty[0]}.")
    return texts
