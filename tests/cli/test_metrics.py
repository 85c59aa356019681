"""The metrics of ``-m``: their order, twins, settings, and the digits of their numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

import twmd_registry
from twmd_registry.cli import main

REFERENCES = ["a cat was sitting on the mat", "it is raining", "the shop opens at nine"]
GOOD = ["the cat sat on the mat", "it rains", "the shop opens at nine"]
POOR = ["cat mat", "it is sunny", "nine shops"]
ORDER = ["chrf", "sbert", "bleu", "twmd", "ter"]
NAMES = ["chrF2", "sbert", "BLEU", "twmd", "TER"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref.txt", REFERENCES), ("good.txt", GOOD), ("poor.txt", POOR)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    rated = (
        {"prediction": p, "reference": r, "rating": i} for i, (p, r) in enumerate(zip(GOOD, REFERENCES, strict=True))
    )
    (tmp_path / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rated), encoding="utf-8")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(list(arguments))
    except SystemExit as stop:
        status = int(stop.code or 0)
    return status, *capsys.readouterr()


def scored(capsys: pytest.CaptureFixture[str], *more: str, systems: tuple[str, ...] = ("good.txt",)) -> str:
    status, out, err = run(capsys, "score", "ref.txt", "-i", *systems, "-m", *ORDER, *more)
    assert (status, err) == (0, "")
    return out


class TestOrder:
    def test_text_keeps_it(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = scored(capsys).splitlines()
        assert [line.split()[0] for line in lines[2:7]] == NAMES
        assert [line.strip().partition("|")[0] for line in lines[9:]] == NAMES
        assert scored(capsys, systems=("good.txt", "poor.txt")).splitlines()[0].split() == ["system", *NAMES]

    def test_latex_keeps_it(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = scored(capsys, "--format", "latex").splitlines()
        assert [cell.strip(" \\") for cell in lines[2].split("&")] == ["system", *NAMES]
        assert [line[2:].partition("|")[0] for line in lines if line.startswith("% ")] == NAMES

    def test_tsv_and_json_keep_it_for_every_system(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rows = [
            line.split("\t")
            for line in scored(capsys, "--format", "tsv", systems=("good.txt", "poor.txt")).splitlines()[1:]
        ]
        assert [row[1] for row in rows] == NAMES * 2
        assert [
            row["metric"] for row in json.loads(scored(capsys, "--format", "json", systems=("good.txt", "poor.txt")))
        ] == NAMES * 2

    def test_numbers_and_segments_keep_it(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        numbers = dict(zip(NAMES, map(float, scored(capsys, "-b", "-w", "6").splitlines()), strict=True))
        assert numbers["BLEU"] == pytest.approx(BLEU().corpus_score(GOOD, [REFERENCES]).score, abs=1e-6)
        assert numbers["twmd"] == pytest.approx(twmd_registry.scorer("twmd").score(GOOD, REFERENCES).score, abs=1e-6)
        header = scored(capsys, "-sl", "--format", "tsv").splitlines()[0].split("\t")
        assert header == [f"good.txt:{name}" for name in NAMES]

    def test_paired_test_and_a_report_keep_it(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = scored(capsys, "-q", "--paired-bs", "--paired-bs-n", "20", systems=("good.txt", "poor.txt"))
        heads = [line for line in out.splitlines() if line.startswith("system ")]
        assert [word for head in heads for word in head.split() if word in NAMES] == NAMES
        assert run(capsys, "report", "ref.txt", "-i", "good.txt", "poor.txt", "-m", *ORDER, "-o", "report.html")[0] == 0
        page = (files / "report.html").read_text(encoding="utf-8")
        heads = re.findall(rf'<th scope="col">({"|".join(NAMES)})\b', page)
        assert heads[: len(NAMES)] == NAMES

    def test_record_keeps_it(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        order = ["sbert", "bleu", "twmd"]
        assert run(capsys, "score", "ref.txt", "-i", "good.txt", "-m", *order, "--record", "rec.json")[0] == 0
        results = twmd_registry.read_record(files / "rec.json").systems[0].results
        assert [one.signature.partition("|")[0] for one in results] == ["sbert", "BLEU", "twmd"]
        assert run(capsys, "verify", "rec.json")[0] == 0

    def test_correlate_keeps_it(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        order = ["chrf", "sbert", "bleu"]
        out = run(capsys, "correlate", "table:rated.jsonl", "-m", *order, "--resamples", "0", "--format", "tsv")[1]
        assert [line.split("\t")[0] for line in out.splitlines() if line.split("\t")[0] in order] == order


class TestTwins:
    @pytest.mark.parametrize(
        ("metrics", "words"),
        [
            (["twmd", "twmd"], "twmd is named twice: name it once, or with other settings, as in 'twmd;layer=2'."),
            (["twmd", "bleu", "bleu"], "bleu is named twice: name it once."),
            (["stsscore", "stsscore"], "stsscore is named twice: name it once."),
            (
                ["twmd;temperature=0.5", "twmd; temperature=0.50"],
                "are the same metric with the same settings: name it once, or with other settings",
            ),
        ],
    )
    @pytest.mark.parametrize("command", ["score", "report", "correlate", "robustness"])
    def test_same_metric_twice_is_refused(
        self, metrics: list[str], words: str, command: str, files: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before, after = {
            "score": (["ref.txt", "-i", "good.txt"], []),
            "report": (["ref.txt", "-i", "good.txt"], ["-o", "report.html"]),
            "correlate": (["table:rated.jsonl"], []),
            "robustness": (["--data", "table:rated.jsonl"], []),
        }[command]
        status, out, err = run(capsys, command, *before, "-m", *metrics, *after)
        assert (status, out) == (2, "")
        assert words in err
        assert not (files / "report.html").exists()

    def test_signature_beside_its_own_metric_is_refused(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        signature = str(twmd_registry.scorer("twmd").score(GOOD, REFERENCES).signature)
        status, _, err = run(capsys, "score", "ref.txt", "-i", "good.txt", "-m", "twmd", signature)
        assert (status, "and twmd are the same metric with the same settings" in err) == (2, True)

    def test_other_settings_are_another_metric(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = run(
            capsys,
            "score",
            "ref.txt",
            "-i",
            "good.txt",
            "poor.txt",
            "-m",
            "twmd",
            "twmd;model=embedded;layer=2",
            "--set",
            "layer=3",
        )[1]
        assert out.splitlines()[0].split() == ["system", "twmd", "layer=3", "twmd", "layer=2"]


class TestWidth:
    def test_it_is_digits_after_the_point_of_every_column_as_sacrebleus(
        self, files: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bleu = BLEU().corpus_score(GOOD, [REFERENCES])
        twmd = twmd_registry.scorer("twmd").score(GOOD, REFERENCES).score
        for width in (1, 3, 7):
            arguments = ("score", "ref.txt", "-i", "good.txt", "-m", "bleu", "twmd", "-b", "-w", str(width))
            assert run(capsys, *arguments)[1].split() == [
                bleu.format(width=width, score_only=True),
                f"{twmd:.{width}f}",
            ]

    def test_without_it_both_scales_show_the_same_precision(
        self, files: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shown = run(capsys, "score", "ref.txt", "-i", "good.txt", "-m", "bleu", "twmd", "-b")[1].split()
        assert [len(number.partition(".")[2]) for number in shown] == [2, 4]

    def test_report_prints_what_score_prints(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        line = ("ref.txt", "-i", "good.txt", "-m", "twmd", "bleu")
        report = run(capsys, "report", *line, "-o", "report.html")[1]
        assert report.removesuffix("wrote report.html\n") == run(capsys, "score", *line, "--confidence")[1]


class TestHints:
    @pytest.mark.parametrize("command", ["fit-mean", "fit-idf"])
    def test_missing_argument_names_no_option_that_was_not_used(
        self, command: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        status, _, error = run(capsys, command, "--model", "X")
        assert (status, error.partition("): ")[2]) == (2, "Missing argument 'FILE...'.\n")

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            *(
                (f"{line} --model X", "model is a key: use --set model=VALUE.")
                for line in (
                    "score ref.txt -i good.txt",
                    "report ref.txt -i good.txt -o r.html",
                    "align twmd a b",
                    "correlate table:rated.jsonl -m twmd",
                    "explain twmd",
                    "finetune twmd --train table:rated.jsonl -o out",
                    "tune twmd --data table:rated.jsonl",
                )
            ),
            (
                "robustness --data table:rated.jsonl -m twmd --layer=3",
                "No such option '--layer'. layer is a key: use --set layer=VALUE.",
            ),
            (
                "fit-baseline twmd ref.txt --centering-size 3",
                "centering_size is a key: use --set centering_size=VALUE.",
            ),
            (
                "cite rec.json --model X",
                "No such option '--model'. model is a key of a metric, which twmd cite does not",
            ),
            (
                "train stsb --model X",
                (
                    "No such option '--model'. model is a key of a metric, which twmd train does not take; commands that "
                    "do have --set model=VALUE."
                ),
            ),
            (
                "diagnose --model X",
                "No such option '--model'. MODEL is an argument: twmd diagnose MODEL.",
            ),
            (
                "study stsscore --model X",
                (
                    "No such option '--model'. model is a key of a metric: use --stsscore or --bertscore or --sbert "
                    "'METRIC;model=VALUE'."
                ),
            ),
            ("verify rec.json --model X", "No such option '--model'. Use --part model=PATH, the copy on this machine."),
            ("score ref.txt --model X", "No such option '--model'. model is a key: use --set model=VALUE."),
            (
                "tune twmd --layer 3",
                "(Did you mean one of: '--layers', '--name'?) layer is a key: use --set layer=VALUE.",
            ),
            ("score --hepl", "No such option '--hepl'. Did you mean '--help'?"),
            (
                "fit-mean --reference-column gold ref.txt",
                "Missing argument 'FILE...'. Name it before --reference-column: every word that follows is taken",
            ),
            (
                "score ref.txt -i good.txt --part model=X",
                "--part model says where the model of a signature is, and no signature is given: use --set",
            ),
            ("score ref.txt -i good.txt --part X", "--part 'X': expected NAME=PATH."),
            (
                "score ref.txt -i good.txt --part modle=X",
                "--part modle: signatures have no such part; did you mean 'model'?",
            ),
            (
                "score -i good.txt -m twmd ref.txt",
                "no metric 'ref.txt', which looks like a file: -m takes every word after it, so name files before -m.",
            ),
            ("score -i good.txt -m twmd not/here", "no metric 'not/here', which looks like a file: -m takes"),
            ("score -i good.txt -m bleu nosuch.txt", "no metric 'nosuch.txt', which looks like a file: -m takes"),
            ("report -i good.txt -o r.html -m twmd ref.txt", "no metric 'ref.txt', which looks like a file: -m takes"),
            (
                "score -i good.txt --set layer=2 ref.txt",
                "--set 'ref.txt': expected KEY=VALUE. --set takes every word after it, so name files before it.",
            ),
            (
                "score -i good.txt ref.txt",
                "no references for good.txt: name a reference file before -i, or give a table",
            ),
            (
                "correlate -m twmd table:rated.jsonl",
                (
                    "no metric 'table:rated.jsonl', which looks like a file: -m takes every word after it, so name "
                    "files before -m."
                ),
            ),
            (f"score ref.txt -i good.txt -m {'x' * 5000}", f"there is no metric '{'x' * 5000}'; Choices: twmd, "),
            ("align ref.txt a b", "there is no metric 'ref.txt'; Choices: twmd, "),
        ],
    )
    def test_error_says_how_it_is_written(
        self, line: str, words: str, files: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (files / "rec.json").touch()
        status, out, err = run(capsys, *line.split())
        assert (status, out) == (2, "")
        assert words in err
        assert len(err.splitlines()) == 1


def test_markdown_is_a_table_with_signatures(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "a|b.txt").write_text("\n".join(POOR), encoding="utf-8")
    line = ("score", "ref.txt", "-i", "good.txt", "a|b.txt", "-m", "sbert", "bleu", "--format")
    table, signatures = run(capsys, *line, "markdown")[1].split("\n\n")
    header, rule, *rows = table.splitlines()
    assert [cell.strip() for cell in header.split("|")] == ["", "system", "sbert", "BLEU", ""]
    assert set(rule) == set("|-")
    scores = json.loads(run(capsys, *line, "json")[1])
    own = [f"{one['score']:.{4 if one['metric'] == 'sbert' else 2}f}" for one in scores]
    assert [row.split() for row in rows] == [
        ["|", "Baseline:", "good.txt", "|", own[0], "|", own[1], "|"],
        ["|", r"a\|b.txt", "|", own[2], "|", own[3], "|"],
    ]
    assert signatures.splitlines() == [f"- `{one['signature']}`" for one in scores[:2]]


def test_one_word_names_a_form_in_every_command(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heads = {"text": "metric  ", "markdown": "|", "latex": "%", "tsv": "metric\t", "json": "{"}
    for form, head in heads.items():
        out = run(capsys, "correlate", "table:rated.jsonl", "-m", "sbert", "--resamples", "0", "--format", form)[1]
        assert any(line.startswith(head) for line in out.splitlines()), out
    assert run(capsys, "score", "ref.txt", "-i", "good.txt", "-m", "sbert", "--record", "rec.json")[0] == 0
    assert run(capsys, "cite", "rec.json", "--format", "markdown")[1].startswith("|")
