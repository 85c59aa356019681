"""The page for users of other programs: its examples, numbers, and a complete list of options."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twmd_registry
from tests.conftest import Run, Texts
from twmd_registry.models.files import embedded_folder

peer = pytest.importorskip("bert_score")
bert_score_cli = pytest.importorskip("bert_score_cli.score")

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("coming-from-bert-score.md", "coming-from.md")}
OPTIONS = "\n".join(PAGES.values())
COMMANDS = re.findall(r"^(twmd .*)$", OPTIONS, flags=re.MULTILINE)
KEYS: dict[str, Any] = {"special": "partners", "centering": "none", "unknown": "keep"}
TOLERANCE = 1e-6
SIDES = ("precision", "recall", "scores")


def part(name: str) -> str:
    """Return the section of the page under a heading."""
    return OPTIONS.split(f"\n## {name}\n")[1].split("\n## ")[0]


def named_options(name: str) -> set[str]:
    """Return the code spans in the left column of a section's tables."""
    cells = [line.split("|")[1] for line in part(name).splitlines() if line.startswith("| `")]
    return {word for cell in cells for span in re.findall(r"`([^`]+)`", cell) for word in re.split(r"[ ,()=]+", span)}


def both(predictions: list[str], references: Any, *, layer: int, keys: Any = KEYS, **options: Any) -> Any:
    """Per-segment precision, recall and F1 by bert_score and by us; shape (3, segments) each."""
    options |= {"model_type": str(embedded_folder()), "num_layers": layer, "device": "cpu"}
    theirs = peer.score(predictions, references, **options)
    ours = twmd_registry.score(predictions, references, "bertscore_centered", model="embedded", layer=layer, **keys)
    return np.stack([side.numpy() for side in theirs]), np.array([getattr(ours, side) for side in SIDES])


@pytest.mark.parametrize("name", PAGES)
def test_every_example_prints_its_output(name: str) -> None:
    found = doctest.DocTestParser().get_doctest(PAGES[name], {}, name, name, 0)
    assert found.examples
    results = doctest.DocTestRunner(verbose=False).run(found)
    assert (results.failed, results.attempted) == (0, len(found.examples))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command: str, texts: Texts, folder: Path, run: Run) -> None:
    files = {"ref": texts.references, "system_a": texts.predictions, "system_b": texts.references[::-1]}
    for name, lines in files.items():
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    status, out, _ = run(command.removeprefix("twmd "))
    assert (status, bool(out.strip())) == (0, True)


def help_of(program: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a program's ``main`` prints for ``-h``."""
    monkeypatch.setattr(sys, "argv", ["program", "-h"])
    with pytest.raises(SystemExit):
        program.main()
    return capsys.readouterr().out


def test_no_option_of_bert_score_or_sacrebleu_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = (peer.score, peer.BERTScorer.__init__, peer.BERTScorer.score)
    arguments = {name for function in functions for name in inspect.signature(function).parameters} - {"self"}
    printed = help_of(bert_score_cli, monkeypatch, capsys)
    beside = {"-h", "--help", "--num_layers", "--batch_size", "--verbose"}
    options = set(re.findall(r"(?<![\w-])(--?[a-z]\w*)", printed)) - beside
    assert {"--lang", "-r", "--use_fast_tokenizer"} <= options
    assert (arguments | options) - named_options("Every option") == set()
    # A process of its own: this program lets a closed connection end the process that imports it.
    printed = subprocess.run(
        [sys.executable, "-m", "sacrebleu", "-h"], check=True, capture_output=True, text=True
    ).stdout
    options = set(re.findall(r"^ +(?:(--[a-z-]+)|(-[a-z]+)\b)", printed, flags=re.MULTILINE))
    long = {name for name, _ in options if name}
    assert {"--metrics", "--paired-bs", "--width"} <= long
    assert long - named_options("SacreBLEU") == set()


@pytest.mark.parametrize("layer", [1, 4])
@pytest.mark.parametrize("idf", [False, True])
def test_score_equals_bert_scores(layer: int, *, idf: bool, texts: Texts) -> None:
    predictions = [*texts.predictions, "I love it \U0001f60d", "well , this is spaced   out "]
    references = [*texts.references, "I love it \U0001f621", "Well, this is not."]
    keys = KEYS | {"idf": "references" if idf else "none"}
    theirs, ours = both(predictions, references, layer=layer, keys=keys, idf=idf, nthreads=0)
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=0)
    assert np.ptp(theirs[2]) > 0.1
    if not idf:
        several = [list(pair) for pair in zip(references, references[::-1], strict=True)]
        theirs, ours = both(predictions, several, layer=layer)
        np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=0)


def test_rescaled_score_equals_bert_scores(texts: Texts, tmp_path: Path) -> None:
    scorer = twmd_registry.load("bertscore_centered", "embedded", **KEYS)
    path = scorer.fit_baseline(texts.references, pairs=20).save(tmp_path)
    baseline = json.loads(path.read_text(encoding="utf-8"))["values"]
    row = ",".join(repr(baseline[side]) for side in ("precision", "recall", "f1"))
    table = tmp_path / "table.tsv"
    table.write_text("LAYER,P,R,F\n" + "".join(f"{k},{row}\n" for k in range(7)), encoding="utf-8")
    rescaled = {"rescale_with_baseline": True, "baseline_path": str(table), "lang": "en"}
    theirs, ours = both(texts.predictions, texts.references, layer=4, keys=KEYS | {"baseline": path}, **rescaled)
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE / (1 - max(baseline.values())), rtol=0)


def test_our_score_equals_bert_scores_with_unpadded_batches(texts: Texts) -> None:
    unrelated = texts.references[1:] + texts.references[:1]
    theirs, ours = both(texts.predictions, unrelated, layer=6)
    assert np.abs(theirs - ours).max() > 1e-3
    theirs, ours = both(texts.predictions, unrelated, layer=6, batch_size=1)
    np.testing.assert_allclose(ours, theirs, atol=TOLERANCE, rtol=0)
