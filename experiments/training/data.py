"""The adapters' training data: WMT, parts of MLQE-PE, stsb-multi with one language per pair, pairs of outputs."""

from __future__ import annotations

import csv
import json
import lzma
import random
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from twmd_registry import score
from twmd_registry.judgments.sets import read_rated
from twmd_registry.metaeval.overlap import normalise

LANGUAGES = ("en", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh")
OUTPUTS = 4
"""One pair in this many has two systems' outputs."""
EVERY = 8
"""One row in eight, about as many as in WMT15-16, because a post-edit is close to its translation."""


def filter_wmt(source: Path, output: Path, without: set[str]) -> None:
    """Write the rows of a WMT file, without language pairs of the excluded languages."""
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    output.write_text("".join(line for line in lines if _languages(line).isdisjoint(without)), encoding="utf-8")


def _languages(line: str) -> set[str]:
    return set(json.loads(line)["lang"].split("-"))


def sample_mlqe(folder: Path, output: Path, without: set[str], *, sources: bool = False) -> None:
    """Write every eighth row of MLQE-PE's train split, without the excluded languages and the references of dev and
    test; with `sources`, also without their sources.
    """
    held_out = [read_rated(f"mlqe:{folder / f'{name}.jsonl.xz'}") for name in ("dev", "test")]
    references = _texts_of(rated_data.references for rated_data in held_out)
    known = _texts_of(rated_data.source or () for rated_data in held_out) if sources else set()
    rated = read_rated(f"mlqe:{folder / 'train.jsonl.xz'}")
    with lzma.open(folder / "train.jsonl.xz", "rt", encoding="utf-8") as file:
        rows = list(zip(filter(str.strip, file), rated.references, rated.source or [], strict=True))[::EVERY]
    kept = [
        line
        for line, reference, source in rows
        if normalise(str(reference)) not in references
        and normalise(source) not in known
        and _languages(line).isdisjoint(without)
    ]
    output.write_text("".join(kept), encoding="utf-8")


def _texts_of(columns: Iterable[Iterable[object]]) -> set[str]:
    return {normalise(str(text)) for texts in columns for text in texts}


def rate_from_english(folder: Path, adapter: Path, output: Path) -> None:
    """Write MLQE-PE's training pairs from English, rated with TWMD on the multilingual model with an adapter.

    A student trained only on English texts would get worse in other languages.
    """
    held_out = _texts_of(read_rated(f"mlqe:{folder / f'{name}.jsonl.xz'}").references for name in ("dev", "test"))
    rated = read_rated(f"mlqe:{folder / 'train.jsonl.xz'}")
    rows = [
        (str(group), prediction, str(reference))
        for group, prediction, reference in zip(rated.group, rated.predictions, rated.references, strict=True)
        if str(group).startswith("en-") and normalise(prediction) and normalise(str(reference)) not in held_out
    ]
    groups, predictions, references = map(list, zip(*rows, strict=True))
    settings: dict[str, Any] = {"layer": "7-9", "aggregation": "mean", "temperature": 0.1, "special": "all"}
    scores = score(predictions, references, "twmd", model="multilingual", adapter=str(adapter), **settings).scores
    columns = zip(groups, predictions, references, scores, strict=True)
    _write_rows(
        output, (dict(zip(("group", "prediction", "reference", "rating"), row, strict=True)) for row in columns)
    )


def _write_rows(output: Path, rows: Iterable[dict[str, Any]]) -> None:
    output.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def mix_stsb(english: Path, others: Path, output: Path, without: set[str]) -> None:
    """Write train.csv and dev.csv, with languages alternating from pair to pair."""
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


def pair_outputs(archives: Sequence[Path], output: Path, per_segment: int, held_out: Path, share: float = 1.0) -> None:
    """Write pairs of system outputs into English, from wmt18-systems.tar.xz and wmt19-systems.tar.xz, without ratings.

    For a `share` of the segments, up to `per_segment` systems are drawn. Each output is paired with the reference or,
    in one pair of `OUTPUTS`, with another system's output. Pairs with a text of the WMT file `held_out`, or with equal
    texts, are left out.
    """
    rated = read_rated(f"wmt:{held_out}")
    known = _texts_of([rated.predictions, rated.references])
    draw, rows = random.Random(1), []
    for archive in archives:
        for pair, (references, systems) in sorted(_read_outputs(archive).items()):
            for i, reference in enumerate(references):
                if share < 1 and draw.random() >= share:
                    continue
                outputs = list(dict.fromkeys(lines[i] for lines in systems))
                for k, prediction in enumerate(draw.sample(outputs, min(per_segment, len(outputs)))):
                    partner = draw.choice(outputs) if (i + k) % OUTPUTS == 0 else reference
                    texts = {normalise(prediction), normalise(partner)}
                    if len(texts) == 2 and not texts & {*known, ""}:
                        rows.append({"group": pair, "prediction": prediction, "reference": partner})
    _write_rows(output, rows)


def _read_outputs(archive: Path) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Return references and every system's outputs, by language pair into English and by segment."""
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
