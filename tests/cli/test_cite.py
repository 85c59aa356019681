"""``twmd cite``: what is published says what it takes."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest
import yaml

import twmd_registry
from twmd_registry.cli import main
from twmd_registry.cli.parser import build_parser
from twmd_registry.report.cite import FORMS


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
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    (form,) = (action for action in commands.choices["cite"]._actions if action.dest == "form")
    assert tuple(form.choices or ()) == tuple(FORMS)


def test_a_paper_gets_a_sentence_a_footnote_and_bibtex(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_the_footnote_is_the_signature_in_latex(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, footnote = cited(capsys, "--as", "latex").splitlines()[0].split(".\\footnote")
    inside = f"\\footnote{footnote}".removeprefix("\\footnote{\\raggedright\\texttt{").removesuffix("}}")
    plain = inside.replace("\\textbar{}\\allowbreak{}", "|").replace("\\%", "%").replace("\\_", "_")
    assert "\\" not in plain
    assert twmd_registry.parse(plain).temperature == 0.15


def test_markdown_keeps_its_table_whatever_a_system_is_called(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = cited(capsys, "--as", "markdown").splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert rows[2].startswith(r"| my\_system\|1.txt | twmd | ")


def test_a_badge_is_an_image_with_the_signature(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    badge = cited(capsys, "--as", "badge", "-w", "2").splitlines()[0]
    assert re.fullmatch(r'!\[.*: twmd\]\(https://img\.shields\.io/badge/twmd-0\.\d\d-blue "twmd\|.*version:[0-9.]+"\)', badge)


def test_the_hubs_metadata_holds_value_signature_and_texts(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = cited(capsys, "--as", "eval_results", "--task", "translation", "--dataset", "org/data")
    (model,) = yaml.safe_load(out)["model-index"]
    table = json.loads(record.read_text(encoding="utf-8"))
    (result,) = model["results"]
    assert result["task"]["type"] == "translation"
    assert result["dataset"] == {"name": "org/data", "type": "org/data"}
    for metric, recorded in zip(result["metrics"], table["systems"][0]["results"], strict=True):
        assert metric["value"] == recorded["score"]
        assert metric["args"] == {"signature": recorded["signature"], "texts_sha256": table["systems"][0]["texts"]}


def test_a_signature_that_is_none_is_not_published(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record.write_text(record.read_text(encoding="utf-8").replace("layer:4", "layer:`x`"), encoding="utf-8")
    assert main(["cite", "out.json"]) == 1
    assert "cannot be published: column" in capsys.readouterr().err
