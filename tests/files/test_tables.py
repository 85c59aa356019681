"""The file reader: the same rows in every format, and one clear error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
import re
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Patch
from twmd_registry.errors import FileError, TwmdError, TwmdWarning
from twmd_registry.files import compressed
from twmd_registry.files.arrow import check_first_rows
from twmd_registry.files.compressed import open_unpacked, read_content, read_whole
from twmd_registry.files.lines import read_lines
from twmd_registry.files.storage import list_tables
from twmd_registry.files.tables import Columns, OpenTable, TableRow, detect_form, read_rating, read_rows
from twmd_registry.models.vectors import read_table

TEXTS = [
    ('two\nli\rnes\n\nand "quotes"\r\r', "the cat\r, the dog"),
    ("", '5" of; rain'),
    ("\u2028 a", "b\tc"),
    ("last", "d"),
]
ROWS = [{"prediction": prediction, "reference": reference, "other": "x"} for prediction, reference in TEXTS]
QUOTED = '"two\nlines, and ""quotes""",the cat'


def content_of(form: str, rows: list[dict[str, Any]] = ROWS, delimiter: str = ",") -> bytes:
    """Write rows in a format; a list is JSON in a cell of CSV or TSV."""
    if form in {".parquet", ".pq"}:
        written = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), written, row_group_size=3)
        return written.getvalue()
    if form in {".jsonl", ".ndjson"}:
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t" if form == ".tsv" else delimiter)
    writer.writerow(rows[0])
    writer.writerows([json.dumps(cell) if isinstance(cell, list) else cell for cell in row.values()] for row in rows)
    return text.getvalue().encode()


def opened(content: bytes, form: str) -> OpenTable:
    return OpenTable(open_unpacked(io.BufferedReader(io.BytesIO(content))), form, quoted_tsv=True)


@pytest.mark.parametrize(
    ("form", "pack"),
    [(".csv", gzip.compress), (";", bytes), (".tsv", lzma.compress), (".jsonl", bytes), (".pq", bytes)],
)
def test_rows_are_the_same_in_every_format(form: str, pack: Any) -> None:
    form, delimiter = (".csv", ";") if form == ";" else (form, ",")
    content = content_of(form, delimiter=delimiter)
    assert [row.values for row in read_rows("rows", content, form, quoted_tsv=True)] == ROWS
    if form in {".csv", ".tsv"}:  # as a checkout on Windows writes it
        lines = content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        assert [row.values for row in read_rows("rows", lines, form, quoted_tsv=True)] == ROWS
    assert [values for _, values in opened(pack(content), form).records()] == ROWS


@given(
    form=st.sampled_from([".csv", ".tsv", ".jsonl"]),
    content=st.lists(
        st.sampled_from(["a", ",", ";", "\t", '"', '""', "\n", "\r", "\r\n", "\u2028", '{"a": 1}', "[1]", "\xff"]),
        max_size=20,
    ),
)
def test_rows_of_a_damaged_file_keep_all_its_bytes(form: str, content: list[str]) -> None:
    damaged = "".join(content).encode("latin-1", "replace")
    try:
        rows = b"".join(raw for raw, _ in opened(damaged, form).records())
    except ValueError:
        return
    assert damaged.endswith(rows)
    assert form != ".jsonl" or rows == damaged


def test_json_lines_may_have_a_bom_empty_lines_and_other_line_ends() -> None:
    content = (
        '\ufeff{"prediction": "a\u2028b"}\r\n\n   \n{"prediction": "c"}\nno json\n[1]\n{"prediction": "d"}'.encode()
        + b'\n{"prediction": "e", "prediction": "f"}'
        + b"\n\xff\n"
    )
    table = opened(content, ".jsonl")
    assert [values for _, values in table.records() if values is not None] == [
        {"prediction": "a\u2028b"},
        {"prediction": "c"},
        "expected a JSON object (Expecting value at character 1)",
        "expected a JSON object, not [1]",
        {"prediction": "d"},
        "expected a JSON object ('prediction' occurs twice)",
        "not UTF-8: byte 0xff",
    ]
    rows = read_rows("a.jsonl", b'\xef\xbb\xbf{"a": 1}\n\n{"b": 2}\n', ".jsonl")
    assert [(row.where, row.values) for row in rows] == [("a.jsonl, row 1", {"a": 1}), ("a.jsonl, row 3", {"b": 2})]


@pytest.mark.parametrize("blank", ["", "\r\n \t\r\n\r\n"])
@pytest.mark.parametrize(("form", "sign"), [(".csv", ";"), (".tsv", "\t")])
def test_header_is_the_first_row_that_is_not_blank(form: str, sign: str, blank: str) -> None:
    content = f"\ufeff{blank}a{sign}b\n1{sign}2\n\n3{sign}4\n".encode()
    rows, header = read_rows("rows", content, form), len(blank.splitlines()) + 1
    assert [row.values for row in rows] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert [row.number for row in rows] == [header + 1, header + 3]
    assert rows[1].where == f"rows, row {header + 3} (row {header} is the header)"
    with pytest.raises(FileError, match=rf"^rows, row {header} \(the header\): no column 'c'; choices: a, b\.$"):
        rows[0].take("c")
    table = opened(content, form)
    assert [values for _, values in table.records() if values is not None] == [row.values for row in rows]
    with pytest.raises(FileError, match=rf"row {header} \(the header\): a column's name occurs twice"):
        read_rows("rows", content.replace(b"b", b"a"), form)


QUOTES = b'prediction\treference\n"Yes."\t"Yes!"\nsays "no\t\\"x"\n'


def test_quotes_in_tsv_are_literal_unless_requested() -> None:
    plain = [{"prediction": '"Yes."', "reference": '"Yes!"'}, {"prediction": 'says "no', "reference": '\\"x"'}]
    assert [row.values for row in read_rows("rows", QUOTES, ".tsv")] == plain
    (quoted, _) = read_rows("rows", QUOTES, ".tsv", quoted_tsv=True)
    assert quoted.values == {"prediction": "Yes.", "reference": "Yes!"}
    (lines,) = read_rows("rows", b'prediction\treference\n"a\n""b"""\tc\n', ".tsv", quoted_tsv=True)
    assert lines.values == {"prediction": 'a\n"b"', "reference": "c"}


@pytest.mark.parametrize("content", [b'"prediction"\t"reference"\na\tb\n', b'prediction\treference\n"a\nb"\tc\n'])
def test_tsv_unreadable_without_quotes_names_the_option(content: bytes) -> None:
    with pytest.raises(FileError, match="--quoted-tsv"):
        read_rows("rows", content, ".tsv")


def test_tsv_with_possible_quotes_warns_and_a_blank_line_is_an_empty_text() -> None:
    with pytest.warns(TwmdWarning, match=r"row 2 .*--quoted-tsv"):
        read_rows("rows", b'prediction\treference\n"a ""b"""\tc\n', ".tsv")
    assert [row.values["a"] for row in read_rows("rows", b"a\nb\n\n\x0c\n", ".tsv")] == ["b", "", "\x0c"]


@pytest.mark.parametrize("form", [".csv", ".tsv", ".jsonl", ".json"])
@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"prediction\treference\ra\tb\r", "CR alone"),
        ('{"prediction": "a"}\n'.encode("utf-16"), "UTF-16"),
        ("prediction,reference\n".encode("utf-16-le"), "UTF-16"),
    ],
)
def test_other_encodings_and_old_line_ends_are_named(form: str, content: bytes, word: str) -> None:
    with pytest.raises(FileError, match=word):
        read_rows("rows", content, form)
    if form != ".json":
        with pytest.raises(ValueError, match=word):
            list(OpenTable(io.BytesIO(content), form).records())


def test_json_array_has_the_rows_of_json_lines() -> None:
    rows: list[dict[str, Any]] = [{"prediction": "a\r", "reference": "b"}, {"prediction": "c", "references": ["d"]}]
    read = read_rows("rows", json.dumps(rows, indent=1).encode(), ".json")
    assert [row.values for row in read] == rows
    assert read[1].where == "rows, item 2"
    assert [row.values for row in read_rows("rows", content_of(".jsonl", rows), ".json")] == rows
    for other in ({"prediction": ["a"]}, [["a"]], ["a"], "a", 1):
        with pytest.raises(FileError, match="array of objects"):
            read_rows("rows", json.dumps(other, indent=1).encode(), ".json")
    with pytest.raises(FileError, match="cut off"):
        read_rows("rows", b'[{"prediction": "a"},', ".json")


@pytest.mark.parametrize(
    "text", ["1_000", "0x1", "\u0661\u0662", "\uff11", "nan", "inf", "-Infinity", "1e999", "1,5", "1 2", ""]
)
def test_rating_follows_the_usual_number_grammar(text: str) -> None:
    with pytest.raises(FileError, match="expected a rating"):
        read_rating(text, "row 1")


def test_ratings_are_numbers_or_ascii_text() -> None:
    values = ["1", " -1.5e-3", "+.5", "2.\r", 3, np.float32(0.5), Decimal("0.1")]
    assert [read_rating(value, "row 1") for value in values] == [1, -1.5e-3, 0.5, 2, 3, 0.5, 0.1]
    for value in (True, None, b"1", [1], Decimal("sNaN"), 10**400):
        with pytest.raises(FileError, match="expected a rating"):
            read_rating(value, "row 1")


def test_unclosed_quote_affects_only_its_row() -> None:
    others = [f"row {i},the dog" for i in range(20)]
    lines = ["prediction,reference", QUOTED, '"open,the cat', *others, 'x,5" of rain', "a,b,c"]
    table = opened(("\n".join(lines) + '\nz,"another\n').encode(), ".csv")
    result: list[Any] = list(table.records())
    assert len(result) == 25
    assert result[0][1] == {"prediction": 'two\nlines, and "quotes"', "reference": "the cat"}
    assert (result[1][0], "is a quote not closed?" in result[1][1]) == (b'"open,the cat\n', True)
    assert [raw.decode().rstrip() for raw, _ in result[2:22]] == others
    assert all(isinstance(values, dict) for _, values in result[2:23])
    assert result[23][1] == "expected 2 fields (prediction, reference), got 3"


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        (".csv", b"a,a\n1,2\n", r"rows: row 1 \(the header\): a column's name occurs twice: a, a\."),
        (".csv", b'"a\nb,c\n', r"rows: row 1 \(the header\): unexpected end of data; is a quote not closed\?\."),
        (".csv", b"PAR1\xff", r"rows is a Parquet file: .*"),
        (".parquet", b"PAR0 no parquet at all", "rows: .*[Pp]arquet.*"),
        (".jsonl", b"a\n\xff\n", r"rows is not UTF-8: byte 0xff in line 2\. Convert it first\."),
        (".jsonl", b'{"a": 1}\n' + b"x" * 60, "rows: the line at byte 9 has more than 50 bytes: it is not text."),
    ],
)
def test_unexpected_content_is_refused(form: str, content: bytes, message: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(compressed, "LONGEST_LINE", 50)
    with pytest.raises(FileError, match=f"^{message}$"):
        read_rows("rows", content, form)


def test_format_is_detected_from_the_name_or_content() -> None:
    parquet = content_of(".parquet")
    assert detect_form("standard input", parquet, ["prediction"]) == ".parquet"
    assert detect_form("rows.PQ.gz", b"", []) == ".pq"
    assert detect_form("rows.txt", b"PAR1 is a word,\nand so is PAR1", ["prediction"]) is None
    assert detect_form("rows.txt", b'{"hypothesis": "a"}\n\n{"hypothesis": "b"}', ["prediction"]) == ".jsonl"
    assert detect_form("rows.txt", b'{"hypothesis": "a"}\nand so on\n', ["prediction"]) is None
    assert detect_form("rows.txt", b'\n[{"hypothesis":\n "a"}]', ["prediction"]) == ".json"
    assert detect_form("rows.txt", b'["a"]\n["b"]', ["prediction"]) is None
    for sign, form in ((",", ".csv"), (";", ".csv"), ("\t", ".tsv")):
        assert detect_form("rows.dat", content_of(".csv", delimiter=sign), ["prediction"]) == form
    for line in ("prediction, and other words", "prediction", "reference,reference", 'prediction,"', "x,,reference"):
        assert detect_form("rows.txt", f"{line}\nit rains\n".encode(), ["prediction", "reference"]) is None


NO_LIST = "row 3: references looks like a list"
BOTH = {"reference": "b", "references": ["c"], "more": ""}


@pytest.mark.parametrize(
    ("values", "columns", "expected"),
    [
        ({"reference": "b"}, (), ["b"]),
        ({"references": ["b", "c"]}, (), ["b", "c"]),
        ({"references": '["b", "c"]'}, (), ["b", "c"]),
        ({"reference": '["b", "c"]'}, (), ['["b", "c"]']),
        ({"reference": "b", "references": None}, (), ["b"]),
        ({"reference": None, "references": ["c"]}, (), ["c"]),
        ({"references": "[music] plays"}, (), ["[music] plays"]),
        ({"references": '[ "d" ]'}, (), ["d"]),
        ({"references": "['b', 'c']"}, (), NO_LIST),
        ({"references": '["b", 1]'}, (), NO_LIST),
        (BOTH, (), "row 3: both 'references' and 'reference' are present: keep one, or name the column to read."),
        (BOTH, ("reference",), ["b"]),
        (BOTH, ("reference", "more", "references"), ["b", "c"]),
        ({"one": "", "two": None}, ("one", "two"), [""]),
        ({"one": " ", "two": "b", "three": math.nan}, ("one", "two", "three"), ["b"]),
        ({"reference": None, "references": None}, (), [""]),
        ({"references": ["b", None, " ", "c"]}, (), ["b", "c"]),
        ({"references": '[null, "b"]'}, (), ["b"]),
        ({"references": [" ", None]}, (), [" "]),
        ({"references": ["b", 1]}, (), "row 3: expected a text as a reference, not 1."),
        ({"references": []}, (), "row 3: an empty list of references: every row needs at least one."),
        ({"refrence": "b"}, (), "row 3: no column 'references' or 'reference'; did you mean 'refrence'? Choices: pred"),
    ],
)
def test_row_has_references_or_a_reason(values: dict[str, Any], columns: tuple[str, ...], expected: Any) -> None:
    row = TableRow("row 3", {"prediction": "a"} | values)
    if isinstance(expected, list):
        assert row.references(columns) == expected
    else:
        with pytest.raises(FileError, match=re.escape(expected)):
            row.references(columns)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_decompression_bomb_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "bomb.jsonl"
    path.write_bytes(packed := pack(b" " * (1 << 20)))
    assert len(read_content(path)) == 1 << 20
    monkeypatch.setattr(compressed, "MAX_UNPACKED", 1000)
    limit = max(1000, 100 * len(packed))
    with pytest.raises(FileError, match=rf"jsonl unpacks to more than {limit:,} bytes, far more than its size"):
        read_content(path)


def cut(path: Path) -> None:
    return check_first_rows(list_tables([str(path)]), Columns())


@pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz", "table.jsonl", "table.jsonl.gz", "vectors.txt"])
def test_endless_line_is_refused_without_being_loaded(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(compressed, "LONGEST_LINE", 1 << 22)
    read = {"lines": read_lines, "table": cut, "vectors": read_table}[name.partition(".")[0]]
    content = b"word 1 2\n" * (name == "vectors.txt") + b"a" * (1 << 25)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    del content
    tracemalloc.start()
    try:
        with pytest.raises(
            TwmdError, match=rf"{name}.*(more than 4,?194,?304 bytes: it is not text|line 2: expected a)"
        ):
            read(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 5 * (1 << 22)
    finally:
        tracemalloc.stop()


def test_memory_stays_near_the_file_size_and_a_long_line_is_refused_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, size = tmp_path / "lines.txt", 30 << 20
    path.write_bytes(b"it rains all day.\r\n" * (size // 20))
    tracemalloc.start()
    try:
        assert len(read_whole(path, lambda: path.open("rb"))) == path.stat().st_size
        assert tracemalloc.get_traced_memory()[1] < 1.3 * size
    finally:
        tracemalloc.stop()
    monkeypatch.setattr(compressed, "LONGEST_LINE", 1 << 22)
    line = b"y" * (1 << 22)
    for content in (b"x\n" + line, line + b"\nz\n"):
        assert read_whole("lines.txt", lambda own=content: io.BytesIO(own)) == content  # type: ignore[misc]
    with pytest.raises(FileError, match="has a line of more than 4,194,304 bytes"):
        read_whole("lines.txt", lambda: io.BytesIO(b"x\n" + line + b"y" * (1 << 20)))
