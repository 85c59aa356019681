"""The layout of mt-metrics-eval: pairing, omissions, warnings and errors."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.judgments.test_readers import written
from twmd_registry.errors import FileError, SpecError, TwmdWarning
from twmd_registry.judgments.mt_metrics_eval import GROUPINGS, read_mt_metrics_eval

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")
SCORES = "A\t-1.5\nB\tNone\nrefA\t0\nA\t0\nB\t-5\nrefA\t0\n"
OUTPUTS = {"A": "a one\na two\n", "B": "b one\nb two\n"}


def wmt(folder: Path, scores: str, outputs: dict[str, str], pair: str = "zh-en", rating: str = "mqm") -> Path:
    written(folder, "ref one\nref two\n", f"references/{pair}.refA.txt")
    written(folder, scores, f"human-scores/{pair}.{rating}.seg.score")
    for system, text in outputs.items():
        written(folder, text, f"system-outputs/{pair}/{system}.txt")
    return folder


def test_lines_of_every_system_are_paired_with_its_scores(tmp_path: Path) -> None:
    with pytest.warns(TwmdWarning, match=r"mqm\.seg\.score: the reference, rated like a system, left out: refA\.$"):
        result = read_mt_metrics_eval(wmt(tmp_path, SCORES, OUTPUTS), pair="zh-en")
    assert result.group == ["zh-en"] * 3
    assert result.item == ["zh-en:1", "zh-en:2", "zh-en:2"]
    assert result.system == ["A", "A", "B"]
    assert result.predictions == ["a one", "a two", "b two"]
    assert result.references == ["ref one", "ref two", "ref two"]
    assert result.ratings.tolist() == [-1.5, 0.0, -5.0]
    assert result.dropped == 1


MISSING = "[No translation supplied]"


def test_missing_translations_are_missing_values(tmp_path: Path) -> None:
    folder = wmt(tmp_path, "A\t0\nA\t-1\nA\t-2\n", {"A": f"a one\n{MISSING}\na three\n"})
    written(folder, f"ref one\nref two\n{MISSING} \n", "references/zh-en.refA.txt")
    written(folder, f"{MISSING}\nzwei\ndrei\n", "sources/zh-en.txt")
    with pytest.warns(TwmdWarning, match=r"left out: 2 \(segment 2 of A, segment 3 of A\)"):
        rated = read_mt_metrics_eval(folder)
    assert (rated.predictions, rated.references, rated.source) == (["a one"], ["ref one"], [""])


def test_json_lines_have_the_same_texts_as_plain_lines(tmp_path: Path) -> None:
    scores = "A.1\t0\nA.1\t-1\nA.1\t-2\nrefB\t0\nrefB\t0\nrefB\t0\n"
    texts: dict[str, tuple[str, list[str | None]]] = {
        "sources/zh-en.jsonl": ("source", ["eins", None, "drei\nvier"]),
        "references/zh-en.refA.jsonl": ("target", ["one", "two", None]),
        "references/zh-en.refB.jsonl": ("target", ["1", "2", "3"]),
        "system-outputs/zh-en/A.1.jsonl": ("hypothesis", ["a\none", "a two", "a three"]),
    }
    written(tmp_path, scores, "human-scores/zh-en.mqm.seg.score")
    for name, (field, values) in texts.items():
        written(tmp_path, "".join(json.dumps({"doc": "x", field: value}) + "\n" for value in values), name)
    rated = read_mt_metrics_eval(tmp_path)
    assert (rated.predictions, rated.references) == (["a\none", "a two"], ["one", "two"])
    assert (rated.system, rated.source) == (["A.1", "A.1"], ["eins", ""])
    written(tmp_path, "a\nb\nc\n", "system-outputs/zh-en/A.1.txt")
    with pytest.raises(FileError, match=r"both A\.1\.jsonl and A\.1\.txt: keep one"):
        read_mt_metrics_eval(tmp_path)
    written(tmp_path, '{"target": "x"}\n' * 3, "system-outputs/zh-en/A.1.jsonl")
    (tmp_path / "system-outputs/zh-en/A.1.txt").unlink()
    with pytest.raises(FileError, match="no column 'hypothesis'"):
        read_mt_metrics_eval(tmp_path)


def test_only_rated_pairs_are_read(tmp_path: Path) -> None:
    wmt(tmp_path, "A\t0.5\nA\t-0.25\n", {"A": "one\ntwo\n"}, "cs-en", "wmt-z")
    wmt(tmp_path, "A\t60\nA\tNone\n", {"A": "eins\nzwei\n"}, "en-de", "wmt-z")
    wmt(tmp_path, "A\t0\nA\t0\n", {"A": "raz\ndva\n"}, "en-ru", "mqm.merged")
    with pytest.warns(TwmdWarning, match=r"wmt-z of cs-en, en-de: .* left out: 1 \(segment 2 of A\)"):
        result = read_mt_metrics_eval(tmp_path, rating="wmt-z")
    assert (result.group, result.ratings.tolist(), result.dropped) == (["cs-en", "cs-en", "en-de"], [0.5, -0.25, 60], 1)
    assert read_mt_metrics_eval(tmp_path, rating="mqm.merged").predictions == ["raz", "dva"]


def test_systems_without_output_or_ratings_are_named(tmp_path: Path) -> None:
    folder = wmt(tmp_path, "A\t0\nC\t-1\nA\t-2\nC\t-3\n", {**OUTPUTS, "refA": "ref one\nref two\n"})
    with pytest.warns(TwmdWarning) as caught:
        assert read_mt_metrics_eval(folder, pair="zh-en").system == ["A", "A"]
    assert [str(warning.message).partition("zh-en")[2] for warning in caught] == [
        ": no output of systems that zh-en.mqm.seg.score rates; left out: C.",
        ".mqm.seg.score: systems with output but without ratings, left out: B.",
    ]


@pytest.fixture
def translated(tmp_path: Path) -> Path:
    """Return a folder with a second, rated reference that lacks a segment."""
    folder = wmt(tmp_path, "A\t0\nA\t-1\nrefB\t-2\nrefB\t-3\n", {"A": "a one\na two\n", "refB": "b one\nb two\n"})
    written(folder, "b one\n\n", "references/zh-en.refB.txt")
    return folder


def test_another_reference_is_skipped_unless_requested(translated: Path) -> None:
    with pytest.warns(TwmdWarning, match=r"human translations, left out: refB \(humans=yes reads them\)"):
        assert read_mt_metrics_eval(translated).system == ["A", "A"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_mt_metrics_eval(translated, humans="yes").system == ["A", "A", "refB", "refB"]
    with pytest.warns(TwmdWarning, match="left out"):
        other = read_mt_metrics_eval(translated, reference="refB")
    assert (other.system, other.references, other.dropped) == (["A"], ["b one"], 1)  # a segment has no such reference


@pytest.mark.parametrize("reference", ["refA.refB", "all"])
def test_several_references_are_read(reference: str, translated: Path) -> None:
    rated = read_mt_metrics_eval(translated, reference=reference, humans="yes")
    assert (rated.system, rated.references) == (["A", "A"], [["ref one", "b one"], ["ref two"]])


def test_outliers_are_excluded_and_a_years_by_default(tmp_path: Path) -> None:
    outlier = "M2M100_1.2B-B4"
    scores, outputs = f"A\t0\nA\t-1\n{outlier}\t-9\n{outlier}\t-9\n", {**OUTPUTS, outlier: OUTPUTS["B"]}
    folder = wmt(tmp_path / "wmt22", scores, outputs, "en-de")
    with pytest.warns(TwmdWarning, match=r"outliers, left out: M2M100_1\.2B-B4 \(without=none reads them\)"):
        assert read_mt_metrics_eval(folder).system == ["A", "A"]
    with pytest.warns(TwmdWarning, match=r"without ratings, left out: B\.$"):
        assert set(read_mt_metrics_eval(folder, without="none").system or []) == {"A", outlier}
    assert read_mt_metrics_eval(folder, without="A").system == [outlier] * 2


def test_system_ratings_come_from_their_files(tmp_path: Path) -> None:
    folder = wmt(tmp_path, "A\t0\nA\tNone\nB\t-5\nB\t-1\n", OUTPUTS)
    written(folder, "news one\nchat two\n", "documents/zh-en.docs")
    assert read_mt_metrics_eval(folder).system_ratings is None
    for level, text in {
        "sys": "B\t-4\nA\t-2.5\nrefA\t0\n",
        "domain": "news\tA\t-1\nchat\tA\tNone\nnews B -2\nchat B -3\n",
        "doc": "B\t-6\nB\t-7\nA\t-8\nA\tNone\n",
    }.items():
        written(folder, text, f"human-scores/zh-en.mqm.{level}.score")
    by_group = {name: read_mt_metrics_eval(folder, group=name).system_ratings for name in GROUPINGS}
    assert by_group["pair"] == {("zh-en", "A"): -2.5, ("zh-en", "B"): -4}
    assert by_group["domain"] == {("zh-en news", "A"): -1, ("zh-en news", "B"): -2, ("zh-en chat", "B"): -3}
    assert by_group["document"] == {("zh-en one", "A"): -8, ("zh-en one", "B"): -6, ("zh-en two", "B"): -7}
    written(folder, "A\t-2.5\n", "human-scores/zh-en.mqm.sys.score")
    with pytest.warns(TwmdWarning, match=r"the mean of their segments' ratings is used: B of zh-en\.$"):
        assert read_mt_metrics_eval(folder).system_ratings == {("zh-en", "A"): -2.5}


@pytest.mark.parametrize(
    ("level", "text", "words"),
    [
        ("sys", "A\t0\nA\t1\n", r"mqm\.sys\.score has 2 scores of A; expected 1, one per system"),
        ("domain", "news A 0\nnews A 1\n", "has 2 scores of news A; expected 1, one per domain"),
        ("doc", "A\t0\nB\t0\nB\t0\n", r"doc\.score has 1 scores of A; expected 2, one per document"),
    ],
)
def test_damaged_system_ratings_are_refused(level: str, text: str, words: str, tmp_path: Path) -> None:
    folder = wmt(tmp_path, "A\t0\nA\t0\nB\t-5\nB\t-1\n", OUTPUTS)
    written(folder, "news one\nchat two\n", "documents/zh-en.docs")
    written(folder, text, f"human-scores/zh-en.mqm.{level}.score")
    group = {"sys": "pair", "doc": "document"}.get(level, level)
    with pytest.raises(FileError, match=words):
        read_mt_metrics_eval(folder, group=group)


def test_sources_are_aligned_with_segments(tmp_path: Path) -> None:
    folder = wmt(tmp_path, "B\tNone\nB\t-1\nA\t-2\nA\t-3\n", OUTPUTS | {"A": "a one\nref two\n"})
    written(folder, "eins\nb two\n", "sources/zh-en.txt")
    with pytest.warns(TwmdWarning, match=r"rating, a reference or a translation, left out: 1 \(segment 1 of B\)"):
        rated = read_mt_metrics_eval(folder)
    assert (rated.system, rated.source) == (["B", "A", "A"], ["b two", "eins", "b two"])


def test_segments_are_grouped_by_domain_on_request(tmp_path: Path) -> None:
    folder = wmt(tmp_path, "A\t0\nA\tNone\nB\t-5\nB\t-1\n", OUTPUTS)
    written(folder, "news one\nchat  two\n", "documents/zh-en.docs")
    result = read_mt_metrics_eval(folder, group="domain")
    assert (result.group, result.dropped) == (["zh-en news", "zh-en news", "zh-en chat"], 1)
    assert result.item == ["zh-en:1", "zh-en:1", "zh-en:2"]
    assert read_mt_metrics_eval(folder, group="document").group == ["zh-en one", "zh-en one", "zh-en two"]
    written(folder, "news one\nchat\n", "documents/zh-en.docs")
    with pytest.raises(FileError, match="row 2: .*'chat'"):
        read_mt_metrics_eval(folder, group="domain")


@pytest.mark.parametrize(
    ("asked", "scores", "words"),
    [
        ({"humans": "maybe"}, SCORES, "humans=maybe: expected yes or no"),
        ({"group": "domains"}, SCORES, "did you mean 'domain'"),
        ({"without": "b"}, SCORES, "without=b"),
        ({"rating": "mqn"}, SCORES, "zh-en.mqn.seg.score: No such .*'zh-en.mqm'. Choices: en-de.wmt-z"),
        ({"rating": "wmt", "pair": None}, SCORES, "PAIR.wmt.seg.score: No such .*'wmt-z'. Choices: wmt-z, mqm."),
        ({"reference": "ref"}, SCORES, "zh-en.ref.txt: No such .*'refA'. Choices: refA."),
        ({}, "A\t0\nC\t0\nC\t0\nC\t0\nA\t0\n", "has 3 scores of C; expected 2, one per segment"),
        ({}, "A\t0\nA\tbad\n", "row 2: expected a rating, a finite number, not 'bad'"),
        ({}, "A 0\nA\t0 1\n", r"row 2: .*'A\\t0 1'"),
        ({}, "A\tNone\nA\tNone\n", "mqm of zh-en contains no rated segment"),
    ],
)
def test_unreadable_ratings_are_refused(asked: dict[str, Any], scores: str, words: str, tmp_path: Path) -> None:
    wmt(tmp_path, "A\t0\nA\t0\n", OUTPUTS, "en-de", "wmt-z")
    with pytest.raises((FileError, SpecError), match=words):
        read_mt_metrics_eval(wmt(tmp_path, scores, OUTPUTS), **{"pair": "zh-en"} | asked)


def test_folder_without_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"system-outputs/zh-en contains no SYSTEM\.txt or SYSTEM\.jsonl: expected"):
        read_mt_metrics_eval(wmt(tmp_path, "A\t0\nA\t0\n", {}))


@pytest.mark.parametrize("reference", ["refA", "all"])
@pytest.mark.parametrize("place", ["references/*.refA", "sources/*", "system-outputs/*/A", "documents/*.docs"])
def test_file_of_wrong_length_is_named(place: str, reference: str, tmp_path: Path) -> None:
    folder, name = wmt(tmp_path, "A\t0\nA\t0\nB\t0\nB\t0\n", OUTPUTS), place.replace("*", "zh-en")
    written(folder, "eins\nzwei", "sources/zh-en.txt")
    written(folder, "news one\n", name if "docs" in name else f"{name}.txt")
    words = rf"{name}(\.txt)? has 1 lines; expected 2"
    with pytest.raises(FileError, match=words):
        read_mt_metrics_eval(folder, reference=reference, group="document" if "docs" in name else "pair")
