"""Rows of files: counted once, read from anywhere, and the same rows whichever way."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.scale.rows import draw_segments, write_csv, write_jsonl, write_parquet
from twmd_registry.errors import FileError
from twmd_registry.scale import forms
from twmd_registry.scale.forms import Form, RawRow, RowSpan, count_rows, form_of, read_span
from twmd_registry.scale.storage import open_binary

QUOTED = '"two\nlines, and ""quotes""",the cat'


def offsets(path: Path) -> list[int]:
    with open_binary(str(path)) as file:
        return list(count_rows(file, form_of(path.name) or Form.JSONL).offsets)


def columns(path: Path) -> tuple[str, ...]:
    with open_binary(str(path)) as file:
        return count_rows(file, form_of(path.name) or Form.JSONL).columns


def read(path: Path, first: int, rows: int) -> list[RawRow]:
    form = form_of(path.name) or Form.JSONL
    return read_span(str(path), form, columns(path), RowSpan(first, rows, offsets(path)[first]), ["prediction", "reference", "references"])


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_rows_are_the_same_from_wherever_they_are_read(suffix: str, tmp_path: Path) -> None:
    segments = draw_segments(11)
    path = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}[suffix](tmp_path / f"rows.{suffix}", segments)
    assert len(offsets(path)) == 11
    for first in range(11):
        for rows in range(1, 12 - first):
            found = [row.values for row in read(path, first, rows)]
            expected = segments[first : first + rows]
            assert [row and row["prediction"] for row in found] == [prediction for prediction, _ in expected]
            if suffix == "csv":
                assert [row and row["reference"] for row in found] == [references[0] for _, references in expected]
            else:
                assert [row and row["references"] for row in found] == [references for _, references in expected]


def test_json_lines_with_a_mark_empty_lines_and_other_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('\ufeff{"prediction": "a\u2028b"}\r\n\n   \n{"prediction": "c"}\nno json\n[1]\n{"prediction": "d"}'.encode() + b"\n\xff\n")
    found = read(path, 0, 6)
    assert [row.values for row in found] == [{"prediction": "a\u2028b"}, {"prediction": "c"}, None, None, {"prediction": "d"}, None]
    assert found[2].raw == "no json"
    assert found[2].trouble.startswith("not JSON: ")
    assert found[3].trouble == "expected a JSON object"
    assert found[5].trouble == "not UTF-8: byte 0xff"
    assert [row.values for row in read(path, 4, 1)] == [{"prediction": "d"}]


def test_csv_is_read_as_pythons_own_reader_does(tmp_path: Path) -> None:
    rows = [["a", 'say "hi"'], ["two\nlines", "x,y"], ["", ""], ["ends\r\n", 'three\n""\nlines'], ['5" of rain', "plain"]]
    written = io.StringIO(newline="")
    csv.writer(written).writerows([["prediction", "reference"], *rows])
    path = tmp_path / "rows.csv"
    path.write_bytes(written.getvalue().encode())
    with path.open(newline="", encoding="utf-8") as file:
        expected = list(csv.DictReader(file))
    assert [row.values for row in read(path, 0, 5)] == expected
    assert [row.values for row in read(path, 3, 2)] == expected[3:]


def test_tsv_has_tabs(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_bytes(b'prediction\treference\na, b\t"two\nlines"\nc\td\n')
    assert [row.values for row in read(path, 0, 2)] == [{"prediction": "a, b", "reference": "two\nlines"}, {"prediction": "c", "reference": "d"}]


@pytest.mark.parametrize("tail", ["", 'z,"and one more\n'])
def test_a_quote_that_nobody_closes_costs_its_own_row(tmp_path: Path, tail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "LONGEST_QUOTE", 60)
    path = tmp_path / "rows.csv"
    others = [f"row {i},the dog" for i in range(20)]
    path.write_text("\n".join(["prediction,reference", QUOTED, '"open,the cat', *others, 'x,5" of rain', "a,b,c"]) + "\n" + tail, encoding="utf-8")
    found = read(path, 0, 24 + bool(tail))
    assert found[0].values == {"prediction": 'two\nlines, and "quotes"', "reference": "the cat"}
    assert found[1].values is None
    assert found[1].raw == '"open,the cat'
    assert [row.raw for row in found[2:22]] == others
    assert all(row.values for row in found[2:23])
    assert found[23].trouble == "expected 2 fields (prediction, reference), got 3"
    assert len(found) == len(offsets(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"a,a\n1,2\n", "a column's name occurs twice: a, a"),
        ("rows.parquet", b"PAR0 no parquet at all", "(?i)parquet"),
        ("rows.parquet", b"", "(?i)parquet"),
    ],
)
def test_what_is_not_of_its_form_says_so(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        offsets(path)


def test_a_line_without_an_end_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "LONGEST_RECORD", 50)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"prediction": "a"}) + "\n" + "x" * 60 + "\n", encoding="utf-8")
    with pytest.raises(FileError, match="the line at byte 20 has more than 50 bytes"):
        offsets(path)


def test_a_file_that_has_become_shorter(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", draw_segments(3))
    with pytest.raises(FileError, match=r"rows\.jsonl has changed since its rows were counted: row 5 is not there any more"):
        read_span(str(path), Form.JSONL, (), RowSpan(1, 4, offsets(path)[1]))
