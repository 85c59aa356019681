"""Predictions that may score high by accident, and text that an English model splits: counted and named."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.engine.input_warnings import repeats_itself
from twmd_registry.errors import InputError, TwmdWarning

CYRILLIC = "\u041f\u0440\u0438\u0432\u0435\u0442"
GOOD = "The ferry leaves at noon"


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("the bell rang and rang and rang and rang and rang and rang", True),
        ("rain " * 10, True),
        ("\u96e8\u304c\u964d\u308b\u3002" * 4, True),
        ("ha" * 6, True),
        ("no no no no", False),  # too short to matter
        ("wir gehen wir gehen wir gehen wir gehen", True),  # no space follows the last
        ("1000000000000000", False),
        ("We rowed north, then we rowed east, then we rowed home for tea and toast", False),
        ("Chapter 1 ................................ 5", False),
        ("She said no, no, no, no, and walked along the pier until the lamps went out", False),
        ("", False),
    ],
)
def test_text_of_one_repeated_string_is_recognised(text: str, repeats: bool) -> None:
    assert repeats_itself(text) is repeats


def test_odd_predictions_are_counted_and_named_once_with_their_rows() -> None:
    source = "Die F\u00e4hre legt mittags ab"
    predictions = [GOOD, "the ferry the ferry the ferry the ferry the ferry", f" {source} ", f"{CYRILLIC} A", source]
    references = [[GOOD], [GOOD], [GOOD, "The ferry departs at noon"], [GOOD], [source]]
    scorers = [twmd_registry.scorer("twmd", any_language=True), twmd_registry.scorer("stsscore", any_language=True)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = twmd_registry.score_all(scorers, predictions, references, sources=[source] * 5)
    for counts in (scores[0].counts, scores[1].counts):
        assert (counts.copied, counts.other_script, counts.repetitive) == (1, 1, 1)
    named = [str(warning.message) for warning in caught if "by accident" in str(warning.message)]
    kinds = [
        ("that equal their source and no reference", 2),
        ("that are in another script than their references", 3),
        ("that repeat one string for most of their length", 1),
    ]
    expected = "predictions {}: 1 of 5 (predictions[{}]). Their scores may be high by accident."
    assert named == [expected.format(*kind) for kind in kinds]


def test_loan_words_in_another_script_are_no_sign_of_a_wrong_language() -> None:
    mixed, plain = f"{CYRILLIC} Newton, Kepler", f"{CYRILLIC} A"
    scorer = twmd_registry.scorer("twmd", any_language=True)
    assert scorer.score([mixed, GOOD], [CYRILLIC] * 2).counts.other_script == 1
    assert scorer.score([plain], [GOOD]).counts.other_script == 1


def test_scripts_of_japanese_are_one() -> None:
    scorer = twmd_registry.scorer("twmd", any_language=True)
    assert scorer.score(["\u4eca\u65e5\u306f"], ["\u3053\u3093\u306b\u3061\u306f"]).counts.other_script == 0


def test_repetition_that_the_reference_has_is_not_counted() -> None:
    song = "row, row, row, row, row, row your boat"
    assert twmd_registry.score([song], [song.title()]).counts.repetitive == 0


def test_system_without_text_is_named() -> None:
    with pytest.warns(TwmdWarning, match="all 2 predictions are empty"):
        twmd_registry.score(["", " "], [GOOD, GOOD])


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("text", "sources must be a list of texts, one per segment; got"),
        ([GOOD, 1], r"sources\[1\] must be a text"),
        ([GOOD], "there are 1 sources for 2 segments"),
    ],
)
def test_wrong_sources_are_refused(sources: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        twmd_registry.score_all([twmd_registry.scorer("twmd")], [GOOD] * 2, [GOOD] * 2, sources=sources)  # type: ignore[arg-type]


def test_command_line_names_the_system_of_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"a": GOOD, "b": "Die Barke"}
    for name, prediction in rows.items():
        text = f'{{"prediction": "{prediction}", "reference": "{GOOD}", "source": "Die Barke"}}\n'
        (tmp_path / f"{name}.jsonl").write_text(text)
    assert main(["score", "-i", *(str(tmp_path / f"{name}.jsonl") for name in rows)]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "b.jsonl: predictions that equal their source and no reference: 1 of 1 (prediction of row 1)" in shown
    assert "a.jsonl:" not in shown


def test_german_given_to_the_english_model_causes_a_warning_from_30_texts_on() -> None:
    nouns = "Fischer B\u00e4uerin Zeichner Schaffnerin G\u00e4rtner Lehrling Schreinerin Schornsteinfeger".split()
    verbs = "betrachtet verschenkt verschiebt bew\u00e4ssert".split()
    german = [f"Der freundliche {noun} {verb} die verwitterten Gartenst\u00fchle" for noun in nouns for verb in verbs]
    workers, works = "fisher farmer painter guard student pilot sailor baker".split(), "moves sells paints sees".split()
    english = [f"The friendly {worker} {work} the old garden chairs" for worker in workers for work in works]
    assert len(english) == len(german) == 32
    with pytest.warns(TwmdWarning, match=r"\d\d% of the tokens are unknown or continue a word .*\(en\)"):
        twmd_registry.score(german, german)
    for texts in (german[:29], english):
        with warnings.catch_warnings():
            warnings.simplefilter("error", TwmdWarning)
            twmd_registry.score(texts, texts)


def test_english_texts_cause_no_warning_in_a_process_that_has_encoded_nothing() -> None:
    demo = Path(twmd_registry.__file__).parent / "data" / "demo" / "system_a.jsonl"
    command = [sys.executable, "-m", "twmd_registry.cli", "score", "-i", str(demo)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
