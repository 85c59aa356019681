"""A user's own table, in every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.judgments.test_reader import content_of
from tests.judgments.test_readers import written
from twmd_registry.errors import FileError, TwmdWarning
from twmd_registry.judgments.rated import read_table

ROWS: list[dict[str, Any]] = [
    {"mt": "The heron waits.", "ref": 'A heron, "grey".', "mark": 3.25, "lp": "de-en", "seg": 1, "sys": "one"},
    {"mt": "The heron\nwaited.", "ref": 'A heron, "grey".', "mark": None, "lp": "de-en", "seg": 1, "sys": "two"},
    {"mt": "No\u2028bread.", "ref": "Bread is gone.", "mark": -1e-3, "lp": "fi-en", "seg": 2, "sys": "one"},
]
COLUMNS = {"prediction": "mt", "reference": "ref", "rating": "mark", "group": "lp", "item": "seg", "system": "sys"}


def stored(folder: Path, suffix: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"own{suffix}"
    path.write_bytes(content_of(suffix, rows))
    return path


def test_rows_of_one_system_and_item_are_refused(tmp_path: Path) -> None:
    path = stored(tmp_path, ".jsonl", [*ROWS, ROWS[0] | {"mark": 1}])
    with pytest.raises(FileError, match="row 1 and row 4 both rate item 1 of system one: keep one of them"):
        read_table(path, **COLUMNS)
    unnamed = COLUMNS.keys() - {"system"}
    with pytest.warns(TwmdWarning, match="left out: 1"):
        assert len(read_table(path, **{role: COLUMNS[role] for role in unnamed}).ratings) == 3


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_every_form_reads_the_same(suffix: str, tmp_path: Path) -> None:
    result = read_table(stored(tmp_path, suffix, ROWS), **COLUMNS)
    assert result.predictions == ["The heron waits.", "No\u2028bread."]
    assert result.references == ['A heron, "grey".', "Bread is gone."]
    assert result.ratings.tolist() == [3.25, -1e-3]
    assert (result.group, result.item, result.system) == (["de-en", "fi-en"], ["1", "2"], ["one", "one"])
    assert result.dropped == 1


def test_columns_have_usual_names_and_groups_are_optional(tmp_path: Path) -> None:
    suffix = ".csv"
    result = read_table(stored(tmp_path, suffix, [{"prediction": "One.", "reference": "Two.", "rating": 2}]))
    assert (result.group, result.item, result.system) == (["own"], None, None)
    assert result.ratings.tolist() == [2.0]
    row = {"prediction": "One.", "reference": "Two.", "rating": 2}
    row |= {"group": "de-en", "item": "7", "system": "ours", "lang": "de"}
    result = read_table(stored(tmp_path, suffix, [row]))
    assert (result.group, result.item, result.system) == (["de-en"], ["7"], ["ours"])
    assert read_table(stored(tmp_path, suffix, [row]), group="lang").group == ["de"]


def test_group_without_a_rated_row_is_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"prediction": "One.", "reference": "Two.", "rating": rating, "group": group}
        for group, rating in zip("xyy", (1, None, None), strict=True)
    ]
    with pytest.warns(TwmdWarning, match=r"left out: 2 \(row 2, row 3\); nothing is left of y \(2 rows\)"):
        assert read_table(stored(tmp_path, ".jsonl", rows)).group == ["x"]


def test_items_numbered_anew_in_every_group_are_different_items(tmp_path: Path) -> None:
    row = {"prediction": "One.", "reference": "Two.", "rating": 2, "group": "de-en", "item": "1"}
    other = row | {"group": "fi-en", "prediction": "Three."}
    path = stored(tmp_path, ".csv", [row, other])
    assert read_table(path).item == ["1", "1"]  # one reference: one item, with versions in two groups
    path = stored(tmp_path, ".csv", [row, other | {"reference": "Four."}])
    with pytest.warns(TwmdWarning, match="own.csv: item 1 of de-en and of fi-en have different references: items of"):
        assert read_table(path).item == ["de-en:1", "fi-en:1"]


def test_one_list_of_references_makes_all_of_them_lists(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"prediction": "One.", "reference": "1.", "rating": 2}]
    rows += [{"prediction": "Two.", "reference": ["2.", "Dos."], "rating": 1}]
    assert read_table(stored(tmp_path, ".jsonl", rows)).references == [["1."], ["2.", "Dos."]]


def text(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ("prediction,reference,rating", *lines))


@pytest.mark.parametrize("blank", ["", "NaN", "null", "None"])
def test_row_with_an_empty_rating_is_dropped(blank: str, tmp_path: Path) -> None:
    result = read_table(written(tmp_path, text(f"One.,Two.,{blank}", "", "Three.,Four.,0"), "OWN.CSV"))
    assert (result.predictions, result.ratings.tolist(), result.dropped) == (["Three."], [0.0], 1)
    texts = {"prediction": "One.", "reference": "Two."}
    rows: list[dict[str, Any]] = [texts, texts | {"rating": float("nan")}, texts | {"rating": 1}]
    assert read_table(stored(tmp_path, ".jsonl", rows)).dropped == 2  # a row of JSON may lack its rating


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            text("One.,Two.,high"),
            "own.csv, row 2 (row 1 is the header), rating: expected a rating, a finite number, not",
        ),
        (
            text('"One." she said.,Two.,1'),
            "row 2 (row 1 is the header): ',' expected after '\"'; is a quote not closed?",
        ),
        (text(), "holds no rated segment"),
    ],
)
def test_damaged_table_is_refused_with_its_row(content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        read_table(written(tmp_path, content, "own.csv"))
    assert words in str(caught.value)


def test_row_with_both_usual_columns_of_references_is_refused_unless_one_is_chosen(tmp_path: Path) -> None:
    row: dict[str, Any] = {"prediction": "One.", "reference": "1.", "rating": 2}
    path = stored(tmp_path, ".jsonl", [row, row | {"references": ["Uno."]}])
    with pytest.raises(FileError, match="own.jsonl, row 2: both 'references' and 'reference' are there: keep one of"):
        read_table(path)
    assert read_table(path, reference="reference").references == ["1.", "1."]
    path = stored(tmp_path, ".jsonl", [{"prediction": "One.", "references": ["1.", "Uno."], "rating": 2}])
    assert read_table(path).references == [["1.", "Uno."]]


@pytest.mark.parametrize("role", ["prediction", "rating", "system"])
def test_error_of_a_wrong_column_lists_the_columns(role: str, tmp_path: Path) -> None:
    wrong = {**COLUMNS, role: f"{COLUMNS[role]}x"}
    with pytest.raises(FileError) as caught:
        read_table(stored(tmp_path, ".csv", ROWS), **wrong)
    assert f"no column '{COLUMNS[role]}x' to take the {role} from; " in str(caught.value)
    assert str(caught.value).endswith("Choices: mt, ref, mark, lp, seg, sys.")
    assert len(COLUMNS[role]) < 3 or f"did you mean '{COLUMNS[role]}'?" in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mt": None}, "row 2: expected a text as mt, not None"),
        ({"ref": []}, r"row 2: expected a text or a list of texts as ref, not \[\]"),
        ({"seg": float("nan")}, "row 2: expected a name as seg, not nan"),
        ({"mark": True}, "row 2, mark: expected a rating, a finite number, not True"),
    ],
)
def test_rated_row_with_a_wrong_value_is_refused(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        read_table(stored(tmp_path, ".jsonl", [ROWS[0], {**ROWS[2], **changed}]), **COLUMNS)
    with pytest.raises(FileError, match=r"the suffix of a table is one of .csv, .tsv, .jsonl, .*, not '.xlsx'"):
        read_table(tmp_path / "own.xlsx")
