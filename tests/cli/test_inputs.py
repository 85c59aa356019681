"""Inputs of commands: metrics with keys and local files, tables, compressed files, documents, sources."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU

import twmd_registry
from tests.cli.parsing import GOOD, REFERENCES
from tests.conftest import Run
from tests.files.test_tables import content_of
from tests.plugins.test_sources import PREDICTIONS, SOURCES
from tests.plugins.test_sources import REFERENCES as TRANSLATIONS
from twmd_registry.files.tables import form_of
from twmd_registry.record.content import Record

PREDICTION, REFERENCE = "the heron of the weir", "a heron at the weir"


class TestSettings:
    def test_metric_may_be_named_twice_with_different_settings(self, files: Path, run: Run) -> None:
        line = "score ref.txt -i good.txt poor.txt -m twmd 'twmd;layer=2' --set layer=3"
        _, out, err = run(line)
        assert out.splitlines()[0].split() == ["system", "twmd", "layer=3", "twmd", "layer=2"]
        left = "--set and --preset change no signatures and no metrics with their own keys"
        assert f"{left}: twmd;layer=2." in err
        signature = twmd_registry.load("twmd", temperature=0.5).signature
        _, out, err = run("score ref.txt -i good.txt poor.txt --set layer=2 -m", str(signature), "twmd")
        assert f"{left}: {signature}." in err
        assert out.splitlines()[0].split() == [
            "system",
            *"twmd layer=4-5 temperature=0.5 twmd layer=2 temperature=0.1".split(),
        ]


@pytest.fixture
def parted(folder: Path) -> Path:
    """Return a working folder with a prediction, a reference and stop words."""
    for name, text in (("hyp.txt", PREDICTION), ("ref.txt", REFERENCE), ("stop.txt", "of\nthe\nat\na")):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def sign(**keys: Any) -> tuple[str, float]:
    scores = twmd_registry.load("moverscore", "wmd", **keys).score([PREDICTION], [REFERENCE])
    return str(scores.signature), scores.score


class TestLocalFiles:
    def test_signature_is_scored_and_drawn_with_its_local_files(self, parted: Path, run: Run) -> None:
        signature, score = sign(stopwords="stop.txt")
        line = "score ref.txt -i hyp.txt -b -w 6 --part stopwords=stop.txt -m"
        assert run(line, signature)[1].strip() == f"{score:.6f}"
        drawn = run("align --part stopwords=stop.txt -m", signature, "--", PREDICTION, REFERENCE)[1]
        assert f"= {score:.4f}" in drawn
        status, _, err = run("score ref.txt -i hyp.txt -m", signature)
        assert (status != 0, "--part stopwords=FILE" in err) == (True, True)


TEXTS = ["the cat sat on the mat", 'it "rains", again', "the shop opens at nine"]
SINGLE = ["a cat was sitting on the mat", "it is raining", "the shop opens\nat nine"]
OPTIONS = "--prediction-column hyp --reference-column gold"


def store(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / name
    content = content_of(form_of(name), rows)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def rows_of(prediction: str = "prediction", reference: str = "reference") -> list[dict[str, Any]]:
    texts = zip(TEXTS, SINGLE, strict=True)
    return [{"id": i, prediction: predicted, reference: expected} for i, (predicted, expected) in enumerate(texts)]


class TestCommands:
    def test_table_scores_equal_its_texts_scores(self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = twmd_registry.load("twmd").score(TEXTS, SINGLE).score
        store(folder, "rows.csv", rows_of())
        store(folder, "named.tsv.gz", rows_of("hyp", "gold"))
        parquet = store(folder, "gold.parquet", rows_of()).read_bytes()
        (folder / "bytes").write_bytes(parquet)
        lines = content_of(".jsonl", rows_of())
        (folder / "rows.json").write_bytes(lines)
        for line, sources in (
            ("-i rows.csv", b""),
            (f"-i named.tsv.gz {OPTIONS} --quoted-tsv", b""),
            ("gold.parquet -i named.tsv.gz --prediction-column hyp --quoted-tsv", b""),
            ("-i bytes", b""),
            ("-i rows.json", b""),
            ("-i -", json.dumps(rows_of(), indent=2).encode()),
            ("", parquet),
            ("-i -", lines),
            ("", gzip.compress(content_of(".csv", rows_of()))),
        ):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sources)))
            assert float(run(f"score {line} -b -w 7")[1]) == pytest.approx(expected, abs=1e-6)

    def test_record_of_a_table_is_verified_by_its_columns(self, folder: Path, run: Run) -> None:
        store(folder, "rows.csv", [{**row, "Ref_2": "x", "referee": "y"} for row in rows_of("hyp", "reference")])
        assert "rows.csv: not read: Ref_2; name all" in run("score -i rows.csv --prediction-column hyp -b")[2]
        store(folder, "rows.csv", rows_of("hyp", "gold"))
        assert run(f"score -i rows.csv --record rec.json {OPTIONS}")[0] == 0
        for line in (f"verify rec.json {OPTIONS}", f"verify rec.json -i rows.csv {OPTIONS}"):
            status, out, err = run(line)
            assert (status, "1 of 1 results reproduced." in out) == (0, True)
            assert re.fullmatch(r"twmd: to compute: .+\n", err), "no warnings"

    def test_report_and_fitted_parts_read_tables(self, folder: Path, run: Run) -> None:
        store(folder, "rows.csv.gz", rows_of("hyp", "gold"))
        assert run(f"report -i rows.csv.gz -m sbert -o report.html {OPTIONS}")[0] == 0
        assert "the shop opens" in (folder / "report.html").read_text(
            encoding="utf-8"
        )  # different words are listed separately
        assert run(f"fit mean rows.csv.gz -o means {OPTIONS}")[1].startswith("fitted on 6 texts, ")
        assert run(f"fit idf rows.csv.gz -o idf {OPTIONS}")[1].startswith("counted over 6 texts")


STRUCTURED = [
    '{"hyp": "a"}\n{"hyp": "b"}\n{"hyp": "c"}\n',
    '<?xml version="1.0"?>\n<dataset>\n</dataset>\n',
    "0 ||| a ||| -1\n1 ||| b ||| -1\n2 ||| c ||| -1\n",
    "a\td\nb\te\nc\tf\n",
    "a\rb\rc\r",
]


class TestStructure:
    """Content that is not one text per line, in every command that reads texts."""

    @pytest.mark.parametrize("content", STRUCTURED)
    def test_no_command_reads_structured_content_as_lines(
        self, content: str, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (files / "x").write_bytes(content.encode())
        for line in (
            "score ref.txt -i x",
            "score x -i good.txt",
            "score ref.txt",
            "score ref.txt -i good.txt --src x",
            "report ref.txt -i x -o page.html",
            "fit idf x -o idf",
            *(["mbr -i x --num-samples 3"] * ("|||" not in content)),
        ):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
            status, out, err = run(line)
            assert (status != 0, out, err.count("\n")) == (True, "", 1), line

    def test_arrays_of_texts_are_lines_and_any_format_can_be_forced(self, files: Path, run: Run) -> None:
        score = run("score ref.txt -i good.txt -b -w 7")[1]
        (files / "good.json").write_text(json.dumps(GOOD, indent=1), encoding="utf-8")
        assert run("score ref.txt -i good.json -b -w 7")[1] == score
        (files / "own.json").write_text("".join(f"0 ||| {text}\n" for text in GOOD), encoding="utf-8")
        (files / "own.ref").write_text("".join(f"0 ||| {text}\n" for text in REFERENCES), encoding="utf-8")
        predictions, references = ([f"0 ||| {text}" for text in texts] for texts in (GOOD, REFERENCES))
        expected = twmd_registry.score(predictions, references).score
        found = run("score own.ref -i own.json --lines -b -w 7")[1]
        assert float(found) == pytest.approx(expected, abs=1e-6)
        assert "--lines" in run("score own.ref -i good.txt")[2]

    def test_nbest_list_has_the_candidates_of_every_segment(self, files: Path, run: Run) -> None:
        lists = [["it rains", "it rained", "a cat"], ["yes", "yes"]]
        rows = "".join(f"{i} ||| {text} ||| f= 1 ||| -1\n" for i, texts in enumerate(lists) for text in texts)
        (files / "nbest.txt").write_text(rows, encoding="utf-8")
        table = "".join(json.dumps({"candidates": texts}) + "\n" for texts in lists)
        (files / "rows.jsonl").write_text(table, encoding="utf-8")
        assert run("mbr -i nbest.txt")[1] == run("mbr -i rows.jsonl")[1] != ""
        assert "n-best" in run("mbr -i nbest.txt --num-samples 5")[2]

    def test_record_of_files_with_lf_is_verified_with_cr_lf(self, files: Path, run: Run) -> None:
        (files / "rows.tsv").write_bytes(b'prediction\treference\n"a cat"\tthe\rcat\nb\td\n')
        for record in ("score ref.txt -i good.txt poor.txt", "score -i rows.tsv"):
            assert run(f"{record} --record rec.json")[0] == 0
            for path in files.iterdir():
                path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
            status, out, err = run("verify rec.json")
            assert (status, "reproduced." in out, "sha256" in out) == (0, True, False)
            assert re.fullmatch(r"twmd: to compute: .+\n", err), "no warnings"
            for path in files.iterdir():
                path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))


SCORE = "score ref.txt -i good.txt poor.txt -m twmd bleu --docs my.docs"


@pytest.fixture
def documents(files: Path) -> Path:
    (files / "my.docs").write_text("news\td1\nchat\td2\nnews\td1\n", encoding="utf-8")
    return files


def test_every_format_has_the_scores_of_documents(documents: Path, run: Run) -> None:
    rows = json.loads(run(f"{SCORE} --format json")[1])
    expected = twmd_registry.score(GOOD, REFERENCES).by_document(["d1", "d2", "d1"])
    assert rows[0]["documents"] == {
        name: pytest.approx(scores.as_dict(), abs=1e-6) for name, scores in expected.items()
    }
    (documents / "same.docs").write_text("news\td1\nchat\td1\nnews\td1\n", encoding="utf-8")
    renamed = json.loads(run(f"{SCORE.replace('my', 'same')} --format json")[1])[0]["documents"]
    assert renamed == {"news/d1": rows[0]["documents"]["d1"], "chat/d1": rows[0]["documents"]["d2"]}
    first = BLEU().corpus_score([GOOD[0], GOOD[2]], [[REFERENCES[0], REFERENCES[2]]]).score
    assert rows[1]["documents"]["d1"]["score"] == pytest.approx(first)
    shown = f"{rows[0]['documents']['d1']['score']:.4f} ({rows[0]['documents']['d1']['mean']:.4f} ± "
    for form in ("text", "markdown", "latex"):
        out = run(f"{SCORE} --format {form}")[1]
        (line,) = [line for line in out.splitlines() if "d1" in line.split() and "good.txt" in line]
        assert shown.replace("±", r"$\pm$" if form == "latex" else "±") in line
    head, *lines = [line.split("\t") for line in run(f"{SCORE} --format tsv")[1].splitlines()]
    table = [dict(zip(head, line, strict=True)) for line in lines]
    assert [row["document"] for row in table] == ["-", "d1", "d2"] * 4
    assert [row["segments"] for row in table[:3]] == ["3", "2", "1"]
    assert (table[1]["score"], table[2]["ci"]) == (shown.split(maxsplit=1)[0], "-")


def test_resamples_and_seed_match_other_intervals(documents: Path, run: Run) -> None:
    found = json.loads(run(f"{SCORE} --confidence --confidence-n 50 --seed 3 --format json")[1])[0]["documents"]
    scores = twmd_registry.score(GOOD, REFERENCES)
    expected = scores.by_document(["d1", "d2", "d1"], resamples=50, seed=3)
    assert found["d1"] == pytest.approx(expected["d1"].as_dict(), abs=1e-6)


def test_record_with_documents_is_verified_and_names_changes(documents: Path, run: Run) -> None:
    assert run(f"{SCORE} --record out.json")[0] == 0
    verify = "verify out.json ref.txt -i good.txt poor.txt"
    assert run(verify)[0] == 0
    record = twmd_registry.read_record("out.json")
    assert isinstance(record, Record)
    assert record.documents == ("d1", "d2", "d1")
    assert record.systems[0].results[1].documents["d2"].segments == 1
    table = json.loads((documents / "out.json").read_text(encoding="utf-8"))
    table["systems"][0]["results"][0]["documents"]["d1"]["ci"] += 0.01
    (documents / "out.json").write_text(json.dumps(table), encoding="utf-8")
    status, out, _ = run(verify)
    assert status == 1
    assert "documents: the recorded scores and seed give other numbers for 1 of 2" in out
    table["documents"] = [1]
    (documents / "out.json").write_text(json.dumps(table), encoding="utf-8")
    assert "record.documents[0] must be a text, not 1" in run(verify)[2]


def test_column_names_the_same_documents_as_a_file(documents: Path, run: Run) -> None:
    rows = [
        {"prediction": text, "reference": reference, "talk": talk}
        for text, reference, talk in zip(GOOD, REFERENCES, (1, "d2", 1), strict=True)
    ]
    (documents / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = json.loads(run("score -i rows.jsonl --doc-column talk --format json")[1])[0]["documents"]
    whole = json.loads(run(f"{SCORE} --format json")[1])[0]["documents"]
    assert found == {"1": whole["d1"], "d2": whole["d2"]}


class TestSentences:
    """Rows of a document are its sentences."""

    PREDICTION = "the cat sat on the mat\nit rains\nwe saw a dog"
    REFERENCE = "a cat was sitting on the mat\nwe saw the dog"
    COLUMNS = "--doc-column talk --set align=sentences"

    @pytest.fixture
    def talks(self, files: Path) -> Path:
        for name, column, text in (("hyp", "prediction", self.PREDICTION), ("ref", "reference", self.REFERENCE)):
            rows = [{column: line, "talk": "t1"} for line in text.split("\n")]
            rows.insert(1, {column: "a short talk", "talk": "t2"})
            (files / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return files

    def test_rows_of_a_document_are_matched_like_sentences(self, talks: Path, run: Run) -> None:
        (found,) = json.loads(run(f"score ref.jsonl -i hyp.jsonl {self.COLUMNS} --format json")[1])
        expected = twmd_registry.score([self.PREDICTION], [self.REFERENCE], align="sentences")
        assert found["documents"]["t1"] == {"segments": 1, "score": pytest.approx(expected.score, abs=1e-6)}
        assert found["documents"]["t2"]["score"] == pytest.approx(1, abs=1e-6)
        assert (found["segments"], found["links"], found["unmatched_predictions"]) == (2, 3, 1)

    def test_record_and_number_of_joined_rows_can_be_verified(self, talks: Path, run: Run) -> None:
        assert run(f"score ref.jsonl -i hyp.jsonl {self.COLUMNS} --record out.json")[0] == 0
        assert run("verify out.json --doc-column talk")[0] == 0
        status, _, err = run("verify out.json")
        assert (status, err.count("\n")) == (2, 1)
        assert "--doc-column NAME or --docs FILE" in err
        (result,) = twmd_registry.read_record("out.json").systems[0].results
        line = f"{result.score:.6f} ref.jsonl -i hyp.jsonl --doc-column talk"
        assert run(f"verify {shlex.quote(result.signature)} {line}")[0] == 0
        assert "a number as printed" in run(f"verify {shlex.quote(result.signature)} {line.partition(' ')[2]}")[2]

    def test_lists_of_references_are_joined_one_by_one(self, files: Path, run: Run) -> None:
        rows = [{"prediction": text, "references": [text, "x"], "talk": "t"} for text in self.PREDICTION.split("\n")]
        (files / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        (found,) = json.loads(run(f"score -i rows.jsonl {self.COLUMNS} --format json")[1])
        assert found["score"] == pytest.approx(1, abs=1e-6)
        assert "|nrefs:2|" in found["signature"]
        rows[1]["references"] = ["x"]
        (files / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        message = "rows.jsonl: the rows of document t have different numbers of references"
        assert message in run(f"score -i rows.jsonl {self.COLUMNS}")[2]


SOURCE = ("-m", "twmd;against=source")
BOTH = "twmd;against=both"


@pytest.fixture
def translation(folder: Path) -> Path:
    """Return a working folder with predictions, sources, references, and a table of predictions with sources."""
    for name, lines in (("hyp", PREDICTIONS), ("src", SOURCES), ("ref", TRANSLATIONS)):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows = [{"prediction": prediction, "source": text} for prediction, text in zip(PREDICTIONS, SOURCES, strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "hyp.csv").write_text("prediction,other\nit rains,x\nit snows,y\n", encoding="utf-8")
    return folder


def test_command_scores_records_and_verifies_with_sources(translation: Path, run: Run) -> None:
    expected = twmd_registry.score(PREDICTIONS, sources=SOURCES, against="source")
    assert run("score -i hyp.txt --src src.txt --record own.json -b -w 9", *SOURCE)[0] == 0
    recorded = twmd_registry.read_record("own.json").systems[0].results[0]
    assert recorded.scores == pytest.approx(expected.scores)
    assert run("verify own.json")[0] == 0
    assert run("verify own.json -i hyp.txt --src ref.txt")[0] == 1
    assert run(f"verify '{expected.signature}' {expected.score:.5f} -i hyp.txt --src src.txt")[0] == 0
    same = run("score -i hyp.txt --src rows.jsonl -b -w 9", *SOURCE)[1]
    assert float(same) == pytest.approx(expected.score, abs=1e-6)
    assert run("score -i rows.jsonl -b -w 9", *SOURCE)[1] == same
    both = run("score ref.txt -i hyp.txt --src src.txt -b -w 9 -m", BOTH)[1]
    expected = twmd_registry.score(PREDICTIONS, TRANSLATIONS, sources=SOURCES, against="both")
    assert float(both) == pytest.approx(expected.score, abs=1e-6)
    (translation / "src.txt").unlink()
    assert "src.txt (--src) is neither here nor in" in run("verify own.json")[2]


def test_report_shows_scores_against_both_without_alignment(translation: Path, run: Run) -> None:
    assert run("report ref.txt -i hyp.txt ref.txt --src src.txt -o page.html -m bleu", BOTH)[0] == 0
    page = (translation / "page.html").read_text(encoding="utf-8")
    assert "|against:both|" in page
    assert "no metric has an alignment to show" in page


def test_rows_without_a_source_are_counted_and_empty_source_lines_named(translation: Path, run: Run) -> None:
    rows = [{"prediction": "it rained", "source": text} for text in ("there was rain", None)]
    (translation / "gap.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _, out, err = run("score -i gap.jsonl -sl -w 2", *SOURCE)
    assert (out.splitlines()[1], "texts without a token: 1" in err) == ("0.00", True)
    (translation / "gap.txt").write_text("there was rain\n \n", encoding="utf-8")
    for src in ("gap.txt", "gap.jsonl"):
        error = run(f"score -i hyp.txt --src {src}", *SOURCE)[2]
        assert f"{src} has no text in 1 rows, the first of them row 2." in error


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
def test_rows_without_a_prediction_are_refused_by_number_or_skipped(form: str, folder: Path, run: Run) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {"prediction": ["a cat", None, "it rains", None], "reference": ["a dog", "b", "it pours", "c"]}
    )
    if form == "jsonl":
        frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    elif form == "parquet":
        frame.to_parquet(folder / "t.parquet")
    else:
        frame.to_csv(folder / f"t.{form}", index=False, sep="," if form == "csv" else "\t")
    first = 3 if form in {"csv", "tsv"} else 2  # the header is row 1
    status, _, refused = run(f"score -i t.{form} -m bleu")
    assert (status, f"row {first}" in refused, f": {first + 2}." in refused) == (1, True, True)
    status, shown, warned = run(f"score -i t.{form} -m twmd -sl --drop-missing")
    assert (status, len(shown.split()), "2, 4" in warned) == (0, 2, True)
