"""Training data of the adapters: WMT, parts of MLQE-PE, stsb-multi with one language per pair, pairs of system outputs."""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import random
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twmd_registry import score
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.overlap import normalise

LANGUAGES = ("en", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh")
OUTPUTS = 4
"""One pair in four is of two systems' outputs."""
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
    held_out = _held_out_references(folder)
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


def sample_mlqe_sources(folder: Path, output: Path, without: set[str]) -> None:
    """Write the rows of `sample_mlqe` whose source is neither in dev nor in test."""
    sample_mlqe(folder, output, without)
    rated = [read_rated(f"mlqe:{folder / f'{name}.jsonl.xz'}") for name in ("dev", "test")]
    held_out = {normalise(text) for own in rated for text in own.source or ()}
    lines = output.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if normalise(json.loads(line)["source"]) not in held_out]
    output.write_text("".join(kept), encoding="utf-8")


def rate_from_english(folder: Path, adapter: Path, output: Path) -> None:
    """Write MLQE-PE's training pairs from English, rated by TWMD of the multilingual model with an adapter.

    A student that learns from English texts alone would fall behind its former self elsewhere.
    """
    held_out = _held_out_references(folder)
    rated = read_rated(f"mlqe:{folder / 'train.jsonl.xz'}")
    rows = [
        i
        for i, (group, prediction, reference) in enumerate(
            zip(rated.group, rated.predictions, rated.references, strict=True)
        )
        if str(group).startswith("en-") and normalise(prediction) and normalise(str(reference)) not in held_out
    ]
    texts = [rated.predictions[i] for i in rows], [str(rated.references[i]) for i in rows]
    settings: dict[str, Any] = {"layer": "7-9", "aggregation": "mean", "temperature": 0.1, "special": "all"}
    scores = score(*texts, "twmd", model="multilingual", adapter=str(adapter), **settings).scores
    with output.open("w", encoding="utf-8") as file:
        for i, prediction, reference, rating in zip(rows, *texts, scores, strict=True):
            row = {"group": str(rated.group[i]), "prediction": prediction, "reference": reference, "rating": rating}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _held_out_references(folder: Path) -> set[str]:
    return {
        normalise(str(text))
        for name in ("dev", "test")
        for text in read_rated(f"mlqe:{folder / f'{name}.jsonl.xz'}").references
    }


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


def pair_outputs(archives: Sequence[Path], output: Path, per_segment: int, held_out: Path) -> None:
    """Write pairs of system outputs into English, without ratings, for ``twmd distill``.

    Of every segment some systems are drawn; each output stands beside the reference, or, in one pair of `OUTPUTS`,
    beside another system's output.

    Args:
        archives: The files wmt18-systems.tar.xz and wmt19-systems.tar.xz.
        output: The table to write.
        per_segment: Pairs of every segment, at most.
        held_out: A file of WMT; pairs that hold a text of it, or a text twice, are left out.
    """
    rated = read_rated(f"wmt:{held_out}")
    known = {normalise(str(text)) for text in (*rated.predictions, *rated.references)}
    draw, rows = random.Random(1), []
    for archive in archives:
        for pair, (references, systems) in sorted(_read_outputs(archive).items()):
            for i, reference in enumerate(references):
                outputs = list(dict.fromkeys(lines[i] for lines in systems))
                for k, prediction in enumerate(draw.sample(outputs, min(per_segment, len(outputs)))):
                    beside = draw.choice(outputs) if (i + k) % OUTPUTS == 0 else reference
                    texts = {normalise(prediction), normalise(beside)}
                    if len(texts) == 2 and not texts & {*known, ""}:
                        rows.append({"group": pair, "prediction": prediction, "reference": beside})
    output.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _read_outputs(archive: Path) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Return by language pair into English the references and the outputs of every system, by segment."""
    references: dict[str, list[str]] = {}
    systems: dict[str, list[list[str]]] = {}
    with tarfile.open(archive) as files:
        for member in files:
            name = Path(member.name).name
            if not member.isfile() or not name.endswith(("-ref.en", "-en")):
                continue
            content = files.extractfile(member)
            lines = content.read().decode("utf-8").removesuffix("\n").split("\n") if content else []
            if name.endswith("-ref.en"):
                into = name.split("-")[1]
                references[f"{into[:2]}-{into[2:]}"] = lines
            else:
                systems.setdefault(name.rpartition(".")[2], []).append(lines)
    return {pair: (references[pair], sorted(outputs)) for pair, outputs in systems.items() if pair in references}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["wmt", "mlqe", "mlqe-source", "from-english", "stsb", "pairs"])
    parser.add_argument(
        "sources",
        nargs="+",
        type=Path,
        help="a file, MLQE-PE's folder (and an adapter's), stsb's and stsb-multi's, or archives",
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--without", nargs="*", default=[], help="languages to leave out")
    parser.add_argument("--per-segment", type=int, default=2, help="pairs of a segment, at most")
    parser.add_argument("--held-out", type=Path, help="a file of WMT whose texts no pair may hold")
    given = parser.parse_args()
    if given.data == "pairs":
        pair_outputs(given.sources, given.output, given.per_segment, given.held_out)
    elif given.data == "from-english":
        rate_from_english(given.sources[0], given.sources[1], given.output)
    elif given.data == "stsb":
        mix_stsb(given.sources[0], given.sources[1], given.output, set(given.without))
    else:
        write = {"wmt": filter_wmt, "mlqe": sample_mlqe, "mlqe-source": sample_mlqe_sources}[given.data]
        write(given.sources[0], given.output, set(given.without))
