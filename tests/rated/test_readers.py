"""Readers of rated data: what they read, drop, count and refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import shared
from twmd_registry.errors import FileError
from twmd_registry.rated.mqm import read_mqm
from twmd_registry.rated.paraphrases import read_mrpc, read_qqp
from twmd_registry.rated.rows import Rated, read_lines
from twmd_registry.rated.stsb import read_stsb
from twmd_registry.rated.wmt import read_wmt

MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"


def written(folder: Path, text: str, name: str = "data.txt") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path, "\ufeffone\r\ntwo\u2028still two\x0b\nlast")) == ["one", "two\u2028still two\x0b", "last"]
    assert read_lines(written(tmp_path, "one\n\n")) == ["one", ""]


def test_stsb_rows_are_csv(tmp_path: Path) -> None:
    found = read_stsb(written(tmp_path, '"One, two.","She said ""no"".",2.5\nA heron.,A bird.,5\n'))
    assert (found.predictions, found.references) == (["One, two.", "A heron."], ['She said "no".', "A bird."])
    assert found.ratings.tolist() == [2.5, 5.0]
    assert found.dropped == 0


def test_quotes_are_letters_in_mrpc(tmp_path: Path) -> None:
    found = read_mrpc(written(tmp_path, f'\ufeff{MRPC}\r\n1\t1\t2\t"Yes, he said.\tHe said "yes".\r\n0\t3\t4\tRain\tSnow\r\n'))
    assert (found.predictions, found.references) == (['"Yes, he said.', "Rain"], ['He said "yes".', "Snow"])
    assert found.ratings.tolist() == [1.0, 0.0]


def test_qqp_is_read_with_and_without_quotes(tmp_path: Path) -> None:
    quoted = f'{QQP}\n"0"\t"1"\t"2"\t"What is\nrain?"\t"Say ""rain""?"\t"1"\n"1"\t"3"\t"4"\t""\t"Why?"\t"0"\n'
    plain = f'{QQP}\n0\t1\t2\tIs "rain\twet?\t1\n1\t3\t4\tonly this\n2\t5\t6\tWhy?\tHow?\t0\n'
    first, second = read_qqp(written(tmp_path, quoted, "a")), read_qqp(written(tmp_path, plain, "b"))
    assert (first.predictions, first.references, first.dropped) == (["What is\nrain?"], ['Say "rain"?'], 1)
    assert (second.predictions, second.references, second.dropped) == (['Is "rain', "Why?"], ["wet?", "How?"], 1)
    assert second.ratings.tolist() == [1.0, 0.0]


def mqm(folder: Path, scores: str, outputs: dict[str, str]) -> Path:
    written(folder, "ref one\nref two\n", "references/zh-en.refA.txt")
    written(folder, scores, "human-scores/zh-en.mqm.seg.score")
    for system, text in outputs.items():
        written(folder, text, f"system-outputs/zh-en/{system}.txt")
    return folder


def test_mqm_pairs_every_systems_lines_with_its_scores(tmp_path: Path) -> None:
    scores = "A\t-1.5\nB\tNone\nrefA\t0\nA\t0\nB\t-5\nrefA\t0\n"
    found = read_mqm(mqm(tmp_path, scores, {"A": "a one\na two\n", "B": "b one\nb two\n"}))
    assert found.group == ["A", "A", "B"]
    assert found.predictions == ["a one", "a two", "b two"]
    assert found.references == ["ref one", "ref two", "ref two"]
    assert found.ratings.tolist() == [-1.5, 0.0, -5.0]
    assert found.dropped == 1


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ("A\t0\n", "A has 1 ratings and 2 lines of output; there are 2 references"),
        ("A\t0\nA\tbad\n", "segment 2 of A: expected a number or None, not 'bad'"),
        ("A\t0\nA\tnan\n", "segment 2 of A: expected a number or None, not 'nan'"),
        ("A 0\nA\t0\n", "line 1: expected SYSTEM<TAB>SCORE, got 'A 0'"),
        ("C\t0\nC\t0\n", "C.txt: No such file or directory"),
        ("A\tNone\nA\tNone\n", "holds no rated segment"),
    ],
)
def test_a_damaged_mqm_folder_is_refused(scores: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        read_mqm(mqm(tmp_path, scores, {"A": "a one\na two\n"}))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("reader", "text", "words"),
    [
        (read_stsb, "a,b\n", "row 1: expected rows of sentence1,sentence2,rating"),
        (read_stsb, "a,b,1,2\n", "row 1: expected rows"),
        (read_stsb, "a,b,1\na,b,c\n", "row 2: expected rows"),
        (read_stsb, "a,b,6\n", "row 1: expected a rating from 0 to 5, not 6"),
        (read_stsb, "a,b,nan\n", "row 1: expected a rating from 0 to 5, not nan"),
        (read_stsb, 'a,"' + "b" * 200_000, "line 1: field larger than field limit .* is a quote not closed"),
        (read_wmt, '{"lang": "x", "candidate": null, "reference": "b", "score": 1}', "line 1: expected candidate and reference as texts"),
        (read_wmt, '{"lang": "x", "candidate": "aa", "reference": "bb", "score": NaN}', "line 1: .* a finite score"),
        (read_stsb, "", "holds no rated segment"),
        (read_mrpc, "", "line 1: expected the header Quality, #1 ID, .* between tabs; got nothing"),
        (read_mrpc, "a\tb\n", "got a, b"),
        (
            read_mrpc,
            f"{MRPC}\n1\t1\t2\tonly one\n",
            "line 2: expected Quality, #1 ID, #2 ID, #1 String, #2 String between tabs, the first of them 0 or 1",
        ),
        (read_mrpc, f"{MRPC}\n2\t1\t2\ta\tb\n", "line 2: expected"),
        (read_mrpc, f"{MRPC}\n", "holds no rated segment"),
        (read_qqp, "id\tquestion\n", "line 1: expected the header id, qid1"),
        (read_qqp, f"{QQP}\n0\t1\t2\ta\tb\tmaybe\n", "row 2: is_duplicate is 0 or 1, not 'maybe'"),
    ],
)
def test_another_form_is_refused_with_its_place(reader: Callable[[Path], Rated], text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=words):
        reader(written(tmp_path, text))


@pytest.mark.parametrize("reader", [read_stsb, read_mrpc, read_qqp, read_mqm])
def test_a_missing_file_is_named(reader: Callable[[Path], Rated], tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file or directory"):
        reader(tmp_path / "nowhere")


def test_the_public_data_read_as_described() -> None:
    sizes = {name: len(read_stsb(shared(f"data/stsb/{name}.csv")).ratings) for name in ("train", "dev")}
    assert sizes == {"train": 5749, "dev": 1500}
    train = read_mrpc(shared("data/mrpc/msr_paraphrase_train.txt"))
    assert len(train.ratings) == 4076
    assert np.mean(train.ratings) == pytest.approx(0.675, abs=0.001)
