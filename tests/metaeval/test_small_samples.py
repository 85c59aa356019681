"""Warnings about tests on few segments, and errors for one segment, in every interface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

import twmd_registry
from tests.conftest import Run
from twmd_registry.comparison.cells import Resampling
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.engine.input_warnings import RELIABLE_SAMPLE
from twmd_registry.errors import InputError, TwmdWarning
from twmd_registry.judgments.rated import RatedSegments
from twmd_registry.metaeval.agreement import agreement, permutation
from twmd_registry.plugins.sacrebleu import SBERT

NOUNS, VERBS = ("heron", "tram", "baker", "dog", "train", "sister"), ("waited", "sang", "left", "ran", "stood", "slept")
TEXTS = [f"The {noun} {verb}." for noun in NOUNS for verb in VERBS]
OTHERS = [f"A {noun} {verb} again." for noun in NOUNS for verb in reversed(VERBS)]
WARNING = "tests, intervals and standard errors of fewer than 30 segments, items or systems are not reliable"
REFUSAL = "a significance test or an interval needs 2 segments or more, got 1"


def rated(n: int, **changes: object) -> RatedSegments:
    made = RatedSegments(["x"] * n, OTHERS[:n], TEXTS[:n], np.random.default_rng(4).normal(size=n), 0)
    return made._replace(**changes)  # type: ignore[arg-type]


def paired(kind: str, n: int) -> None:
    PairedTest([("a", TEXTS[:n]), ("b", OTHERS[:n])], {"sbert": SBERT()}, [TEXTS[:n]], test_type=kind, n_samples=20)()


def compared(n: int, resampling: Resampling) -> None:
    scorer = twmd_registry.load("sbert")
    sets = tuple(scorer.score(texts[:n], TEXTS[:n]) for texts in (TEXTS, OTHERS))
    systems = [("a", TEXTS[:n]), ("b", OTHERS[:n])]
    compare_systems(systems, [[text] for text in TEXTS[:n]], [(scorer, sets), "bleu"], resampling=resampling)


INTERFACES: dict[str, Callable[[int], object]] = {
    "SacreBLEU's paired bootstrap": lambda n: paired("bs", n),
    "SacreBLEU's interval": lambda n: SBERT().corpus_score(OTHERS[:n], [TEXTS[:n]], n_bootstrap=20),
    "a comparison with a test": lambda n: compared(n, Resampling("bs", 20, seed=1)),
    "a permutation": lambda n: permutation(np.arange(n), rated(n).ratings, rated(n), "pearson", trials=5),
}


@pytest.mark.parametrize("interface", INTERFACES)
def test_few_segments_warn_and_one_is_refused(interface: str, recwarn: pytest.WarningsRecorder) -> None:
    INTERFACES[interface](RELIABLE_SAMPLE)
    assert not [warning for warning in recwarn if WARNING in str(warning.message)]
    with pytest.warns(TwmdWarning, match=f"^{WARNING}: n = 29.$"):
        INTERFACES[interface](RELIABLE_SAMPLE - 1)
    with pytest.raises(InputError, match=REFUSAL):
        INTERFACES[interface](1)


def test_scores_without_a_test_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    assert SBERT().corpus_score(OTHERS[:1], [TEXTS[:1]]).score > 0
    compared(1, Resampling())
    assert agreement("pearson", np.arange(5), rated(5), resamples=0).low is None
    assert not recwarn.list


@pytest.fixture
def files(folder: Path) -> None:
    for n in (1, 29):
        for name, texts in (("ref", TEXTS), ("a", OTHERS), ("b", OTHERS[::-1])):
            (folder / f"{name}{n}.txt").write_text("".join(f"{text}\n" for text in texts[:n]), encoding="utf-8")


@pytest.mark.parametrize("options", ["-m chrf --paired-ar --paired-ar-n 20", "-m sbert --confidence"])
def test_score_warns_about_few_segments_and_refuses_a_single_segment(options: str, files: None, run: Run) -> None:
    status, _, err = run(f"score ref29.txt -i a29.txt b29.txt {options}")
    assert (status, err) == (0, f"twmd: warning: {WARNING}: n = 29.\n")
    status, out, err = run(f"score ref1.txt -i a1.txt b1.txt {options}")
    assert (status, out, err.startswith(f"twmd: {REFUSAL}")) == (1, "", True)
