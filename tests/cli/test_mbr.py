"""``twmd mbr``: files of candidates in, choices out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Run
from twmd_registry import mbr, parse

CANDIDATES = [["dogs bark", "a cat sat there", "the cat sat there"], ["it rains", "it is raining", "nobody came"]]


@pytest.fixture
def candidates(folder: Path) -> Path:
    """Return a working folder with the candidates in several forms."""
    rows = "".join(json.dumps({"candidates": texts, "id": i}) + "\n" for i, texts in enumerate(CANDIDATES))
    (folder / "c.jsonl").write_text(rows, encoding="utf-8")
    (folder / "packed.gz").write_bytes(gzip.compress(rows.encode()))
    cells = [json.dumps(texts).replace('"', '""') for texts in CANDIDATES]
    (folder / "c.csv").write_text("id,candidates\n" + "".join(f'1,"{cell}"\n' for cell in cells), encoding="utf-8")
    (folder / "c.txt").write_text("".join(f"{text}\n" for texts in CANDIDATES for text in texts), encoding="utf-8")
    return folder


@pytest.mark.parametrize("file", ["c.jsonl", "packed.gz", "c.csv", "c.txt --num-samples 3"])
def test_choices_of_every_form_are_those_of_python(file: str, candidates: Path, run: Run) -> None:
    found = mbr(CANDIDATES)
    expected = [choice.candidate for choice in found.choices]
    status, out, err = run(f"mbr {file}")
    assert (status, out.splitlines()) == (0, expected)
    assert err.splitlines() == [f"signature: {found.signature}", f"method: {found.method}"]
    assert run(f"mbr {file} -q")[1:] == (out, "")
    status, out, err = run(f"mbr {file} -o chosen.txt")
    assert (status, out.splitlines()) == (0, [f"signature: {found.signature}", f"method: {found.method}"])
    assert (candidates / "chosen.txt").read_text(encoding="utf-8").splitlines() == expected


def test_json_lines_hold_all_that_it_takes_to_choose_again(candidates: Path, run: Run) -> None:
    keys = "--prune-coarse sbert --prune-keep 2"
    rows = [json.loads(line) for line in run(f"mbr c.jsonl --format json --utilities {keys}")[1].splitlines()]
    again = mbr(CANDIDATES, parse(rows[0]["signature"]), prune_coarse="sbert", prune_keep=2, utilities=True)
    assert again.method == rows[0]["method"]
    assert str(again.signature) == rows[0]["signature"]
    for row, choice in zip(rows, again.choices, strict=True):
        assert (row["index"], row["candidate"]) == (choice.index, choice.candidate)
        assert row["expected_utility"] == pytest.approx(choice.expected_utility, abs=1e-6)
        table = np.array(row["utilities"], dtype=float)  # null becomes NaN
        np.testing.assert_allclose(table, np.asarray(choice.utilities), atol=1e-6)
        assert np.isnan(table).any()
    assert "utilities" not in json.loads(run("mbr c.jsonl --format json")[1].splitlines()[0])


def test_options_reach_the_metric(candidates: Path, run: Run) -> None:
    of_two = [run(f"mbr c.jsonl --format json -m {metrics}")[1] for metrics in ("twmd sbert", "'ensemble(twmd,sbert)'")]
    assert of_two[0] == of_two[1] != ""
    _, _, err = run("mbr c.jsonl --set temperature=0.05 --mean-vectors")
    assert "|temperature:0.05|" in err
    assert err.endswith("method: mbr|mean_vectors:yes\n")
    _, _, err = run("mbr c.jsonl --prune-confidence 0.9")
    assert err.endswith("|prune_confidence:0.9\n")


def test_sources_are_a_column_or_a_file(candidates: Path, run: Run) -> None:
    keys = "-m sbert --set against=source centering=none --format json"
    rows = [
        {"candidates": texts, "source": text}
        for texts, text in zip(CANDIDATES, ("hounds barked", "empty rooms"), strict=True)
    ]
    (candidates / "both.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (candidates / "src.txt").write_text("hounds barked\nempty rooms\n", encoding="utf-8")
    status, out, _ = run(f"mbr both.jsonl {keys}")
    assert status == 0
    assert [json.loads(line)["index"] for line in out.splitlines()] == [0, 2]
    assert run(f"mbr c.jsonl --src src.txt {keys}")[1] == out
    assert "give sources" in run(f"mbr c.jsonl {keys}")[2]
