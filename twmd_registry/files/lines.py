"""Lines of text: line ends, decoding, and the refusal of other formats."""

from __future__ import annotations

import codecs
import csv
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from twmd_registry.errors import FileError, not_utf8
from twmd_registry.files.compressed import PARQUET, is_packed, read_content

MAX_NULLS = 0.1
"""Share of NUL bytes in the first 4,096 above which text is taken for UTF-16 or UTF-32 without a mark."""
ENDS_IN_CR = "ends its lines with CR alone, as old Macs did: convert it first (tr '\\r' '\\n' < FILE)"
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)  # the first is a prefix of UTF-32-LE's
NO_UTF8 = "is UTF-16 or UTF-32: convert it first (iconv -f UTF-16 -t UTF-8 FILE)"


def find_encoding_problem(content: bytes) -> str:
    """Return why bytes are not lines of UTF-8 (UTF-16, UTF-32, or line ends of CR alone); empty if they may be."""
    start = content[:4096]
    if start.startswith(_MARKS) or start.count(0) > MAX_NULLS * len(start):
        return NO_UTF8
    return ENDS_IN_CR if b"\n" not in content and b"\r" in content.removesuffix(b"\r") else ""


def decode(name: object, content: bytes) -> str:
    """Decode UTF-8, with or without a byte-order mark; raise FileError, with the line, for anything else."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{name} {NO_UTF8}.") if content.startswith(_MARKS) else not_utf8(name, error) from error
    if problem := find_encoding_problem(content):
        raise FileError(f"{name} {problem}.")
    return text


def split_lines(text: str) -> list[str]:
    r"""Split text at ``\n`` only, and drop one ``\r`` before each; the last line needs no end."""
    lines = text.split("\n")
    if lines[-1] == "":
        del lines[-1]
    return [line.removesuffix("\r") for line in lines]


def visible_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files and folders that match a pattern, sorted, without hidden ones, such as macOS's ``._NAME``."""
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))


def read_lines(path: Path) -> list[str]:
    """Read a file's lines as `split_lines` cuts them."""
    return split_lines(decode(path, read_content(path)))


def digest_of_file(content: bytes) -> str:
    """Return the sha256 of a file; CR LF in text counts as LF, because a checkout may convert it."""
    is_text = not is_packed(content) and not content.startswith(PARQUET)
    return hashlib.sha256(content.replace(b"\r\n", b"\n") if is_text else content).hexdigest()


class Structure(NamedTuple):
    """A format that a file's lines reveal, and what to do if a text per line is expected."""

    name: str
    remedy: str
    shows: Callable[[Sequence[str]], bool]


def _all_match(pattern: str) -> Callable[[Sequence[str]], bool]:
    compiled = re.compile(pattern, re.DOTALL)
    return lambda lines: all(map(compiled.match, lines))


NBEST = r"\s*(\d+) *\|\|\| ?(.*?) *(?:\|\|\||$)"
"""A line of an n-best list in Moses's format: segment number, text, and anything after that."""
_NBEST = re.compile(NBEST, re.DOTALL)
_ROOT = re.compile(r"\s*<(\?xml|!doctype|!--|(srcset|refset|tstset|mteval|dataset|tmx|xliff|html)[\s>])", re.IGNORECASE)
_ELEMENT = r"<(?!(?:em|strong|span|code|sub|sup)\b)([a-z][\w:.-]+)\b[^<>]*>"  # of a file; not of a formatted text
_MARKUP = re.compile(rf"\s*(</?[a-z][^<>]*>\s*$|{_ELEMENT}.*</\2>\s*$)", re.IGNORECASE)
_HEADER = re.compile(r'"?[a-z_][\w .-]*"?(([,;])"?[a-z_][\w.-]*"?)(\2"?[a-z_][\w.-]*"?)*', re.IGNORECASE | re.ASCII)
_QUOTED = r'"[^"]*(?:""[^"]*)*"'
_BEGINS_JSON = re.compile(r"\s*(\[\s*)?[\[{]\s*$")


_NUMBERED = (re.compile(r"\s*([^\s\d]*)(\d+)(?!\w)"), re.compile(r".*\(([^\s()]*?)(\d+)\)\s*$"))
"""A number at the start of a line, and at its end in parentheses; maybe after a name, as in ``utt0001``."""
_MANY = 5
"""Lines that are not alike by chance."""


def _are_numbered(lines: Sequence[str], pattern: re.Pattern[str]) -> bool:
    """Return whether lines count from 0 or 1."""
    matches = [pattern.match(line) for line in lines]
    names = {match and match[1] for match in matches}
    if len(lines) < _MANY or len(names) > 1 or None in names:
        return False
    numbers = [int(match[2][-9:]) for match in matches if match]
    return numbers[0] < 2 and numbers == [*range(numbers[0], numbers[0] + len(numbers))]


def _has_header(lines: Sequence[str]) -> bool:
    """Return whether lines are CSV: names separated by commas or semicolons, then records of as many fields."""
    header = _HEADER.fullmatch(lines[0])
    if header is None or len(lines) == 1:
        return False
    try:
        records = csv.reader([f"{line}\n" for line in lines], delimiter=header[2], strict=True)
        return len(set(map(len, records))) == 1
    except csv.Error:
        return False


def _is_markup(lines: Sequence[str]) -> bool:
    """Return whether lines are elements, or parts of a single one, which the first opens and the last closes."""
    if _ROOT.match(lines[0]) or all(map(_MARKUP.match, lines)):
        return True
    if opened := re.match(rf"\s*{_ELEMENT}", lines[0], re.IGNORECASE):
        closed = f"</{opened[1]}>"
        return closed not in lines[0] and lines[-1].rstrip().endswith(closed)
    return False


STRUCTURES = (
    Structure(
        "XML or SGML",
        "write the text of every segment on a line first (for a published test set, use sacrebleu --echo)",
        _is_markup,
    ),
    Structure(
        "subtitles",
        "keep only their text, one line per segment",
        lambda lines: any(map(re.compile(r"\s*(\d+:)?\d\d:\d\d[.,]\d{3} --> ").match, lines)),
    ),
    Structure(
        "quoted texts, as JSON and Python write them",
        "write them as plain text (jq -r), or name the columns of JSON lines",
        lambda lines: (
            any(_all_match(rf"\s*{quote}([^{quote}\\]|\\.)*{quote},?\s*$")(lines) for quote in "\"'")
            and (len(lines) >= _MANY or any(re.search(r'\\["\\ntu]', line) for line in lines))
        ),
    ),
    Structure(
        "an n-best list",
        "keep one text per segment, or choose it with 'twmd mbr', which reads such lists",
        _all_match(NBEST),
    ),
    Structure("fields separated by |||", "keep one text per line", _all_match(r".* \|\|\| ")),
    Structure(
        "fields separated by tabs",
        "keep one (cut -f 1 FILE), or add a header with names such as prediction and reference; "
        "--prediction-column and --reference-column choose others (quoted names need --quoted-tsv)",
        _all_match(r".*\t"),
    ),
    Structure(
        "a table with a header", "choose its columns with --prediction-column and --reference-column", _has_header
    ),
    Structure(
        "quoted fields of CSV without a header",
        "add a header, such as prediction,reference, or keep one text per line",
        _all_match(rf"\s*{_QUOTED}([,;]{_QUOTED})+\s*$"),
    ),
    Structure("numbered texts", "remove the numbers", lambda lines: any(map(partial(_are_numbered, lines), _NUMBERED))),
    Structure("a table of Markdown", "keep one text per line", _all_match(r"\s*\|.*\|\s*$")),
    Structure(
        "lists or objects of a programming language",
        'write JSON lines: {"prediction": "...", "references": ["...", "..."]}',
        # A list may be cut off.
        _all_match(r"\s*((\[\s*(['\"\[{].*)?\]|\{\s*(['\"].*)?\}),?\s*$|(\[\s*)?\{\s*\"[^\"]*\"\s*:)"),
    ),
    Structure(
        "JSON that cannot be read",
        'write JSON lines, or an array of objects: [{"prediction": "...", "reference": "..."}]',
        lambda lines: len(lines) > 1 and bool(_BEGINS_JSON.match(lines[0])),
    ),
)
"""Formats that are clearly not one text per line. All lines but blank ones must match; the first format is reported."""


def check_lines(name: object, lines: Sequence[str], override: str = "") -> None:
    """Raise FileError for lines that are clearly not one text each; `override` says how to read them anyway.

    >>> check_lines("out.txt", ["0 ||| it rains ||| LM0= -3"])
    Traceback (most recent call last):
    ...
    twmd_registry.errors.FileError: out.txt contains an n-best list: keep one text per segment, ...
    """
    filled = [line for line in lines if line.strip(" ")]
    for structure in STRUCTURES if filled else ():
        if structure.shows(filled):
            raise FileError(f"{name} contains {structure.name}: {structure.remedy}.{override}")


def read_nbest(name: object, lines: Sequence[str]) -> list[list[str]] | None:
    """Return the texts of every segment of an n-best list; None for other lines.

    Raises:
        FileError: A segment has no line.
    """
    matches = [_NBEST.match(line) for line in lines if line.strip()]
    if not matches or not all(matches):
        return None
    groups = dict[int, list[str]]()
    for match in filter(None, matches):
        groups.setdefault(int(match[1]), []).append(match[2])
    numbers = range(min(groups), max(groups) + 1)
    if missing := next((number for number in numbers if number not in groups), None):
        raise FileError(f"{name} is an n-best list without a line for segment {missing}: every segment needs one.")
    return [groups[number] for number in numbers]
