"""Record files: written atomically, read as untrusted data."""

from __future__ import annotations

import functools
import json
import operator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from twmd_registry.comparison.cells import Resampling, SystemScore
from twmd_registry.errors import FileError
from twmd_registry.record.content import (
    InputFile,
    Record,
    make_record,
    parse_record,
    read_record,
    record_text,
    write_record,
)


@pytest.fixture(scope="module")
def record() -> Record:
    scores = twmd_registry.score_all(
        [twmd_registry.load("twmd"), twmd_registry.load("moverscore")],
        ["the cat sat", "it rains"],
        [["a cat sat"], ["it pours", "rain"]],
    )
    return make_record(
        [("système |a|", scores)], inputs=[InputFile("references", "ref.txt", "0" * 64)], seconds=1.25, device="cpu"
    )


def test_record_is_read_back_unchanged(record: Record, tmp_path: Path) -> None:
    named = replace(record, inputs=(InputFile("references", "r\udcff.txt", "0" * 64),))  # a name that is not UTF-8
    for written_record in (record, named):
        write_record(written_record, f"{tmp_path}/out.json")
        assert read_record(f"{tmp_path}/out.json") == read_record(tmp_path / "out.json") == written_record
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert "resampling" not in json.loads(record_text(record))


def test_tests_intervals_and_sacrebleu_metrics_are_read_back_unchanged(record: Record) -> None:
    (system,) = record.systems
    ours = replace(system.results[0], mean=0.5, ci=0.125, p_value=0.0625)
    bleu = SystemScore(50.5, {}, (), {"segments": 2}, signature="BLEU|nrefs:1|version:2.6.0")
    whole = replace(record, systems=(replace(system, results=(ours, bleu)),), resampling=Resampling("ar", 100, 50, 7))
    table = json.loads(record_text(whole))
    assert parse_record(json.dumps(table)) == whole
    assert table["resampling"] == {"test": "ar", "samples": 100, "resamples": 50, "seed": 7}
    assert table["systems"][0]["results"][0]["p_value"] == 0.0625
    assert "p_value" not in table["systems"][0]["results"][1]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("systems", [], "record.systems is empty"),
        ("systems", None, "record.systems must be a list"),
        ("environment", [], r"record.environment must be an object"),
        ("format", "other", "twmd-record"),
        ("format_version", 2, "format_version"),
        ("systems.0.texts", ..., r"systems\[0\] has no texts"),
        ("references", ..., "record has no references"),
        ("systems.0.results.1.scores.1", "1", r"results\[1\].scores\[1\] must be a finite number, not '1'"),
        ("systems.0.results.1.scores", [], r"results\[1\].scores is empty"),
        ("systems.0.results.1.score", 10**400, r"results\[1\].score must be a finite number"),
        ("systems.0.results.0.counts.segments", 1.5, "counts.segments must be a whole number, not 1.5"),
        ("systems.0.results.0.ci", None, r"results\[0\].ci must be a finite number, not None"),
        ("resampling", {"test": ["bs"]}, r"record.resampling.test must be \"bs\", \"ar\", null, not \['bs'\]"),
        ("resampling", {"test": "bs", "samples": 2, "resamples": 0}, "record.resampling has no seed"),
        ("resampling", {"test": "bs", "samples": 0, "resamples": 0, "seed": 1}, "samples for a test"),
        ("resampling", {"test": None, "samples": 0, "resamples": 9, "seed": -1}, "no negative"),
    ],
)
def test_edited_record_is_refused_with_its_position(record: Record, place: str, value: Any, words: str) -> None:
    table: Any = json.loads(record_text(record))
    *path, last = (int(part) if part.isdigit() else part for part in place.split("."))
    target = functools.reduce(operator.getitem, path, table)
    if value is ...:
        del target[last]
    elif last == len(target):
        target.append(value)
    else:
        target[last] = value
    with pytest.raises(FileError, match=words):
        parse_record(json.dumps(table))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"format": "twmd-record", "format": "twmd-record"}', "'format' occurs twice"),
        ('{"format": ' + "9" * 10_000 + "}", "Exceeds the limit"),
        ("\udcff", r"x.json is not a record of this package: it is not UTF-8: byte 0xff in line 1\."),
    ],
)
def test_invalid_record_raises_one_error(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="x.json: No such file"):
        read_record(tmp_path / "x.json")
    (tmp_path / "x.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(FileError, match=words):
        read_record(tmp_path / "x.json")


def test_endless_or_huge_file_is_not_read_completely(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileError, match="/dev/zero is not a record of this package: not JSON"):
        read_record("/dev/zero")
    write_record(record, tmp_path / "x.json")
    monkeypatch.setattr("twmd_registry.record.content.MAX_BYTES", 100)
    with pytest.raises(FileError, match=r"x.json is not a record of this package: it has more than"):
        read_record(tmp_path / "x.json")


def test_truncated_or_edited_record_is_detected(record: Record) -> None:
    text = record_text(record).rstrip()
    for end in range(0, len(text), 37):
        with pytest.raises(FileError, match="not JSON"):
            parse_record(text[:end])
    assert not parse_record(record_text(record)).edited
    assert not parse_record(json.dumps(json.loads(record_text(record)))).edited, "other white space is no edit"
    assert parse_record(record_text(record).replace("ref.txt", "other.txt")).edited


def test_write_that_fails_keeps_the_old_file(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_text("before", encoding="utf-8")

    def full(_self: Path, content: bytes) -> int:
        raise OSError(28, f"No space left on device for {len(content)} bytes")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FileError, match=r"cannot write .*out.json: No space left"):
        write_record(record, path)
    monkeypatch.undo()
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]
    assert path.read_text(encoding="utf-8") == "before"
