"""SacreBLEU's metrics with their options."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from tests.conftest import Run
from twmd_registry.comparison.lexical import canonical_lexical, lexical_of_signature
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.errors import SpecError, TwmdWarning

REFERENCES = ["我们今天去了公园", "他喜欢猫和狗", "The cat is on the mat."]
PREDICTIONS = ["我们今天去公园了", "他爱猫和狗", "the Cat sat on a mat"]
CASES: dict[str, Any] = {
    "bleu": BLEU(),
    "bleu;tok=zh": BLEU(tokenize="zh"),
    "bleu;tokenize=char;lc=yes;smooth=floor;smooth_value=0.5": BLEU(
        tokenize="char", lowercase=True, smooth_method="floor", smooth_value=0.5
    ),
    "chrf;nw=2;whitespace=yes": CHRF(word_order=2, whitespace=True),
    "chrf;char_order=4;eps_smoothing=yes;lowercase=yes": CHRF(char_order=4, eps_smoothing=True, lowercase=True),
    "ter;normalized=yes;asian=yes;case_sensitive=yes;no_punct=yes": TER(
        normalized=True, asian_support=True, case_sensitive=True, no_punct=True
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_options_equal_sacrebleus_and_can_be_read_from_its_signature(name: str) -> None:
    metric = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwmdWarning)
        (column,) = compare_systems([("a", PREDICTIONS)], [[text] for text in REFERENCES], [name]).columns
    assert column.cells[0].score == pytest.approx(metric.corpus_score(PREDICTIONS, [REFERENCES]).score, abs=1e-9)
    assert column.signature.partition("|")[2] == metric.get_signature().format()
    again = lexical_of_signature(column.signature)
    assert again is not None
    assert again.replace("0.50", "0.5") == canonical_lexical(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bleu;tok=xx", "ja-mecab"),
        ("chrf;char_order=0", "from 1 to 100"),
        ("bleu;foo=1", "no option 'foo'"),
        ("bleu;tok=zh;tokenize=13a", "twice"),
        ("bleu;lowercase=maybe", "yes or no"),
        ("bleu;smooth_value=1", "smooth=floor"),
        ("chrf;nw=x", "whole number"),
        ("ter;tok=zh", "no option 'tok'"),
    ],
)
def test_other_options_are_refused(name: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        canonical_lexical(name)


def test_bleu_of_unspaced_text_warns_and_names_tokenizers() -> None:
    chinese, english = [[text] for text in REFERENCES[:2]], [[text] for text in REFERENCES[2:]]
    with pytest.warns(TwmdWarning) as caught:
        compare_systems([("a", PREDICTIONS[:2])], chinese, ["bleu"])
    assert all(name in str(caught[0].message) for name in ("zh", "ja-mecab", "ko-mecab", "flores200"))
    for name in ("ter", "ter;asian=yes"):  # the second changes nothing without the first
        with pytest.warns(TwmdWarning, match="normalized=yes;asian_support=yes"):
            compare_systems([("a", PREDICTIONS[:2])], chinese, [name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_systems([("a", PREDICTIONS[:2])], chinese, ["bleu;tok=zh", "chrf", "ter;norm=yes;asian=yes"])
        compare_systems([("a", PREDICTIONS[2:])], english, ["bleu"])


def test_command_line_scores_tests_and_verifies_them(run: Run, folder: Path) -> None:
    for name, lines in (("ref", REFERENCES), ("a", PREDICTIONS), ("b", PREDICTIONS[::-1])):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = "--any-language --paired-bs --record record.json --format json"
    status, out, errors = run(f"score ref.txt -i a.txt b.txt -m bleu twmd {options}", "-m", "bleu;tok=zh")
    assert status == 0, errors
    names = [row["metric"] for row in json.loads(out)]
    assert names[:3] == ["BLEU", "twmd", "BLEU (tok=zh)"]
    status, out, _ = run("verify record.json ref.txt -i a.txt b.txt")
    assert (status, "6 of 6 results" in out) == (0, True), out


def test_signature_with_a_field_that_is_neither_yes_nor_no_is_not_sacrebleus() -> None:
    assert lexical_of_signature("chrF2|nrefs:1|case:mixed|eff:maybe|nc:6|nw:0|space:no|version:2.6.0") is None
