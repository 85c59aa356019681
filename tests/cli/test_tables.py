"""Tables and compressed files, in every command that reads texts; one fixture of texts, stored in every form."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twmd_registry
from tests.judgments.test_reader import content_of
from twmd_registry.cli import main
from twmd_registry.cli.inputs import read_references, read_system, read_texts
from twmd_registry.errors import FileError
from twmd_registry.judgments.reader import Columns, form_of
from twmd_registry.judgments.sets import read_rated

PREDICTIONS = ["the cat sat on the mat", 'it "rains", again', "the shop opens at nine"]
REFERENCES = [["a cat was sitting on the mat"], ["it is raining", "rain"], ["the shop opens\nat nine"]]
SINGLE = [own[0] for own in REFERENCES]
PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def stored(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / name
    path.write_bytes(PACK.get(path.suffix, bytes)(content_of(form_of(name), rows)))
    return path


def rows_of(
    prediction: str = "prediction", reference: str = "reference", references: list[Any] | None = None
) -> list[dict[str, Any]]:
    texts = zip(PREDICTIONS, SINGLE if references is None else references, strict=True)
    return [{"id": i, prediction: predicted, reference: own} for i, (predicted, own) in enumerate(texts)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(list(arguments))
    except SystemExit as stop:
        status = int(stop.code or 0)
    return status, *capsys.readouterr()


class TestForms:
    @pytest.mark.parametrize("suffix", [".csv.gz", ".tsv", ".jsonl.xz", ".parquet"])
    def test_every_form_gives_the_texts_of_its_columns(self, suffix: str, folder: Path) -> None:
        found = read_system(stored(folder, f"rows{suffix}", rows_of()))
        assert (found.predictions, found.references) == (PREDICTIONS, [[text] for text in SINGLE])
        several = read_system(
            stored(folder, f"several{suffix}", rows_of("hyp", "refs", REFERENCES)), Columns("hyp", ("refs",))
        )
        assert (several.predictions, several.references) == (PREDICTIONS, REFERENCES)

    @pytest.mark.parametrize("packed", PACK)
    def test_lines_of_text_are_unpacked(self, packed: str, folder: Path) -> None:
        (folder / f"ref.txt{packed}").write_bytes(PACK[packed](b"one\ntwo\n"))
        assert read_system(folder / f"ref.txt{packed}").predictions == ["one", "two"]

    def test_packed_file_is_known_by_its_bytes_whatever_its_name(self, folder: Path) -> None:
        (folder / "ref.txt").write_bytes(gzip.compress(b"one\n", mtime=0))
        assert read_references([folder / "ref.txt"])[1] == [["one"]]

    def test_hash_is_that_of_the_file_as_it_is(self, folder: Path) -> None:
        packed, plain = (stored(folder, name, rows_of()) for name in ("rows.csv.gz", "rows.csv"))
        assert read_system(packed).source.sha256 != read_system(plain).source.sha256

    @pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.dat.gz"])
    @pytest.mark.parametrize("sign", [",", ";", "\t"])
    def test_header_with_a_known_column_tells_a_table(self, name: str, sign: str, folder: Path) -> None:
        pack = gzip.compress if name.endswith(".gz") else bytes
        (folder / name).write_bytes(pack(content_of(".csv", rows_of(), sign)))
        assert read_system(folder / name).predictions == PREDICTIONS
        (folder / name).write_bytes(pack(content_of(".csv", rows_of("hyp", "gold"), sign)))
        assert read_system(folder / name, Columns("hyp", ("gold",))).references == [[text] for text in SINGLE]

    @pytest.mark.parametrize(
        "line",
        [
            "prediction, and other words",
            "prediction",
            "a reference,to it",
            "reference,reference",
            'prediction,"',
            "x,,reference",
        ],
    )
    def test_first_line_that_is_no_header_is_text(self, line: str, folder: Path) -> None:
        (folder / "hyp.txt").write_text(f"{line}\nit rains\n", encoding="utf-8")
        assert read_system(folder / "hyp.txt").predictions == [line, "it rains"]

    def test_cell_with_a_json_list_holds_several_references(self, folder: Path) -> None:
        content = 'prediction,references\na,"[""b"", ""c""]"\na,[music] plays\na,"[ ""d"" ]"\n'
        (folder / "rows.csv").write_text(content, encoding="utf-8")
        assert read_system(folder / "rows.csv").references == [["b", "c"], ["[music] plays"], ["d"]]

    def test_every_text_of_a_table_is_read_for_fitting(self, folder: Path) -> None:
        assert read_texts([stored(folder, "rows.parquet", rows_of("prediction", "references", REFERENCES))]) == [
            *PREDICTIONS,
            *(text for own in REFERENCES for text in own),
        ]

    def test_rated_data_are_unpacked_too(self, folder: Path) -> None:
        rows = [row | {"rating": i} for i, row in enumerate(rows_of())]
        assert read_rated(f"table:{stored(folder, 'rated.csv.xz', rows)}").predictions == PREDICTIONS
        assert read_rated(f"table:{stored(folder, 'rated.tsv.gz', rows)}").ratings.tolist() == [0, 1, 2]
        wmt = [{"lang": "de-en", "candidate": text, "reference": text, "score": 0} for text in PREDICTIONS[:2]]
        assert read_rated(f"wmt:{stored(folder, 'wmt.jsonl.gz', wmt)}").group == ["de-en", "de-en"]


class TestBadTables:
    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            (
                "a.csv",
                b"prediction,reference,references\na,b,c\n",
                "a.csv, row 2 (row 1 is the header): both 'references' and 'reference' are there: keep one of them",
            ),
            (
                "a.csv",
                b"prediction,refrence\na,b\n",
                "no references for a.csv: name a reference file before -i, or give a table",
            ),
            (
                "a.csv",
                b"text,reference\na,b\n",
                "a.csv, row 1 (the header): no column 'prediction'; Choices: text, reference.",
            ),
            ("a.csv", b"prediction,reference\n", "a.csv: there is no row under the header."),
            ("a.csv", b"PAR1\xff", "a.csv is a Parquet file: give it a name that ends in .parquet."),
            ("a.txt.gz", gzip.compress(b"one\ntwo\n", mtime=0)[:-9], "a.txt.gz is compressed and cannot be unpacked"),
            ("a.txt.xz", lzma.compress(b"one\ntwo\n")[:-9], "a.txt.xz is compressed and cannot be unpacked"),
            ("a.txt.gz", gzip.compress(b"", mtime=0), "a.txt.gz is empty."),
            (
                "a.txt.bz2",
                bz2.compress(b"one\n"),
                "a.txt.bz2 is compressed (bzip2), which is not read here: unpack it first.",
            ),
            (
                "a.txt.zst",
                b"\x28\xb5\x2f\xfd\x04\x00",
                "a.txt.zst is compressed (zstd), which is not read here: unpack it first.",
            ),
            ("a.jsonl.gz", gzip.compress(b"\xff\n", mtime=0), "a.jsonl.gz is not UTF-8: byte 0xff in line 1."),
        ],
    )
    def test_bad_table_is_refused_in_one_line_with_its_row(
        self, name: str, content: bytes, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / name).write_bytes(content)
        status, out, err = run(capsys, "score", "-i", name)
        assert status in {1, 2}
        assert out == ""
        assert err.startswith(f"twmd: {words}"), err
        assert len(err.splitlines()) == 1

    def test_columns_beside_lines_of_text_are_refused(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "a.txt").write_text("a\n", encoding="utf-8")
        status, _, err = run(capsys, "score", "a.txt", "-i", "a.txt", "--prediction-column", "hyp")
        assert (status, "are for tables (JSON lines, CSV, TSV, Parquet), and no file is one" in err) == (2, True)
        assert run(capsys, "fit-mean", "a.txt", "-o", "means", "--reference-column", "ref")[0] == 2

    def test_prediction_and_reference_files_of_different_length_are_named(self, folder: Path) -> None:
        (folder / "short.txt").write_text("a\n", encoding="utf-8")
        with pytest.raises(FileError, match=r"short\.txt has 1 lines but .*rows\.csv has 3"):
            read_references([stored(folder, "rows.csv", rows_of()), folder / "short.txt"])


class TestCommands:
    def test_score_reads_tables_as_python_is_given_their_texts(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        expected = twmd_registry.scorer("twmd").score(PREDICTIONS, SINGLE).score
        stored(folder, "rows.csv", rows_of())
        stored(folder, "named.tsv.gz", rows_of("hyp", "gold"))
        stored(folder, "gold.parquet", rows_of("other", "reference"))
        for arguments in (
            ("-i", "rows.csv"),
            ("-i", "named.tsv.gz", "--prediction-column", "hyp", "--reference-column", "gold"),
            ("gold.parquet", "-i", "named.tsv.gz", "--prediction-column", "hyp"),
        ):
            status, out, _ = run(capsys, "score", *arguments, "-b", "-w", "7")
            assert status == 0
            assert float(out) == pytest.approx(expected, abs=1e-6)

    def test_standard_input_may_be_a_packed_table(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = twmd_registry.scorer("twmd").score(PREDICTIONS, SINGLE).score
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(content_of(".csv", rows_of())))))
        assert float(run(capsys, "score", "-b", "-w", "7")[1]) == pytest.approx(expected, abs=1e-6)

    def test_parquet_is_known_by_its_bytes_in_a_file_without_a_suffix_and_on_standard_input(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = twmd_registry.scorer("twmd").score(PREDICTIONS, SINGLE).score
        content = stored(folder, "rows.parquet", rows_of()).read_bytes()
        (folder / "rows").write_bytes(content)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        for arguments in (("-i", "rows"), ()):
            assert float(run(capsys, "score", *arguments, "-b", "-w", "7")[1]) == pytest.approx(expected, abs=1e-6)

    def test_record_of_a_table_is_verified_by_its_columns(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stored(folder, "rows.csv", rows_of("hyp", "gold"))
        columns = ("--prediction-column", "hyp", "--reference-column", "gold")
        assert run(capsys, "score", "-i", "rows.csv", *columns, "--record", "rec.json")[0] == 0
        for inputs in ((), ("-i", "rows.csv")):
            status, out, err = run(capsys, "verify", "rec.json", *inputs, *columns)
            assert (status, err) == (0, "")
            assert "1 of 1 results hold." in out

    def test_report_and_fitted_parts_read_tables(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        stored(folder, "rows.csv.gz", rows_of("hyp", "gold"))
        columns = ("--prediction-column", "hyp", "--reference-column", "gold")
        assert run(capsys, "report", "-i", "rows.csv.gz", "-m", "sbert", "-o", "report.html", *columns)[0] == 0
        assert "the shop opens" in (folder / "report.html").read_text(encoding="utf-8")  # words that differ are apart
        assert run(capsys, "fit-mean", "rows.csv.gz", "-o", "means", *columns)[1].startswith("fitted on 6 texts, ")
        assert run(capsys, "fit-idf", "rows.csv.gz", "-o", "idf", *columns)[1].startswith("counted over 6 texts")
