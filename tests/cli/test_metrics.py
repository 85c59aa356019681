"""The metrics of ``-m``: their order, twins, signatures and parts; and errors that say how a line is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import twmd_registry
from tests.cli.parsing import GOOD, REFERENCES
from tests.conftest import Run

ORDER = "chrf sbert bleu twmd ter"
NAMES = ["chrF2", "sbert", "BLEU", "twmd", "TER"]
PREDICTION, REFERENCE = "the heron of the weir", "a heron at the weir"


class TestOrder:
    def test_latex_has_the_order_of_the_command_line(self, files: Path, run: Run) -> None:
        lines = run(f"score ref.txt -i good.txt -m {ORDER} --format latex")[1].splitlines()
        assert lines[0].startswith("\\begin{tabular}")
        assert lines[1].strip() == "\\toprule"
        assert [cell.strip(" \\") for cell in lines[2].split("&")] == ["system", *NAMES]
        assert [line[2:].partition("|")[0] for line in lines if line.startswith("% ")] == NAMES

    def test_paired_test_and_report_have_it(self, files: Path, run: Run) -> None:
        line = f"score ref.txt -i good.txt poor.txt -m {ORDER} -q --paired-bs --paired-bs-n 20"
        heads = [line for line in run(line)[1].splitlines() if "system " in line]
        assert [word for head in heads for word in head.split() if word in NAMES] == NAMES
        assert run(f"report ref.txt -i good.txt poor.txt -m {ORDER} -o report.html")[0] == 0
        heads = re.findall(rf'<th scope="col">({"|".join(NAMES)})\b', (files / "report.html").read_text("utf-8"))
        assert heads[: len(NAMES)] == NAMES

    def test_record_and_correlate_have_it(self, files: Path, run: Run) -> None:
        assert run("score ref.txt -i good.txt -m sbert bleu twmd --record rec.json")[0] == 0
        results = twmd_registry.read_record(files / "rec.json").systems[0].results
        assert [result.signature.partition("|")[0] for result in results] == ["sbert", "BLEU", "twmd"]
        out = run("correlate table:rated.jsonl -m chrf sbert bleu --resamples 0 --format tsv")[1]
        heads = [line.split("\t")[0] for line in out.splitlines()]
        assert [head for head in heads if head in {"chrf", "sbert", "bleu"}] == ["chrf", "sbert", "bleu"]


class TestTwins:
    def test_signature_beside_its_own_metric_is_refused(self, files: Path, run: Run) -> None:
        signature = str(twmd_registry.scorer("twmd").score(GOOD, REFERENCES).signature)
        status, _, err = run("score ref.txt -i good.txt -m twmd", signature)
        assert (status, "and twmd are the same metric with the same settings" in err) == (2, True)

    def test_other_settings_are_another_metric(self, files: Path, run: Run) -> None:
        line = "score ref.txt -i good.txt poor.txt -m twmd 'twmd;model=embedded;layer=2' --set layer=3"
        _, out, err = run(line)
        assert out.splitlines()[0].split() == ["system", "twmd", "layer=3", "twmd", "layer=2"]
        left = "--set and --preset change no signatures and no metrics with keys of their own"
        assert f"{left}: twmd;model=embedded;layer=2." in err
        signature = twmd_registry.scorer("twmd", temperature=0.5).signature
        _, out, err = run("score ref.txt -i good.txt poor.txt --set layer=2 -m", str(signature), "twmd")
        assert f"{left}: {signature}." in err
        assert out.splitlines()[0].split() == [
            "system",
            *"twmd layer=4 temperature=0.5 twmd layer=2 temperature=0.15".split(),
        ]


@pytest.fixture
def parted(folder: Path) -> Path:
    """Return a working folder with a prediction, a reference and stop words."""
    for name, text in (("hyp.txt", PREDICTION), ("ref.txt", REFERENCE), ("stop.txt", "of\nthe\nat\na")):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def sign(**keys: str) -> tuple[str, float]:
    scores = twmd_registry.scorer("moverscore", "wmd", **keys).score([PREDICTION], [REFERENCE])
    return str(scores.signature), scores.score


class TestParts:
    def test_signature_is_scored_and_drawn_with_its_parts(self, parted: Path, run: Run) -> None:
        signature, score = sign(stopwords="stop.txt")
        line = "score ref.txt -i hyp.txt -b -w 6 --part stopwords=stop.txt -m"
        assert run(line, signature)[1].strip() == f"{score:.6f}"
        drawn = run("align --part stopwords=stop.txt --", signature, PREDICTION, REFERENCE)[1]
        assert f"= {score:.4f}" in drawn
        status, _, err = run("score ref.txt -i hyp.txt -m", signature)
        assert (status != 0, "--part stopwords=FILE" in err) == (True, True)

    @pytest.mark.parametrize("command", ["score", "align", "verify"])
    def test_part_that_no_signature_names_is_refused(self, parted: Path, command: str, run: Run) -> None:
        signature, score = sign()
        words = {
            "score": ["ref.txt", "-i", "hyp.txt", "-m", signature],
            "align": [signature, PREDICTION, REFERENCE],
            "verify": [signature, f"{score:.4f}", "ref.txt", "-i", "hyp.txt"],
        }[command]
        status, _, err = run(command, *words, "--part", "stopwords=stop.txt")
        assert (status != 0, "the signature names no stopwords that could be looked for" in err) == (True, True)


def test_one_word_names_a_format_in_every_command(files: Path, run: Run) -> None:
    heads = {"text": "metric  ", "markdown": "|", "latex": "%", "tsv": "metric\t", "json": "{"}
    for form, head in heads.items():
        out = run(f"correlate table:rated.jsonl -m sbert --resamples 0 --format {form}")[1]
        assert any(line.startswith(head) for line in out.splitlines()), out
    assert run("score ref.txt -i good.txt -m sbert --record rec.json")[0] == 0
    assert run("cite rec.json --format markdown")[1].startswith("|")
