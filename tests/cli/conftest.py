"""A working folder with files to score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.parsing import GOOD, POOR, REFERENCES


@pytest.fixture
def files(folder: Path) -> Path:
    """Return a working folder with references, two systems and rated data."""
    for name, lines in (("ref.txt", REFERENCES), ("good.txt", GOOD), ("poor.txt", POOR)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    pairs = enumerate(zip(GOOD, REFERENCES, strict=True))
    rated = ({"prediction": text, "reference": reference, "rating": i} for i, (text, reference) in pairs)
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rated), encoding="utf-8")
    return folder
