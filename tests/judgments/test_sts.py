"""The reader of a year of STS."""

from __future__ import annotations

from pathlib import Path

import pytest

from twmd_registry.errors import FileError, TwmdWarning
from twmd_registry.judgments.sentence_pairs import read_sts


def year(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        kind, _, subset = name.partition("_")
        (folder / f"STS.{kind}.{subset}.txt").write_text(text, encoding="utf-8")
    return folder


def test_year_is_read_by_subset_without_the_unrated(tmp_path: Path) -> None:
    birds = "A heron waits.\tA bird waits.\nA gull.\tA boat.\nOwls.\tOwls.\n"
    result = read_sts(
        year(tmp_path, input_news="It rained.\tIt rains.\n", gs_news="4.25\n", input_birds=birds, gs_birds="3.5\n\n5\n")
    )
    assert result.group == ["birds", "birds", "news"]
    assert result.predictions == ["A heron waits.", "Owls.", "It rained."]
    assert result.references == ["A bird waits.", "Owls.", "It rains."]
    assert result.ratings.tolist() == [3.5, 5.0, 4.25]
    assert (result.dropped, result.item, result.system) == (1, None, None)


def test_subset_without_one_of_its_files_is_named_and_counted(tmp_path: Path) -> None:
    folder = year(tmp_path, input_a="One.\tTwo.\n", gs_a="1\n", gs_lost="1\n2\n", input_unrated="Three.\tFour.\n")
    with pytest.warns(TwmdWarning) as caught:
        result = read_sts(folder)
    assert "lost has no STS.input.lost.txt; left out with its 2 lines." in str(caught[0].message)
    assert "unrated has no STS.gs.unrated.txt; left out with its 1 lines." in str(caught[1].message)
    assert (result.group, result.dropped) == (["a"], 3)


@pytest.mark.parametrize(
    ("sentences", "ratings", "words"),
    [
        ("One.\tTwo.\n", "1\n2\n", "STS.gs.a.txt has 2 lines, and STS.input.a.txt 1; expected as many"),
        (
            "One.\tTwo.\nThree.\n",
            "1\n2\n",
            "STS.input.a.txt, row 2: expected two sentences with a tab .*, got 'Three.'",
        ),
        ("One.\tTwo.\n", "5.1\n", "STS.gs.a.txt, row 1: expected a rating, a number from 0 to 5, not '5.1'"),
        ("One.\tTwo.\n", "\n", "holds no rated segment"),
    ],
)
def test_damaged_subset_is_refused(sentences: str, ratings: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        read_sts(year(tmp_path, input_a=sentences, gs_a=ratings))


def test_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"holds no STS.input.SUBSET.txt; expected the folder of a year of STS"):
        read_sts(tmp_path / "nowhere")
