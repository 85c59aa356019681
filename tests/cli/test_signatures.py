"""Signatures on the command line, with parts that are files."""

from __future__ import annotations

from pathlib import Path

import pytest

import twmd_registry
from twmd_registry.cli import main

PREDICTION, REFERENCE = "the heron of the weir", "a heron at the weir"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """Prediction, reference and stop words."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("hyp.txt", PREDICTION), ("ref.txt", REFERENCE), ("stop.txt", "of\nthe\nat\na")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return "hyp.txt", "ref.txt", "stop.txt"


def signed(**keys: str) -> tuple[str, float]:
    found = twmd_registry.scorer("moverscore", "wmd", **keys).score([PREDICTION], [REFERENCE])
    return str(found.signature), found.score


def test_signature_is_scored_and_drawn_with_the_parts_it_names(
    files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    hyp, ref, stop = files
    signature, score = signed(stopwords=stop)
    assert main(["score", ref, "-i", hyp, "-m", signature, "-b", "-w", "6", "--part", f"stopwords={stop}"]) == 0
    assert capsys.readouterr().out.strip() == f"{score:.6f}"
    assert main(["align", signature, PREDICTION, REFERENCE, "--part", f"stopwords={stop}"]) == 0
    assert f"= {score:.4f}" in capsys.readouterr().out


def test_part_that_is_not_here_is_named_with_the_option(
    files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    hyp, ref, stop = files
    assert main(["score", ref, "-i", hyp, "-m", signed(stopwords=stop)[0]]) != 0
    assert "--part stopwords=FILE" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["score", "align", "verify"])
def test_part_that_no_signature_names_is_refused(
    files: tuple[str, str, str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hyp, ref, stop = files
    signature, score = signed()
    words = {
        "score": [ref, "-i", hyp, "-m", signature],
        "align": [signature, PREDICTION, REFERENCE],
        "verify": [signature, f"{score:.4f}", ref, "-i", hyp],
    }[command]
    assert main([command, *words, "--part", f"stopwords={stop}"]) != 0
    assert "the signature names no stopwords that could be looked for" in capsys.readouterr().err


def test_beside_a_named_metric_parts_are_set(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    hyp, ref, stop = files
    for option, value, instead in (
        ("stopwords", stop, f"stopwords={stop}"),
        ("model", "embedded", "model=embedded"),
        ("background", "a1b2", "centering=background:a1b2"),
        ("idf", "a1b2", "idf=background:a1b2"),
    ):
        assert main(["score", ref, "-i", hyp, "-m", "twmd", "--part", f"{option}={value}"]) == 2
        assert capsys.readouterr().err.endswith(f"no signature is given: use --set {instead}.\n")
