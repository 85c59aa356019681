"""Files: what is read and refused, and what comes out."""

from __future__ import annotations

import csv
import gzip
import io
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from twmd_registry.demo import answers
from twmd_registry.demo.answers import FILE_HEADERS, LARGEST, MOST_ROWS, NOTHING, read_pasted, read_upload, score_file
from twmd_registry.errors import FileError, InputError, SpecError
from twmd_registry.record.file import parse_record

CSV = (
    'prediction,reference,reference_2\nIt rains.,It is raining.,\n"A cat, a dog",Two pets.,"A dog, a cat"\n'
    "So be it,Never,Ever\n"
)
HEADER = b"prediction,reference\n"
MISSPELT = ", row 1 (the header): no column 'reference'; did you mean 'refrence'? Choices: prediction, refrence."
PREDICTIONS = ["It rains.", "A cat, a dog", "So be it"]
REFERENCES = [["It is raining."], ["Two pets.", "A dog, a cat"], ["Never", "Ever"]]


def as_json(predictions: list[str], references: list[list[str]]) -> str:
    return "".join(
        json.dumps({"prediction": p, "references": r}) + "\n" for p, r in zip(predictions, references, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "separator"), [("a.CSV", ""), ("semicolons.csv", ";"), ("a.tsv", "\t"), ("a.jsonl", ""), ("a.ndjson", "")]
)
def test_every_format_gives_the_same_texts(name: str, separator: str, tmp_path: Path) -> None:
    text = as_json(PREDICTIONS, REFERENCES) if "json" in name else CSV
    if separator:
        text = "\n".join(separator.join(fields) for fields in csv.reader(io.StringIO(CSV))) + "\n"
    (tmp_path / name).write_text(text, encoding="utf-8")
    source, _, *texts = read_upload(tmp_path / name)
    assert (source.name, texts) == (name, [PREDICTIONS, REFERENCES, None])
    assert read_pasted(f"\n{text}\n\n")[2:4] == (PREDICTIONS, REFERENCES)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_blank_lines_at_the_top_count_as_rows(name: str, tmp_path: Path) -> None:
    text = "\n\n" + (as_json(PREDICTIONS, REFERENCES) if name.endswith("jsonl") else CSV)
    (tmp_path / name).write_text(text, encoding="utf-8")
    first = 3 if name.endswith("jsonl") else 4
    assert read_upload(tmp_path / name)[1:4] == (list(range(first, first + 3)), PREDICTIONS, REFERENCES)


def test_row_of_empty_references_has_an_empty_reference() -> None:
    assert read_pasted("prediction,reference,reference_b\na,,\n")[3] == [[""]]
    assert read_pasted("prediction,reference\na,\n")[3] == [[""]]


def test_column_of_sources_is_read_where_every_row_has_one() -> None:
    assert read_pasted("prediction,reference,source\na,b,c\nd,e,f\n")[4] == ["c", "f"]
    assert (
        read_pasted('{"prediction": "a", "reference": "b", "source": "c"}\n{"prediction": "d", "reference": "e"}\n')[4]
        is None
    )


def test_table_of_sources_needs_no_references(monkeypatch: pytest.MonkeyPatch) -> None:
    against = twmd_registry.scorer("twmd", against="source").requested
    monkeypatch.setattr("twmd_registry.demo.answers.spec_of", lambda *_: against)
    table = read_pasted("prediction,source\nit rained,there was rain\n")
    assert table[3:] == ([[]], ["there was rain"])
    wanted = twmd_registry.score(["it rained"], sources=["there was rain"], against="source")
    assert score_file(table, ["twmd"], "embedded")["rows"][0][1] == f"{wanted.score:.4f}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"prediction,refrence\na,b\n", MISSPELT),
        (HEADER, ": there is no row under the header."),
        (b"", " is empty."),
        (
            gzip.compress(HEADER, mtime=0),
            " is compressed: give it a name that says so (.parquet, .gz, .xz), or unpack it first.",
        ),
        (HEADER + b"a,b\n" * (MOST_ROWS + 1), " has 2,001 rows: this page scores up to 2,000"),
        (b"x" * (LARGEST + 1), " has more than 2,000,000 bytes: 'twmd score' reads files of any size."),
    ],
)
def test_bad_file_is_refused_in_one_line_without_its_folder(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_upload(tmp_path / "a.csv")
    assert str(caught.value).startswith(f"a.csv{words}")
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_unusable_pasted_text_is_refused() -> None:
    asked = "^Nothing to score: upload or paste a table with the columns prediction and reference"
    for text in ("", " \n\n"):
        with pytest.raises(FileError, match=asked):
            read_pasted(text)


@pytest.fixture(scope="module")
def scored() -> dict[str, Any]:
    return score_file(read_pasted(CSV), ["twmd", "stsscore"], "embedded")


def test_scores_are_those_of_the_scorer(scored: dict[str, Any]) -> None:
    for k, metric in enumerate(("twmd", "stsscore")):
        expected = twmd_registry.scorer(metric).score(PREDICTIONS, REFERENCES)
        row = dict(zip(FILE_HEADERS, scored["rows"][k], strict=True))
        numbers = (
            min(expected.scores),
            statistics.median(expected.scores),
            max(expected.scores),
            statistics.fmean(expected.scores),
        )
        shown = [float(row[name]) for name in ("lowest", "median", "highest", "score")]
        assert np.allclose(shown, numbers, atol=0.6e-4)
        assert (row["R"] == NOTHING) is (metric == "stsscore")
        assert np.allclose([segment[3 + k] for segment in scored["segments"]], expected.scores, atol=0.6e-4)
        tsv = [line.split("\t")[k] for line in scored["tsv"].splitlines()[1:]]
        assert np.allclose(np.array(tsv, dtype=float), expected.scores, atol=0.6e-6)
        assert scored["signatures"].split("\n")[k] == str(expected.signature)
    assert scored["segment_headers"] == ["row", "prediction", "references", "twmd", "stsscore"]
    assert scored["segments"][1][:3] == [3, "A cat, a dog", "Two pets. / A dog, a cat"]


def test_record_verifies(scored: dict[str, Any]) -> None:
    assert twmd_registry.verify_record(parse_record(scored["record"]), [(PREDICTIONS, REFERENCES)]).agrees
    edited = [*PREDICTIONS[:2], "Never"]
    assert not twmd_registry.verify_record(parse_record(scored["record"]), [(edited, REFERENCES)]).agrees


@pytest.mark.parametrize(
    ("metrics", "words"), [([], "choose at least one metric"), (["bleu"], "there is no metric 'bleu'")]
)
def test_missing_or_unknown_metric_is_refused(metrics: list[str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        score_file(read_pasted(CSV), metrics, "embedded")


def test_preset_that_a_metric_lacks_is_a_notice() -> None:
    notices = score_file(read_pasted(CSV), ["twmd", "trwmd"], "embedded-tuned")["notices"]
    assert "no preset 'embedded-tuned' of trwmd: scored with 'embedded'." in notices


def test_repeated_metric_counts_once_and_json_lines_are_numbered_by_line() -> None:
    result = score_file(read_pasted(as_json(["a"], [["b"]])), ["sbert"] * 50, "embedded")
    assert (len(result["rows"]), result["segment_headers"][0], result["segments"][0][0]) == (1, "row", 1)


def test_every_metric_has_a_histogram(scored: dict[str, Any]) -> None:
    assert scored["pictures"].count("<figure>") == scored["pictures"].count("<svg") == 2
    assert "stsscore: rows by score" in scored["pictures"]


def test_file_that_takes_too_long_is_given_up_and_the_next_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(answers, "PATIENCE_S", 0.0)
        with pytest.raises(InputError, match="takes more than 0 s and was given up: try a smaller file"):
            score_file(read_pasted(CSV), ["sbert"], "embedded")
    assert score_file(read_pasted(CSV), ["sbert"], "embedded")["segment_headers"][-1] == "sbert"
