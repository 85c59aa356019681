"""What every reader of rated data gives, and how files are read."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twmd_registry.errors import FileError, not_utf8, warn

if TYPE_CHECKING:  # a command reads its files, and refuses bad ones, before it loads numpy
    import numpy as np

_UNPACK = {b"\x1f\x8b": gzip.decompress, b"\xfd7zXZ\x00": lzma.decompress}
"""By the bytes that a compressed file begins with, what unpacks it."""
PACKED = (".gz", ".xz")
"""What the name of a compressed file ends with, after the suffix of its content."""
_NAMED = 5
"""How many of the rows that are left out a warning names."""


class RatedSegments(NamedTuple):
    """Segments that people have rated.

    Attributes:
        group: The group of every segment (a language pair, a system); one name for all where there are none.
        predictions: Texts; the first of a pair.
        references: A text per segment (the second of a pair), or a list of texts per segment.
        ratings: Shape (segments,).
        dropped: Rows that were left out: a text too short, or not rated.
        item: What every segment is a version of (a source sentence, an input): segments of one item may be compared with each other; None
            where the data do not say.
        system: What wrote every segment; None where the data do not say.
    """

    group: list[str]
    predictions: list[str]
    references: list[Any]
    ratings: np.ndarray
    dropped: int
    item: list[str] | None = None
    system: list[str] | None = None


class RatedRow(NamedTuple):
    """One rated segment."""

    group: str
    prediction: str
    reference: str | list[str]
    rating: float
    item: str | None = None
    system: str | None = None


class SkippedRow(NamedTuple):
    """A row that is not used: it is not rated, or a text is too short.

    Attributes:
        place: Where it stands: ``line 3``.
        group: Its group; None where the data have none.
    """

    place: str
    group: str | None = None


def gather(read: Iterable[RatedRow | SkippedRow], where: Path | str) -> RatedSegments:
    """Bundle rows; where one row has a list of references, all get lists.

    Args:
        read: What was read.
        where: Where, for the messages.

    Raises:
        FileError: None is rated.

    Warns:
        TwmdWarning: Rows were left out: says how many, where the first of them stand, and which groups have no other.
    """
    import numpy as np

    rows, left = list[RatedRow](), list[SkippedRow]()
    for one in read:
        rows.append(one) if isinstance(one, RatedRow) else left.append(one)
    if not rows:
        raise FileError(f"{where} holds no rated segment{f' ({len(left)} rows left out)' if left else ''}.")
    _warn_about_skipped_rows(rows, left, where)
    group, predictions, references, ratings, item, system = (list(column) for column in zip(*rows, strict=True))
    if any(isinstance(one, list) for one in references):
        references = [[one] if isinstance(one, str) else one for one in references]
    return RatedSegments(
        group,
        predictions,
        references,
        np.array(ratings, dtype=np.float64),
        len(left),
        None if None in item else item,
        None if None in system else system,
    )


def _warn_about_skipped_rows(rows: Sequence[RatedRow], left: Sequence[SkippedRow], where: Path | str) -> None:
    if not left:
        return
    places = ", ".join(one.place for one in left[:_NAMED]) + (f" and {len(left) - _NAMED} more" if len(left) > _NAMED else "")
    counts = Counter(one.group for one in left if one.group is not None)
    lost = sorted(counts.keys() - {row.group for row in rows})
    groups = f"; nothing is left of {', '.join(f'{name} ({counts[name]} rows)' for name in lost)}" if lost else ""
    name = where.name if isinstance(where, Path) else where
    warn(f"{name}: rows without a rating, or with a text too short, left out: {len(left)} ({places}){groups}.")


def select(rated: RatedSegments, rows: np.ndarray) -> RatedSegments:
    """Some of the segments, in the order of `rows`.

    Args:
        rated: Rated segments.
        rows: Their numbers; shape (chosen,).
    """

    def take(column: list[Any]) -> list[Any]:
        return [column[i] for i in rows.tolist()]

    return rated._replace(
        group=take(rated.group),
        predictions=take(rated.predictions),
        references=take(rated.references),
        ratings=rated.ratings[rows],
        item=None if rated.item is None else take(rated.item),
        system=None if rated.system is None else take(rated.system),
    )


def form_of(name: str) -> str:
    """The suffix that tells a file's form, in small letters; of a compressed file that of its content.

    >>> form_of("data/ratings.CSV.gz"), form_of("ref.txt")
    ('.csv', '.txt')
    """
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def unpack(name: object, content: bytes) -> bytes:
    """Undo gzip or xz; content that is not compressed so is given back as it is.

    Args:
        name: The file, for the message.
        content: Its bytes.

    Raises:
        FileError: It begins like a compressed file and cannot be unpacked.
    """
    try:
        return next((undo(content) for magic, undo in _UNPACK.items() if content.startswith(magic)), content)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FileError(f"{name} is compressed and cannot be unpacked ({error}): was it cut off?") from error


def decode(name: object, content: bytes) -> str:
    """Decode UTF-8, with or without a byte-order mark; line ends stay as they are.

    Raises:
        FileError: It is not UTF-8; names the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from error


def read_content(path: Path) -> bytes:
    """Read a file's bytes, unpacked.

    Raises:
        FileError: It cannot be read or unpacked.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from error
    return unpack(path, content)


def read_text(path: Path) -> str:
    """Read a file's text; errors as for `read_content` and `decode`."""
    return decode(path, read_content(path))


def read_csv(path: object, text: str, **form: Any) -> list[list[str]]:
    """Take comma- or tab-separated text apart.

    Args:
        path: Where it comes from, for the message.
        text: The text.
        form: More arguments for `csv.reader`.

    Raises:
        FileError: A field is too long, as after a quote that nobody closes; names the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), **form)
    try:
        return list(reader)
    except csv.Error as error:
        raise FileError(f"{path}, line {reader.line_num}: {error}; is a quote not closed?") from error


def read_lines(path: Path) -> list[str]:
    r"""A file's lines, ended by ``\n`` or ``\r\n`` and nothing else; a last line without an end counts.

    Raises:
        FileError: It cannot be read.
    """
    return split_lines(read_text(path))


def split_lines(text: str) -> list[str]:
    r"""The lines of a text, likewise."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines
