"""``twmd cite``: the published text is complete and correct."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import twmd_registry
from tests.conftest import Refused, Run
from twmd_registry.cli.cite import CITATIONS


@pytest.fixture
def record(folder: Path, run: Run) -> Path:
    (folder / "ref.txt").write_text("the cat sat\nit rains\n", encoding="utf-8")
    (folder / "my_system|1.txt").write_text("a cat sat\nit pours\n", encoding="utf-8")
    assert run("score ref.txt -i 'my_system|1.txt' -m twmd stsscore bleu ter --record out.json")[0] == 0
    return folder / "out.json"


def change(record: Path, **first: object) -> None:
    """Rewrite the record with another first result."""
    read = twmd_registry.read_record(record)
    (system,) = read.systems
    result, *others = system.results
    changed = replace(system, results=(replace(result, **first), *others))  # type: ignore[arg-type]
    twmd_registry.write_record(replace(read, systems=(changed,)), record)


def test_paper_output_has_a_sentence_a_footnote_and_bibtex(record: Path, run: Run) -> None:
    out = run("cite out.json")[1]
    twmd, stsscore, *_ = json.loads(record.read_text(encoding="utf-8"))["systems"][0]["results"]
    assert r"my\_system\textbar{}\allowbreak{}1.txt scores" in out
    assert f"scores {twmd['score']:.4f} in Tempered Word Mover Distance, F1 (Chen et al., 2020)\\footnote{{" in out
    assert f"{stsscore['score']:.4f} in STSScore (Herbold, 2024)\\footnote{{" in out
    assert out.count(" over 2 segments.") == 1
    assert out.count("\\footnote{") == 4
    for entry in ("@inproceedings{chen2020tempered,", "@misc{herbold2024semantic,", "@software{twmd_registry,"):
        assert out.count(entry) == 1


def test_footnote_is_the_signature_in_latex(record: Path, run: Run) -> None:
    _, inside, *_ = run("cite out.json --format latex")[1].split("\\footnote{\\raggedright\\texttt{")
    inside = inside.partition("}}, ")[0]
    plain = inside.replace("\\textbar{}\\allowbreak{}", "|").replace("\\%", "%").replace("\\_", "_")
    assert "\\" not in plain
    assert twmd_registry.parse_signature(plain).spec.temperature == 0.1


def test_bar_in_a_system_name_stays_in_one_markdown_cell(record: Path, run: Run) -> None:
    rows = run("cite out.json --format markdown")[1].splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows[:4]}) == 1
    assert rows[2].startswith(r"| my\_system\|1.txt | twmd | ")


def test_badge_is_an_image_with_the_signature(record: Path, run: Run) -> None:
    badge = run("cite out.json --format badge -w 2")[1].splitlines()[0]
    image = r'!\[.*: twmd\]\(https://img\.shields\.io/badge/twmd-0\.\d\d-blue "twmd\|.*version:[0-9.]+"\)'
    assert re.fullmatch(image, badge)


def test_hub_metadata_has_value_signature_and_texts(record: Path, run: Run) -> None:
    out = run("cite out.json --format eval_results --task translation --dataset org/data")[1]
    (model,) = yaml.safe_load(out)["model-index"]
    system = json.loads(record.read_text(encoding="utf-8"))["systems"][0]
    (result,) = model["results"]
    assert result["task"]["type"] == "translation"
    assert result["dataset"] == {"name": "org/data", "type": "org/data"}
    for metric, recorded in zip(result["metrics"][:2], system["results"], strict=False):
        assert metric["value"] == recorded["score"]
        assert metric["args"] == {"signature": recorded["signature"], "texts_sha256": system["texts"]}
    assert result["metrics"][2]["type"] == "bleu"
    assert result["metrics"][3]["args"]["signature"].startswith("TER|")


def test_sacrebleu_metrics_are_cited_by_signature(record: Path, run: Run) -> None:
    bleu = next(result for result in twmd_registry.read_record(record).systems[0].results if result.head == "BLEU")
    sentence, *signatures = run("cite out.json --format sentence")[1].splitlines()
    assert sentence.startswith("my_system|1.txt scores ")
    assert f", {bleu.score:.2f} in BLEU (Post, 2018) and " in sentence
    assert signatures.count(bleu.signature) == 1
    assert run("cite out.json")[1].count("@inproceedings{post2018call,") == 1
    assert f"| bleu | {bleu.score:.2f} |" in run("cite out.json --format markdown")[1]
    assert f"badge/bleu-{bleu.score:.2f}-blue" in run("cite out.json --format badge")[1]


def test_edited_or_inconsistent_record_is_not_published(record: Path, refused: Refused) -> None:
    result = twmd_registry.read_record(record).systems[0].results[0]
    whole = record.read_text(encoding="utf-8")
    record.write_text(whole.replace(f'"score": {result.score}', '"score": 0.99'), encoding="utf-8")
    for form in CITATIONS:
        refused(f"cite out.json --format {form}", "cannot be published: it was edited", 1)
    record.write_text(whole, encoding="utf-8")
    for changed, words in (
        ({"score": 0.99}, "is not the mean of the recorded segments' scores"),
        (
            {"score": result.score, "keys": result.keys | {"layer": "3"}},
            "the signature says layer=4-5, the record's key",
        ),
        ({"signature": result.signature.replace("layer:4-5", "layer:`x`")}, "cannot be published: column"),
    ):
        change(record, **changed)
        refused("cite out.json", words, 1)


def test_shared_signature_is_stated_once_and_settings_are_distinguished(folder: Path, run: Run) -> None:
    for name, text in (("ref", "the cat sat"), ("one", "a cat sat"), ("two", "a dog")):
        (folder / f"{name}.txt").write_text(f"{text}\nit rains\n", encoding="utf-8")
    metrics = "'twmd;temperature=0.1' 'twmd;temperature=0.2' 'bleu;tok=char'"
    assert run(f"score ref.txt -i one.txt two.txt -m {metrics} --record out.json")[0] == 0
    for form in ("sentence", "latex", "markdown"):
        out = run(f"cite out.json --format {form}")[1]
        assert out.count("version:") == 3
        # Beside each system's number, and where the signatures are listed
        assert {out.count(setting) for setting in ("temperature=0.1", "tok=char")} == {2 + (form != "latex")}
    for form in ("badge", "eval_results"):
        out = run(f"cite out.json --format {form}")[1]
        assert all(setting in out for setting in ("temperature=0.1", "temperature=0.2", "tok=char"))
    assert run("cite out.json --format sentence")[1].count(" over 2 segments.") == 2
