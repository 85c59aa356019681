"""Files of error spans: Google's MQM tables, ESA annotations, lists of issues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twmd_registry.engine.error_spans import ErrorSpan
from twmd_registry.errors import FileError
from twmd_registry.judgments.span_files import MQM_COLUMNS, MarkedSegment, read_mqm, write_esa, write_issues, write_mqm

MINOR, MAJOR = ErrorSpan(4, 7, "minor", 0.3), ErrorSpan(12, 15, "major", 0.9)
SEGMENTS = [
    MarkedSegment(
        "a", "doc", "1", "Text", "the cat\tsat o\nr", "a cat sat", (MINOR, MAJOR), (ErrorSpan(0, 1, "minor", 0.2),), 0.5
    ),
    MarkedSegment("a", "doc", "2", "Quelle", 'fine "', "good", ()),
]  # fmt: skip


def table(*rows: tuple[str, ...]) -> str:
    return "\n".join("\t".join(row) for row in (MQM_COLUMNS, *rows)) + "\n"


def rating(system: str, target: str, severity: str = "Minor", seg: str = "7", rater: str = "r1") -> tuple[str, ...]:
    return system, "doc", "1", seg, rater, "<v>Quelle</v> hier", target, "Accuracy/Mistranslation", severity


def test_mqm_rows_of_a_segment_are_joined_and_compared_with_the_human_translation(tmp_path: Path) -> None:
    file = tmp_path / "mqm.tsv"
    file.write_text(
        table(
            rating("a", 'the <v>cat</v> "sat'),
            rating("a", 'the cat "<v>sat</v>', "Major"),
            rating("a", 'the cat "sat', "No-error", rater="r2"),
            rating("a", "no reference", "No-error", seg="8"),
            rating("ref", "a <v>cat</v> was sitting"),
        ),
        encoding="utf-8",
    )
    first, second = read_mqm(file)
    assert first.spans == (ErrorSpan(4, 7, "minor"), ErrorSpan(9, 12, "major"))
    assert (first.prediction, first.reference) == ('the cat "sat', "a cat was sitting")
    assert (first.source, first.number, second.spans) == ("Quelle hier", "7", ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("system\tdoc\n", "line 1: no column 'doc_id'; did you mean 'doc'"),
        (table(rating("a", "the <v>cat sat")), "line 2: <v> and </v> mark"),
        (table(("a", "doc")), "line 2: expected 9 columns, not 2"),
        (table(rating("a", "text")), "no segment has a human translation"),
        ("", "line 1: no column"),
    ],
)
def test_wrong_mqm_table_is_named_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mqm.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(FileError, match=message):
        read_mqm(tmp_path / "mqm.tsv")


def test_mqm_table_that_was_written_is_read_again(tmp_path: Path) -> None:
    human = MarkedSegment("ref", "doc", "1", "Quelle", "a cat sat", "", ())
    written = write_mqm([*SEGMENTS, human, human._replace(number="2")], "twmd spans:0")
    lines = [line.split("\t") for line in written.split("\n")]
    assert [line[6:] for line in lines[1:5]] == [
        ["the <v>cat</v> sat o r", "Other", "Minor"],
        ["the cat sat <v>o r</v>", "Other", "Major"],
        ["the cat sat o r", "Accuracy/Omission", "Minor"],
        ['fine "', "No-error", "No-error"],
    ]
    (tmp_path / "mqm.tsv").write_text(written, encoding="utf-8")
    first, second = read_mqm(tmp_path / "mqm.tsv")
    assert [span[:3] for span in first.spans] == [span[:3] for span in SEGMENTS[0].spans]
    assert (second.prediction, second.spans) == ('fine "', ())
    text = "a <v>tag</v> < /v>"
    spans = (ErrorSpan(2, 5, "minor"), ErrorSpan(3, 4, "minor"), ErrorSpan(5, 8, "major"), ErrorSpan(16, 18, "major"))
    own = MarkedSegment("a", "doc", "1", "<v> is a tag", text, "", spans)
    human = own._replace(system="ref", prediction="</v>", spans=())
    (tmp_path / "mqm.tsv").write_text(write_mqm([own, human], "r"), encoding="utf-8")
    assert read_mqm(tmp_path / "mqm.tsv") == [own._replace(reference="</v>", rater="r")]


def test_esa_lines_and_issues_have_places_and_texts() -> None:
    first, second = map(json.loads, write_esa(SEGMENTS, "twmd").split("\n"))
    assert [list(span.values()) for span in first["esa_spans"]] == [
        [4, 7, "minor", None],
        [12, 15, "major", None],
        ["missing", "missing", "minor", None],
    ]
    assert [*first["esa_spans"][0]] == ["start_i", "end_i", "severity", "error_type"]
    assert (first["esa_score"], first["tgt"]) == (50.0, SEGMENTS[0].prediction)
    assert (second["esa_score"], second["esa_spans"]) == (None, [])
    written = json.loads(write_issues(SEGMENTS, "twmd"))
    first, second = written["segments"]
    assert [(issue["side"], issue["text"], issue["severity"]) for issue in first["issues"]] == [
        ("target", "cat", "Minor"),
        ("target", "o\nr", "Major"),
        ("reference", "a", "Minor"),
    ]
    assert (written["reviewer"], second["issues"], first["reference"]) == ("twmd", [], "a cat sat")
