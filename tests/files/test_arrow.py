"""Files as Ray reads them here: every form, no text changed, every row with a number of its own; nothing is skipped in
silence.
"""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.scale.segments import draw_segments, write_csv, write_jsonl, write_parquet
from twmd_registry.errors import FileError, TwmdWarning
from twmd_registry.files.arrow import FILE, NUMBER, REJECTED, ROW, check_first_rows, read_blocks
from twmd_registry.files.storage import list_tables
from twmd_registry.files.tables import Columns

SEGMENTS = draw_segments(3)


def read(path: Path, columns: Columns = Columns()) -> list[dict[str, Any]]:  # noqa: B008 (frozen)
    (file,) = list_tables([str(path)])
    blocks = list(read_blocks(file.filesystem.open_input_file(file.path), file.path, columns))
    rows: list[dict[str, Any]] = pa.concat_tables(blocks, promote_options="default").to_pylist() if blocks else []
    return rows


def write(path: Path, text: str) -> Path:
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, lambda content: content)
    path.write_bytes(pack(text.encode()))  # type: ignore[operator]
    return path


LINE = '{"prediction": "007", "reference": "2020-01-01", "id": 7}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", LINE),
        ("a.jsonl.gz", LINE),
        ("a.ndjson.xz", f"\n\n{LINE}\n"),
        ("a.json", f"\ufeff {LINE}"),
        ("a.json.gz", f" [{LINE}]"),
        ("a.csv", "prediction,reference,id\n007,2020-01-01,7\n"),
        ("a.CSV", "prediction;reference;id\n007;2020-01-01;7\n"),
        ("a.tsv", "prediction\treference\tid\n007\t2020-01-01\t7\n"),
    ],
)
def test_every_form_holds_the_same_texts(tmp_path: Path, name: str, text: str) -> None:
    (row,) = read(write(tmp_path / name, text))
    assert (row["prediction"], row["reference"], row["id"]) == ("007", ["2020-01-01"], "7")
    assert (row[FILE], row[NUMBER], row[REJECTED]) == (name, 0, None)


def test_rows_have_numbers_that_stay(tmp_path: Path) -> None:
    paths = [write_jsonl(tmp_path / name, draw_segments(1500)) for name in ("a.jsonl", "b.jsonl")]
    numbers = [[row[ROW] for row in read(path)] for path in paths]
    assert numbers == [[row[ROW] for row in read(path)] for path in paths]
    assert len({*numbers[0], *numbers[1]}) == 3000


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no json", "expected a JSON object"),
        ('{"prediction": "a", "prediction": "b", "reference": "c"}', "occurs twice"),
        ('{"prediction": 3, "reference": "c"}', "expected a text"),
        ('{"prediction": "a"}', "no column"),
        ('{"prediction": "a", "references": []}', "empty list"),
        ('{"prediction": "a", "reference": "b", "rejected": 1}', "rename"),
        ('{"prediction": "a", "reference": "b", "input_row": "c"}', "rename"),
        ('{"prediction": "\\ud800", "reference": "b"}', "Unicode"),
    ],
)
def test_row_that_cannot_be_scored_says_why(tmp_path: Path, line: str, reason: str) -> None:
    first, second = read(write(tmp_path / "a.jsonl", f"{LINE}\n{line}\n"))
    assert first[REJECTED] is None
    assert reason in second[REJECTED]
    assert "a.jsonl, row 2" in second[REJECTED]


def test_references_of_several_columns_stay_apart_and_cells_of_lists_are_read(tmp_path: Path) -> None:
    row = {"ours": "a", "first": "b", "others": ["c", None]}
    (read_row,) = read(write(tmp_path / "a.jsonl", json.dumps(row)), Columns("ours", ("first", "others")))
    assert (read_row["first"], read_row["others"]) == (["b"], ["c", None])
    (cell,) = read(write(tmp_path / "b.csv", 'prediction,references\na,"[""b"", ""c""]"\n'))
    assert cell["references"] == ["b", "c"]


def test_files_are_sorted_and_others_are_named(tmp_path: Path) -> None:
    for name in "x/b.jsonl x/a.json y/c.ndjson x/.hidden.jsonl x/_SUCCESS x/_sub/d.jsonl x/read.me".split():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        write_jsonl(tmp_path / name, SEGMENTS)
    with pytest.warns(TwmdWarning, match=r"skipped files .*read\.me\."):
        found = list_tables([str(tmp_path / "y"), f"file://{tmp_path}/x"])
    assert [Path(file.path).name for file in found] == ["c.ndjson", "a.json", "b.jsonl"]
    assert [Path(file.path).name for file in list_tables([f"{tmp_path}/*/?.json*"])] == ["a.json", "b.jsonl"]


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rows.jsonl", SEGMENTS)
    write_csv(tmp_path / "rows.csv", SEGMENTS)
    write_parquet(tmp_path / "rows.parquet", SEGMENTS)
    (tmp_path / "rows.xml").touch()
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress((tmp_path / "rows.jsonl").read_bytes() * 9)[:-20])
    write(tmp_path / "number.json", "[3]")
    for names, columns, word in [
        (["none.jsonl"], Columns(), "matches no file"),
        (["*.bz2"], Columns(), "matches no file"),
        (["rows.xml"], Columns(), "must end in one of"),
        (["rows.jsonl", "r*.jsonl"], Columns(), "named 2 times"),
        (["cut.jsonl.gz"], Columns("none"), "cannot read"),
        (["number.json"], Columns(), "number.json"),
        (["rows.jsonl"], Columns("predicted"), "did you mean 'prediction'"),
        (["rows.csv"], Columns("prediction", ("ref",)), "did you mean 'reference'"),
        (["rows.parquet"], Columns("predicted"), "did you mean 'prediction'"),
    ]:
        with pytest.raises(FileError, match=word):
            check_first_rows(list_tables([str(tmp_path / name) for name in names]), columns)
    with pytest.raises(FileError, match="nowhere"):
        list_tables(["nowhere://rows.jsonl"])
