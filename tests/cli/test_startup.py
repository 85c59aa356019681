"""What a command imports before it knows that its arguments and files are good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import json, sys
from twmd_registry.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as stop:
    status = stop.code
heavy = {'torch', 'transformers', 'datasets', 'evaluate', 'scipy', 'numpy', 'ray', 'matplotlib'}
print(json.dumps([status, sorted(set(sys.modules) & heavy)]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ref.txt").write_text("a cat was sitting on the mat\nit is raining\n", encoding="utf-8")
    (tmp_path / "hyp.txt").write_text("the cat sat on the mat\nit rains\n", encoding="utf-8")
    (tmp_path / "short.txt").write_text("the cat sat on the mat\n", encoding="utf-8")
    (tmp_path / "bad.csv").write_text("prediction,reference,references\na,b,c\n", encoding="utf-8")
    rows = ({"prediction": text, "reference": "it", "rating": i} for i, text in enumerate(("a", "it is", "it")))
    (tmp_path / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def started(folder: Path, line: str) -> tuple[int, list[str]]:
    """A command's status, and the libraries that were imported for it."""
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", CODE, *line.split()],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
    )
    status, modules = json.loads(done.stdout.splitlines()[-1])
    return status, modules


@pytest.mark.parametrize(
    "line",
    [
        "score nosuch.txt -i hyp.txt",
        "score ref.txt -i nosuch.txt",
        "score ref.txt -i short.txt",
        "score -i bad.csv",
        "score ref.txt -i hyp.txt --no-such-option",
        "score ref.txt -i hyp.txt -m twdm",
        "score ref.txt -i hyp.txt --set temprature=1",
        "score ref.txt -i hyp.txt --preset none",
        "score ref.txt -i hyp.txt --model X",
        "score ref.txt -i hyp.txt -m twmd twmd",
        "score ref.txt -i hyp.txt --record ref.txt",
        "report nosuch.txt -i hyp.txt -o r.html",
        "report ref.txt -i hyp.txt -m twdm -o r.html",
        "report ref.txt -i hyp.txt -o r.pdf",
        "score --engine ray -i nosuch.jsonl --output out",
        "score --engine ray -i rated.jsonl",
        "verify nosuch.json",
        "explain twmd --preset none",
        "correlate wmt:nosuch -m twmd",
        "correlate rated.jsonl -m twmd",
        "tune twmd --data wmt:nosuch",
        "finetune twmd --train wmt:nosuch -o out",
        "align twdm a b",
        "verify nosuch.json --refs ref.txt --hyps hyp.txt",
        "verify rec.json --refs nosuch.txt",
        "cite nosuch.json",
        "fit-mean nosuch.txt",
        "fit-idf nosuch.txt",
        "fit-baseline twdm ref.txt",
        "diagnose embedded --data nosuch.txt",
        "diagnose embedded --data wmt:nosuch.txt",
        "diagnose embedded --data bad.csv",
        "reproduce twmd-table2 --data-dir nosuch",
        "average nosuch -o out",
    ],
)
def test_what_is_refused_is_refused_before_numpy_and_torch(line: str, folder: Path) -> None:
    status, modules = started(folder, line)
    assert status in {1, 2}
    assert modules == []


@pytest.mark.parametrize(
    "line",
    [
        "correlate wmt:nosuch.jsonl -m twmd",
        "correlate nosuch -m twmd",
        "correlate table:rated.jsonl -m twdm",
        "robustness --data wmt:nosuch.jsonl -m twmd",
        "tune twmd --data wmt:nosuch.jsonl",
        "tune twdm --data table:rated.jsonl",
        "finetune twdm --train table:rated.jsonl -o out",
        "train stsb --data stsb:nosuch -o out",
        "finetune twmd --train wmt:nosuch.jsonl -o out",
        "score ref.txt -i hyp.txt --paired-bs",
    ],
)
def test_rated_data_and_tests_are_refused_before_torch(line: str, folder: Path) -> None:
    status, modules = started(folder, line)
    assert status in {1, 2}
    assert set(modules) <= {"numpy"}


@pytest.mark.parametrize(
    "line",
    ["score ref.txt -i hyp.txt -m bleu chrf ter", "score ref.txt -i hyp.txt hyp.txt -m bleu --paired-bs --format json"],
)
def test_sacrebleus_metrics_alone_start_no_torch(line: str, folder: Path) -> None:
    assert started(folder, line) == (0, ["numpy"])


def test_sacrebleus_metrics_alone_are_correlated_without_torch(folder: Path) -> None:
    status, modules = started(folder, "correlate table:rated.jsonl -m bleu chrf --resamples 0")
    assert status == 0
    assert "torch" not in modules
