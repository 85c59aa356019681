"""Which rows of a file can be scored, and why the others cannot."""

from __future__ import annotations

from typing import Any

import pytest

from twmd_registry.judgments.fields import Columns
from twmd_registry.scale.forms import RawRow
from twmd_registry.scale.rows import RowPlace, check_rows


def checked(values: dict[str, Any], columns: Columns = Columns()) -> list[str] | str:  # noqa: B008 (frozen)
    """The references of the only row, or why it is rejected."""
    found = check_rows([(RowPlace(6, "rows.jsonl", 2), RawRow(values, "", ""))], columns)
    return found.segments.references[0] if found.places else found.rejects[0].reason


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"reference": "b"}, ["b"]),
        ({"references": ["b", "c"]}, ["b", "c"]),
        ({"references": '["b", "c"]'}, ["b", "c"]),
        ({"reference": '["b", "c"]'}, ['["b", "c"]']),
        ({"reference": "b", "references": None}, ["b"]),
        ({"reference": "b", "references": ["c"]}, "both 'references' and 'reference' are there: keep one of them, or name the column to take"),
        ({"reference": "b", "references": ""}, "both 'references' and 'reference' are there: keep one of them, or name the column to take"),
        ({"reference": None, "references": None}, "references must be a text or a list of texts; got NoneType None"),
        ({"references": []}, "references is an empty list: every prediction needs at least one reference"),
        ({"refrence": "b"}, "no column 'references' or 'reference'; did you mean 'refrence'? Choices: prediction, refrence"),
    ],
)
def test_a_row_gives_its_references_or_a_reason_without_a_number(values: dict[str, Any], expected: list[str] | str) -> None:
    assert checked({"prediction": "a"} | values) == expected


def test_a_column_that_was_chosen_is_taken_whatever_else_is_there() -> None:
    values = {"prediction": "a", "reference": "b", "references": ["c"], "more": ""}
    assert checked(values, Columns(references=("reference",))) == ["b"]
    assert checked(values, Columns(references=("reference", "more", "references"))) == ["b", "c"]


def test_a_rejected_row_is_numbered_from_0_in_files_and_from_1_for_people() -> None:
    found = check_rows([(RowPlace(6, "rows.jsonl", 2), RawRow({"prediction": 3, "reference": "b"}, "", ""))], Columns())
    assert (
        found.rejects[0].as_line().startswith('{"row": 6, "file": "rows.jsonl", "row_in_file": 2, "reason": "predictions must be a text; got int 3"')
    )
    assert str(found.rejects[0]) == "row 7 (rows.jsonl, row 3 there): predictions must be a text; got int 3"
