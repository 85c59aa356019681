"""Lists of stop words: how they are read, named, found and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.encode.words import STOP_WORDS, canonical, find_stop_words
from twmd_registry.errors import ModelError, TwmdWarning
from twmd_registry.models.fitted import hash_of


def written(folder: Path, content: str | bytes, name: str = "words.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_list_has_one_word_per_line(tmp_path: Path) -> None:
    found, other = (find_stop_words(str(written(tmp_path, text))) for text in ("the\nof\nétait\n", "the\nof\nétai\n"))
    assert found.content == {"the", "of", "était"}
    assert found.hash == hash_of(canonical(found.content)) != other.hash


@pytest.mark.parametrize(
    "content",
    [
        "of\nthe\nand\n",
        "THE\nAnd\nof",
        "\n\nthe\n  \nof\n\nand\n\n",
        "the\r\nof\r\nand\r\n",
        " the \n\tof\nand\nof\nThe\n",
    ],
)
def test_order_case_repetition_and_empty_lines_do_not_change_its_hash(tmp_path: Path, content: str) -> None:
    assert find_stop_words(str(written(tmp_path, content))) == find_stop_words(
        str(written(tmp_path, "and\nof\nthe\n", "other.txt"))
    )


def test_list_is_kept_sorted_one_word_per_line() -> None:
    assert (
        canonical(frozenset({"the", "of", "été", "and", "weir", "at", "by", "to"}))
        == "and\nat\nby\nof\nthe\nto\nweir\nété\n".encode()
    )


def test_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    assert find_stop_words(str(written(tmp_path, b"\xef\xbb\xbfthe\nof\n"))).content == {"the", "of"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("the\nof the\n", "words.txt, line 2: expected one word per line"),
        ("in spite of\n", "words.txt, line 1: expected one word per line"),
        ("\n\nthe\n\nas well\n", "words.txt, line 5: expected one word per line"),
        ("était\n".encode("latin-1"), "words.txt cannot be read as UTF-8"),
        ("", "there is no word in it"),
        ("\n \n", "there is no word in it"),
    ],
)
def test_list_that_cannot_be_read_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        find_stop_words(str(written(tmp_path, content)))


def test_list_at_home_may_be_written_in_any_order_and_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWMD_HOME", str(tmp_path))
    digest = find_stop_words(str(written(tmp_path, "The\nOf\n"))).hash
    (tmp_path / "stopwords").mkdir()
    written(tmp_path / "stopwords", "The\nOf\n", STOP_WORDS.name(digest))
    assert find_stop_words(digest).content == {"the", "of"}


@pytest.mark.parametrize("metric", ["moverscore", "twmd", "trwmd", "bertscore_centered", "wordset_cka", "sbert"])
def test_sentence_of_stop_words_scores_one_with_itself_and_nothing_with_others(tmp_path: Path, metric: str) -> None:
    path = written(tmp_path, "over\nand\nout\nof\n")
    one = twmd_registry.scorer(metric, stopwords=path, special="none")
    with pytest.warns(
        TwmdWarning, match=r"nothing is left to compare .*: 2; each scores 1 against itself and 0 against any other"
    ) as caught:
        found = one.score(
            ["over and out", "over and out", "over and out", "the heron"],
            ["over and out", "the heron", "out of", "the heron"],
        )
    assert len([each for each in caught if "nothing is left to compare" in str(each.message)]) == 1
    assert found.scores == pytest.approx((1.0, 0.0, 0.0, 1.0), abs=1e-6)
    assert found.counts.empty == 0
