"""``twmd score`` and ``mbr``: output, formats, inputs and streams."""

from __future__ import annotations

import array
import fcntl
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

import twmd_registry
from tests.cli.parsing import GOOD, REFERENCES, Terminal
from tests.conftest import Run
from tests.processes import in_a_fork
from twmd_registry import mbr, parse_signature
from twmd_registry.cli import main
from twmd_registry.registry.names import MetricName

PROGRAM = f"{sys.executable} -m twmd_registry.cli"


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def set_input(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))


class TestOutput:
    def test_command_line_score_equals_pythons(self, files: Path, run: Run) -> None:
        status, out, _ = run("score ref.txt -i good.txt -b -w 12 -m", *MetricName)
        expected = [twmd_registry.load(metric).score(GOOD, REFERENCES).score for metric in MetricName]
        assert status == 0
        assert [float(line) for line in out.splitlines()] == pytest.approx(expected, abs=1e-6)

    def test_several_systems_table_starts_with_the_baseline(self, files: Path, run: Run) -> None:
        status, out, _ = run("score ref.txt -i good.txt poor.txt -m chrf twmd ter --short")
        rows = [line.split() for line in out.splitlines()]
        assert status == 0
        assert rows[0] == ["system", "chrF2", "twmd", "TER"]
        assert [row[:-3] for row in rows[2:4]] == [["Baseline:", "good.txt"], ["poor.txt"]]
        assert float(rows[2][-3]) > float(rows[3][-3])
        assert (
            "  twmd|o:f1|m:sentence-transformers/all-MiniLM-L6-v2@21de63af9d45|a:rated-twmd@df25ad13be21|l:4-5|" in out
        )
        assert "  chrF2|#:1|c:mixed|" in out

    @pytest.mark.parametrize(("option", "key"), [("--paired-bs", "bs:200"), ("--paired-ar", "ar:200")])
    def test_paired_test_marks_significant_differences(self, files: Path, run: Run, option: str, key: str) -> None:
        many = [f"{text} {i}" for i in range(10) for text in GOOD]
        write(files / "ref.txt", [f"{text} {i}" for i in range(10) for text in REFERENCES])
        write(files / "good.txt", many)
        write(files / "poor.txt", many[::-1])
        _, out, _ = run(f"score ref.txt -i good.txt good.txt poor.txt -m sbert bleu {option} {option}-n 200 --seed 0")
        marks = "(p = 1.0000)", "(p = 0.0050)*", f"|{key}|seed:0|"  # 1 / 201 is the smallest p
        assert [out.count(mark) for mark in marks] == [2, 2, 2]
        assert "each system against good.txt" in out

    def test_confidence_adds_an_interval(self, files: Path, run: Run) -> None:
        _, out, _ = run("score ref.txt -i good.txt -m twmd bleu --confidence --confidence-n 50")
        assert out.count("±") == 2
        assert out.count("|bs:50|seed:12345|") == 2
        row = json.loads(run("score ref.txt -i good.txt --confidence --format json")[1])[0]
        assert row["ci"] > 0
        assert row["mean"] == pytest.approx(row["score"], abs=0.05)

    def test_paired_bootstrap_intervals_use_its_resamples(self, files: Path, run: Run) -> None:
        line = "score ref.txt -i good.txt poor.txt -q --paired-bs --paired-bs-n 60"
        plain = run(line)
        assert (plain[0], plain[1].count("±"), plain[1].count("|bs:60|")) == (0, 3, 1)  # one in the header
        assert run(f"{line} --confidence") == plain == run(f"{line} --confidence --confidence-n 60")

    def test_json_and_tsv_have_the_same_content(self, files: Path, run: Run) -> None:
        line = "score ref.txt -i good.txt poor.txt -m chrf twmd --format"
        found = json.loads(run(f"{line} json")[1])
        assert [entry["metric"] for entry in found] == ["chrF2", "twmd"] * 2
        header, *lines = (row.split("\t") for row in run(f"{line} tsv -w 9")[1].splitlines())
        for entry, cells in zip(found, lines, strict=True):
            row = dict(zip(header, cells, strict=True))
            assert all(row[name] == entry[name] for name in ("metric", "system", "signature"))
            if entry["metric"] == "twmd":
                assert row["segments"] == str(entry["segments"])
                assert float(row["recall"]) == pytest.approx(entry["recall"], abs=1e-9)
        assert "scores" not in found[0]
        assert len(json.loads(run(f"{line} json --sentence-level")[1])[0]["scores"]) == 3

    def test_sentence_level_is_one_line_per_segment(self, files: Path, run: Run) -> None:
        _, out, _ = run("score ref.txt -i good.txt -m twmd ter bleu --sentence-level -w 10")
        rows = [[float(cell) for cell in line.split("\t")] for line in out.splitlines()]
        expected = twmd_registry.load("twmd").score(GOOD, REFERENCES).scores
        assert [row[0] for row in rows] == pytest.approx(expected, abs=1e-9)
        assert rows[2][1:] == pytest.approx([0, 100])
        _, out, _ = run("score ref.txt -i good.txt poor.txt -m ter twmd -sl --format tsv")
        lines = [line.split("\t") for line in out.splitlines()]
        assert lines[0] == ["good.txt:TER", "good.txt:twmd", "poor.txt:TER", "poor.txt:twmd"]
        assert [len(line) for line in lines] == [4] * 4

    def test_width_sets_the_decimals_of_every_column(self, files: Path, run: Run) -> None:
        bleu, twmd = BLEU().corpus_score(GOOD, [REFERENCES]), twmd_registry.load("twmd").score(GOOD, REFERENCES)
        for option, digits in (("", (2, 4)), ("-w 1", (1, 1)), ("-w 7", (7, 7))):
            shown = run(f"score ref.txt -i good.txt -m bleu twmd -b {option}")[1].split()
            assert shown == [bleu.format(width=digits[0], score_only=True), f"{twmd.score:.{digits[1]}f}"]

    def test_report_prints_the_table_of_score(self, files: Path, run: Run) -> None:
        line = "ref.txt -i good.txt -m twmd bleu"
        report = run(f"report {line} -o report.html")[1]
        assert report.removesuffix("wrote report.html\n") == run(f"score {line} --confidence")[1]

    def test_set_applies_to_metrics_with_the_key_and_names_the_others(self, files: Path, run: Run) -> None:
        _, out, err = run("score ref.txt -i good.txt -m twmd sbert bleu --set temperature=0.5 --set layer=2")
        assert (out.count("|temperature:0.5|"), out.count("|layer:2|")) == (1, 2)
        assert "--set temperature: no key of sbert; scored without it." in err
        assert "bleu" not in err

    def test_systems_with_equal_file_names_are_named_by_their_folders(self, files: Path, run: Run) -> None:
        for name in ("one", "two"):
            (files / name).mkdir()
            write(files / name / "out.txt", GOOD)
        _, out, _ = run("score ref.txt -i one/out.txt two/out.txt")
        assert [line.split()[-2] for line in out.splitlines()[2:4]] == ["one/out.txt", "two/out.txt"]

    def test_tab_in_a_name_does_not_break_a_row(self, files: Path, run: Run) -> None:
        write(files / "a\tb.txt", GOOD)
        _, out, _ = run("score ref.txt --format tsv -i", "a\tb.txt")
        assert len({line.count("\t") for line in out.splitlines()}) == 1
        assert "a\\tb.txt\t" in out


class TestInput:
    def test_predictions_come_from_standard_input(self, files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        set_input(monkeypatch, "\n".join(GOOD))
        assert run("score ref.txt -b -w 9") == run("score ref.txt -i good.txt -b -w 9")
        monkeypatch.setattr(sys, "stdin", Terminal())
        assert "nothing to score" in run("score")[2]


class TestStreams:
    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("explain -m twmd >/dev/full", "twmd: [Errno 28] No space left on device\n"),
            ("score ref.txt <&-", "twmd: standard input is empty."),
        ],
    )
    def test_unusable_stream_raises_a_one_line_error(self, files: Path, line: str, words: str) -> None:
        done = subprocess.run(f"{PROGRAM} {line}", shell=True, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.startswith(words), done.stderr.count("\n")) == (1, True, 1)

    def test_unwritable_output_does_not_lose_the_record(
        self, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch, Path("/dev/full").open("w", encoding="utf-8") as full:
            patch.setattr(sys, "stdout", full)
            assert main(["score", "ref.txt", "-i", "good.txt", "-b", "--record", "out.json"]) == 1
        assert capsys.readouterr().err == "twmd: [Errno 28] No space left on device\n"
        assert len(twmd_registry.read_record("out.json").systems[0].results[0].scores) == 3

    def test_closed_pipe_keeps_the_record_and_prints_no_error(self, files: Path) -> None:
        def score() -> bool:
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 1)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), (error := io.StringIO())
            status = main(["score", "ref.txt", "-i", "good.txt", "--record", "out.json"])
            sys.stdout.close()  # as at the end of a program
            return (status, error.getvalue()) == (141, "")

        assert in_a_fork(score)
        assert len(twmd_registry.read_record(files / "out.json").systems[0].results[0].scores) == 3

    def test_unencodable_name_is_escaped(
        self, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(files / "h\u00e9.txt", GOOD)
        stream = io.TextIOWrapper(content := io.BytesIO(), encoding="ascii")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert main(["score", "ref.txt", "-i", "good.txt", "h\u00e9.txt"]) == 0
        assert b"h\\xe9.txt" in content.getvalue()
        assert capsys.readouterr().err == ""  # no progress bar either

    def test_interrupt_prints_one_line(self, files: Path) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "twmd_registry.cli", "score", "ref.txt"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (a worker may ignore it)
        )
        assert process.stdin is not None
        process.stdin.write("the cat sat\n")
        process.stdin.flush()
        unread = array.array("i", [1])
        # until the command waits for input: before that, an import may swallow the interrupt
        while unread[0]:
            time.sleep(0.1)
            fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (130, "", "twmd: interrupted\n")


CANDIDATES = [["dogs bark", "a cat sat there", "the cat sat there"], ["it rains", "it is raining", "nobody came"]]


@pytest.fixture
def candidates(folder: Path) -> Path:
    """Return a working folder with the candidates in several formats."""
    rows = "".join(json.dumps({"candidates": texts, "id": i}) + "\n" for i, texts in enumerate(CANDIDATES))
    (folder / "c.jsonl").write_text(rows, encoding="utf-8")
    (folder / "packed.gz").write_bytes(gzip.compress(rows.encode()))
    cells = [json.dumps(texts).replace('"', '""') for texts in CANDIDATES]
    (folder / "c.csv").write_text("id,candidates\n" + "".join(f'1,"{cell}"\n' for cell in cells), encoding="utf-8")
    (folder / "c.txt").write_text("".join(f"{text}\n" for texts in CANDIDATES for text in texts), encoding="utf-8")
    return folder


@pytest.mark.parametrize("file", ["c.jsonl", "packed.gz", "c.csv", "c.txt --num-samples 3"])
def test_choices_in_every_format_equal_pythons(file: str, candidates: Path, run: Run) -> None:
    found = mbr(CANDIDATES)
    expected = [choice.candidate for choice in found.choices]
    status, out, err = run(f"mbr -i {file}")
    assert (status, out.splitlines()) == (0, expected)
    assert err.splitlines() == [f"signature: {found.signature}"]
    assert run(f"mbr -i {file} -q")[1:] == (out, "")
    status, out, err = run(f"mbr -i {file} -o chosen.txt")
    assert (status, out.splitlines()) == (0, [f"signature: {found.signature}"])
    assert (candidates / "chosen.txt").read_text(encoding="utf-8").splitlines() == expected


def test_json_lines_allow_recomputing_the_choice(candidates: Path, run: Run) -> None:
    rows = [json.loads(line) for line in run("mbr -i c.jsonl --format json --utilities")[1].splitlines()]
    again = mbr(CANDIDATES, parse_signature(rows[0]["signature"]).spec, utilities=True)
    assert str(again.signature) == rows[0]["signature"]
    for row, choice in zip(rows, again.choices, strict=True):
        assert (row["index"], row["candidate"]) == (choice.index, choice.candidate)
        assert row["expected_utility"] == pytest.approx(choice.expected_utility, abs=1e-6)
        np.testing.assert_allclose(row["utilities"], np.asarray(choice.utilities), atol=1e-6)
    assert "utilities" not in json.loads(run("mbr -i c.jsonl --format json")[1].splitlines()[0])


def test_options_reach_the_metric(candidates: Path, run: Run) -> None:
    of_two = [
        run(f"mbr -i c.jsonl --format json -m {metrics}")[1] for metrics in ("twmd sbert", "'ensemble(twmd,sbert)'")
    ]
    assert of_two[0] == of_two[1] != ""
    assert "|temperature:0.05|" in run("mbr -i c.jsonl --set temperature=0.05")[2]


def test_sources_are_a_column_or_a_file(candidates: Path, run: Run) -> None:
    keys = "-m sbert --set against=source centering=none --format json"
    rows = [
        {"candidates": texts, "source": text}
        for texts, text in zip(CANDIDATES, ("hounds barked", "empty rooms"), strict=True)
    ]
    (candidates / "both.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (candidates / "src.txt").write_text("hounds barked\nempty rooms\n", encoding="utf-8")
    status, out, _ = run(f"mbr -i both.jsonl {keys}")
    assert status == 0
    assert [json.loads(line)["index"] for line in out.splitlines()] == [0, 2]
    assert run(f"mbr -i c.jsonl --src src.txt {keys}")[1] == out
    assert "pass sources" in run(f"mbr -i c.jsonl {keys}")[2]
