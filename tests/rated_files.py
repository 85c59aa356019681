"""Files of made-up rated data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests import tiny
from twmd_registry.judgments.rated import RatedSegments, select

YEARS = ("STS12", "STS13", "STS14", "STS15", "STS16")
LANGUAGE_PAIRS = {
    15: ("cs-en", "de-en"),
    16: ("cs-en", "de-en"),
    17: ("cs-en", "de-en", "fi-en", "lv-en", "ru-en", "tr-en", "zh-en"),
    18: ("cs-en", "zh-en", "ru-en", "fi-en", "tr-en", "et-en", "de-en"),
}
"""By year of WMT, in the order of the TWMD paper's columns; of 2015 and 2016 some."""
R = np.random.default_rng(11)
SUBSETS = (("one", 4), ("two", 40))
"""A year's subsets: the larger one takes two centering batches, so the order of its pairs matters."""


def sentence() -> str:
    return " ".join(R.choice(tiny.WORDS[:18], size=R.integers(3, 9)))


def write_wmt(folder: Path, year: int, pairs: tuple[str, ...] | None = None, rows: int = 5) -> Path:
    """Write a year with a few rows per language pair, in a different order from the paper's."""
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
        year_folder = folder / "sts" / year
        year_folder.mkdir(parents=True)
        for subset, rows in SUBSETS:
            pairs = [f"{sentence()}\t{sentence()}\n" for _ in range(rows)]
            ratings = [f"{R.uniform(0, 5):.2f}\n" for _ in range(rows)]
            (year_folder / f"STS.input.{subset}.txt").write_text("".join(pairs), encoding="utf-8")
            (year_folder / f"STS.gs.{subset}.txt").write_text("".join(ratings), encoding="utf-8")
    return folder


TEXTS = ("The cat sat on the mat.", "It rained all day.", "Nobody came home.", "She bought three apples.")


def system_rows(name: str = "s", systems: int = 5) -> list[dict[str, object]]:
    """Return rated outputs of systems; each has a longer part of the references than the last."""
    return [
        {"prediction": text[: 4 + 3 * k + i], "reference": text, "rating": k, "item": str(i), "system": f"{name}{k}"}
        for k in range(systems)
        for i, text in enumerate(TEXTS)
    ]


def write_rows(path: Path, rows: list[dict[str, object]]) -> str:
    """Write rows as JSON lines; return their name as rated data."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"table:{path}"


def of_group(rated: RatedSegments, group: str) -> RatedSegments:
    return select(rated, np.flatnonzero(np.array(rated.group) == group))
