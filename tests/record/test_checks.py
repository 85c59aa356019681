"""Checks of scores: floors, earlier records, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.conftest import Run
from twmd_registry.record.checks import _randomise
from twmd_registry.record.content import read_record

REFERENCES = [
    f"the {animal} {verb} {place}"
    for animal in ("cat", "dog", "bird")
    for verb in ("sat", "ran")
    for place in ("here", "there")
]
LINE = "score ref.txt -m sbert -q -i"


@pytest.fixture
def files(folder: Path, run: Run) -> None:
    """Write references, a good and a bad system, and the record of the good one."""
    texts = {"ref": REFERENCES, "good": [f"{text} now" for text in REFERENCES], "bad": ["it was green"] * 12}
    for name, lines in texts.items():
        Path(f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run(f"{LINE} good.txt --record good.json")[0] == 0


def test_only_scores_below_the_floor_or_a_record_fail(files: None, run: Run) -> None:
    score = read_record("good.json").systems[0].results[0].score
    assert run(f"{LINE} good.txt --fail-under {score - 1e-3}")[0] == 0
    status, out, err = run(f"{LINE} good.txt --fail-under {score + 1e-3}")
    assert (status, "good.txt" in out) == (3, True)  # scores are printed in any case
    assert err == f"twmd: failed: good.txt: sbert is {score:.4f}, below {score + 1e-3:g}\n"
    against = "--fail-if-worse good.json"
    assert run(f"{LINE} ref.txt {against}")[0] == 0
    status, _, err = run(f"{LINE} bad.txt {against}")
    assert (status, "bad.txt: sbert is " in err) == (3, True)
    assert "below the baseline's (p = 0.000" in err
    assert run(f"{LINE} bad.txt {against} --alpha 1e-9")[0] == 0  # 10,000 trials give no smaller p
    status, _, err = run("score ref.txt -i good.txt -m sbert chrf --fail-if-worse good.json --alpha 0.0002")
    assert (status, "not compared with the baseline: chrF2" in err) == (0, True)
    assert "passed: good.txt: sbert is not worse than good.txt's in the baseline (alpha 0.0002)\n" in err


def test_p_value_equals_the_paired_tests() -> None:
    rng = np.random.default_rng(0)
    other = rng.normal(0, 1, 200)
    for shift in (-0.1, 0.0, 0.2):
        shifted = other + rng.normal(shift, 1, 200)
        assert _randomise(shifted.tolist(), other.tolist(), 1) == pytest.approx(
            stats.ttest_rel(shifted, other, alternative="less").pvalue, abs=0.02
        )


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ("--fail-if-worse good.json --alpha 2", 2, "--alpha"),
        ("--fail-if-worse good.json --alpha nan", 2, "--alpha"),
        ("--alpha 0.1", 2, "--fail-if-worse"),
        ("--fail-under nan", 2, "finite"),
        ("--fail-if-worse good.json --set layer=2", 1, "same settings"),
        ("--fail-if-worse ref.txt", 1, "record"),
        ("--fail-if-worse good.json --record good.json", 1, "good.json"),
    ],
)
def test_impossible_check_is_refused(arguments: str, status: int, words: str, files: None, run: Run) -> None:
    returned, out, err = run(f"{LINE} bad.txt {arguments}")
    assert (returned, words in err) == (status, True)
    assert ("bad.txt" in out) == arguments.endswith("layer=2")  # scored, and so printed


def test_edited_baseline_and_single_segment_are_refused(files: None, run: Run) -> None:
    edited = Path("good.json").read_text(encoding="utf-8").replace('"good.txt"', '"own.txt"')
    Path("edited.json").write_text(edited, encoding="utf-8")
    status, _, err = run(f"{LINE} good.txt --fail-if-worse edited.json")
    assert (status, "edited" in err) == (1, True)
    for name in ("ref", "good"):
        Path(f"{name}.txt").write_text("a cat\n", encoding="utf-8")
    assert run(f"{LINE} good.txt --record one.json")[0] == 0
    status, _, err = run(f"{LINE} good.txt --fail-if-worse one.json")
    assert (status, "segment" in err) == (1, True)


@pytest.mark.parametrize("form", ["lines", "table"])
def test_baseline_references_are_compared_by_text(form: str, files: None, run: Run) -> None:
    for references, expected in ((REFERENCES, 0), (["other", *REFERENCES[1:]], 1)):
        rows = [{"prediction": f"{a} now", "reference": b} for a, b in zip(REFERENCES, references, strict=True)]
        Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        Path("ref.txt").write_text("\n".join(references), encoding="utf-8")  # without the last newline
        line = f"{LINE} good.txt" if form == "lines" else "score -i rows.jsonl -m sbert -q"
        status, _, err = run(f"{line} --fail-if-worse good.json")
        assert (status, "references" in err) == (expected, expected == 1)
