"""``twmd cite``: what is published says what it takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.cli.cite_command import FORMATS as CHOICES
from twmd_registry.report.citation import FORMATS


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("ref.txt").write_text("the cat sat\nit rains\n", encoding="utf-8")
    Path("my_system|1.txt").write_text("a cat sat\nit pours\n", encoding="utf-8")
    assert main(["score", "ref.txt", "-i", "my_system|1.txt", "-m", "twmd", "stsscore", "--record", "out.json"]) == 0
    capsys.readouterr()
    return tmp_path / "out.json"


def cited(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cite", "out.json", *arguments]) == 0
    return capsys.readouterr().out


def test_every_form_is_a_choice_of_the_command() -> None:
    assert CHOICES == FORMATS


def test_paper_gets_a_sentence_a_footnote_and_bibtex(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = cited(capsys)
    table = json.loads(record.read_text(encoding="utf-8"))
    twmd, stsscore = table["systems"][0]["results"]
    assert r"my\_system\textbar{}\allowbreak{}1.txt scores" in out
    assert f"scores {twmd['score']:.4f} in Tempered Word Mover Distance, F1 (Chen et al., 2020) over 2 segments" in out
    assert f"scores {stsscore['score']:.4f} in STSScore (Herbold, 2024) over 2 segments" in out
    assert out.count("\\footnote{") == 2
    assert "@inproceedings{chen2020tempered," in out
    assert "@misc{herbold2024semantic," in out
    assert "@software{twmd_registry," in out


def test_footnote_is_the_signature_in_latex(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, footnote = cited(capsys, "--format", "latex").splitlines()[0].split(".\\footnote")
    inside = f"\\footnote{footnote}".removeprefix("\\footnote{\\raggedright\\texttt{").removesuffix("}}")
    plain = inside.replace("\\textbar{}\\allowbreak{}", "|").replace("\\%", "%").replace("\\_", "_")
    assert "\\" not in plain
    assert twmd_registry.parse(plain).temperature == 0.15


def test_markdown_keeps_its_table_whatever_a_system_is_called(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = cited(capsys, "--format", "markdown").splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert rows[2].startswith(r"| my\_system\|1.txt | twmd | ")


def test_badge_is_an_image_with_the_signature(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    badge = cited(capsys, "--format", "badge", "-w", "2").splitlines()[0]
    assert re.fullmatch(
        r'!\[.*: twmd\]\(https://img\.shields\.io/badge/twmd-0\.\d\d-blue "twmd\|.*version:[0-9.]+"\)', badge
    )


def test_hubs_metadata_holds_value_signature_and_texts(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = cited(capsys, "--format", "eval_results", "--task", "translation", "--dataset", "org/data")
    (model,) = yaml.safe_load(out)["model-index"]
    table = json.loads(record.read_text(encoding="utf-8"))
    (result,) = model["results"]
    assert result["task"]["type"] == "translation"
    assert result["dataset"] == {"name": "org/data", "type": "org/data"}
    for metric, recorded in zip(result["metrics"], table["systems"][0]["results"], strict=True):
        assert metric["value"] == recorded["score"]
        assert metric["args"] == {"signature": recorded["signature"], "texts_sha256": table["systems"][0]["texts"]}


def test_signature_that_is_none_is_not_published(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = twmd_registry.read_record(record)
    (system,) = found.systems
    results = tuple(replace(one, signature=one.signature.replace("layer:4", "layer:`x`")) for one in system.results)
    twmd_registry.write_record(replace(found, systems=(replace(system, results=results),)), record)
    assert main(["cite", "out.json"]) == 1
    assert "cannot be published: column" in capsys.readouterr().err


@pytest.mark.parametrize("form", FORMATS)
def test_record_that_was_edited_is_not_published(record: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    table = json.loads(record.read_text(encoding="utf-8"))
    table["systems"][0]["results"][0]["score"] = 0.99
    record.write_text(json.dumps(table), encoding="utf-8")
    assert main(["cite", "out.json", "--format", form]) == 1
    printed = capsys.readouterr()
    words = (
        "the record cannot be published: it was edited: its content does not have the sha256 that it was written with."
    )
    assert (printed.out, printed.err) == ("", f"twmd: {words}\n")


def test_record_that_contradicts_itself_is_not_published(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = twmd_registry.read_record(record)
    (system,) = found.systems
    first, *others = system.results
    for changed, words in (
        (replace(first, score=0.99), "is not the mean of the recorded segments' scores"),
        (
            replace(first, keys=first.keys | {"layer": "3"}),
            "edited: the signature says layer=4, the record's keys say layer=3",
        ),
    ):
        twmd_registry.write_record(replace(found, systems=(replace(system, results=(changed, *others)),)), record)
        assert main(["cite", "out.json"]) == 1
        assert words in capsys.readouterr().err


def test_sacrebleus_metrics_are_cited_by_their_signature(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "ref.txt", "-i", "my_system|1.txt", "-m", "twmd", "bleu", "ter", "--record", "out.json"]) == 0
    capsys.readouterr()
    bleu = next(one for one in twmd_registry.read_record(record).systems[0].results if one.head == "BLEU")
    sentence = cited(capsys, "--format", "sentence").splitlines()[1]
    assert (
        sentence
        == f"my_system|1.txt scores {bleu.score:.2f} in BLEU (Post, 2018) over 2 segments (SacreBLEU), with the "
        f"signature {bleu.signature}."
    )
    assert cited(capsys).count("@inproceedings{post2018call,") == 1
    assert f"| bleu | {bleu.score:.2f} | `BLEU" in cited(capsys, "--format", "markdown")
    assert f"badge/bleu-{bleu.score:.2f}-blue" in cited(capsys, "--format", "badge")
    (model,) = yaml.safe_load(cited(capsys, "--format", "eval_results"))["model-index"]
    metrics = model["results"][0]["metrics"]
    assert [(one["type"], one["value"]) for one in metrics][1] == ("bleu", bleu.score)
    assert metrics[2]["args"]["signature"].startswith("TER|")
