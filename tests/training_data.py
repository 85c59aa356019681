"""Training data of the multilingual adapters: WMT, a part of MLQE-PE, and stsb-multi with one language per pair."""

from __future__ import annotations

import argparse
import csv
import json
import lzma
from pathlib import Path

from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.overlap import normalise

LANGUAGES = ("en", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh")
EVERY = 8
"""A post-edit is close to its translation: one row in eight, about as many as WMT15-16 have."""


def filter_wmt(source: Path, output: Path, without: set[str]) -> None:
    """Write the rows of a file of WMT whose language pair has none of some languages."""
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    output.write_text("".join(line for line in lines if _languages(line).isdisjoint(without)), encoding="utf-8")


def _languages(line: str) -> set[str]:
    return set(json.loads(line)["lang"].split("-"))


def sample_mlqe(folder: Path, output: Path, without: set[str]) -> None:
    """Write every eighth row of MLQE-PE's train split, less some languages and the references of dev and test."""
    held_out = {
        normalise(str(text))
        for name in ("dev", "test")
        for text in read_rated(f"mlqe:{folder / f'{name}.jsonl.xz'}").references
    }
    train = folder / "train.jsonl.xz"
    references = read_rated(f"mlqe:{train}").references
    with lzma.open(train, "rt", encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    kept = [
        line
        for line, text in list(zip(lines, references, strict=True))[::EVERY]
        if normalise(str(text)) not in held_out and _languages(line).isdisjoint(without)
    ]
    output.write_text("".join(kept), encoding="utf-8")


def mix_stsb(english: Path, others: Path, output: Path, without: set[str]) -> None:
    """Write train.csv and dev.csv, in which the pairs take turns among the languages."""
    languages = [language for language in LANGUAGES if language not in without]
    output.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev"):
        tables = []
        for language in languages:
            path = english / f"{split}.csv" if language == "en" else others / f"stsb-{language}-{split}.csv"
            with path.open(encoding="utf-8", newline="") as file:
                tables.append(list(csv.reader(file)))
        with (output / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(tables[i % len(tables)][i] for i in range(len(tables[0])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["wmt", "mlqe", "stsb"])
    parser.add_argument("sources", nargs="+", type=Path, help="a file, MLQE-PE's folder, or stsb's and stsb-multi's")
    parser.add_argument("output", type=Path)
    parser.add_argument("--without", nargs="*", default=[], help="languages to leave out")
    given = parser.parse_args()
    if given.data == "stsb":
        mix_stsb(given.sources[0], given.sources[1], given.output, set(given.without))
    else:
        write = filter_wmt if given.data == "wmt" else sample_mlqe
        write(given.sources[0], given.output, set(given.without))
