"""Readers of rated data and of users' tables: rows, dropped rows, counts and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.files.test_tables import content_of
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.judgments.corpora import read_mlqe, read_mrpc, read_qqp, read_sts, read_stsb, read_wmt
from twmd_registry.judgments.rated import RatedSegments, read_table
from twmd_registry.judgments.sets import read_rated

MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"


def written(folder: Path, text: str, name: str = "data.txt") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_mlqe_references_are_detokenised_by_the_rules_of_their_language(tmp_path: Path) -> None:
    rows = [
        ("ro-en", 'It didn \'t rain , " he said " .', 'It didn\'t rain, "he said".'),
        ("en-de", "Er sagte „ ja “ , zu 75 % .", "Er sagte „ja“, zu 75%."),
        ("en-zh", "\u4ed6   \u6765 \u4e86 \u3002", "\u4ed6\u6765\u4e86\u3002"),
    ]
    fixed = {"source": "s", "candidate": "text", "score": 0.5}
    lines = [json.dumps(fixed | {"lang": pair, "reference": reference}) for pair, reference, _ in rows]
    result = read_mlqe(written(tmp_path, "\n".join(lines)))
    assert result.references == [expected for *_, expected in rows]
    assert (result.group, result.ratings.tolist()) == (["ro-en", "en-de", "en-zh"], [0.5] * 3)
    assert result.source == ["s"] * 3
    assert read_mlqe(written(tmp_path, lines[0].replace('"source": "s", ', ""))).source is None


def test_pair_corpora_use_their_quoting_rules(tmp_path: Path) -> None:
    result = read_stsb(written(tmp_path, '"One, two.","She said ""no"".",2.5\nA heron.,A bird.,5\n'))
    assert (result.predictions, result.references) == (["One, two.", "A heron."], ['She said "no".', "A bird."])
    assert result.ratings.tolist() == [2.5, 5.0]
    assert result.dropped == 0
    result = read_mrpc(
        written(tmp_path, f'\ufeff{MRPC}\r\n1\t1\t2\t"Yes, he said.\tHe said "yes".\r\n0\t3\t4\tRain\tSnow\r\n')
    )
    assert (result.predictions, result.references) == (['"Yes, he said.', "Rain"], ['He said "yes".', "Snow"])
    assert result.ratings.tolist() == [1.0, 0.0]
    quoted = f'{QQP}\n"0"\t"1"\t"2"\t"What is\nrain?"\t"Say ""rain""?"\t"1"\n"1"\t"3"\t"4"\t""\t"Why?"\t"0"\n'
    plain = f'{QQP}\n0\t1\t2\tIs "rain\twet?\t1\n1\t3\t4\tonly this\n2\t5\t6\tWhy?\tHow?\t0\n'
    first, second = read_qqp(written(tmp_path, quoted, "a")), read_qqp(written(tmp_path, plain, "b"))
    assert (first.predictions, first.references, first.dropped) == (["What is\nrain?"], ['Say "rain"?'], 1)
    assert (second.predictions, second.references, second.dropped) == (['Is "rain', "Why?"], ["wet?", "How?"], 1)
    assert second.ratings.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("reader", "text", "words"),
    [
        (read_stsb, "a,b\n", "row 1: expected sentence1,sentence2,rating, without a header, not 2 fields"),
        (read_stsb, "a,b,1\na, ,2\n", "row 2: expected two sentences, and one is empty"),
        (read_stsb, "a,b,1\na,b,nan\n", "row 2: expected a rating, a number from 0 to 5, not 'nan'"),
        (read_stsb, 'a,"' + "b" * 200_000, "row 1: a cell has more than 131,072 characters"),
        (read_wmt, '{"lang": "x", "candidate": null, "reference": "b"}', "row 1: expected a text as candidate, not"),
        (read_wmt, '{"lang": "x", "candidate": "aa", "reference": "bb"}', "row 1: no column 'score'; choices: lang, "),
        (read_wmt, '\n{"lang": ', "row 2: expected a JSON object"),
        (read_stsb, "", "contains no rated segment"),
        (read_mrpc, "", "row 1: .*header"),
        (read_qqp, "id\tquestion\n", "row 1: .*header id, qid1"),
        (read_qqp, f"{QQP}\n0\t1\t2\ta\tb\tmaybe\n", "row 2: .*'maybe'"),
    ],
)
def test_unexpected_content_is_refused(
    reader: Callable[[Path], RatedSegments], text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(FileError, match=words):
        reader(written(tmp_path, text))


def year(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        kind, _, subset = name.partition("_")
        (folder / f"STS.{kind}.{subset}.txt").write_text(text, encoding="utf-8")
    return folder


def test_year_is_read_by_subset_without_unrated_segments(tmp_path: Path) -> None:
    birds = "A heron waits.\tA bird waits.\nA gull.\tA boat.\nOwls.\tOwls.\n"
    result = read_sts(
        year(tmp_path, input_news="It rained.\tIt rains.\n", gs_news="4.25\n", input_birds=birds, gs_birds="3.5\n\n5\n")
    )
    assert result.group == ["birds", "birds", "news"]
    assert result.predictions == ["A heron waits.", "Owls.", "It rained."]
    assert result.references == ["A bird waits.", "Owls.", "It rains."]
    assert result.ratings.tolist() == [3.5, 5.0, 4.25]
    assert (result.dropped, result.item, result.system) == (1, None, None)


@pytest.mark.filterwarnings("ignore:.*without a rating")
def test_subset_without_one_of_its_files_is_named_and_counted(tmp_path: Path) -> None:
    folder = year(tmp_path, input_a="One.\tTwo.\n", gs_a="1\n", gs_lost="1\n2\n")
    with pytest.warns(TwmdWarning, match=r"lost has no STS\.input\.lost\.txt; its 2 lines"):
        assert read_sts(folder).dropped == 2
    year(folder, input_unrated="Three.\tFour.\n").joinpath("STS.gs.lost.txt").unlink()
    with pytest.warns(TwmdWarning, match=r"unrated has no STS\.gs\.unrated\.txt; its 1 lines"):
        assert read_sts(folder).group == ["a"]


@pytest.mark.parametrize(
    ("sentences", "ratings", "words"),
    [
        ("One.\tTwo.\n", "1\n2\n", "STS.gs.a.txt has 2 lines"),
        ("One.\tTwo.\nThree.\n", "1\n2\n", "STS.input.a.txt, row 2: .*tab.*'Three.'"),
        ("One.\tTwo.\n", "5.1\n", "STS.gs.a.txt, row 1: expected a rating, a number from 0 to 5, not '5.1'"),
        ("One.\tTwo.\n", "\n", "contains no rated segment"),
    ],
)
def test_damaged_subset_is_refused(sentences: str, ratings: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        read_sts(year(tmp_path, input_a=sentences, gs_a=ratings))
    with pytest.raises(FileError, match=r"nowhere: expected STS.input.SUBSET.txt"):
        read_sts(tmp_path / "nowhere")


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


def test_items_belong_to_a_group_and_have_one_rating_per_system(tmp_path: Path) -> None:
    path = stored(tmp_path, ".jsonl", [*ROWS, ROWS[0] | {"mark": 1}])
    with pytest.raises(FileError, match="row 1 and row 4 both rate item 1 of system one: keep one of them"):
        read_table(path, **COLUMNS)
    unnamed = COLUMNS.keys() - {"system"}
    with pytest.warns(TwmdWarning, match="left out: 1"):
        assert len(read_table(path, **{role: COLUMNS[role] for role in unnamed}).ratings) == 3
    row = {"prediction": "One.", "reference": "Two.", "rating": 2, "group": "de-en", "item": "1"}
    other = row | {"group": "fi-en", "prediction": "Three."}
    path = stored(tmp_path, ".csv", [row, other])
    assert read_table(path).item == ["1", "1"]  # one reference: one item, with versions in two groups
    path = stored(tmp_path, ".csv", [row, other | {"reference": "Four."}])
    with pytest.warns(TwmdWarning, match="own.csv: item 1 of de-en and of fi-en have different references: items of"):
        assert read_table(path).item == ["de-en:1", "fi-en:1"]


def test_columns_have_usual_names_and_groups_and_lists_are_optional(tmp_path: Path) -> None:
    row: dict[str, Any] = {"prediction": "One.", "reference": "Two.", "rating": 2}
    result = read_table(stored(tmp_path, ".csv", [row]))
    assert (result.group, result.item, result.system, result.source) == (["own"], None, None, None)
    row |= {"group": "de-en", "item": "7", "system": "ours", "lang": "de", "source": "Eins."}
    result = read_table(stored(tmp_path, ".csv", [row]))
    assert (result.group, result.item, result.system, result.source) == (["de-en"], ["7"], ["ours"], ["Eins."])
    assert read_table(stored(tmp_path, ".csv", [row]), group="lang").group == ["de"]
    row = {"prediction": "One.", "reference": "1.", "rating": 2, "group": "x"}
    rows = [row, row | {"reference": ["2.", "Dos."]}, *[row | {"group": "y", "rating": None}] * 2]
    with pytest.warns(TwmdWarning, match=r"left out: 2 \(row 3, row 4\); nothing is left of y\."):
        result = read_table(stored(tmp_path, ".jsonl", rows))
    assert (result.group, result.references) == (["x", "x"], [["1."], ["2.", "Dos."]])


TABLE = "prediction,reference,rating\n"


def test_quotes_in_a_rated_tsv_are_literal_unless_requested(tmp_path: Path) -> None:
    path = written(tmp_path, 'prediction\treference\trating\n"One."\t"Two."\t3\r\n', "own.tsv")
    assert read_table(path).predictions == ['"One."']
    assert read_rated(f"table:{path},quoted=yes").predictions == ["One."]
    with pytest.raises(SpecError, match="quoted=maybe"):
        read_table(path, quoted="maybe")


@pytest.mark.parametrize("blank", ["", "NaN", "null", "None"])
def test_row_with_empty_rating_is_dropped(blank: str, tmp_path: Path) -> None:
    result = read_table(written(tmp_path, f"{TABLE}One.,Two.,{blank}\n\nThree.,Four.,0\n", "OWN.CSV"))
    assert (result.predictions, result.ratings.tolist(), result.dropped) == (["Three."], [0.0], 1)
    texts = {"prediction": "One.", "reference": "Two."}
    rows: list[dict[str, Any]] = [texts, texts | {"rating": float("nan")}, texts | {"rating": 1}]
    assert read_table(stored(tmp_path, ".jsonl", rows)).dropped == 2  # a row of JSON may lack its rating


@pytest.mark.parametrize("role", ["prediction", "system"])
def test_wrong_column_error_lists_the_columns(role: str, tmp_path: Path) -> None:
    words = f"no column '{COLUMNS[role]}x' .*{role}.* did you mean .*Choices: mt, ref, mark, lp, seg, sys"
    with pytest.raises(FileError, match=words):
        read_table(stored(tmp_path, ".csv", ROWS), **{**COLUMNS, role: f"{COLUMNS[role]}x"})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mt": None}, "row 2: expected a text as mt, not None"),
        ({"ref": []}, "row 2: an empty list of references"),
        ({"seg": float("nan")}, "row 2: expected a name as seg, not nan"),
        ({"mark": True}, "row 2, mark: expected a rating, a finite number, not True"),
    ],
)
def test_rated_row_with_a_wrong_value_is_refused(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        read_table(stored(tmp_path, ".jsonl", [ROWS[0], {**ROWS[2], **changed}]), **COLUMNS)
    with pytest.raises(FileError, match=r"'.xlsx'"):
        read_table(tmp_path / "own.xlsx")
