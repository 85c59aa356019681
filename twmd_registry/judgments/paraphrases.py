"""Pairs that people have rated as paraphrases (1) or not (0): MRPC and QQP."""

from __future__ import annotations

from pathlib import Path

from twmd_registry.errors import FileError
from twmd_registry.judgments.rated import RatedRow, RatedSegments, gather, skipped
from twmd_registry.judgments.reader import read_csv, read_lines

MRPC_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
QQP_HEADER = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
CLASSES = {"0": 0.0, "1": 1.0}


def read_mrpc(path: Path) -> RatedSegments:
    """Read the Microsoft Research Paraphrase Corpus as distributed: tab-separated, quotes are letters like others.

    Raises:
        FileError: The file is missing, or a row has another form; names the row.
    """
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

    Both files hold rows without a question or of fewer fields; they are dropped, and counted.

    Raises:
        FileError: The file is missing, has another header, or a row a class that is neither 0 nor 1; names the row.
    """
    plain = read_lines(path)
    # In Quora's file a question may go on over a line's end, between quotes; in GLUE's a quote is a letter.
    quoted = len(plain) > 1 and plain[1].startswith('"')
    found = read_csv(path, delimiter="\t") if quoted else [line.split("\t") for line in plain]
    header, *records = found or [[]]
    _check_header(header, QQP_HEADER, path)
    rows = []
    for number, fields in enumerate(records, 2):
        if len(fields) != len(QQP_HEADER) or not fields[3].strip() or not fields[4].strip():
            rows.append(skipped(f"row {number}"))
            continue
        if fields[5] not in CLASSES:
            raise FileError(f"{path}, row {number}: is_duplicate is 0 or 1, not {fields[5]!r}.")
        rows.append(RatedRow("qqp", fields[3], fields[4], CLASSES[fields[5]]))
    return gather(rows, path)


def _check_header(found: list[str], wanted: list[str], path: Path) -> None:
    if found != wanted:
        raise FileError(
            f"{path}, row 1: expected the header {', '.join(wanted)} between tabs; got {', '.join(found) or 'nothing'}."
        )
