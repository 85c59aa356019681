"""``twmd score`` with documents: by a .docs file or a column, in every format and in the record."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

import twmd_registry
from tests.cli.parsing import GOOD, REFERENCES
from tests.conftest import Run
from twmd_registry.record.content import Record

SCORE = "score ref.txt -i good.txt poor.txt -m twmd bleu --docs my.docs"


@pytest.fixture
def documents(files: Path) -> Path:
    (files / "my.docs").write_text("news\td1\nchat\td2\nnews\td1\n", encoding="utf-8")
    return files


def test_every_format_has_the_scores_of_documents(documents: Path, run: Run) -> None:
    rows = json.loads(run(f"{SCORE} --format json")[1])
    expected = twmd_registry.score(GOOD, REFERENCES).by_document(["d1", "d2", "d1"])
    assert rows[0]["documents"] == {name: pytest.approx(own.as_dict(), abs=1e-6) for name, own in expected.items()}
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


def test_resamples_and_seed_are_those_of_other_intervals(documents: Path, run: Run) -> None:
    found = json.loads(run(f"{SCORE} --confidence --confidence-n 50 --seed 3 --format json")[1])[0]["documents"]
    scores = twmd_registry.score(GOOD, REFERENCES)
    expected = scores.by_document(["d1", "d2", "d1"], resamples=50, seed=3)
    assert found["d1"] == pytest.approx(expected["d1"].as_dict(), abs=1e-6)


def test_record_with_documents_can_be_verified_and_names_what_was_changed(documents: Path, run: Run) -> None:
    assert run(f"{SCORE} --record out.json")[0] == 0
    verify = "verify out.json --refs ref.txt --hyps good.txt poor.txt"
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

    def test_rows_of_a_document_are_matched_as_its_sentences(self, talks: Path, run: Run) -> None:
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
        assert "name the documents as they were named then, by --doc-column NAME or --docs FILE" in err
        (result,) = twmd_registry.read_record("out.json").systems[0].results
        line = f"{result.score:.6f} ref.jsonl -i hyp.jsonl --doc-column talk"
        assert run(f"verify {shlex.quote(result.signature)} {line}")[0] == 0

    def test_lines_of_a_document_are_matched_too(self, documents: Path, run: Run) -> None:
        (found,) = json.loads(run("score ref.txt -i good.txt --docs my.docs --set align=sentences --format json")[1])
        joined = [["\n".join([texts[0], texts[2]]), texts[1]] for texts in (GOOD, REFERENCES)]
        expected = twmd_registry.score(joined[0], joined[1], align="sentences").by_document(["d1", "d2"])
        assert found["documents"] == {name: pytest.approx(own.as_dict(), abs=1e-6) for name, own in expected.items()}

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
