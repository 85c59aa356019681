"""Refusals of the command line: a status and a one-line error, before any output."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from tests.conftest import Refused
from twmd_registry.cli.declare import check_output
from twmd_registry.errors import FileError

FILES: dict[str, bytes] = {
    "page.html": b"page\n",
    "empty.txt": b"",
    "two.txt": b"one\ntwo\n",
    "latin.txt": b"tea\ncaf\xe9\n",
    "hyp.csv": b"prediction,other\na,x\nb,y\nc,z\n",
    "own.jsonl": b'{"prediction": "a", "reference": "b"}\n',
    "one_column.jsonl": b'{"prediction": "a"}\n{"text": "b"}\n',
    "list.json": b'{"prediction": ["a"]}\n',
    "no_reference.jsonl": b'{"prediction": "a", "reference": "b"}\n{"prediction": "c"}\n',
    "x.jsonl": b'{"prediction": "p", "reference": "x", "source": "d"}\n',
    "y.jsonl": b'{"prediction": "p", "reference": "y"}\n',
    "z.jsonl": b'{"prediction": "p", "reference": "x", "source": "e"}\n',
    "header.csv": b"prediction,reference\n",
    "cut.gz": gzip.compress(b"one\ntwo\n", mtime=0)[:-9],
    "a.bz2": bz2.compress(b"one\n"),
    "a.xlsx": b"PK\x03\x04\xb5",
    "my.docs": b"news d1\nchat d2\nnews d1\n",
    "short.docs": b"news d1\nchat d2\n",
    "odd.docs": b"news d1\nchat\nnews d1\n",
    "hole.jsonl": b'{"prediction": "a", "talk": "d"}\n{"prediction": "b", "talk": ""}\n',
    "talk.jsonl": b'{"prediction":"a","talk":"d"}\n{"prediction":"b","talk":"e"}\n{"prediction":"c","talk":"d"}\n',
    "other.jsonl": b'{"reference":"a","talk":"d"}\n{"reference":"b","talk":"d"}\n{"reference":"c","talk":"d"}\n',
    "c.jsonl": b'{"candidates": ["dogs bark", "a cat"]}\n{"candidates": ["it rains", "it pours"]}\n',
    "empty_list.jsonl": b'{"candidates": []}\n',
    "text.jsonl": b'{"candidates": "a cat"}\n',
    "lines.jsonl": b'{"candidates": ["a\\nb", "c"]}\n',
    "a_record.json": b"",
}
RAY = "score --engine ray -i a.jsonl --output o"
AGAINST = "-m 'twmd;against=source'"
KEY = "model is a key: use --set model=VALUE."
TWICE = "are the same metric with the same settings: name it once."
SCORE = "score ref.txt -i good.txt"

USAGE = [
    # Syntax.
    ("score -i", "twmd score: error (see twmd score"),
    ("setup space build -m twmd -o x y", "twmd setup space build: error (see"),
    ("scor", "twmd: error (see twmd --help): No"),
    (f"{SCORE} --model X", KEY),
    ("mean ref.txt", "Did you mean 'twmd fit mean'?"),
    ("fit idf ref.txt --set adapter=x", "--set adapter: not used"),
    ("correlate -m twmd table:rated.jsonl", "Missing argument 'DATA'. -m takes"),
    ("score -i good.txt --set layer=2 ref.txt", "expected KEY=VALUE. --set takes"),
    ("score -i good.txt ref.txt", "no references for good.txt: name a"),
    (f"{SCORE} --set layer=2 layer=3", "layer is set twice"),
    ("score ref.txt -i own.jsonl", "already contains references"),
    # After the first option an argument is not a reference: it may be a system separated from -i.
    *(
        (f"{line} {late}", f"{late.split()[-1]!r} follows an option but is not its value")
        for line in ("score ref.txt", "report ref.txt -o new.html", "verify a_record.json")
        for late in ("-i good.txt -q poor.txt", "--input=good.txt poor.txt", "-igood.txt poor.txt", "-q -- poor.txt")
    ),
    ("score -b ref.txt -i good.txt", "'ref.txt' follows an option"),
    # Metrics, keys and local files.
    ("align -m twmd a b", "expected one METRIC, not 3: twmd"),
    (f"{SCORE} -m 'tw\nmd'", r"unknown metric 'tw\nmd'"),
    (f"{SCORE} -m blue", "unknown metric 'blue'; did you"),
    (f"{SCORE} -m twmd bleu bleu", f"bleu and bleu {TWICE}"),
    ("correlate table:rated.jsonl -m 'twmd;temperature=0.5' 'twmd; temperature=0.50'", TWICE),
    *((f"{SCORE} -m '{joined}'", "Separate metrics by spaces") for joined in ("twmd, sbert", "bleu,ter", "twmd sbert")),
    (f"{SCORE} --set 'layer=2, special=none'", "separate keys by spaces"),
    (f"{SCORE} -m 'a\0b'", "a NUL character"),
    (f"{SCORE} -m bleu --set temperature=1", "--set and --preset apply to a"),
    ("explain -m twmd --signatures", "--signatures lists the presets of"),
    (f"{SCORE} -m 'twmd;sbert'", "a metric with keys: 'sbert' is not"),
    (f"{SCORE} -m '2*twmd;layer=2'", "only members of an ensemble have a"),
    *(
        (f"{line} {option}", f"{option.split()[0]} only applies to this package's metrics")
        for line in (f"{SCORE} -m bleu chrf", "correlate table:rated.jsonl -m chrf")
        for option in ("--device cpu", "--batch-tokens 9", "--any-language")
    ),
    (f"{SCORE} --part X", "--part 'X': expected NAME=PATH."),
    (f"{SCORE} --part modle=X", "--part modle: signatures name no"),
    (f"{SCORE} --part stopwords=two.txt", "-m names no signature: use --set"),
    # Incompatible options.
    (f"{SCORE} --paired-bs", "a paired test compares systems"),
    (f"{SCORE} --paired-bs --paired-ar", "--paired-bs and --paired-ar are"),
    (f"{SCORE} poor.txt --paired-bs --confidence-n 50", "pass one of --paired-bs-n"),
    (f"{SCORE} -m bleu --record x.json", "--record keeps scores of this"),
    (f"{SCORE} --doc-column talk", "--doc-column talk"),
    (f"{SCORE} --docs my.docs --doc-column x", "--docs and --doc-column both name"),
    (f"{SCORE} --docs my.docs -b", "print scores of documents: leave"),
    (f"{SCORE} --prediction-column x", "apply to tables (JSON lines, CSV"),
    *(
        (f"{line} --quoted-tsv", "--quoted-tsv")
        for line in (SCORE, f"{SCORE} --lines", "score -i hyp.csv", "fit mean ref.txt", "mbr -i c.jsonl")
    ),
    ("correlate table:rated.jsonl,quoted=yes -m twmd", "quoted=yes"),
    *(
        (f"report --agreement table:rated.jsonl -o new.html {option}", f"{option} is not used with --agreement")
        for option in ("--lines", "--quoted-tsv")
    ),
    ("fit mean ref.txt --prediction-column x", "apply to tables (JSON lines, CSV"),
    ("setup space build -m twdm -o new", "no card for 'twdm'; did"),
    # Sources.
    (f"score -i good.txt {AGAINST}", "references (for against=source"),
    ("report -i good.txt --src poor.txt -o new.html", "a report shows references"),
    # Ray.
    ("score ref.txt --engine ray -i a.jsonl --output o", "a reference file cannot be used"),
    (f"{RAY} --format latex", "--format latex cannot be used with"),
    (f"{RAY} -m bleu", "--engine ray supports only this"),
    ("score --engine ray -i a.jsonl", "--engine ray needs --input"),
    ("score -i a.jsonl --output o", "--output requires --engine ray"),
    ("score -i a.jsonl --strict", "--strict requires --engine ray"),
    # Candidates.
    ("mbr -i two.txt", "--num-samples"),
    ("mbr -i c.jsonl --num-samples 3", "c.jsonl is a table"),
    ("mbr -i c.jsonl --utilities", "--utilities needs --format json"),
    ("mbr -i lines.jsonl", "line break"),
    # Reports.
    (f"report {SCORE[6:]} -o report.pdf", "HTML"),
    (f"report {SCORE[6:]} -m bleu -o new.html", "add one to -m"),
    ("report ref.txt --agreement table:rated.jsonl -m chrf -o new.html", "a reference file is not used with"),
]
DATA = [
    # Unreadable files.
    ("score ref.txt -i none.txt", "none.txt: No such file or"),
    ("score 'no\nfile' -i good.txt", "no file: No such file or directory"),
    ("score ref.txt -i empty.txt", "empty.txt is empty"),
    ("score ref.txt -i latin.txt", "latin.txt is not UTF-8: byte 0xe9"),
    ("score ref.txt -i one_column.jsonl", "one_column.jsonl, row 2: no column"),
    ("score ref.txt -i list.json", "list.json, row 1: expected a text"),
    ("score -i no_reference.jsonl", "row 2: no column 'references' or"),
    ("score -i header.csv", "header.csv: no rows"),
    ("score -i cut.gz", "cut.gz is compressed and cannot be"),
    ("score -i a.bz2", "a.bz2 is compressed by bzip2: unpack it"),
    ("score -i a.xlsx", "save the sheet as CSV"),
    ("verify latin.txt ref.txt", "latin.txt is not a record of this"),
    ("mbr -i text.jsonl", "row 1: expected a list of"),
    ("mbr -i empty_list.jsonl", "row 1: an empty list of candidates"),
    ("mbr -i own.jsonl", "candidates"),
    # Mismatched files.
    ("score ref.txt -i two.txt", "two.txt has 2 segments but ref.txt"),
    ("score ref.txt -i good.txt --src two.txt -m chrf", "but two.txt has 2: they must match"),
    ("score ref.txt two.txt -i good.txt", "two.txt has 2 lines but ref.txt"),
    ("score -i x.jsonl z.jsonl", "z.jsonl and x.jsonl have different"),
    ("score -i x.jsonl y.jsonl", "y.jsonl and x.jsonl have different"),
    ("score -i good.txt --src poor.txt -m chrf", "chrf needs references"),
    ("score -i good.txt --src poor.txt", "twmd compares predictions with"),
    (f"{SCORE} {AGAINST}", "pass sources, one per prediction"),
    (f"score -i good.txt --src hyp.csv {AGAINST}", "its column source is missing or empty"),
    (f"{SCORE} --docs short.docs", "short.docs has 2 lines"),
    (f"{SCORE} --docs odd.docs", "odd.docs, row 2: expected a domain"),
    ("score ref.txt -i hole.jsonl --doc-column talk", "row 2: expected a name as talk"),
    ("score other.jsonl -i talk.jsonl --doc-column talk", "different documents"),
    ("mbr -i ref.txt --num-samples 4", "ref.txt has 3 lines"),
    # Unwritable files.
    (f"{SCORE} --docs my.docs --record my.docs", "it is one of the input files"),
    ("mbr -i c.jsonl -o c.jsonl", "it is one of the input files"),
    (f"report {SCORE[6:]} page.html -o page.html", "it is one of the input files"),
    *(
        (f"{line} -o /proc/none/new", "cannot write /proc/none/new: ")  # not even root can
        for line in (
            "correlate table:rated.jsonl -m chrf",
            "fit mean ref.txt",
            "train metric table:rated.jsonl -m twmd",
            "train average . .",
        )
    ),
]


@pytest.mark.parametrize(
    ("status", "line", "words"), [*((2, *row) for row in USAGE), *((1, *row) for row in DATA)], ids=str
)
def test_wrong_command_raises_a_one_line_error(
    status: int, line: str, words: str, files: Path, refused: Refused
) -> None:
    for name, content in FILES.items():
        (files / name).write_bytes(content)
    before = {path: path.read_bytes() for path in files.iterdir()}
    refused(line, words, status)
    assert {path: path.read_bytes() for path in files.iterdir()} == before


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a file and a link to it."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file/out.json", ".*file is a file, not a folder"),
        ("file/new/out.json", ".*/file is a file, not a folder"),
        ("new/out.json", "no folder .*new"),
        (".", ".* not a regular file"),
        ("/dev/null", ".* not a regular file"),
        ("link", "it is one of the input files"),
    ],
)
def test_unwritable_output_is_refused_and_checks_leave_no_trace(name: str, words: str, place: Path) -> None:
    inputs = [place / "none", place / "file"]
    with pytest.raises(FileError, match=f"cannot write {place / name}: {words}"):
        check_output(place / name, inputs)
    before = sorted(place.iterdir())
    check_output(place / "out.json", [place / "file"])
    check_output(place / "file", [place / "none"])
    assert sorted(place.iterdir()) == before
