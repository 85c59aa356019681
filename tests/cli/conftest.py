"""A working folder with files to score, and a function that runs a command line in this process."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.parsing import GOOD, POOR, REFERENCES, Run
from twmd_registry.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a line of a shell, with further words as they are; return status, output and errors."""

    def call(line: str, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*shlex.split(line), *words]), *capsys.readouterr()

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(folder: Path) -> Path:
    """Return a working folder with references, two systems and rated data."""
    for name, lines in (("ref.txt", REFERENCES), ("good.txt", GOOD), ("poor.txt", POOR)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    pairs = enumerate(zip(GOOD, REFERENCES, strict=True))
    rated = ({"prediction": text, "reference": reference, "rating": i} for i, (text, reference) in pairs)
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rated), encoding="utf-8")
    return folder
