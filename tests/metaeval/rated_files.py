"""Rated data as they lie on a disk, made up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests import tiny
from twmd_registry.metaeval.reproduce.protocols import YEARS
from twmd_registry.metaeval.reproduce.rows import LANGUAGE_PAIRS

R = np.random.default_rng(11)
SUBSETS = (("one", 4), ("two", 40))
"""A year's subsets: the larger one takes two centering batches, so that the order of its pairs matters."""


def sentence() -> str:
    return " ".join(R.choice(tiny.WORDS[:18], size=R.integers(3, 9)))


def write_wmt(folder: Path, year: int, pairs: tuple[str, ...] | None = None, rows: int = 5) -> Path:
    """A year with a few rows per language pair, in another order than the paper's."""
    path = folder / "wmt" / f"wmt{year}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {"lang": pair, "candidate": sentence(), "reference": sentence(), "score": float(R.normal())}
        for pair in sorted(pairs or LANGUAGE_PAIRS[year])
        for _ in range(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def write_sts(folder: Path) -> Path:
    for year in YEARS:
        (folder / "sts" / year).mkdir(parents=True)
        for subset, rows in SUBSETS:
            own = folder / "sts" / year
            (own / f"STS.input.{subset}.txt").write_text("".join(f"{sentence()}\t{sentence()}\n" for _ in range(rows)), encoding="utf-8")
            (own / f"STS.gs.{subset}.txt").write_text("".join(f"{R.uniform(0, 5):.2f}\n" for _ in range(rows)), encoding="utf-8")
    return folder
