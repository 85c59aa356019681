"""Rated pairs of sentences: similarity from 0 to 5 (Agirre et al. 2012 to 2016; Cer et al. 2017), or paraphrases."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.errors import FileError, warn
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather
from twmd_registry.judgments.reader import read_csv, read_lines, read_rating

HIGHEST = 5.0
"""The best rating; the worst is 0."""
SENTENCES, RATINGS = "STS.input.", "STS.gs."


def read_sts(folder: Path) -> RatedSegments:
    """Read the rated pairs of a year, grouped by subset.

    The folder holds ``STS.input.SUBSET.txt`` (two tab-separated sentences per line) and ``STS.gs.SUBSET.txt`` (a rating
    per line; empty is unrated). A subset of which only one of the two files is there (STS13's SMT is distributed
    without its sentences) is left out, named and counted.
    """
    sentences, ratings = _find(folder, SENTENCES), _find(folder, RATINGS)
    rows: list[RatedRow] = []
    for subset in sorted(sentences.keys() | ratings.keys()):
        if subset in sentences and subset in ratings:
            rows += _read_subset(subset, sentences[subset], ratings[subset])
            continue
        lines = len(read_lines(sentences.get(subset) or ratings[subset]))
        missing = f"{RATINGS if subset in sentences else SENTENCES}{subset}.txt"
        warn(f"{folder}: {subset} has no {missing}; left out with its {lines} lines.")
        rows += [RatedRow(subset, place=f"{subset}, row {number}") for number in range(1, lines + 1)]
    return gather(rows, folder)


def _find(folder: Path, prefix: str) -> dict[str, Path]:
    """Find the files of one kind, by subset."""
    result = {path.name.removeprefix(prefix).removesuffix(".txt"): path for path in folder.glob(f"{prefix}*.txt")}
    if not result:
        raise FileError(f"{folder} holds no {prefix}SUBSET.txt; expected the folder of a year of STS.")
    return result


def _read_subset(subset: str, sentences: Path, ratings: Path) -> list[RatedRow]:
    """Read the pairs of a subset."""
    pairs, rated = read_lines(sentences), read_lines(ratings)
    if len(pairs) != len(rated):
        raise FileError(f"{ratings} has {len(rated)} lines, and {sentences.name} {len(pairs)}; expected as many.")
    rows: list[RatedRow] = []
    for number, (pair, rating) in enumerate(zip(pairs, rated, strict=True), 1):
        first, tab, second = pair.partition("\t")
        if not tab or "\t" in second:
            raise FileError(f"{sentences}, row {number}: expected two sentences with a tab between them, got {pair!r}.")
        value = read_rating(rating, f"{ratings}, row {number}", 0, HIGHEST) if rating.strip() else None
        rows.append(RatedRow(subset, first, second, value, place=f"{subset}, row {number}"))
    return rows


def read_stsb(path: Path) -> RatedSegments:
    """Read the STS benchmark: ``sentence1,sentence2,rating`` without a header."""
    rows = []
    for number, fields in enumerate(read_csv(path), 1):
        where = f"{path}, row {number}"
        if len(fields) != 3:
            raise FileError(
                f"{where}: expected sentence1,sentence2,rating, without a header; got {len(fields)} fields."
            )
        rows.append(RatedRow("stsb", fields[0], fields[1], read_rating(fields[2], where, 0, HIGHEST)))
    return gather(rows, path)


MRPC_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
QQP_HEADER = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
CLASSES = {"0": 0.0, "1": 1.0}


def read_mrpc(path: Path) -> RatedSegments:
    """Read the Microsoft Research Paraphrase Corpus as distributed: tab-separated, quotes are letters like others."""
    header, *lines = [line.split("\t") for line in read_lines(path)] or [[]]
    _check_header(header, MRPC_HEADER, path)
    rows = []
    for number, fields in enumerate(lines, 2):
        if len(fields) != len(MRPC_HEADER) or fields[0] not in CLASSES:
            raise FileError(
                f"{path}, row {number}: expected {', '.join(MRPC_HEADER)} between tabs, the first of them 0 or 1."
            )
        rows.append(RatedRow("mrpc", fields[3], fields[4], CLASSES[fields[0]]))
    return gather(rows, path)


def read_qqp(path: Path) -> RatedSegments:
    """Read the Quora Question Pairs, tab-separated, with their fields in quotes (Quora's file) or without (GLUE's).

    Both files hold rows without a question or of fewer fields; they are dropped.
    """
    plain = read_lines(path)
    # In Quora's file a question may go on over a line's end, between quotes; in GLUE's a quote is a letter.
    quoted = len(plain) > 1 and plain[1].startswith('"')
    result = read_csv(path, delimiter="\t") if quoted else [line.split("\t") for line in plain]
    header, *records = result or [[]]
    _check_header(header, QQP_HEADER, path)
    rows = []
    for number, fields in enumerate(records, 2):
        if len(fields) != len(QQP_HEADER) or not fields[3].strip() or not fields[4].strip():
            rows.append(RatedRow(place=f"row {number}"))
            continue
        if fields[5] not in CLASSES:
            raise FileError(f"{path}, row {number}: is_duplicate is 0 or 1, not {fields[5]!r}.")
        rows.append(RatedRow("qqp", fields[3], fields[4], CLASSES[fields[5]]))
    return gather(rows, path)


def _check_header(fields: list[str], wanted: list[str], path: Path) -> None:
    if fields != wanted:
        got = ", ".join(fields) or "nothing"
        raise FileError(f"{path}, row 1: expected the header {', '.join(wanted)} between tabs; got {got}.")
