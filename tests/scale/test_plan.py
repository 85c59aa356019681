"""Plans: every row in one part, borders where centering batches end, the same for the same data."""

from __future__ import annotations

import re
from pathlib import Path

import fsspec
import pytest

from tests.scale.rows import draw_segments, write_csv, write_jsonl, write_parquet
from twmd_registry.errors import FileError, SpecError
from twmd_registry.judgments.fields import Columns
from twmd_registry.scale.forms import read_span
from twmd_registry.scale.plan import ScalePlan, ScaleRequest, align_part_rows, check_same, check_unchanged, list_files, make_plan
from twmd_registry.scale.storage import OutputFolder


def ask(*inputs: Path | str, part_rows: int = 4, columns: Columns = Columns()) -> ScaleRequest:  # noqa: B008 (frozen)
    return ScaleRequest(("twmd|...",), columns, part_rows, tuple(list_files(list(map(str, inputs)))))


def predictions_of(plan: ScalePlan) -> list[list[str]]:
    """By part."""
    found = []
    for part in plan.parts:
        texts: list[str] = []
        for t, span in part.slices:
            table = plan.tables[t]
            rows = read_span(table.file.url, table.form, table.columns, span, plan.columns.wanted)
            texts += [row.values["prediction"] for row in rows if row.values]
        found.append(texts)
    return found


@pytest.mark.parametrize("part_rows", [1, 3, 4, 7, 100])
def test_parts_hold_every_row_once_in_order(tmp_path: Path, part_rows: int) -> None:
    segments = draw_segments(23)
    write_jsonl(tmp_path / "a.jsonl", segments[:5])
    write_jsonl(tmp_path / "b.jsonl", [])
    write_parquet(tmp_path / "c.parquet", segments[5:14])
    write_csv(tmp_path / "d.csv", segments[14:])
    plan = make_plan(ask(tmp_path, part_rows=part_rows))
    texts = [prediction for prediction, _ in segments]
    assert predictions_of(plan) == [texts[first : first + part_rows] for first in range(0, 23, part_rows)]
    assert [part.start for part in plan.parts] == list(range(0, 23, part_rows))
    assert [part.rows for part in plan.parts] == [len(texts) for texts in predictions_of(plan)]
    assert [table.name for table in plan.tables] == ["a.jsonl", "b.jsonl", "c.parquet", "d.csv"]
    assert ScalePlan.from_json(plan.to_json()) == plan == make_plan(ask(tmp_path, part_rows=part_rows))


def test_files_come_in_the_order_given_and_sorted_within(tmp_path: Path) -> None:
    for name in ("x/b.jsonl", "x/a.jsonl", "y/c.ndjson", "x/.hidden.jsonl", "x/_note.jsonl", "x/_sub/d.jsonl", "x/read.me"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        write_jsonl(tmp_path / name, draw_segments(1))
    found = [Path(file.url).name for file in list_files([str(tmp_path / "y"), str(tmp_path / "x")])]
    assert found == ["c.ndjson", "a.jsonl", "b.jsonl"]
    assert [Path(file.url).name for file in list_files([str(tmp_path / "x" / "?.jsonl")])] == ["a.jsonl", "b.jsonl"]
    assert [table.name for table in make_plan(ask(tmp_path / "x", tmp_path / "y")).tables] == ["x/a.jsonl", "x/b.jsonl", "y/c.ndjson"]


@pytest.mark.parametrize(("rows", "step", "expected"), [(10_000, 1, 10_000), (10_000, 32, 10_016), (5, 6, 6), (12, 6, 12)])
def test_parts_end_where_centering_batches_do(rows: int, step: int, expected: int) -> None:
    assert align_part_rows(rows, step) == expected


def test_urls_are_read_through_fsspec(tmp_path: Path) -> None:
    segments = draw_segments(5)
    fs = fsspec.filesystem("memory")
    for write, name in ((write_jsonl, "a.jsonl"), (write_parquet, "b.parquet")):
        fs.pipe_file(f"/rows-of-urls/{name}", write(tmp_path / name, segments).read_bytes())
    plan = make_plan(ask("memory://rows-of-urls/*"))
    assert [table.file.url for table in plan.tables] == ["memory:///rows-of-urls/a.jsonl", "memory:///rows-of-urls/b.parquet"]
    assert [table.name for table in plan.tables] == ["a.jsonl", "b.parquet"]
    assert [text for texts in predictions_of(plan) for text in texts] == [prediction for prediction, _ in segments] * 2
    fs.pipe_file("/rows-of-urls/a.jsonl", b"{}\n")
    with pytest.raises(FileError, match="has changed since its rows were counted"):
        check_unchanged(plan.tables[0])
    check_unchanged(plan.tables[1])


def test_what_cannot_be_planned_says_why(tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", draw_segments(2))
    table = write_csv(tmp_path / "rows.csv", draw_segments(2))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "rows.xml").touch()
    (tmp_path / "rows.jsonl.gz").touch()
    cases: list[tuple[list[Path | str], str]] = [
        ([tmp_path / "none.jsonl"], "cannot read .*none.jsonl: there is no such file"),
        ([tmp_path / "*.bz2"], r"\*\.bz2 names no file"),
        ([tmp_path / "rows.xml"], r"rows\.xml: the name of an input file ends in one of \.jsonl, "),
        ([tmp_path / "rows.jsonl.gz"], r"ends in one of \.jsonl, .*\. Unpack compressed files: workers read from the middle of a file\."),
        ([rows, tmp_path / "r*.jsonl"], r"rows\.jsonl is named 2 times"),
        (["nowhere://rows.jsonl"], "Protocol not known: nowhere"),
    ]
    for inputs, message in cases:
        with pytest.raises(FileError, match=message):
            ask(*inputs)
    for file, columns, message in [
        (tmp_path / "empty.jsonl", Columns(), r"there is nothing to score: no row in empty\.jsonl"),
        (rows, Columns("predicted"), r"none of its first 2 rows can be scored; the first: no column 'predicted'; did you mean 'prediction'\?"),
        (table, Columns("prediction", ("ref",)), r"rows\.csv: no column 'ref'; did you mean 'reference'\?"),
    ]:
        with pytest.raises(FileError, match=message):
            make_plan(ask(file, columns=columns))


def test_going_on_by_another_plan_is_refused_and_says_what_differs(tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", draw_segments(3))
    asked = ask(rows)
    plan = make_plan(asked)
    check_same(plan, asked)
    other = write_jsonl(tmp_path / "other.jsonl", draw_segments(3))
    for changed, what in [
        (asked._replace(signatures=("trwmd|...",)), "the metrics"),
        (asked._replace(columns=Columns("text")), "the columns"),
        (asked._replace(part_rows=8), "the rows of a part"),
        (ask(rows, other), "the input files"),
    ]:
        with pytest.raises(SpecError, match=f"--resume: {what} are not those that the output folder was begun with"):
            check_same(plan, changed)
    write_jsonl(rows, draw_segments(4))
    with pytest.raises(SpecError, match=r"--resume: .*rows\.jsonl has changed since the run began"):
        check_same(plan, ask(rows))
    with pytest.raises(FileError, match="not a plan that this package wrote"):
        ScalePlan.from_json(plan.to_json()[:-30])


@pytest.mark.parametrize("url", ["{tmp}/out", "file://{tmp}/out", "memory://folder-of-test"])
def test_a_folder_writes_whole_files_and_is_held_by_one_run(tmp_path: Path, url: str) -> None:
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
