"""``submit``: every output is scored, and the shared task and mt-metrics-eval can read its files."""

from __future__ import annotations

from pathlib import Path

import pytest

import twmd_registry
from experiments.protocols.submission import read_outputs
from tests.conftest import Refused, Run
from tests.judgments.test_readers import written
from twmd_registry.judgments.official import read_official
from twmd_registry.judgments.sets import read_rated
from twmd_registry.registry.names import Against

REFERENCES = {
    "refA": "It rained all night.\nThe weir is closed.\nNo bread.\n",
    "refB": "Rain.\nA closed weir.\nBread.\n",
}
OUTPUTS = {"sys-1": "It rained.\nThe weir closed.\nNo bread today.\n", "refB": REFERENCES["refB"]}
DOCUMENTS = "news a\nnews b\nchat c\n"


@pytest.fixture
def wmt99(folder: Path) -> Path:
    """Return a test set of one language pair, two references and two outputs."""
    data = folder / "wmt99"
    for name, text in REFERENCES.items():
        written(data, text, f"references/cs-en.{name}.txt")
    for name, text in OUTPUTS.items():
        written(data, text, f"system-outputs/cs-en/{name}.txt")
    written(data, DOCUMENTS, "documents/cs-en.docs")
    return data


def rows(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


def test_missing_translation_is_scored_as_an_empty_text(tmp_path: Path) -> None:
    missing = "[No translation supplied]\n"
    written(tmp_path, f"one\n{missing}", "references/cs-en.refA.txt")
    written(tmp_path, f"{missing}dva\n", "sources/cs-en.txt")
    written(tmp_path, '{"hypothesis": null}\n{"hypothesis": "two"}\n', "system-outputs/cs-en/A.jsonl")
    (output,) = read_outputs(tmp_path, (None, "source"))
    assert (output.predictions, output.references, output.sources) == (["", "two"], ["one", ""], ["", "dva"])


def test_every_output_is_scored_against_every_other_reference(wmt99: Path, run: Run) -> None:
    status, printed, _ = run("submit wmt99 -m twmd --name TW-MD -o out")
    assert status == 0
    scorer, out = twmd_registry.load("twmd"), wmt99.parent / "out"
    texts = {name: text.splitlines() for name, text in (REFERENCES | OUTPUTS).items()}
    table = rows(out / "TW-MD.sys.score")
    assert [row[:6] for row in table] == [
        ["TW-MD", "cs-en", "wmt99", domain, reference, system]
        for reference, system in (("refA", "refB"), ("refA", "sys-1"), ("refB", "sys-1"))
        for domain in ("news", "chat", "all")
    ]
    segments = rows(out / "TW-MD.seg.score")
    assert segments[4][:8] == ["TW-MD", "cs-en", "wmt99", "news", "b", "refA", "sys-1", "2"]
    for reference, system in (("refA", "refB"), ("refA", "sys-1"), ("refB", "sys-1")):
        expected = scorer.score(texts[system], texts[reference])
        assert [float(row[8]) for row in segments if row[5:7] == [reference, system]] == pytest.approx(expected.scores)
        by_domain = {row[3]: float(row[6]) for row in table if row[4:6] == [reference, system]}
        news = (expected.scores[0] + expected.scores[1]) / 2
        assert by_domain == pytest.approx({"news": news, "chat": expected.scores[2], "all": expected.score})
        files = out / "metric-scores" / "cs-en" / f"TW-MD-{reference}"
        domain = rows(files.with_name(f"{files.name}.domain.score"))
        assert [row[:2] for row in domain if row[1] == system] == [["news", system], ["chat", system]]
        assert [float(row[2]) for row in domain if row[1] == system] == pytest.approx([news, expected.scores[2]])
    signature = (out / "TW-MD.signature.txt").read_text(encoding="utf-8").strip()
    assert signature == str(expected.signature)
    assert signature in printed


@pytest.mark.filterwarnings("ignore")
def test_score_files_are_read_as_published_scores(wmt99: Path, run: Run) -> None:
    assert run("submit wmt99 -m twmd -o wmt99")[0] == 0
    written(wmt99, "sys-1\t-1\nsys-1\tNone\nsys-1\t-5\n", "human-scores/cs-en.mqm.seg.score")
    rated = read_rated(f"mte:{wmt99}")
    (published,) = read_official(f"mte:{wmt99}", rated)
    assert published.label == "twmd*"
    alone = twmd_registry.load("twmd").score(rated.predictions, rated.references)
    assert published.scores == pytest.approx(alone.scores)


@pytest.mark.filterwarnings("ignore")
def test_source_based_metric_is_scored_with_sources(wmt99: Path, run: Run) -> None:
    status, _, error = run("submit wmt99 -m twmd --set against=source -o out")
    assert (status, "wmt99/sources/cs-en.txt: No such file" in error) == (1, True)
    assert not (wmt99.parent / "out").exists()
    sources = ["It did rain.", "The weir is shut.", "There is no bread."]
    written(wmt99, "\n".join(sources), "sources/cs-en.txt")
    against: Against
    for against, reference, systems in (("source", "src", ["refB", "sys-1"]), ("both", "refB", ["sys-1"])):
        assert run(f"submit wmt99 -m twmd --set against={against} --name {against} -o wmt99")[0] == 0
        scores = rows(wmt99 / "metric-scores" / "cs-en" / f"{against}-{reference}.seg.score")
        texts = OUTPUTS["sys-1"].splitlines(), REFERENCES["refB"].splitlines()
        expected = twmd_registry.score(*texts, "twmd", sources=sources, against=against)
        assert list(dict.fromkeys(system for system, _ in scores)) == systems
        assert [float(score) for system, score in scores if system == "sys-1"] == pytest.approx(expected.scores)
        assert str(expected.signature) in (wmt99 / f"{against}.signature.txt").read_text(encoding="utf-8")
    written(wmt99, "sys-1\t-1\nsys-1\tNone\nsys-1\t-5\n", "human-scores/cs-en.mqm.seg.score")
    rated = read_rated(f"mte:{wmt99},reference=refB")
    assert [metric.label for metric in read_official(f"mte:{wmt99},reference=refB", rated)] == ["both*", "source*"]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (
            "documents/cs-en.docs",
            "news a\nnews\nchat c\n",
            "cs-en.docs, row 2",
        ),
        ("system-outputs/cs-en/sys-1.txt", "one\n", "system-outputs/cs-en/sys-1.txt has 1 lines; expected 3"),
        ("references/cs-en.refA.txt", "one\n", "references/cs-en.refA.txt has 1 lines; expected 3"),
        ("system-outputs/cs-en/a\tb.txt", "1\n2\n3\n", r"'a\tb' of cs-en: names"),
    ],
)
def test_damaged_test_set_is_refused(file: str, text: str, words: str, wmt99: Path, refused: Refused) -> None:
    written(wmt99, text, file)
    refused("submit wmt99 -m twmd -o out", words, 1)
    assert not (wmt99.parent / "out").exists()


def test_invalid_file_name_is_refused(wmt99: Path, refused: Refused) -> None:
    refused("submit wmt99 -m twmd --name a.b -o out", "--name a.b: expected letters, digits, - and _")
    refused("submit wmt99 -m twmd --test-set 'a b' -o out", "test set 'a b': expected letters, digits, - and _")
