"""Scores of other programs, in four formats, in score, report, correlate, a record and Python."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import Refused, Run, Texts
from twmd_registry.comparison.cells import Resampling
from twmd_registry.comparison.systems import compare_systems
from twmd_registry.errors import InputError, TwmdError
from twmd_registry.record.content import read_record

R = np.random.default_rng(5)
SCORES = {"a": [round(x, 4) for x in R.uniform(0.6, 0.9, 16)], "b": [round(x, 4) for x in R.uniform(0.4, 0.8, 16)]}
ROWS = [(name, value) for name, values in SCORES.items() for value in values]
FILES = {
    "a.score": "".join(f"{value}\n" for value in SCORES["a"]),
    "b.score": "".join(f"{value}\n" for value in SCORES["b"]),
    "comet.json": json.dumps(
        {
            f"out/{name}.txt": [{"src": "", "mt": "", "COMET": value} for value in values]
            for name, values in SCORES.items()
        }
    ),
    "wmt.seg.score": "".join(f"{name}\t{value}\n" for name, value in ROWS),
    "table.csv": "".join(["system,judge\n", *(f"{name},{value}\n" for name, value in ROWS)]),
    "rows.jsonl": "".join(json.dumps({"system": name, "score": value}) + "\n" for name, value in ROWS),
}
SYSTEMS = "ref.txt -i a.txt b.txt"


@pytest.fixture(autouse=True)
def _files(folder: Path, texts: Texts) -> None:
    for name, lines in (("ref", texts.references), ("a", texts.predictions), ("b", texts.predictions[::-1])):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")


def test_every_format_makes_the_same_column_with_intervals_and_tests(run: Run, texts: Texts) -> None:
    named = "L=a.score L=b.score C=comet.json W=wmt.seg.score judge=table.csv J=rows.jsonl"
    status, out, _ = run(f"score {SYSTEMS} -m bleu --scores {named} --paired-bs -sl --format json")
    rows = json.loads(out)
    assert (status, [row["metric"] for row in rows[:6]]) == (0, ["BLEU", "L", "C", "W", "judge", "J"])
    for first, second in zip(rows[1:6], rows[7:], strict=True):
        assert (first["scores"], second["scores"]) == (SCORES["a"], SCORES["b"])
        assert second["score"] == pytest.approx(np.mean(SCORES["b"]))
        assert 0 < second["p_value"] < 0.05
        assert second["ci"] > 0
        assert "|verifiable:no|" in first["signature"]
    systems = [("a.txt", texts.predictions), ("b.txt", texts.predictions[::-1])]
    for lists in (list(SCORES.values()), {"b.txt": SCORES["b"], "a.txt": SCORES["a"]}):
        scores: Any = {"COMET": lists}
        table = compare_systems(
            systems, [[text] for text in texts.references], [], resampling=Resampling("bs", 1000), scores=scores
        )
        assert [(cell.p_value, cell.ci) for cell in table.columns[0].cells] == [
            (row.get("p_value"), row["ci"]) for row in (rows[1], rows[7])
        ]


def test_record_names_the_file_and_verify_skips_external_scores(run: Run, folder: Path) -> None:
    line = f"score {SYSTEMS} --scores COMET=comet.json --paired-ar --record record.json"
    assert run(line)[0] == 0
    record = read_record("record.json")
    digest = hashlib.sha256((folder / "comet.json").read_bytes()).hexdigest()
    assert ("scores", "comet.json", digest) in record.inputs
    result = record.systems[1].results[1]
    assert (result.is_external, result.hashes, len(result.scores)) == (True, {"scores": (digest,)}, 16)
    status, out, _ = run("verify record.json ref.txt -i a.txt b.txt")
    assert (status, "not verified: COMET" in out, "2 of 2 results" in out) == (0, True, True)
    status, out, _ = run("cite record.json")
    assert (status, "COMET" in out) == (0, False)


def test_every_figure_of_the_report_includes_them(run: Run, folder: Path) -> None:
    assert run(f"report {SYSTEMS} -m twmd --scores COMET=comet.json -o report.html")[0] == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("COMET (↑ higher is better)") >= 2
    assert "COMET ranks it" in page


def test_correlate_compares_them_with_human_ratings(run: Run, folder: Path) -> None:
    ratings = {name: [value + R.normal(0, 0.05) for value in values] for name, values in SCORES.items()}
    rows = [
        {"prediction": "a", "reference": "b", "rating": rating, "system": name, "item": str(k)}
        for name, values in ratings.items()
        for k, rating in enumerate(values)
    ]
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "lines.txt").write_text(FILES["a.score"] + FILES["b.score"], encoding="utf-8")
    options = "table:rated.jsonl -m bleu --scores COMET=comet.json X=wmt.seg.score L=lines.txt --resamples 0 --by none"
    status, out, errors = run(f"correlate {options} --format json")
    assert status == 0, errors
    expected = np.corrcoef([value for _, value in ROWS], [rating for values in ratings.values() for rating in values])
    found = {metric["label"]: metric for metric in json.loads(out)["metrics"]}
    assert found.keys() >= {"COMET", "X", "L"}, found
    assert json.dumps(found["COMET"]).count("verifiable:no") == 1
    for name in ("COMET", "X", "L"):
        assert f"{expected[0, 1]:.6f}"[:7] in json.dumps(found[name])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (FILES["wmt.seg.score"] + "c\t0.1\n", "x.seg.score, row 33"),
        (FILES["wmt.seg.score"].rpartition("b")[0], "x.seg.score has 15 scores of b.txt for 16 segments: segment 16"),
        (FILES["wmt.seg.score"].replace(f"a\t{SCORES['a'][2]}", "a\tnan"), "x.seg.score, row 3: expected a score"),
        (FILES["wmt.seg.score"].replace(f"a\t{SCORES['a'][2]}", "a\tNone"), "x.seg.score, row 3: expected a score"),
        (FILES["a.score"], "scores of 1 systems, but 2 are compared"),
        (FILES["wmt.seg.score"].replace("b\t", "a.txt\t"), "row 17: 'a.txt' and another name both stand for a.txt"),
        (FILES["wmt.seg.score"].replace("b\t", "b.small\t"), "row 17: no system 'b.small'"),
    ],
)
def test_wrong_files_name_row_and_file(content: str, words: str, folder: Path, refused: Refused) -> None:
    (folder / "x.seg.score").write_text(content, encoding="utf-8")
    refused(f"score {SYSTEMS} -m bleu --scores COMET=x.seg.score", words, status=1)


@pytest.mark.parametrize("name", ["gpt-4.5", "gpt-4", "gpt-4.txt"])
def test_another_version_makes_another_system(name: str, run: Run, folder: Path, refused: Refused) -> None:
    for system in ("gpt-4.1.de-en.txt", "b.txt"):
        (folder / system).write_text((folder / "a.txt").read_text(encoding="utf-8"), encoding="utf-8")
    line = "score ref.txt -i gpt-4.1.de-en.txt b.txt -m bleu --scores COMET=x.score"
    for found, status in ((name, 1), ("gpt-4.1", 0), ("out/gpt-4.1.de-en.json", 0)):
        (folder / "x.score").write_text(FILES["wmt.seg.score"].replace("a\t", f"{found}\t"), encoding="utf-8")
        if status:
            refused(line, f"no system '{found}'", status=status)
        else:
            assert run(line)[0] == 0


def test_duplicate_system_in_json_is_refused(folder: Path, refused: Refused) -> None:
    (folder / "x.json").write_text('{"a": [0.1], "b": [0.2], "a": [0.3]}', encoding="utf-8")
    refused(f"score {SYSTEMS} -m bleu --scores COMET=x.json", "twice", status=1)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("COMET", "expected NAME=FILE"),
        ("twmd=comet.json", "another name"),
        ("a|b=comet.json", "without blanks"),
    ],
)
def test_wrong_options_are_refused(option: str, words: str, refused: Refused) -> None:
    refused(f"score {SYSTEMS} -m bleu --scores {option}", words)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([SCORES["a"], SCORES["b"][:3]], "found 3"),
        ([SCORES["a"], [float("nan"), *SCORES["b"][1:]]], "row 0"),
        ({"a": SCORES["a"], "c": SCORES["b"]}, "unknown system"),
        (0.5, "list of numbers"),
        ([["0.1"] * 16] * 2, "row 0"),
    ],
)
def test_wrong_lists_name_system_and_row(scores: Any, words: str, texts: Texts) -> None:
    systems = [("a", texts.predictions), ("b", texts.predictions)]
    with pytest.raises(InputError, match=words):
        compare_systems(systems, [[text] for text in texts.references], ["bleu"], scores={"COMET": scores})


@pytest.mark.parametrize("given", [np.array, torch.tensor, pd.DataFrame, iter])
def test_arrays_tensors_and_tables_are_accepted(given: Any, texts: Texts) -> None:
    scores = SCORES if given is pd.DataFrame else list(SCORES.values())
    systems = [("a", texts.predictions), ("b", texts.predictions)]
    table = compare_systems(systems, [[text] for text in texts.references], [], scores={"COMET": given(scores)})
    found = [cell.score for cell in table.columns[0].cells]
    assert found == pytest.approx([np.mean(SCORES["a"]), np.mean(SCORES["b"])], rel=1e-6)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"metrics": ["twmdd"]}, "did you mean 'twmd'"),
        ({"scores": {"chrF2": [[0.5, 0.5]]}}, "another name"),
        ({"systems": [("a", ["x", None])]}, r"texts of a\[1\] must be a text"),
        ({"systems": [("a", ["x"])]}, "system a has 1 texts for 2 segments"),
    ],
)
def test_wrong_arguments_are_refused(changed: Any, words: str) -> None:
    with pytest.raises(TwmdError, match=words):
        compare_systems(
            **{"systems": [("a", ["x", "y"])], "references": [["y"], ["z"]], "metrics": ["bleu"], **changed}
        )


def test_single_reference_may_be_a_text_or_absent() -> None:
    gapped: list[Any] = [[["a cat sat there"], [""]], ["a cat sat there", None]]
    tables = [compare_systems([("a", ["a cat sat here", "it rains"])], references, ["chrf"]) for references in gapped]
    assert tables[0].columns[0].cells[0].score == tables[1].columns[0].cells[0].score > 10
