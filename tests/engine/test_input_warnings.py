"""Texts in scripts that a model does not read, and systems without a text."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.conftest import shared
from twmd_registry.cli import main
from twmd_registry.engine.input_warnings import LANGUAGE_WORDS, check_scripts, other_language
from twmd_registry.engine.pairs import Segments, make_pairs
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.registry.names import EMBEDDED_MODEL, MetricName
from twmd_registry.registry.presets import PACKAGED, presets

CYRILLIC, HAN = "\u041f\u0440\u0438\u0432\u0435\u0442", "\u732b\u5728\u7761\u89c9"
ENGLISH = ["The heron stood by the old weir all morning", "Nobody saw the boat leave the harbour at night"]


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("a\u00df\u00e9 12 \u20ac!", {"Latin": 3}),
        ("\u3072\u30ab\uff76\u30fc", {"Katakana": 2, "Hiragana": 1}),
        ("\uff21\u00b5\u00aa\u03b1", {"Latin": 2, "Greek": 1}),
        ("\uac00\u0e01\u0627\u05d0", {"Hangul": 1, "Thai": 1, "Arabic": 1, "Hebrew": 1}),
        ("1 .\u0301\u20ac\U0001f60d", {}),
    ],
)
def test_letters_are_counted_by_unicode_script(text: str, scripts: dict[str, int]) -> None:
    assert check_scripts((), make_pairs(Segments([text], [[text]])), (0,), strict=False) == {
        script: 2 * number for script, number in scripts.items()
    }


@pytest.mark.parametrize(
    ("metric", "presets"),
    [
        (MetricName.TWMD, "multilingual, multilingual-e5-small, multilingual-tuned"),
        (MetricName.STSSCORE, "multilingual"),
        (MetricName.ENSEMBLE, "multilingual"),
    ],
)
def test_text_in_another_script_is_refused_with_script_row_and_remedy(metric: MetricName, presets: str) -> None:
    texts = [*ENGLISH, HAN * 8]
    message = (
        r"1\d(?:\.\d)?% of the letters are in scripts that sentence-transformers/all-MiniLM-L6-v2 does not read, "
        r"mostly Han \(first: predictions\[2\]\); it was made for en: use a model that reads Han "
        rf"\(preset {presets}\), or score anyway with any_language=True"
    )
    with pytest.raises(InputError, match=message):
        twmd_registry.score(texts, [*ENGLISH, "A cat sleeps"], metric)


def test_share_of_a_tenth_is_scored_and_counted() -> None:
    latin = "abcdefghi" * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)  # of unknown tokens
        counts = twmd_registry.score([latin], [HAN[:2]]).counts
        assert (counts.foreign, counts.letters) == (2, {"Latin": 18, "Han": 2})
        with pytest.raises(InputError, match=r"14\.3% of the letters"):
            twmd_registry.score([latin], [HAN[:3]])


MANY = [*ENGLISH, *ENGLISH, *[HAN] * 95], [*ENGLISH, *ENGLISH, *[HAN[:2]] * 95]


@pytest.mark.parametrize(
    ("texts", "keys", "words"),
    [
        (MANY, {}, r"66\.1% of the letters .* mostly Han \(first: predictions\[4\]\)"),  # repeated rows count, too
        (([HAN, ENGLISH[0]], [HAN, CYRILLIC * 4]), {}, r"mostly Cyrillic \(first: references\[1\]\)"),
        (
            (ENGLISH, ENGLISH),
            {"sources": [HAN * 8, HAN], "against": "source"},
            r"\(preset multilingual-source, multilingual-source-tuned\), or score anyway",
        ),
    ],
)
def test_every_row_counts_for_the_guard_and_the_first_of_the_script_is_named(
    texts: tuple[list[str], list[str]], keys: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        twmd_registry.score(*texts, **keys)


def test_any_language_warns_and_scores_alike_in_every_interface(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import evaluate

    with pytest.warns(TwmdWarning, match=r"100% of the letters .*Cyrillic.*these scores are not reliable\."):
        ours = twmd_registry.score([CYRILLIC], [CYRILLIC[:3]], any_language=True)
    assert ours.as_dict()["letters_Cyrillic"] == ours.counts.foreign == 9
    with pytest.warns(TwmdWarning, match="these scores are not reliable"):
        theirs = evaluate.load("twmd", any_language=True).compute(predictions=[CYRILLIC], references=[CYRILLIC[:3]])
    assert theirs == ours.as_dict()
    hypothesis, reference = tmp_path / "hyp.txt", tmp_path / "ref.txt"
    hypothesis.write_text(CYRILLIC + "\n", encoding="utf-8")
    reference.write_text(CYRILLIC[:3] + "\n", encoding="utf-8")
    words = ["score", str(reference), "-i", str(hypothesis), "--format", "json"]
    assert main(words) == 1
    refused = capsys.readouterr().err
    assert "prediction of row 1" in refused
    assert "--any-language" in refused
    assert main([*words, "--any-language"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["score"] == pytest.approx(ours.score)
    assert printed["letters_Cyrillic"] == 9


def test_model_that_no_preset_describes_is_not_checked(bert: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        counts = twmd_registry.score([CYRILLIC], [CYRILLIC], model=bert, layer=1).counts
    assert (counts.foreign, counts.letters) == (0, {"Cyrillic": 12})


def test_packaged_preset_of_a_model_names_languages_and_scripts() -> None:
    silent = {
        preset.name
        for preset in presets().values()
        if preset.source == PACKAGED and preset.model and not (preset.languages and preset.scripts)
    }
    assert silent == set()
    assert {preset.strict for preset in presets().values() if preset.model == EMBEDDED_MODEL} == {True}


@pytest.mark.parametrize("text", ["", " \u3000", "\ufeff", "\u200f\u00ad", "\u2060\ufe0f"])
def test_text_of_invisible_characters_is_empty(text: str, tiny_encoder: Any) -> None:
    scorer = twmd_registry.load("twmd", model=str(tiny_encoder("xlm-roberta")), centering="none")
    scores = scorer.score([text, text], ["x", ""])
    assert scores.scores == [0, 1]
    assert scores.counts.empty == 3


GOOD = "The ferry leaves at noon"


def test_system_without_text_is_named() -> None:
    with pytest.warns(TwmdWarning, match="all 2 predictions are empty"):
        twmd_registry.score(["", " "], [GOOD, GOOD])


def test_command_line_names_the_system_of_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"a": GOOD, "b": "\u2603 \u2603 \u2603"}
    for name, prediction in rows.items():
        text = f'{{"prediction": "{prediction}", "reference": "{GOOD}"}}\n'
        (tmp_path / f"{name}.jsonl").write_text(text)
    assert main(["score", "-i", *(str(tmp_path / f"{name}.jsonl") for name in rows)]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "b.jsonl: distinct texts" in shown
    assert "(prediction of row 1)" in shown
    assert "a.jsonl:" not in shown


NAMES = "Ag\u00fcero, Sterling, De Bruyne, Fernandinho, Otamendi, Kompany, Sagna"


@pytest.mark.parametrize(
    ("predictions", "warned"),
    [
        (["Der Hund schl\u00e4ft im Garten"], True),  # five words
        (["Der Hund schl\u00e4ft"], False),  # too few to tell
        (["Der Zug nach Hamburg hat heute Versp\u00e4tung"] * 3 + ["Es regnet seit heute fr\u00fch wieder"] * 2, True),
        (["The train to Hamburg is late today", NAMES, *(f"The {i} dogs ran to the house" for i in range(98))], False),
        (["Le chat dort", "Il pleut", "Une maison", "Le train part"] * 10, False),
        (["Lucius Cornelius L. f. L. n. Lentulus, consul in 199 BC."], False),  # names
        (["The best is kaatumiskuvayhdistelm\u00e4 of the Munich Olympics"], False),  # one word left untranslated
        ([f"{word} {i}" for i, word in enumerate(["der Hund", "die Katze", "das Haus", "ein Garten"] * 10)], True),
    ],
)
def test_text_in_another_language_of_the_script_causes_a_warning(predictions: list[str], *, warned: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        twmd_registry.score(predictions, predictions)
    assert any("look like other languages" in str(one.message) for one in caught) is warned


def test_english_is_rarely_taken_for_another_language() -> None:
    path = shared("data/stsb/dev.csv")
    with path.open(encoding="utf-8") as file:
        texts = [text for row in csv.reader(file) for text in row[:2] if len(text.split()) >= LANGUAGE_WORDS]
    assert sum(map(bool, map(other_language, texts[::3]))) <= 0.005 * len(texts[::3])
