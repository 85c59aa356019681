"""Plans: every row is in a single part, parts end with centering batches, equal data give equal plans."""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from tests.scale.segments import draw_segments, write_csv, write_jsonl, write_parquet
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.files.tables import Columns
from twmd_registry.scale.plan import (
    InputTable,
    OutputFolder,
    ScalePlan,
    check_same,
    cut_into_parts,
    list_tables,
    open_table,
)


def ask(*inputs: Path | str, part_rows: int = 4, columns: Columns = Columns()) -> ScalePlan:  # noqa: B008 (frozen)
    return ScalePlan(("twmd|...",), columns, part_rows, list_tables(list(map(str, inputs))))


def names(tables: Sequence[InputTable]) -> list[str]:
    return [name for _, name, _ in tables]


def predictions_of(plan: ScalePlan) -> list[list[str]]:
    """Read the predictions of every part."""
    found = []
    for part in plan.parts:
        texts: list[str] = []
        for t, first, number, offset in part:
            file, _, _ = plan.tables[t]
            with open_table(file[0], file, quoted_tsv=plan.columns.quoted_tsv) as opened:
                texts += [
                    values["prediction"]
                    for _, values in opened.read(first, number, offset, plan.columns.wanted)
                    if isinstance(values, dict)
                ]
        found.append(texts)
    return found


@pytest.mark.parametrize("part_rows", [1, 4, 100])
def test_parts_hold_every_row_once_in_order(tmp_path: Path, part_rows: int) -> None:
    segments = draw_segments(23)
    write_jsonl(tmp_path / "a.jsonl", segments[:5])
    write_jsonl(tmp_path / "b.jsonl", [])
    write_parquet(tmp_path / "c.parquet", segments[5:14])
    write_csv(tmp_path / "d.csv", segments[14:17])
    semicolons = "".join(
        f"{prediction};{references[0]}\n"
        for prediction, references in [("prediction", ["reference"]), *segments[17:20]]
    )
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(semicolons.encode()))
    (tmp_path / "f.jsonl.xz").write_bytes(lzma.compress(write_jsonl(tmp_path / "f", segments[20:]).read_bytes()))
    plan = cut_into_parts(ask(tmp_path, part_rows=part_rows))
    texts = [prediction for prediction, _ in segments]
    assert predictions_of(plan) == [texts[first : first + part_rows] for first in range(0, 23, part_rows)]
    assert names(plan.tables) == "a.jsonl b.jsonl c.parquet d.csv e.csv.gz f.jsonl.xz".split()
    assert ScalePlan.from_json(plan.to_json()) == plan == cut_into_parts(ask(tmp_path, part_rows=part_rows))


def test_quotes_of_tsv_are_letters_unless_the_plan_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_bytes(b'prediction\treference\r\n"Yes."\t"Yes!"\r\n"b\t"c"\r\n')
    assert predictions_of(cut_into_parts(ask(path))) == [['"Yes."', '"b']]
    path.write_bytes(b'prediction\treference\n"Yes\n""."""\t"Yes!"\n')
    plan = cut_into_parts(ask(path, columns=Columns(quoted_tsv=True)))
    assert predictions_of(plan) == [['Yes\n"."']]
    assert ScalePlan.from_json(plan.to_json()) == plan
    path.write_bytes(b'prediction\treference\n"Yes ""."""\t"Yes!"\n')
    with pytest.warns(TwmdWarning, match="--quoted-tsv"):
        cut_into_parts(ask(path))


def test_files_are_in_the_given_order_and_sorted_within_a_folder(tmp_path: Path) -> None:
    files = "x/b.jsonl x/a.jsonl y/c.ndjson x/.hidden.jsonl x/_SUCCESS x/_sub/d.jsonl x/read.me"
    for name in files.split():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        write_jsonl(tmp_path / name, draw_segments(1))
    found = [Path(file[0]).name for file, _, _ in list_tables([str(tmp_path / "y"), str(tmp_path / "x")])]
    assert found == ["c.ndjson", "a.jsonl", "b.jsonl"]
    assert names(list_tables([str(tmp_path / "x" / "?.jsonl")])) == ["a.jsonl", "b.jsonl"]
    plan = cut_into_parts(ask(tmp_path / "x", tmp_path / "y"))
    assert names(plan.tables) == ["x/a.jsonl", "x/b.jsonl", "y/c.ndjson"]


def test_urls_are_read_through_fsspec(tmp_path: Path) -> None:
    segments = draw_segments(5)
    fs = fsspec.filesystem("memory")
    for write, name in ((write_jsonl, "a.jsonl"), (write_parquet, "b.parquet")):
        fs.pipe_file(f"/rows-of-urls/{name}", write(tmp_path / name, segments).read_bytes())
    plan = cut_into_parts(ask("memory://rows-of-urls/*"))
    urls = [file[0] for file, _, _ in plan.tables]
    assert urls == ["memory:///rows-of-urls/a.jsonl", "memory:///rows-of-urls/b.parquet"]
    assert names(plan.tables) == ["a.jsonl", "b.parquet"]
    assert [text for texts in predictions_of(plan) for text in texts] == [prediction for prediction, _ in segments] * 2
    fs.pipe_file("/rows-of-urls/a.jsonl", b"{}\n")
    with pytest.raises(FileError, match="has changed since its rows were counted"):
        predictions_of(plan)


def test_file_that_cannot_be_planned_is_refused_with_the_reason(tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", draw_segments(2))
    table = write_csv(tmp_path / "rows.csv", draw_segments(2))
    (tmp_path / "empty.jsonl").touch()
    cut, flaw = tmp_path / "cut.jsonl.gz", tmp_path / "flaw.jsonl.gz"
    packed = gzip.compress(rows.read_bytes() * 99, mtime=0)
    cut.write_bytes(packed[:-20])
    misnamed = tmp_path / "misnamed.jsonl"
    misnamed.write_bytes(packed)
    flaw.write_bytes(packed[:60] + b"xxxx" + packed[64:])
    (tmp_path / "rows.xml").touch()
    cases: list[tuple[list[Path | str], str]] = [
        ([tmp_path / "none.jsonl"], "cannot read .*none.jsonl: there is no such file"),
        ([tmp_path / "*.bz2"], r"\*\.bz2 names no file"),
        (
            [tmp_path / "rows.xml"],
            r"rows\.xml: the name of an input file ends in one of \.csv, .*, and may end in \.gz",
        ),
        ([rows, tmp_path / "r*.jsonl"], r"rows\.jsonl is named 2 times"),
        (["nowhere://rows.jsonl"], "Protocol not known: nowhere"),
    ]
    for inputs, message in cases:
        with pytest.raises(FileError, match=message):
            ask(*inputs)
    for file, columns, message in [
        (tmp_path / "empty.jsonl", Columns(), r"there is nothing to score: no row in empty\.jsonl"),
        (cut, Columns(), r"cannot read .*cut\.jsonl\.gz: .*\."),
        (flaw, Columns(), r"cannot read .*flaw\.jsonl\.gz: .*\."),
        (misnamed, Columns(), r"misnamed\.jsonl: none of its first .*; the first: not UTF-8: byte 0x8b\."),
        (
            rows,
            Columns("predicted"),
            r"none of its first 2 rows .*: no column 'predicted'; did you mean 'prediction'\?",
        ),
        (table, Columns("prediction", ("ref",)), r"rows\.csv: none .*: no column 'ref'; did you mean 'reference'\?"),
    ]:
        with pytest.raises(FileError, match=message):
            cut_into_parts(ask(file, columns=columns))


def test_resume_by_another_plan_is_refused_with_the_difference(tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", draw_segments(3))
    asked = ask(rows)
    plan = cut_into_parts(asked)
    check_same(plan, asked)
    other = write_jsonl(tmp_path / "other.jsonl", draw_segments(3))
    for changed, what in [
        (replace(asked, signatures=("trwmd|...",)), "the metrics"),
        (replace(asked, columns=Columns("text")), "the columns"),
        (replace(asked, part_rows=8), "the rows of a part"),
        (ask(rows, other), "the input files"),
    ]:
        with pytest.raises(SpecError, match=rf"--resume: {what} are not those of its plan\.json"):
            check_same(plan, changed)
    write_jsonl(rows, draw_segments(4))
    with pytest.raises(SpecError, match="--resume: the input files are not those"):
        check_same(plan, ask(rows))
    with pytest.raises(FileError, match="not a plan that this package wrote"):
        ScalePlan.from_json(plan.to_json()[:-30])


@pytest.mark.parametrize("url", ["{tmp}/out", "file://{tmp}/out", "memory://folder-of-test"])
def test_output_folder_writes_whole_files_and_refuses_a_second_lock(tmp_path: Path, url: str) -> None:
    folder = OutputFolder(url.format(tmp=tmp_path))
    assert folder.names() == set()
    with folder.lock():
        folder.write("a", b"1")
        folder.write("a", b"22")
        assert (folder.read("a"), folder.has("a"), folder.has("b"), folder.names()) == (b"22", True, False, {"a"})
        with pytest.raises(FileError, match=f"^{re.escape(folder.url)} is in use by "), OutputFolder(folder.url).lock():
            pass
    with folder.lock():
        folder.remove("a")
        folder.remove("a")
        assert folder.names() == set()
