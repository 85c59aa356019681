"""Tables and compressed files, in every command that reads texts; one set of texts, stored in every form."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.conftest import Run
from tests.judgments.test_reader import content_of
from twmd_registry.cli.inputs import read_file, read_system
from twmd_registry.judgments.reader import Columns, form_of
from twmd_registry.judgments.sets import read_rated

PREDICTIONS = ["the cat sat on the mat", 'it "rains", again', "the shop opens at nine"]
REFERENCES = [["a cat was sitting on the mat"], ["it is raining", "rain"], ["the shop opens\nat nine"]]
SINGLE = [own[0] for own in REFERENCES]
SINGLES = [[text] for text in SINGLE]
NAMED = Columns("hyp", ("gold",))
PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
OPTIONS = "--prediction-column hyp --reference-column gold"


def store(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / name
    path.write_bytes(PACK.get(path.suffix, bytes)(content_of(form_of(name), rows)))
    return path


def read(path: Path, columns: Columns = Columns()) -> tuple[list[str], list[list[str]] | None]:  # noqa: B008
    return read_system(read_file(path, columns), columns)


def rows_of(
    prediction: str = "prediction", reference: str = "reference", references: Any = None
) -> list[dict[str, Any]]:
    texts = zip(PREDICTIONS, SINGLE if references is None else references, strict=True)
    return [{"id": i, prediction: predicted, reference: own} for i, (predicted, own) in enumerate(texts)]


class TestForms:
    @pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz", "packed.txt"])
    def test_lines_of_text_are_unpacked_by_their_bytes(self, name: str, folder: Path) -> None:
        pack = gzip.compress if name == "packed.txt" else PACK.get(Path(name).suffix, bytes)
        (folder / name).write_bytes(pack(b"one\ntwo\n"))
        assert read(folder / name) == (["one", "two"], None)

    def test_hash_is_that_of_the_packed_file(self, folder: Path) -> None:
        packed, plain = (store(folder, name, rows_of()) for name in ("rows.csv.gz", "rows.csv"))
        assert read_file(packed, Columns()).sha256 != read_file(plain, Columns()).sha256

    def test_rated_data_are_unpacked_too(self, folder: Path) -> None:
        rows = [row | {"rating": i} for i, row in enumerate(rows_of())]
        assert read_rated(f"table:{store(folder, 'rated.csv.xz', rows)}").predictions == PREDICTIONS
        assert read_rated(f"table:{store(folder, 'rated.tsv.gz', rows)}").ratings.tolist() == [0, 1, 2]
        wmt = [{"lang": "de-en", "candidate": text, "reference": text, "score": 0} for text in PREDICTIONS[:2]]
        assert read_rated(f"wmt:{store(folder, 'wmt.jsonl.gz', wmt)}").group == ["de-en", "de-en"]


class TestCommands:
    def test_score_of_a_table_is_that_of_its_texts(
        self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = twmd_registry.scorer("twmd").score(PREDICTIONS, SINGLE).score
        store(folder, "rows.csv", rows_of())
        store(folder, "named.tsv.gz", rows_of("hyp", "gold"))
        parquet = store(folder, "gold.parquet", rows_of()).read_bytes()
        (folder / "bytes").write_bytes(parquet)
        lines = content_of(".jsonl", rows_of())
        (folder / "rows.json").write_bytes(lines)
        for line, given in (
            ("-i rows.csv", b""),
            (f"-i named.tsv.gz {OPTIONS}", b""),
            ("gold.parquet -i named.tsv.gz --prediction-column hyp", b""),
            ("-i bytes", b""),
            ("-i rows.json", b""),
            ("", parquet),
            ("-i -", lines),
            ("", gzip.compress(content_of(".csv", rows_of()))),
        ):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            assert float(run(f"score {line} -b -w 7")[1]) == pytest.approx(expected, abs=1e-6)

    def test_record_of_a_table_is_verified_by_its_columns(self, folder: Path, run: Run) -> None:
        store(folder, "rows.csv", rows_of("hyp", "gold"))
        assert run(f"score -i rows.csv --record rec.json {OPTIONS}")[0] == 0
        for line in (f"verify rec.json {OPTIONS}", f"verify rec.json -i rows.csv {OPTIONS}"):
            status, out, err = run(line)
            assert (status, err, "1 of 1 results hold." in out) == (0, "", True)

    def test_report_and_fitted_parts_read_tables(self, folder: Path, run: Run) -> None:
        store(folder, "rows.csv.gz", rows_of("hyp", "gold"))
        assert run(f"report -i rows.csv.gz -m sbert -o report.html {OPTIONS}")[0] == 0
        assert "the shop opens" in (folder / "report.html").read_text(encoding="utf-8")  # words that differ are apart
        assert run(f"fit-mean rows.csv.gz -o means {OPTIONS}")[1].startswith("fitted on 6 texts, ")
        assert run(f"fit-idf rows.csv.gz -o idf {OPTIONS}")[1].startswith("counted over 6 texts")
