"""Scores of a data set in parts equal those of a single machine; no fault loses a finished part. Without Ray."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from tests import tiny
from tests.conftest import fill_disk
from tests.scale.segments import (
    Segment,
    assert_like_one_machine,
    draw_segments,
    read_parts,
    read_rows,
    scorers,
    write_csv,
    write_jsonl,
    write_parquet,
    write_rows,
)
from twmd_registry.cli import main
from twmd_registry.engine.scorer import Scorer, load, score_all
from twmd_registry.errors import FileError, InputError, ModelError, TwmdError, TwmdWarning
from twmd_registry.scale import Columns, ScaleOptions, ScoredDataset, partitions
from twmd_registry.scale.partitions import MAX_TRIES, PartitionScorer
from twmd_registry.scale.plan import LOCK
from twmd_registry.scale.runner import score_parts

SEGMENTS = draw_segments(23)


@pytest.fixture(scope="module", autouse=True)
def _loaded(bert: str) -> Iterator[None]:
    """Hold the model, so that no run pays for loading it again."""
    with load("twmd", model=bert, layer=2) as held:
        assert held.spec
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three files, so that parts and centering batches go over their ends."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", SEGMENTS[:5])
    write_parquet(folder / "b.parquet", SEGMENTS[5:14])
    write_jsonl(folder / "c.jsonl", SEGMENTS[14:])
    return folder


def here(scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Do parts in this process, one after another."""
    for part in parts:
        yield part, scorer.run(part)


def score(own: Sequence[Scorer], data: Path, out: Path, each: Any = here, **how: Any) -> ScoredDataset:
    return score_parts(
        own, [str(data)], str(out), ScaleOptions(**{"part_rows": 5, **how}), lambda: nullcontext((each, 1))
    )


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(("part", "rejects"))}


@pytest.mark.parametrize("part_rows", [5, 100])
def test_parts_have_the_scores_of_a_single_machine_by_every_kind_of_metric(
    bert: str, data: Path, tmp_path: Path, part_rows: int
) -> None:
    members = f"twmd;model={bert};layer=2;centering=corpus,2*sbert;model={bert};layer=1;centering=none"
    regressor = load("stsscore", model=str(tiny.save_regressor(tmp_path / "regressor")), scale=5)
    own = [*scorers(bert), load("ensemble", members=members), regressor]
    record = score(own, data, tmp_path / "out", part_rows=part_rows)
    assert_like_one_machine(tmp_path / "out", own, SEGMENTS)
    assert record == ScoredDataset.from_json((tmp_path / "out" / "record.json").read_text(encoding="utf-8"))
    assert (record.rows, record.rejected, record.part_rows % 3) == (23, 0, 0)
    columns = ["twmd", "twmd_2", "bertscore_centered", "moverscore", "ensemble", "stsscore"]
    assert [metric.column for metric in record.metrics] == columns
    table = read_parts(tmp_path / "out")
    assert table["file"].to_pylist() == ["a.jsonl"] * 5 + ["b.parquet"] * 9 + ["c.jsonl"] * 9
    assert table["row_in_file"].to_pylist() == [*range(5), *range(9), *range(9)]
    left = {path.name for path in (tmp_path / "out").iterdir()} - {f"part-{i:05d}.parquet" for i in range(record.parts)}
    assert left == {".lock", "plan.json", "record.json"}


class Bar(list[int]):
    """Progress with what it was given."""

    total = 0
    __call__ = list.append

    def expect(self, total: int) -> None:
        self.total += total


def test_progress_has_a_total_before_workers_start_and_moves_with_every_part(
    bert: str, data: Path, tmp_path: Path
) -> None:
    with (data / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write("no json\n")
    bar = Bar()

    @contextlib.contextmanager
    def start() -> Iterator[tuple[Any, int]]:
        assert (bar.total, bar) == (24, [])
        yield here, 1

    options, own = ScaleOptions(part_rows=6, progress=bar), scorers(bert, "corpus", "none")
    with pytest.warns(TwmdWarning, match="could not be scored: 1"):
        score_parts(own, [str(data)], str(tmp_path / "out"), options, start)
    assert (sum(bar), len(bar)) == (24, 8)


def test_references_of_several_columns_are_combined(bert: str, tmp_path: Path) -> None:
    own, out = scorers(bert, "none", "batch"), tmp_path / "out"
    rows = [{"ours": one, "first": several[0], "others": several[1:] or [several[0]]} for one, several in SEGMENTS]
    columns = Columns("ours", ("first", "others"))
    record = score(own, write_rows(tmp_path / "rows.jsonl", rows), out, columns=columns)
    assert record.columns == {"prediction": "ours", "references": ["first", "others"], "quoted_tsv": False}
    assert_like_one_machine(out, own, [(one, several if several[1:] else several * 2) for one, several in SEGMENTS])


def test_parts_and_rejects_contain_the_ids_of_rows(bert: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "data", tmp_path / "out"
    folder.mkdir()
    segments = [(prediction, references[:1]) for prediction, references in SEGMENTS]
    write_csv(folder / "a.csv", segments[:3])
    write_parquet(folder / "b.parquet", segments[3:7])
    ids = ["doc-1", 17, None, "\ud800", {"set": "a"}]
    texts = zip(ids, segments[7:12], strict=True)
    rows = [{"id": name, "prediction": one, "references": many} for name, (one, many) in texts]
    write_rows(folder / "c.jsonl", [*rows, {"id": "bad"}])
    write_rows(folder / "d.jsonl", [{"prediction": one, "reference": many} for one, many in segments[12:14]])
    with pytest.warns(TwmdWarning, match="could not be scored: 1"):
        record = score(scorers(bert, "none"), folder, out, part_rows=4)
    found = read_parts(out)["id"].to_pylist()
    assert found == ["0", "1", "2", "0", "1", "2", "3", "doc-1", "17", None, "\\ud800", "{'set': 'a'}", None, None]
    (reject,) = read_rows(out / "rejects.jsonl")
    assert (reject["id"], reject["row"]) == ("bad", 12)
    assert record.columns["references"] == ["reference", "references"]


def test_edited_record_is_refused_and_a_removed_record_written_again(bert: str, data: Path, tmp_path: Path) -> None:
    own, path = scorers(bert, "none"), tmp_path / "out" / "record.json"
    record = score(own, data, tmp_path / "out")
    table = json.loads(path.read_text(encoding="utf-8"))
    table["metrics"][0]["score"] += 0.1
    path.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(
        FileError, match=r"^record\.json is damaged, was edited, or is of another version: remove it, and continue"
    ):
        score(own, data, tmp_path / "out", resume=True)
    path.unlink()
    assert score(own, data, tmp_path / "out", resume=True).metrics == record.metrics


BAD_ROWS = [
    ("no json", "expected a JSON object (Expecting value at character 1)"),
    ('{"prediction": "the cat"}', "no column 'references' or 'reference'; Choices: prediction"),
    ('{"prediction": 5, "references": ["a"]}', "expected a text as prediction, not 5"),
    ('{"prediction": "a", "references": []}', "an empty list of references"),
    ('{"prediction": "a \\ud800", "references": ["a"]}', "lone surrogate"),
    ('{"prediction": "a", "references": ["a", 5]}', "expected a text as a reference, not 5"),
]


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Return a file of 23 rows; rows 4, 7, 10, 13, 16 and 19 cannot be scored."""
    rows: list[object] = [{"prediction": one, "references": several} for one, several in SEGMENTS]
    rows[4:20:3] = [line for line, _ in BAD_ROWS]
    return write_rows(tmp_path / "rows.jsonl", rows)


def test_rows_that_cannot_be_scored_are_rejected_with_the_reason(bert: str, broken: Path, tmp_path: Path) -> None:
    own = scorers(bert, "none", "corpus", "idf")
    with pytest.warns(TwmdWarning, match=r"rows that could not be scored: 6 of 23, see rejects\.jsonl\."):
        record = score(own, broken, tmp_path / "out")
    rejects, numbers = read_rows(tmp_path / "out" / "rejects.jsonl"), list(range(4, 20, 3))
    assert [(reject["row"], reject["file"], reject["row_in_file"]) for reject in rejects] == [
        (i, "rows.jsonl", i) for i in numbers
    ]
    for one, (raw, reason) in zip(rejects, BAD_ROWS, strict=True):
        assert one["raw"] == raw
        assert reason in one["reason"]
    good = [i for i in range(23) if i not in numbers]
    table = read_parts(tmp_path / "out")
    assert table["row"].to_pylist() == good
    expected = score_all(own, *zip(*(SEGMENTS[i] for i in good), strict=True))
    for found, kept in zip(expected, record.metrics, strict=True):
        np.testing.assert_allclose(table[kept.column].to_numpy(), found.scores, rtol=0, atol=1e-5)
        assert abs(kept.score - found.score) < 1e-5
    assert (record.rows, record.rejected) == (17, 6)
    assert not list((tmp_path / "out").glob("part-*.jsonl"))


def test_rejected_row_leaves_its_place_in_its_centering_batch_empty(bert: str, broken: Path, tmp_path: Path) -> None:
    """Two metrics with batches of different sizes, compared with batches that are scored separately."""
    other = load("twmd", model=bert, layer=1, centering="batch", centering_size=4, centering_side="joint")
    own, bad = [*scorers(bert, "batch"), other], set(range(4, 20, 3))
    with pytest.warns(TwmdWarning, match="their centering batches are that much smaller"):
        score(own, broken, tmp_path / "out", part_rows=3)
    table = read_parts(tmp_path / "out")
    for one, size, column in zip(own, (3, 4), ("twmd", "twmd_2"), strict=True):
        expected: list[float] = []
        for first in range(0, 23, size):
            batch = [SEGMENTS[i] for i in range(first, min(first + size, 23)) if i not in bad]
            expected += one.score(*zip(*batch, strict=True)).scores
        np.testing.assert_allclose(table[column].to_numpy(), expected, rtol=0, atol=1e-5)


def test_strict_run_ends_at_the_first_bad_row(bert: str, broken: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^row 5 \(rows\.jsonl, row 5 there\): expected a JSON object \(.*\)\.$"):
        score(scorers(bert, "none"), broken, tmp_path / "out", strict=True)
    assert sorted(content(tmp_path / "out")) == []
    with pytest.warns(TwmdWarning, match="could not be scored: 6"):
        score(scorers(bert, "none"), broken, tmp_path / "out", resume=True)


def test_part_without_a_good_row_changes_no_score(bert: str, data: Path, tmp_path: Path) -> None:
    own, text = scorers(bert), (data / "a.jsonl").read_text(encoding="utf-8")
    (data / "a.jsonl").write_text("".join(f"bad {i}\n" for i in range(3)) + text, encoding="utf-8")
    with pytest.warns(TwmdWarning, match="could not be scored: 3"):
        record = score(own, data, tmp_path / "out", part_rows=3)
    table = read_parts(tmp_path / "out")
    assert (table.num_rows, record.rows, record.rejected) == (23, 23, 3)
    for found, kept in zip(score_all(own, *zip(*SEGMENTS, strict=True)), record.metrics, strict=True):
        np.testing.assert_allclose(table[kept.column].to_numpy(), found.scores, rtol=0, atol=1e-5)


class StopError(Exception):
    """The process is gone."""


class Interrupted:
    """Does so many parts, and is gone."""

    def __init__(self, parts: int) -> None:
        self.left = parts

    def __call__(self, scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, str]]:
        for number in parts:
            if not self.left:
                raise StopError
            self.left -= 1
            yield from here(scorer, [number])


@pytest.mark.parametrize("parts", [2, 6])
def test_resumed_run_repeats_no_finished_part(
    bert: str, data: Path, tmp_path: Path, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out = scorers(bert), tmp_path / "out"
    score(own, data, tmp_path / "whole", part_rows=6)
    read, reads = PartitionScorer._read, list[tuple[bool, int]]()

    def spy(self: PartitionScorer, part: int) -> Any:
        reads.append((self.sums, part))
        return read(self, part)

    monkeypatch.setattr(PartitionScorer, "_read", spy)
    with pytest.raises(StopError):
        score(own, data, out, Interrupted(parts), part_rows=6)
    kept = content(out)
    (out / "part-00003.parquet.99.part").write_bytes(b"half")
    score(own, data, out, part_rows=6, resume=True)
    assert_like_one_machine(out, own, SEGMENTS)
    assert {name: (out / name).read_bytes() for name in kept if name.endswith("parquet")} == {
        name: written for name, written in kept.items() if name.endswith("parquet")
    }
    assert reads == [(sums, part) for sums in (True, False) for part in range(4)]
    records = [json.loads((folder / "record.json").read_text(encoding="utf-8")) for folder in (tmp_path / "whole", out)]
    same = ("inputs", "rows", "texts", "metrics", "warnings")
    assert [records[0][name] for name in same] == [records[1][name] for name in same]
    assert not [*out.glob("*.part"), *out.glob("*.sums")]
    assert score(own, data, out, Interrupted(0), part_rows=6, resume=True).rows == 23


@pytest.mark.filterwarnings("ignore:rows that could not be scored")
def test_damaged_parts_and_totals_are_computed_again(bert: str, data: Path, broken: Path, tmp_path: Path) -> None:
    own, out = scorers(bert, "corpus"), tmp_path / "out"
    with pytest.raises(StopError):
        score(own, data, out, Interrupted(7))
    for name in ("part-00001.sums", "part-00001.parquet"):
        os.truncate(out / name, 100)
    score(own, data, out, resume=True)
    assert_like_one_machine(out, own, SEGMENTS)
    own, out = scorers(bert, "none"), tmp_path / "rejecting"
    with pytest.raises(StopError):
        score(own, broken, out, Interrupted(3))
    (out / "part-00001.rejects.jsonl").unlink()
    assert score(own, broken, out, resume=True).rejected == len(BAD_ROWS) == len(read_rows(out / "rejects.jsonl"))


def test_output_folder_of_another_run_is_refused(bert: str, data: Path, tmp_path: Path) -> None:
    own, out = scorers(bert, "none"), tmp_path / "out"
    score(own, data, out)
    with pytest.raises(FileError, match=r"out is not empty: give an empty folder, or continue with --resume"):
        score(own, data, out)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "diary.txt").touch()
    with pytest.raises(FileError, match=r"cannot read .*other/plan\.json: there is no such file"):
        score(own, data, tmp_path / "other", resume=True)
    with pytest.raises(FileError, match=r"a\.jsonl.*"):
        score(own, data, data / "a.jsonl")


@pytest.mark.filterwarnings("ignore:rows that could not be scored")
@pytest.mark.parametrize("name", ["part-00002.parquet", "part-00002.rejects.jsonl", "rejects.jsonl"])
def test_full_disk_loses_no_finished_part_and_resumed_run_writes_all_rejects(
    bert: str, broken: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out, found = scorers(bert, "none"), tmp_path / "out", list[ScoredDataset]()
    message = r"No space left on device\. Finished parts are kept: make room, and continue with --resume\."
    with monkeypatch.context() as patched:
        fill_disk(patched, "scale.plan", name)
        with pytest.raises(FileError, match=f"^cannot write .*/{name}: {message}$"):
            score(own, broken, out, scored=found.append)
    kept = {path.name: path.read_bytes() for path in out.glob("part-*.parquet")}
    # All rejects are gathered at the end, when every part is written and the scores are reported.
    assert (len(kept), len(found)) == ((5, 1) if name == "rejects.jsonl" else (2, 0))
    assert not (out / name).exists()
    record = score(own, broken, out, resume=True, scored=found.append)
    assert {part: (out / part).read_bytes() for part in kept} == kept
    assert [(reject["row"], reject["raw"]) for reject in read_rows(out / "rejects.jsonl")] == [
        (4 + 3 * i, raw) for i, (raw, _) in enumerate(BAD_ROWS)
    ]
    assert all(reported.metrics == record.metrics for reported in found)
    assert score(own, broken, out, resume=True, scored=found.append) == found[-2] == found[-1] == record


def test_command_prints_scores_even_if_the_record_cannot_be_written(
    bert: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (data / "a.jsonl").read_text(encoding="utf-8").splitlines()
    (data / "a.jsonl").write_text("\n".join([*lines[:2], "no json", *lines[2:]]) + "\n", encoding="utf-8")
    monkeypatch.setattr(partitions, "import_ray", lambda: None)
    monkeypatch.setattr(partitions, "on_ray", nullcontext)
    monkeypatch.setattr(partitions, "share_resources", lambda *_: (1, 0.0))
    monkeypatch.setattr(partitions, "run_parts", lambda _, *given: here(*given))
    command = ["score", "--engine", "ray", "-i", str(data), "--output", str(tmp_path / "out"), "-m", "twmd"]
    command += ["--set", f"model={bert}", "layer=2", "centering=none"]
    with monkeypatch.context() as patched:
        fill_disk(patched, "scale.plan", "record.json")
        assert main(command) == 1
    printed = capsys.readouterr()
    (found,) = score_all(scorers(bert, "none"), *zip(*SEGMENTS, strict=True))
    assert printed.out.splitlines()[0] == f"{found.signature} = {found.score:.4f}"
    assert printed.out.splitlines()[1].startswith("rows scored: 23, rejected: 1; parts: 1, in ")
    assert "rows that could not be scored: 1 of 24, see rejects.jsonl" in printed.err
    assert f"twmd: cannot write {tmp_path}/out/record.json: No space left on device." in printed.err
    assert main([*command, "--resume"]) == 0
    assert capsys.readouterr().out == printed.out


@pytest.mark.parametrize("fault", ["gone", "unreadable"])
def test_input_that_becomes_unreadable_is_named(bert: str, data: Path, tmp_path: Path, fault: str) -> None:
    own, out = scorers(bert, "none"), tmp_path / "out"
    file = data / "b.parquet"
    whole = file.read_bytes()

    def each(scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, str]]:
        for number in parts:
            if number == 1 and fault == "gone":
                file.rename(tmp_path / "b.parquet")
            elif number == 1:
                file.write_bytes(b"PAR1" + b"x" * (len(whole) - 4))
            yield from here(scorer, [number])

    with pytest.raises(FileError, match=r"b\.parquet"):
        score(own, data, out, each)
    assert sorted(content(out)) == ["part-00000.parquet"]
    with pytest.raises(TwmdError, match="the input files are not those"):
        score(own, data, out, resume=True)
    if fault == "gone":
        (tmp_path / "b.parquet").rename(file)
        score(own, data, out, resume=True)
        assert_like_one_machine(out, own, SEGMENTS)


def test_worker_with_another_model_is_refused(bert: str, data: Path, tmp_path: Path) -> None:
    folder = tiny.save_encoder("bert", tmp_path / "model")

    def each(scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, str]]:
        tiny.save_encoder("bert", folder, seed=1)
        yield from here(replace(scorer, scorers=tuple(scorers(folder, "none"))), parts)

    message = r"^this worker would score by twmd\|.*, not by twmd\|.*: install the same model and package on all\.$"
    with pytest.raises(ModelError, match=message):
        score(scorers(folder, "none"), data, tmp_path / "out", each)


def test_part_that_kills_its_workers_ends_the_run(bert: str, data: Path, tmp_path: Path) -> None:
    own, out = scorers(bert, "batch"), tmp_path / "out"

    def each(scorer: PartitionScorer, parts: Sequence[int]) -> Iterator[tuple[int, str]]:
        for number in parts:
            if number == 1:  # what workers that were killed leave behind
                (out / "part-00001.tries").write_text(str(MAX_TRIES))
            yield number, scorer.run(number)

    message = (
        r"^3 workers crashed on part 1 \(killed, or out of memory\)\. Finished parts are kept: continue with --resume"
    )
    with pytest.raises(TwmdError, match=message):
        score(own, data, out, each)
    assert sorted(content(out)) == ["part-00000.parquet", "part-00001.tries"]
    kept = (out / "part-00000.parquet").read_bytes()
    score(own, data, out, resume=True)
    assert (out / "part-00000.parquet").read_bytes() == kept
    assert_like_one_machine(out, own, SEGMENTS)
    assert not list(out.glob("*.tries"))


def test_warnings_of_parts_are_given_once(bert: str, tmp_path: Path) -> None:
    empty, long = ("", ["the cat"]), (" ".join(f"zebra {i}" for i in range(40)), ["a cat"])
    segments: list[Segment] = [*SEGMENTS[:4], empty, *SEGMENTS[4:8], empty, long]
    with pytest.warns(TwmdWarning) as warned:
        record = score(scorers(bert, "none"), write_jsonl(tmp_path / "rows.jsonl", segments), tmp_path / "out")
    messages = [str(one.message) for one in warned]
    assert any(re.fullmatch(r"texts without a token: 1; .*\(in 2 of 3 parts\)", message) for message in messages)
    assert (record.metrics[0].counts["empty"], record.metrics[0].counts["truncated"]) == (2, 1)
    assert len(messages) == len(record.warnings) == 3  # empty, truncated, unknown


def test_workers_are_started_after_all_checks(bert: str, data: Path, tmp_path: Path) -> None:
    def nobody() -> NoReturn:
        pytest.fail("called")

    def refused(message: str, own: Sequence[Scorer], given: Path, out: Path, **how: Any) -> None:
        with pytest.raises(TwmdError, match=message):
            score_parts(own, [str(given)], str(out), ScaleOptions(**how), nobody)

    own, done = scorers(bert, "none"), tmp_path / "done"
    score(own, data, done)
    refused("there is no such file", own, tmp_path / "nothing.jsonl", tmp_path / "out")
    refused("no column 'ours'", own, data, tmp_path / "out", columns=Columns("ours"))
    refused("is not empty", own, data, done)
    refused("the metrics are not those", scorers(bert, "batch"), data, done, part_rows=5, resume=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]
    assert score_parts(own, [str(data)], str(done), ScaleOptions(part_rows=5, resume=True), nobody).rows == 23


ROWS, BAD = 11, 4
